//! Writes every hostile file, for other readers to try:
//!
//!     hostile_files FOLDER
//!
//! The name says what must become of it: `EXPECTED.NAME.tif`.

use tiffjet_testkit::hostile;

fn main() -> std::io::Result<()> {
    let folder = std::path::PathBuf::from(std::env::args_os().nth(1).expect("a folder"));
    std::fs::create_dir_all(&folder)?;
    for case in hostile::cases() {
        std::fs::write(folder.join(format!("{:?}.{}.tif", case.expect, case.name)), case.bytes)?;
    }
    Ok(())
}
