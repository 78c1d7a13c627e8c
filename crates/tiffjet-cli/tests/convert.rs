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

/// A TIFF with a directory of EXIF behind everything else: a text outside the entry, and a number in it.
fn with_exif(image: &Tiff) -> Vec<u8> {
    let at = |offset: usize| image.clone().tag(34665, Field::Long(vec![offset as u32])).build(&image.noise(1));
    let offset = at(0).len().next_multiple_of(2);
    let mut file = at(offset);
    file.resize(offset, 0);
    file.extend(2u16.to_be_bytes());
    for (tag, kind, count, value) in [(36867u16, 2u16, 20u32, offset as u32 + 30), (40961, 3, 1, 7 << 16)] {
        file.extend(tag.to_be_bytes());
        file.extend(kind.to_be_bytes());
        file.extend(count.to_be_bytes());
        file.extend(value.to_be_bytes());
    }
    file.extend([0; 4]);
    file.extend(b"2023:09:30 09:32:24\0");
    file
}

#[test]
fn exif_and_what_colours_mean_come_through() {
    let bench = Bench::new();
    let colours = [
        (318, Field::Rational(vec![(3127, 10000), (329, 1000)])),
        (319, Field::Rational(vec![(64, 100), (33, 100), (3, 10), (6, 10), (15, 100), (6, 100)])),
        (529, Field::Rational(vec![(2126, 10000), (7152, 10000), (722, 10000)])),
        (532, Field::Rational(vec![(16, 1), (235, 1), (128, 1), (240, 1), (128, 1), (240, 1)])),
    ];
    let image = Tiff::new(40, 30).samples(3).photometric(6).tag(530, Field::Short(vec![1, 1])).big_endian();
    let image = colours.iter().fold(image, |image, (tag, value)| image.tag(*tag, value.clone()));
    bench.write("in.tif", &with_exif(&image));
    let (old, exif) = {
        let old = tiffjet::open(bench.path("in.tif")).unwrap();
        let exif = old.nested(34665).unwrap();
        (old, exif)
    };
    assert_eq!(exif.len(), 2);
    for choice in ["", " --cog --tile 16", " --bigtiff yes"] {
        bench.text(&format!("convert in.tif out.tif{choice}"));
        let new = tiffjet::open(bench.path("out.tif")).unwrap();
        for (tag, _) in &colours {
            let values = |image: &tiffjet::Image| image.tag(*tag).unwrap().map(|array| array.floats());
            assert_eq!(values(&old), values(&new), "{choice}: tag {tag}");
        }
        let nested = new.nested(34665).unwrap();
        assert_eq!(nested[0].1.text(), "2023:09:30 09:32:24", "{choice}");
        assert_eq!((nested[1].0, nested[1].1.unsigned()), (40961, Some(vec![7])), "{choice}");
        assert_eq!(bench.json("validate out.tif --json")["valid"], true, "{choice}");
    }
}

#[test]
fn a_colour_map_has_room_for_alpha_and_must_be_whole() {
    let bench = Bench::new();
    let map: Vec<u16> = (0..768).map(|i| i * 80).collect();
    let image = Tiff::new(30, 30).samples(2).photometric(3).extra_samples(&[2]).color_map(map.clone());
    bench.write("in.tif", &image.build(&image.noise(1)));
    bench.text("convert in.tif out.tif --cog --tile 16");
    assert_eq!(hashes(&bench, "in.tif"), hashes(&bench, "out.tif"));
    let facts = bench.json("info out.tif --json");
    assert_eq!((&facts["photometric"], &facts["color_map"]), (&json!("palette"), &json!(256)));
    assert_eq!(tiffjet::open(bench.path("out.tif")).unwrap().levels()[0].layout.alpha_band(), Some(2));

    let image = Tiff::new(30, 30).photometric(3).color_map(map[..195].to_vec());
    bench.write("in.tif", &image.build(&image.noise(1)));
    bench.text("convert in.tif out.tif");
    assert_eq!(bench.json("info out.tif --json")["photometric"], "min-is-black");
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
        ("--device cuda:9999", "is not available"),
        ("--nodata 300", "can't hold"),
        ("--nodata x", "not a number"),
        ("--predictor 3", "predictor 3"),
    ] {
        assert_fails(&bench.run(&format!("convert in.tif out.tif {bad}")), with);
    }
    assert_fails(&bench.run("convert in.tif https://example.com/out.tif"), "writing to https://");
    assert_fails(&bench.run("checksum in.tif --device cuda:9999"), "is not available");
    assert_eq!(bench.names(), ["in.tif"]);
}
