//! Verbs on files of a server.

mod common;
#[path = "../../tiffjet/examples/remote_bench/server.rs"]
mod server;

use std::time::Duration;

use common::Bench;
use tiffjet_testkit::{Compression, Tiff};

#[test]
fn an_address_serves_as_well_as_a_path() {
    let bench = Bench::new();
    let tiff = Tiff::new(300, 200).bits(16).tile(64, 64).compression(Compression::Zstd);
    let path = bench.write("in.tif", &tiff.build(&tiff.noise(1)));
    let port = server::Server::start(path.parent().unwrap(), 0, Duration::ZERO).unwrap();
    let url = format!("http://127.0.0.1:{port}/in.tif");
    for verb in ["checksum", "checksum --window 10:90,20:150", "plan"] {
        let (here, there) = (bench.run(&format!("{verb} in.tif")), bench.run(&format!("{verb} {url}")));
        assert!(here.status.success() && there.status.success(), "{there:?}");
        assert_eq!(here.stdout, there.stdout, "{verb}");
    }
    assert!(bench.run(&format!("info {url}")).status.success());
    assert_eq!(bench.run(&format!("validate {url}")).status, bench.run("validate in.tif").status);
    assert!(bench.run(&format!("convert {url} out.tif --cog")).status.success());
    let pixels = |name: &str| bench.run(&format!("checksum {name}")).stdout;
    assert_eq!(pixels("out.tif"), pixels("in.tif"));
}
