//! How a writer divides the memory of the host.

use super::WritePlan;

/// Bytes for a writer that was told nothing.
const MEMORY: u64 = 256 << 20;
/// The part of them in which compressed tiles wait.
const SPOOLED: u64 = 8;

impl WritePlan {
    /// Bytes in which compressed tiles may wait before they go to a file.
    pub fn spool_memory(&self) -> u64 {
        self.memory.unwrap_or(MEMORY) / SPOOLED
    }

    /// Bytes for rows and what they are encoded to.
    pub fn rows_memory(&self) -> u64 {
        self.memory.unwrap_or(MEMORY) - self.spool_memory()
    }
}
