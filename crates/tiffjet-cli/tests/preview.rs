//! `tiffjet preview`.

mod common;

use std::fs::File;
use std::io::BufReader;

use common::{Bench, assert_fails};
use tiffjet_testkit::{Pixels, Tiff};

struct Picture {
    width: u32,
    height: u32,
    samples: usize,
    bytes: Vec<u8>,
}

impl Picture {
    fn open(bench: &Bench, name: &str) -> Self {
        let decoder = png::Decoder::new(BufReader::new(File::open(bench.path(name)).unwrap()));
        let mut reader = decoder.read_info().unwrap();
        let mut bytes = vec![0; reader.output_buffer_size().unwrap()];
        let info = reader.next_frame(&mut bytes).unwrap();
        Self { width: info.width, height: info.height, samples: info.color_type.samples(), bytes }
    }

    fn pixel(&self, x: u32, y: u32) -> &[u8] {
        let at = (y * self.width + x) as usize * self.samples;
        &self.bytes[at..at + self.samples]
    }
}

fn numbers(image: &Tiff, number: impl FnMut(u32, u32, u32) -> f64) -> Pixels {
    Pixels::from_numbers(image.shape(), image.format(), number)
}

#[test]
fn colours_of_eight_bits_are_shown_as_they_are_and_averaged() {
    let bench = Bench::new();
    let image = Tiff::new(200, 100).samples(3).photometric(2).tile(64, 64);
    let pixels = numbers(&image, |band, y, x| match band {
        0 => f64::from(x % 2 * 100), // averages to 50
        1 => f64::from(y),
        _ => 9.0,
    });
    bench.write("a.tif", &image.build(&pixels));
    bench.text("preview a.tif a.png --size 100");
    let picture = Picture::open(&bench, "a.png");
    assert_eq!((picture.width, picture.height, picture.samples), (100, 50, 3));
    // Rows 20 and 21 are 20.5 on average.
    assert_eq!(picture.pixel(30, 10), [50, 21, 9]);
    assert_eq!(bench.names(), ["a.png", "a.tif"]);
}

#[test]
fn other_values_are_stretched_and_nodata_is_transparent() {
    let bench = Bench::new();
    let image = Tiff::new(100, 100).float(32).nodata("-9999");
    let pixels = numbers(&image, |_, y, x| if y < 10 { -9999.0 } else { f64::from(x) * 10.0 });
    bench.write("a.tif", &image.build(&pixels));
    bench.text("preview a.tif a.png");
    let picture = Picture::open(&bench, "a.png");
    assert_eq!((picture.width, picture.height, picture.samples), (100, 100, 2));
    assert_eq!(picture.pixel(50, 5), [0, 0]);
    // 2 % at either end are black and white.
    assert_eq!(picture.pixel(1, 50), [0, 255]);
    assert_eq!(picture.pixel(98, 50), [255, 255]);
    let middle = picture.pixel(50, 50)[0];
    assert!((128..=131).contains(&middle), "{middle}");
}

#[test]
fn palettes_are_expanded() {
    let bench = Bench::new();
    let mut map = vec![0u16; 768];
    (map[7], map[256 + 7], map[512 + 7]) = (0xffff, 0x8000, 0x0100);
    let image = Tiff::new(40, 40).photometric(3).color_map(map);
    bench.write("a.tif", &image.build(&numbers(&image, |_, _, x| if x < 20 { 7.0 } else { 3.0 })));
    bench.text("preview a.tif a.png --size 10");
    let picture = Picture::open(&bench, "a.png");
    assert_eq!(picture.samples, 3);
    assert_eq!(picture.pixel(2, 2), [255, 128, 1]);
    assert_eq!(picture.pixel(8, 2), [0, 0, 0]);
}

#[test]
fn the_best_overview_is_taken_and_bands_are_chosen() {
    let bench = Bench::new();
    let (full, small) = (Tiff::new(400, 400).samples(4), Tiff::new(100, 100).samples(4).overview());
    // Only the overview has a slope: a picture of the full image would be flat.
    let slope = numbers(&small, |band, _, x| if band == 3 { f64::from(x) } else { 0.0 });
    let image = full.clone().directory(small, &slope);
    bench.write("a.tif", &image.build(&numbers(&full, |_, _, _| 5.0)));
    bench.text("preview a.tif a.png --size 100 --bands 4");
    let picture = Picture::open(&bench, "a.png");
    assert_eq!((picture.width, picture.samples), (100, 1));
    assert_eq!((picture.pixel(0, 0), picture.pixel(99, 0)), (&[0][..], &[255][..]));
    assert_fails(&bench.run("preview a.tif b.png --bands 5"), "band 5");
    assert_eq!(bench.run("preview a.tif b.png --bands 1,2").status.code(), Some(2));
    assert_eq!(bench.run("preview a.tif b.png --size 0").status.code(), Some(2));
    assert!(!bench.path("b.png").exists());
}

#[test]
fn white_is_nothing_where_the_file_says_so() {
    let bench = Bench::new();
    let image = Tiff::new(16, 16).bits(1).photometric(0);
    bench.write("a.tif", &image.build(&numbers(&image, |_, y, _| f64::from(y % 2))));
    bench.text("preview a.tif a.png");
    let picture = Picture::open(&bench, "a.png");
    assert_eq!((picture.pixel(3, 0), picture.pixel(3, 1)), (&[255][..], &[0][..]));
}

