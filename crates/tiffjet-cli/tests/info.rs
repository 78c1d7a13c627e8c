//! `tiffjet info`.

mod common;

use std::time::{Duration, Instant};

use common::{Bench, assert_fails};
use serde_json::{Value, json};
use tiffjet_testkit::{Compression, Tiff, Value as Field, big, tag};

#[test]
fn a_georeferenced_cog_with_overview_and_mask() {
    let bench = Bench::new();
    let small = Tiff::new(300, 200).bits(16).tile(256, 256).compression(Compression::Deflate).overview();
    let image = Tiff::new(600, 400)
        .bits(16)
        .tile(256, 256)
        .compression(Compression::Deflate)
        .predictor(2)
        .geo((10.0, 20.0), (500_000.0, 5_000_000.0))
        .epsg(32633)
        .nodata("7")
        .gdal_metadata(
            "<GDALMetadata><Item name=\"SENSOR\">X</Item>\
             <Item name=\"SCALE\" sample=\"0\" role=\"scale\">0.5</Item>\
             <Item name=\"DESCRIPTION\" sample=\"0\" role=\"description\">height</Item></GDALMetadata>",
        )
        .cog();
    let image = image.clone().directory(small.clone(), &small.noise(2));
    bench.write("a.tif", &image.build(&image.noise(1)));
    let facts = bench.json("info a.tif --json");
    let expected = [
        ("file", json!("a.tif")),
        ("byte_order", json!("little")),
        ("bigtiff", json!(false)),
        ("pages", json!(1)),
        ("width", json!(600)),
        ("height", json!(400)),
        ("bands", json!(1)),
        ("dtype", json!("uint16")),
        ("compression", json!("deflate")),
        ("predictor", json!("horizontal")),
        ("interleave", json!("pixel")),
        ("tiled", json!(true)),
        ("tile", json!([256, 256])),
        ("tiles", json!(6)),
        ("photometric", json!("min-is-black")),
        ("orientation", json!(1)),
        ("overviews", json!([[300, 200]])),
        ("mask", json!("nodata")),
        ("transform", json!([10.0, 0.0, 500_000.0, 0.0, -20.0, 5_000_000.0])),
        ("bounds", json!([500_000.0, 4_992_000.0, 506_000.0, 5_000_000.0])),
        ("pixel_size", json!([10.0, 20.0])),
        ("nodata", json!(7.0)),
        ("cog", json!(true)),
        ("warnings", json!([])),
        ("sidecars", json!([])),
    ];
    for (key, value) in expected {
        assert_eq!(facts[key], value, "{key}");
    }
    assert_eq!(facts["crs"]["epsg"], 32633);
    assert_eq!(facts["crs"]["name"], "WGS 84 / UTM zone 33N");
    assert!(facts["crs"]["wkt"].as_str().unwrap().starts_with("PROJCRS["));
    assert_eq!(facts["band_info"][0]["scale"], 0.5);
    assert_eq!(facts["band_info"][0]["description"], "height");
    assert_eq!(facts["metadata"][""]["SENSOR"], "X");
    assert_eq!(facts["levels"][1]["tile"], json!([256, 256]));

    let text = bench.text("info a.tif");
    for part in ["600 x 400 pixels, 1 band of uint16", "EPSG:32633", "overview 1", "description height", "SENSOR = X"] {
        assert!(text.contains(part), "{part} in\n{text}");
    }
}

#[test]
fn strips_palette_and_big_endian() {
    let bench = Bench::new();
    let image = Tiff::new(20, 10).bits(4).strips(3).photometric(3).color_map(vec![0; 48]).big_endian().big_tiff();
    bench.write("p.tif", &image.build(&image.noise(1)));
    let facts = bench.json("info p.tif --json");
    assert_eq!(facts["byte_order"], "big");
    assert_eq!(facts["bigtiff"], true);
    assert_eq!(facts["bits"], 4);
    assert_eq!(facts["tiled"], false);
    assert_eq!(facts["tile"], json!([20, 3]));
    assert_eq!(facts["color_map"], 16);
    assert_eq!(facts["crs"], Value::Null);
    assert!(bench.text("info p.tif").contains("4 strips of 3 rows"));
}

#[test]
fn why_a_file_is_no_cog() {
    let bench = Bench::new();
    let image = Tiff::new(600, 600).strips(10).directories_last();
    bench.write("a.tif", &image.build(&image.gradient()));
    let facts = bench.json("info a.tif --json");
    assert_eq!(facts["cog"], false);
    let reasons = facts["cog_errors"].to_string();
    assert!(reasons.contains("not tiled") && reasons.contains("first directory"), "{reasons}");
}

#[test]
fn sidecars_are_named() {
    let bench = Bench::new();
    let image = Tiff::new(20, 10);
    bench.write("a.tif", &image.build(&image.gradient()));
    bench.write("a.tfw", b"2\n0\n0\n-2\n101\n199\n");
    let mask = Tiff::new(20, 10).bits(1);
    bench.write("a.tif.msk", &mask.build(&mask.gradient()));
    let facts = bench.json("info a.tif --json");
    assert_eq!(facts["sidecars"], json!(["a.tif.msk", "a.tfw"]));
    assert_eq!(facts["mask"], "sidecar");
    assert_eq!(facts["transform"], json!([2.0, 0.0, 100.0, 0.0, -2.0, 200.0]));
}

#[test]
fn a_million_tiles_are_opened_in_a_moment() {
    let bench = Bench::new();
    big::write(&bench.path("big.tif"), 1000, 1000, &[0, 999_999]).unwrap();
    let fastest = (0..5).map(|_| {
        let start = Instant::now();
        let facts = bench.json("info big.tif --json");
        assert_eq!(facts["tiles"], 1_000_000);
        start.elapsed()
    });
    // A whole process, on a machine that may be busy; a quiet one takes a tenth of it.
    assert!(fastest.min().unwrap() < Duration::from_millis(100));
}

#[test]
fn standard_input_and_files_that_are_none() {
    let bench = Bench::new();
    let image = Tiff::new(20, 10).tag(tag::SOFTWARE, Field::ascii("maker\n2"));
    let bytes = image.build(&image.gradient());
    let output = bench.run_with_input("info - --json", &bytes);
    let facts: Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(facts["file"], "<stdin>");
    assert_eq!(facts["tags"]["Software"], "maker\n2");
    assert_fails(&bench.run_with_input("info -", b"no TIFF at all"), "<stdin>: malformed TIFF");
    assert_fails(&bench.run("info missing.tif"), "missing.tif: ");
    // Port 1 is nobody's.
    assert_fails(&bench.run("info http://me:word@127.0.0.1:1/key.tif?sign=1"), "http://127.0.0.1:1/key.tif?...: Conn");
    assert_eq!(bench.run("info").status.code(), Some(2));
    assert_eq!(bench.run("inform x").status.code(), Some(2));
}
