//! Several windows of several files in one read.

use std::sync::Arc;

use tiffjet::source::{MemorySource, Source};
use tiffjet::{Backend, Cpu, Error, Frame, Image, OpenOptions, ReadJob, ReadOptions, ReadPlan, Window};
use tiffjet_testkit::{Compression, Tiff};

fn image(name: &str, seed: u64, damaged: bool) -> (Arc<dyn Source>, Image) {
    let tiff = Tiff::new(64, 64).bits(16).tile(16, 16).compression(Compression::Zstd);
    let mut file = tiff.build(&tiff.noise(seed));
    if damaged {
        // The pixels stand behind the head; the last of them is in the last tiles.
        let end = file.len();
        file[end / 2..].fill(0xff);
    }
    let source: Arc<dyn Source> = Arc::new(MemorySource::named(name, file));
    let image = Image::from_source(source.clone(), &OpenOptions::default()).unwrap();
    (source, image)
}

fn frame(y: i64, x: i64) -> Frame {
    Frame { level: 0, y, x, height: 20, width: 30, bands: None }
}

#[test]
fn windows_of_several_files_stand_one_after_the_other() {
    let files = [image("a", 1, false), image("b", 2, false)];
    let plans: Vec<ReadPlan> =
        files.iter().map(|(_, image)| image.plan_framed(&frame(7, 9), &[0, 0]).unwrap()).collect();
    let jobs: Vec<ReadJob<'_>> =
        files.iter().zip(&plans).map(|((source, _), plan)| ReadJob { source: &**source, plan }).collect();
    let both = Cpu::new(2).unwrap().read(&jobs, &ReadOptions::default()).unwrap();
    assert_eq!(both.dims(), [2, 1, 20, 30]);
    let window = Window { rows: Some(7..27), cols: Some(9..39), ..Window::default() };
    let alone: Vec<u8> =
        files.iter().flat_map(|(_, image)| image.read(&window).unwrap().bytes().unwrap().to_vec()).collect();
    assert_eq!(both.bytes().unwrap(), alone);
}

#[test]
fn a_window_that_cannot_be_read_is_an_error_or_filled_as_asked() {
    let files = [image("good", 1, false), image("bad", 1, true)];
    let cpu = Cpu::new(2).unwrap();
    let plans: Vec<ReadPlan> =
        files.iter().map(|(_, image)| image.plan_framed(&frame(40, 40), &[7, 0]).unwrap()).collect();
    let jobs: Vec<ReadJob<'_>> =
        files.iter().zip(&plans).map(|((source, _), plan)| ReadJob { source: &**source, plan }).collect();
    let error = cpu.read(&jobs, &ReadOptions::default()).unwrap_err();
    assert!(matches!(&error, Error::Tile { name, .. } if &**name == "bad"), "{error}");
    let options = ReadOptions { fill_failed: Some(vec![9, 0]), ..ReadOptions::default() };
    let filled = cpu.read(&jobs, &options).unwrap();
    let bytes = filled.bytes().unwrap();
    let (good, bad) = bytes.split_at(bytes.len() / 2);
    assert_eq!(good, cpu.read(&jobs[..1], &ReadOptions::default()).unwrap().bytes().unwrap());
    assert!(bad.chunks(2).all(|value| value == [9, 0]));
    assert_eq!(filled.report.failures.len(), 1);
    assert_eq!(filled.report.failures[0].0, 1);
    assert!(filled.report.failures[0].1.contains("bad"), "{:?}", filled.report.failures);
}

#[test]
fn windows_that_differ_in_shape_are_refused() {
    let (source, image) = image("a", 1, false);
    let plans = [frame(0, 0), Frame { height: 21, ..frame(0, 0) }].map(|f| image.plan_framed(&f, &[0, 0]).unwrap());
    let jobs: Vec<ReadJob<'_>> = plans.iter().map(|plan| ReadJob { source: &*source, plan }).collect();
    let cpu = Cpu::new(1).unwrap();
    assert!(matches!(cpu.read(&jobs, &ReadOptions::default()), Err(Error::InvalidArgument { .. })));
    assert!(matches!(cpu.read(&[], &ReadOptions::default()), Err(Error::InvalidArgument { .. })));
}

#[test]
fn a_frame_without_pixels_is_refused_and_one_beside_the_image_is_all_pad() {
    let (source, image) = image("a", 1, false);
    assert!(image.plan_framed(&Frame { width: 0, ..frame(0, 0) }, &[0, 0]).is_err());
    assert!(image.plan_framed(&frame(0, 0), &[0]).is_err(), "a pad is one value");
    let plan = image.plan_framed(&frame(64, -200), &[1, 2]).unwrap();
    let job = ReadJob { source: &*source, plan: &plan };
    let tensor = Cpu::new(1).unwrap().read(&[job], &ReadOptions::default()).unwrap();
    assert!(tensor.bytes().unwrap().chunks(2).all(|value| value == [1, 2]));
}
