//! Lines of the README and the documentation that call `tiffjet` work, page by page.

mod common;

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use common::{Bench, stderr};
use tiffjet_testkit::{Pixels, Tiff};

fn pages(folder: &Path, found: &mut Vec<PathBuf>) {
    for entry in fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path()) {
        if entry.is_dir() {
            pages(&entry, found);
        } else if entry.extension().is_some_and(|extension| extension == "md") {
            found.push(entry);
        }
    }
}

/// Lines of shell blocks that call the program; those of other programs are not for this test.
fn lines(text: &str) -> Vec<&str> {
    let blocks = text.split("```sh\n").skip(1).filter_map(|rest| rest.split_once("\n```"));
    blocks.flat_map(|(block, _)| block.lines()).filter(|line| line.starts_with("tiffjet ")).collect()
}

#[test]
fn shell_lines_of_the_documentation_work() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let mut found = vec![root.join("README.md")];
    pages(&root.join("docs"), &mut found);
    let program = Path::new(env!("CARGO_BIN_EXE_tiffjet")).parent().unwrap();
    let path = format!("{}:{}", program.display(), std::env::var("PATH").unwrap_or_default());
    let mut count = 0;
    for page in found {
        let text = fs::read_to_string(&page).unwrap();
        let lines = lines(&text);
        if lines.is_empty() {
            continue;
        }
        let bench = Bench::new();
        let scene = Tiff::new(1600, 1100).samples(4).tile(256, 256).geo((10.0, 10.0), (5e5, 6e6)).epsg(32633);
        bench.write("scene.tif", &scene.build(&scene.gradient()));
        let dem = Tiff::new(300, 200).float(32).geo((10.0, 10.0), (5e5, 6e6)).epsg(32633).nodata("-9999");
        let heights = Pixels::from_numbers(dem.shape(), dem.format(), |_, y, x| f64::from(x * y % 97));
        bench.write("dem.tif", &dem.build(&heights));
        bench.text("convert scene.tif cog.tif --cog");
        for line in lines {
            let mut shell = Command::new("sh");
            shell.args(["-ec", line]).current_dir(bench.path("x").parent().unwrap()).env("PATH", &path);
            let output = shell.output().unwrap();
            assert!(output.status.success(), "{}: {line}: {}", page.display(), stderr(&output));
            count += 1;
        }
    }
    assert!(count >= 12, "{count} lines");
}
