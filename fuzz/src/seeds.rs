//! Writes what fuzzing begins with:
//!
//!     seeds FOLDER
//!
//! one folder for each target. Files of `TIFFJET_CORPUS`, where it is set, are taken as well, whole or tile by tile.
//! Without a folder the names of all targets.

use std::hash::{BuildHasher, BuildHasherDefault, DefaultHasher};
use std::path::Path;

use tiffjet_testkit::fuzz::{of_corpus, seeds, targets};

fn main() -> std::io::Result<()> {
    let Some(folder) = std::env::args_os().nth(1) else {
        targets().iter().for_each(|target| println!("{target:?}"));
        return Ok(());
    };
    for target in targets() {
        let folder = Path::new(&folder).join(target.name);
        let mut all = seeds(target);
        if let Some(corpus) = std::env::var_os("TIFFJET_CORPUS") {
            all.extend(of_corpus(target, Path::new(&corpus)));
        }
        let kernel = target.name.replace("codec_", "kernel_");
        let streams = all.iter().filter_map(|seed| target.stream(seed)).filter(|_| KERNELS.contains(&kernel.as_str()));
        write(&folder.with_file_name(&kernel), streams)?;
        write(&folder, all.iter().cloned())?;
        println!("{}: {} seeds", target.name, all.len());
    }
    Ok(())
}

/// Decoders that have kernels; for these the streams are written as well.
const KERNELS: [&str; 4] = ["kernel_packbits", "kernel_lzw", "kernel_deflate", "kernel_zstd"];

fn write(folder: &Path, seeds: impl Iterator<Item = Vec<u8>>) -> std::io::Result<()> {
    for seed in seeds {
        std::fs::create_dir_all(folder)?;
        let hasher = BuildHasherDefault::<DefaultHasher>::default();
        std::fs::write(folder.join(format!("{:016x}", hasher.hash_one(&seed))), seed)?;
    }
    Ok(())
}
