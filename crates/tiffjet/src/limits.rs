//! What a file may ask for.

/// Bounds on what a file can make the reader do. Every size in a file is checked against the file's length and
/// against these before memory is taken.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Limits {
    /// Directories followed in one file.
    pub directories: usize,
    /// Fields of one directory.
    pub fields: u64,
    /// Overviews and masks of one image; those beyond are passed over.
    pub levels: usize,
    /// Bytes of one tag's value (tile arrays are read in parts and do not count).
    pub value_bytes: u64,
    /// Decoded bytes of one tile.
    pub tile_bytes: u64,
    /// Bytes of the pixels of one read.
    pub output_bytes: u64,
    /// Bytes of one sidecar (`.aux.xml`, `.tfw`).
    pub sidecar_bytes: u64,
    /// Files may come from private, link-local and loopback addresses. Where addresses are not the user's own, say no: then
    /// `http(s)://` addresses and redirects lead to the public network alone.
    pub private_hosts: bool,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            directories: 100_000,
            fields: 4096,
            levels: 64,
            value_bytes: 64 << 20,
            tile_bytes: 2 << 30,
            output_bytes: physical_memory(),
            sidecar_bytes: 16 << 20,
            private_hosts: true,
        }
    }
}

/// Bytes of memory that this process may use: those of the machine, or fewer where a control group says so.
pub(crate) fn usable_memory() -> u64 {
    let said = |path: &str| std::fs::read_to_string(path).ok()?.trim().parse().ok();
    let bounds = ["/sys/fs/cgroup/memory.max", "/sys/fs/cgroup/memory/memory.limit_in_bytes"].map(said);
    bounds.into_iter().flatten().fold(physical_memory(), u64::min)
}

/// Bytes of memory in this machine: no read can give more.
fn physical_memory() -> u64 {
    let info = rustix::system::sysinfo();
    (info.totalram as u64).saturating_mul(u64::from(info.mem_unit.max(1)))
}
