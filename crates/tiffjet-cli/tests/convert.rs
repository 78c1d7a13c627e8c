//! `tiffjet convert`.

mod common;

use common::{Bench, assert_fails, stderr};
use serde_json::{Value, json};
use tiffjet_testkit::{Compression, Pixels, Tiff, Value as Field, tag};

fn hashes(bench: &Bench, line: &str) -> Value {
    bench.json(&format!("checksum {line} --json"))["sha256"].clone()
}

fn placed(image: Tiff) -> Tiff {
    image
        .geo((10.0, 10.0), (500_000.0, 5_000_000.0))
        .epsg(32633)
        .nodata("3")
        .gdal_metadata(
            "<GDALMetadata><Item name=\"SENSOR\">X &amp; Y</Item>\
             <Item name=\"DESCRIPTION\" sample=\"1\" role=\"description\">second</Item></GDALMetadata>",
        )
        .tag(tag::SOFTWARE, Field::ascii("maker"))
}

#[test]
fn pixels_and_all_that_is_said_of_them_come_through() {
    let bench = Bench::new();
    for (name, image) in [
        ("chunky", Tiff::new(150, 90).bits(16).samples(3).tile(64, 32)),
        ("planar", Tiff::new(150, 90).bits(16).samples(3).strips(11).planar().big_endian()),
        ("floats", Tiff::new(150, 90).float(32).samples(2).compression(Compression::Lzw)),
        ("narrow", Tiff::new(150, 90).bits(12).samples(2)),
    ] {
        let image = placed(image);
        bench.write("in.tif", &image.build(&image.noise(1)));
        let old = bench.json("info in.tif --json");
        for choice in
            ["", " --compress deflate --tile 64", " --cog --tile 32 --resampling nearest", " --strips --bigtiff yes"]
        {
            bench.text(&format!("convert in.tif out.tif{choice}"));
            assert_eq!(hashes(&bench, "in.tif"), hashes(&bench, "out.tif"), "{name}{choice}");
            let new = bench.json("info out.tif --json");
            for key in ["dtype", "bits", "crs", "transform", "nodata", "metadata", "band_info", "tags", "photometric"] {
                assert_eq!(old[key], new[key], "{name}{choice}: {key}");
            }
            let valid = bench.json("validate out.tif --json");
            assert_eq!(valid["valid"], true, "{name}{choice}: {valid}");
            assert_eq!(valid["claims_cog"], choice.contains("--cog"));
        }
    }
    assert_eq!(bench.names(), ["in.tif", "out.tif"]);
}

#[test]
fn a_window_moves_the_image_and_bands_take_their_names_along() {
    let bench = Bench::new();
    let image = placed(Tiff::new(100, 80).samples(3).photometric(2).tile(32, 32));
    bench.write("in.tif", &image.build(&image.noise(1)));
    bench.text("convert in.tif out.tif --window 10:50,20:90 --bands 2,1");
    assert_eq!(hashes(&bench, "in.tif --window 10:50,20:90 --bands 2,1"), hashes(&bench, "out.tif"));
    let facts = bench.json("info out.tif --json");
    assert_eq!(facts["transform"], json!([10.0, 0.0, 500_200.0, 0.0, -10.0, 4_999_900.0]));
    assert_eq!(facts["band_info"][0]["description"], "second");
    assert_eq!(facts["photometric"], "min-is-black");
    assert_fails(&bench.run("convert in.tif no.tif --window 0:81,0:10"), "outside");
    assert_fails(&bench.run("convert in.tif no.tif --bands 4"), "band 4");
}

#[test]
fn types_are_cast_with_rounding_into_range() {
    let bench = Bench::new();
    let image = Tiff::new(4, 1).float(32);
    let values = [-5.0, 0.5, 254.6, 1e9];
    bench.write(
        "in.tif",
        &image.build(&Pixels::from_numbers(image.shape(), image.format(), |_, _, x| values[x as usize])),
    );
    bench.text("convert in.tif out.tif --dtype uint8");
    bench.text("checksum out.tif --dump raw");
    assert_eq!(std::fs::read(bench.path("raw")).unwrap(), [0, 1, 255, 255]);

    let image = Tiff::new(4, 1).float(32).nodata("-9999");
    bench.write("in.tif", &image.build(&image.gradient()));
    assert_fails(&bench.run("convert in.tif no.tif --dtype uint8"), "give another with --nodata");
    bench.text("convert in.tif out.tif --dtype uint8 --nodata 255");
    assert_eq!(bench.json("info out.tif --json")["nodata"], 255.0);
    bench.text("convert in.tif out.tif --dtype uint8 --nodata none");
    assert_eq!(bench.json("info out.tif --json")["nodata"], Value::Null);
}

