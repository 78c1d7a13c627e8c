//! LZMA in an xz frame.

use liblzma::stream::{Action, Check, Error, Filters, LzmaOptions, Status, Stream};

use super::{Cause, Codec, Encoded, Plain, short};

/// LZMA in an xz frame.
#[derive(Debug)]
pub struct Lzma;

/// What libtiff writes when nothing is said.
const DEFAULT_LEVEL: i32 = 6;

/// The strongest preset asks for 65 MiB; a dictionary of gigabytes is no image.
const MEMORY: u64 = 256 << 20;

/// The smallest dictionary of LZMA2.
const MIN_DICTIONARY: usize = 4096;

impl Codec for Lzma {
    fn name(&self) -> &'static str {
        "lzma"
    }

    fn compression(&self) -> &'static [u16] {
        &[34925]
    }

    fn takes_predictor(&self) -> bool {
        true
    }

    fn decode(&self, tile: &Encoded<'_>, out: &mut [u8]) -> Result<(), Cause> {
        if out.is_empty() {
            return Ok(());
        }
        let mut stream = Stream::new_stream_decoder(MEMORY, 0).map_err(refused)?;
        loop {
            let (read, written) = (stream.total_in() as usize, stream.total_out() as usize);
            let state = stream.process(&tile.bytes[read..], &mut out[written..], Action::Run);
            let got = stream.total_out() as usize;
            if got == out.len() {
                return Ok(());
            }
            match state {
                Ok(Status::Ok | Status::GetCheck) => {}
                Ok(Status::StreamEnd | Status::MemNeeded) => return Err(short(got, out.len())),
                Err(Error::MemLimit) => {
                    let needed = stream.memlimit();
                    return Err(Cause::damaged(format!("the dictionary needs more than {} MiB", needed >> 20)));
                }
                Err(e) => return Err(Cause::damaged(format!("{e}, after {got} of {} bytes", out.len()))),
            }
        }
    }

    fn encode(&self, tile: &Plain<'_>, out: &mut Vec<u8>) -> Result<(), Cause> {
        let level = tile.settings.level.unwrap_or(DEFAULT_LEVEL);
        let preset = u32::try_from(level).ok().filter(|level| *level <= 9);
        let preset = preset.ok_or_else(|| Cause::unsupported(format!("lzma level {level}: it is 0 to 9")))?;
        let mut stream = encoder(preset, tile.bytes.len()).map_err(refused)?;
        let start = out.len();
        loop {
            // liblzma fills what room there is, so some must always be there.
            out.reserve(tile.bytes.len() / 2 + 256);
            let read = stream.total_in() as usize;
            match stream.process_vec(&tile.bytes[read..], out, Action::Finish).map_err(refused)? {
                Status::StreamEnd => break,
                _ if out.len() - start > 2 * tile.bytes.len() + 4096 => {
                    return Err(Cause::unsupported("lzma: the stream does not end"));
                }
                _ => {}
            }
        }
        Ok(())
    }
}

/// A dictionary no larger than the tile: the presets take 94 MiB and more to compress a few KiB no better.
fn encoder(preset: u32, len: usize) -> Result<Stream, Error> {
    let mut options = LzmaOptions::new_preset(preset)?;
    let largest = [18, 20, 21, 22, 22, 23, 23, 24, 25, 26].get(preset as usize).map_or(1 << 23, |bits| 1 << bits);
    let size = len.next_power_of_two().clamp(MIN_DICTIONARY, largest);
    options.dict_size(size as u32);
    Stream::new_stream_encoder(Filters::new().lzma2(&options), Check::Crc32)
}

/// Memory and options: never the data's fault.
fn refused(e: Error) -> Cause {
    Cause::unsupported(format!("lzma: {e}"))
}

#[cfg(test)]
mod tests {
    use super::super::testing::{check, decode, encode, torture};
    use super::*;

    #[test]
    fn there_and_back() {
        for level in [None, Some(0), Some(9)] {
            check(&Lzma, level);
        }
    }

    #[test]
    fn damage_is_an_error_or_pixels() {
        torture(&Lzma, Some(0));
    }

    #[test]
    fn streams_of_other_writers_have_a_delta_filter_and_any_check() {
        let plain: Vec<u8> = (0..60_000u32).map(|i| (i * i / 999) as u8).collect();
        for kind in [Check::None, Check::Crc64, Check::Sha256] {
            let options = LzmaOptions::new_preset(6).unwrap();
            let mut filters = Filters::new();
            filters.delta_properties(&[1]).unwrap().lzma2(&options);
            let mut stream = Stream::new_stream_encoder(&filters, kind).unwrap();
            let mut packed = Vec::with_capacity(100_000);
            assert_eq!(stream.process_vec(&plain, &mut packed, Action::Finish).unwrap(), Status::StreamEnd);
            assert_eq!(decode(&Lzma, &packed, plain.len()).unwrap(), plain);
        }
    }

    #[test]
    fn huge_dictionaries_are_refused() {
        let mut packed = encode(&Lzma, &[3; 1000], 1000, None).unwrap();
        // The header of the first block: its size in words, flags, LZMA2, one byte of properties, the dictionary.
        let header = &mut packed[12..24];
        assert_eq!(header[..4], [2, 0, 0x21, 1]);
        header[4] = 36; // 1 GiB
        let crc = libdeflater::crc32(&header[..8]).to_le_bytes();
        header[8..].copy_from_slice(&crc);
        assert!(decode(&Lzma, &packed, 1000).unwrap_err().to_string().contains("256 MiB"));
    }

    #[test]
    fn levels_out_of_range_are_refused() {
        for level in [-1, 10] {
            assert!(matches!(encode(&Lzma, &[1], 1, Some(level)), Err(Cause::Unsupported(_))));
        }
    }
}
