//! PackBits.

use super::{Cause, Codec, Encoded, Plain, short};

/// PackBits.
#[derive(Debug)]
pub struct PackBits;

/// The most bytes that one packet holds.
const PACKET: usize = 128;

impl Codec for PackBits {
    fn name(&self) -> &'static str {
        "packbits"
    }

    fn compression(&self) -> &'static [u16] {
        &[32773]
    }

    fn decode(&self, tile: &Encoded<'_>, out: &mut [u8]) -> Result<(), Cause> {
        let due = out.len();
        let left = unpack(tile.bytes, out);
        if left == 0 { Ok(()) } else { Err(short(due - left, due)) }
    }

    fn encode(&self, tile: &Plain<'_>, out: &mut Vec<u8>) -> Result<(), Cause> {
        // Readers that go row by row want no packet to cross from one row into the next.
        let row = tile.format.row_bytes().max(1);
        out.reserve(tile.bytes.len() + tile.bytes.len() / PACKET + tile.bytes.len() / row + 1);
        for row in tile.bytes.chunks(row) {
            pack(row, out);
        }
        Ok(())
    }
}

/// Fills `out` from its start; gives how many bytes are left unfilled.
fn unpack(mut bytes: &[u8], mut out: &mut [u8]) -> usize {
    while !out.is_empty() {
        let Some((&head, rest)) = bytes.split_first() else { break };
        bytes = rest;
        match head {
            0..=127 => {
                // Writers that cut the last packet short have still given these pixels.
                let len = (head as usize + 1).min(bytes.len()).min(out.len());
                let (literal, rest) = bytes.split_at(len);
                let (into, left) = out.split_at_mut(len);
                into.copy_from_slice(literal);
                (bytes, out) = (rest, left);
            }
            128 => {} // says nothing, by definition
            129..=255 => {
                let Some((&value, rest)) = bytes.split_first() else { break };
                let len = (257 - head as usize).min(out.len());
                let (into, left) = out.split_at_mut(len);
                into.fill(value);
                (bytes, out) = (rest, left);
            }
        }
    }
    out.len()
}

/// Packs one row.
fn pack(row: &[u8], out: &mut Vec<u8>) {
    let (mut literal, mut at) = (0, 0);
    while at < row.len() {
        let run = run_length(&row[at..]);
        // Two equal bytes inside a literal cost no more there than as a run, and breaking it costs a header.
        if run > 2 || (run == 2 && literal == at) {
            put_literal(&row[literal..at], out);
            out.extend([(257 - run) as u8, row[at]]);
            at += run;
            literal = at;
        } else {
            at += run;
        }
    }
    put_literal(&row[literal..], out);
}

/// How often the first byte repeats, within one packet.
fn run_length(bytes: &[u8]) -> usize {
    let packet = &bytes[..bytes.len().min(PACKET)];
    packet.iter().position(|b| *b != packet[0]).unwrap_or(packet.len())
}

fn put_literal(bytes: &[u8], out: &mut Vec<u8>) {
    for packet in bytes.chunks(PACKET) {
        out.push((packet.len() - 1) as u8);
        out.extend_from_slice(packet);
    }
}

#[cfg(test)]
mod tests {
    use super::super::testing::{check, decode, encode, samples, torture};
    use super::*;

    #[test]
    fn there_and_back() {
        check(&PackBits, None);
    }

    #[test]
    fn damage_is_an_error_or_pixels() {
        torture(&PackBits, None);
    }

    #[test]
    fn the_example_of_the_definition() {
        let packed = [0xfe, 0xaa, 0x02, 0x80, 0x00, 0x2a, 0xfd, 0xaa, 0x03, 0x80, 0x00, 0x2a, 0x22, 0xf7, 0xaa];
        let plain = [
            0xaa, 0xaa, 0xaa, 0x80, 0x00, 0x2a, 0xaa, 0xaa, 0xaa, 0xaa, 0x80, 0x00, 0x2a, 0x22, 0xaa, 0xaa, 0xaa, 0xaa,
            0xaa, 0xaa, 0xaa, 0xaa, 0xaa, 0xaa,
        ];
        assert_eq!(decode(&PackBits, &packed, plain.len()).unwrap(), plain);
        assert_eq!(encode(&PackBits, &plain, plain.len(), None).unwrap(), packed);
    }

    #[test]
    fn the_empty_packet_is_skipped() {
        assert_eq!(decode(&PackBits, &[128, 128, 1, 7, 8, 128], 2).unwrap(), [7, 8]);
    }

    #[test]
    fn no_packet_crosses_a_row() {
        for plain in samples() {
            for width in [1, 3, 64, 200] {
                let rows = plain.len() / width;
                let plain = &plain[..rows * width];
                let mut packed = &encode(&PackBits, plain, width, None).unwrap()[..];
                for row in plain.chunks(width) {
                    let mut own = Vec::new();
                    pack(row, &mut own);
                    assert_eq!(decode(&PackBits, &own, width).unwrap(), row);
                    packed = packed.strip_prefix(&own[..]).unwrap();
                }
                assert!(packed.is_empty());
            }
        }
    }
}