#[test]
fn masks_and_colour_maps_come_through() {
    let bench = Bench::new();
    let mask = Tiff::new(60, 60).bits(1).mask();
    let image = Tiff::new(60, 60).samples(3).photometric(2).tile(16, 16).directory(mask.clone(), &mask.noise(3));
    bench.write("in.tif", &image.build(&image.noise(1)));
    bench.text("convert in.tif out.tif --cog --tile 16 --resampling nearest");
    assert_eq!(hashes(&bench, "in.tif"), hashes(&bench, "out.tif"));
    let facts = bench.json("info out.tif --json");
    assert_eq!(
        (&facts["mask"], &facts["photometric"], &facts["cog"]),
        (&json!("internal"), &json!("rgb"), &json!(true))
    );
    let valid = bench.json("validate out.tif --json");
    assert_eq!(valid["errors"], json!([]));

    let map: Vec<u16> = (0..48).map(|i| i * 1000).collect();
    let image = Tiff::new(30, 30).bits(4).photometric(3).color_map(map);
    bench.write("in.tif", &image.build(&image.noise(1)));
    bench.text("convert in.tif out.tif");
    assert_eq!(hashes(&bench, "in.tif"), hashes(&bench, "out.tif"));
    let facts = bench.json("info out.tif --json");
    assert_eq!((&facts["photometric"], &facts["color_map"]), (&json!("palette"), &json!(16)));
}

#[test]
fn the_same_bytes_whatever_the_memory_and_the_way() {
    let bench = Bench::new();
    let image = Tiff::new(700, 500).bits(16).tile(64, 64).compression(Compression::Deflate);
    let bytes = image.build(&image.terrain(1));
    bench.write("in.tif", &bytes);
    bench.text("convert in.tif a.tif --cog --tile 64 --resampling nearest");
    bench.text("convert in.tif b.tif --cog --tile 64 --resampling nearest --memory 1M --device cpu");
    let piped = bench.run_with_input("convert - - --cog --tile 64 --resampling nearest", &bytes);
    assert!(piped.status.success(), "{}", stderr(&piped));
    let file = |name: &str| std::fs::read(bench.path(name)).unwrap();
    assert!(file("a.tif") == file("b.tif"), "memory changes the bytes");
    assert!(file("a.tif") == piped.stdout, "pipes change the bytes");
}

#[test]
fn a_file_that_can_not_be_written_whole_is_not_written() {
    let bench = Bench::new();
    let image = Tiff::new(64, 64).strips(8);
    let bytes = image.build(&image.gradient());
    bench.write("cut.tif", &bytes[..bytes.len() - 100]);
    bench.write("out.tif", b"old");
    assert_fails(&bench.run("convert cut.tif out.tif"), "cut.tif: ");
    assert_eq!(std::fs::read(bench.path("out.tif")).unwrap(), b"old");
    assert_eq!(bench.names(), ["cut.tif", "out.tif"]);
}

#[test]
fn bad_choices_end_before_anything_is_read() {
    let bench = Bench::new();
    let image = Tiff::new(8, 8);
    bench.write("in.tif", &image.build(&image.gradient()));
    for bad in [
        "--tile 17",
        "--compress zip",
        "--predictor 4",
        "--overviews 3,2",
        "--dtype uint7",
        "--memory 0",
        "--quality 0",
        "--resampling sharp",
        "--strips --cog",
        "--device gpu",
        "--window 1,2",
    ] {
        let output = bench.run(&format!("convert in.tif out.tif {bad}"));
        assert_eq!(output.status.code(), Some(2), "{bad}: {}", stderr(&output));
    }
    for (bad, with) in [
        ("--device cuda", "writing on the GPU is not built yet"),
        ("--device cuda:1", "writing on the GPU is not built yet"),
        ("--nodata 300", "can't hold"),
        ("--nodata x", "not a number"),
        ("--predictor 3", "predictor 3"),
    ] {
        assert_fails(&bench.run(&format!("convert in.tif out.tif {bad}")), with);
    }
    assert_fails(&bench.run("convert in.tif s3://bucket/out.tif"), "s3://");
    assert_fails(&bench.run("checksum in.tif --device cuda:9999"), "is not available");
    assert_eq!(bench.names(), ["in.tif"]);
}
