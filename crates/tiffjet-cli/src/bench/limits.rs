//! What a read can't beat.

use std::sync::atomic::{AtomicUsize, Ordering};

use tiffjet::{Cpu, Image, ReadJob, ReadPlan, Result, Window};
use tiffjet_cuda::Cuda;

use super::Clock;

/// Something that takes at least so long.
pub struct Limit {
    pub what: &'static str,
    pub seconds: f64,
}

/// The phases of a read on a device, each alone: a perfect read takes as long as the longest.
pub fn of_device(cuda: &Cuda, image: &Image, plan: &ReadPlan) -> Result<Vec<Limit>> {
    let source = image.level(0)?.source();
    let phases = cuda.phases(&[ReadJob { source: &**source, plan }])?;
    let limit = |what, milliseconds: f64| Limit { what, seconds: milliseconds / 1e3 };
    Ok(vec![
        limit("bytes from the file to page-locked memory", phases.fetch),
        limit("bytes from there to the GPU", phases.copy),
        limit("decoding and placing on the GPU", phases.kernels),
    ])
}

/// What memory, the page cache and the codec allow.
pub fn of_cores(
    image: &Image,
    window: &Window,
    plan: &ReadPlan,
    threads: usize,
    clock: &mut Clock<'_>,
) -> Result<Vec<Limit>> {
    let fetch = clock.median(|| fetch(image, plan, threads))?;
    let mut pixels = vec![1u8; plan.output_bytes().unwrap_or(0)];
    let copy = clock.median(|| {
        fill(&mut pixels, threads);
        Ok(())
    })?;
    let alone = Cpu::new(1)?.with_cache(0);
    let one = clock.median(|| image.read_on(&alone, window).map(drop))?;
    Ok(vec![
        Limit { what: "bytes out of the file", seconds: fetch },
        Limit { what: "pixels into memory", seconds: copy },
        Limit { what: "a read by one core, divided by the cores", seconds: one / threads as f64 },
    ])
}

/// Reads the bytes of all tiles and does nothing with them.
fn fetch(image: &Image, plan: &ReadPlan, threads: usize) -> Result<()> {
    let source = image.level(plan.level())?.source();
    let tiles = plan.tiles();
    let next = AtomicUsize::new(0);
    let work = || {
        let mut buffer = Vec::new();
        while let Some(tile) = tiles.get(next.fetch_add(1, Ordering::Relaxed)) {
            // The plan has checked that they are within the file, and no larger than a tile may be.
            buffer.resize((tile.range.end - tile.range.start) as usize, 0);
            source.read_range(tile.range.clone(), &mut buffer)?;
        }
        Ok(())
    };
    std::thread::scope(|scope| {
        let workers: Vec<_> = (0..threads).map(|_| scope.spawn(work)).collect();
        workers.into_iter().try_for_each(|worker| worker.join().unwrap_or(Ok(())))
    })
}

/// Writes each byte once.
fn fill(pixels: &mut [u8], threads: usize) {
    let part = pixels.len().div_ceil(threads).max(1);
    std::thread::scope(|scope| {
        for part in pixels.chunks_mut(part) {
            scope.spawn(move || part.fill(std::hint::black_box(2)));
        }
    });
}