#[test]
fn masks_and_alpha_are_transparent() {
    let bench = Bench::new();
    let mask = Tiff::new(40, 40).bits(1).mask();
    let half = numbers(&mask, |_, y, _| f64::from(y / 20));
    let image = Tiff::new(40, 40).samples(3).photometric(2);
    let masked = image.clone().directory(mask, &half);
    bench.write("m.tif", &masked.build(&image.gradient()));
    let image = Tiff::new(40, 40).samples(4).photometric(2).extra_samples(&[2]);
    let pixels = numbers(&image, |band, _, _| if band == 3 { 100.0 } else { 50.0 });
    bench.write("a.tif", &image.build(&pixels));
    bench.text("preview m.tif m.png");
    bench.text("preview a.tif a.png");
    let picture = Picture::open(&bench, "m.png");
    assert_eq!(picture.pixel(5, 5), [0, 0, 0, 0]);
    assert_eq!(picture.pixel(5, 30)[3], 255);
    assert_eq!(Picture::open(&bench, "a.png").pixel(1, 1), [50, 50, 50, 100]);
}

/// A picture that can't be finished leaves no file, and the old one stays.
#[test]
fn no_picture_is_half_a_picture() {
    let bench = Bench::new();
    let image = Tiff::new(64, 64).strips(8);
    let bytes = image.build(&image.gradient());
    bench.write("cut.tif", &bytes[..bytes.len() - 100]);
    bench.write("old.png", b"old");
    assert_fails(&bench.run("preview cut.tif old.png"), "cut.tif: ");
    assert_fails(&bench.run("preview cut.tif no/such/directory.png"), "");
    assert_eq!(std::fs::read(bench.path("old.png")).unwrap(), b"old");
    assert_eq!(bench.names(), ["cut.tif", "old.png"]);
}

#[test]
fn values_are_stretched_as_asked_and_coloured() {
    let bench = Bench::new();
    let image = Tiff::new(101, 10).float(32);
    bench.write("a.tif", &image.build(&numbers(&image, |_, _, x| f64::from(x))));
    bench.text("preview a.tif a.png --range 0,50");
    let picture = Picture::open(&bench, "a.png");
    assert_eq!((picture.pixel(25, 0), picture.pixel(75, 0)), (&[128][..], &[255][..]));
    bench.text("preview a.tif a.png --percentiles 0,100 --colours viridis");
    let picture = Picture::open(&bench, "a.png");
    assert_eq!((picture.pixel(0, 0), picture.pixel(100, 0)), (&[0x44, 0x01, 0x54][..], &[0xfd, 0xe7, 0x25][..]));
    let told = bench.json("preview a.tif a.png --percentiles 10,90 --json");
    assert_eq!(told["legend"]["bands"][0], serde_json::json!({"band": 1, "low": 10.0, "high": 90.0}));
    for bad in ["--range 1", "--percentiles 90,10", "--colours rainbow", "--sun 1,2"] {
        assert_eq!(bench.run(&format!("preview a.tif b.png {bad}")).status.code(), Some(2), "{bad}");
    }
}

#[test]
fn slopes_that_face_the_light_are_lighter() {
    let bench = Bench::new();
    // A roof: up to the middle, down from there, as steep as can be.
    let image = Tiff::new(100, 20).float(32).geo((10.0, 10.0), (0.0, 0.0)).epsg(32633).nodata("-1");
    let roof = |x: u32| 10.0 * f64::from(if x < 50 { x } else { 100 - x });
    bench.write("a.tif", &image.build(&numbers(&image, |_, y, x| if y == 0 { -1.0 } else { roof(x) })));
    bench.text("preview a.tif a.png --hillshade --sun 270,45");
    let picture = Picture::open(&bench, "a.png");
    assert_eq!((picture.pixel(25, 10), picture.pixel(75, 10)), (&[255, 255][..], &[13, 255][..]));
    assert_eq!(picture.pixel(25, 0), [0, 0]);
    let rgb = Tiff::new(10, 10).samples(3).photometric(2);
    bench.write("rgb.tif", &rgb.build(&rgb.gradient()));
    assert_fails(&bench.run("preview rgb.tif b.png --hillshade"), "one band");
}

#[test]
fn a_world_file_places_the_picture() {
    let bench = Bench::new();
    let image = Tiff::new(200, 100).geo((10.0, 10.0), (5000.0, 9000.0));
    bench.write("a.tif", &image.build(&image.gradient()));
    bench.text("preview a.tif a.png --size 100 --world");
    let world = std::fs::read_to_string(bench.path("a.pgw")).unwrap();
    assert_eq!(world, "20\n0\n0\n-20\n5010\n8990\n");
    let nowhere = Tiff::new(20, 10);
    bench.write("b.tif", &nowhere.build(&nowhere.gradient()));
    assert_fails(&bench.run("preview b.tif b.png --world"), "no transform");
    assert_eq!(bench.names(), ["a.pgw", "a.png", "a.tif", "b.tif"]);
}
