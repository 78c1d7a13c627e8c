//! LZW.

use std::cell::RefCell;

use super::{Cause, Codec, Encoded, Plain, short};

/// LZW.
#[derive(Debug)]
pub struct Lzw;

const CLEAR: usize = 256;
const END: usize = 257;
const FIRST: usize = 258;
const MIN_WIDTH: u32 = 9;
const MAX_WIDTH: u32 = 12;
/// Codes of the widest width.
const CODES: usize = 1 << MAX_WIDTH;
/// Codes of that width in 64 bits, whatever the bit they begin at.
const GROUP: usize = 4;
/// Strings up to this long stand in the table itself.
const SHORT: usize = 8;

thread_local! {
    static TABLE: RefCell<Box<Table>> = RefCell::new(Box::new(Table::new()));
}

impl Codec for Lzw {
    fn name(&self) -> &'static str {
        "lzw"
    }

    fn compression(&self) -> &'static [u16] {
        &[5]
    }

    fn takes_predictor(&self) -> bool {
        true
    }

    fn decode(&self, tile: &Encoded<'_>, out: &mut [u8]) -> Result<(), Cause> {
        if u32::try_from(out.len()).is_err() {
            return Err(Cause::unsupported("an LZW tile of 4 GiB or more"));
        }
        TABLE.with_borrow_mut(|table| {
            let mut decoder = Decoder { table, bytes: tile.bytes, out, bit: 0, at: 0 };
            if is_old(tile.bytes) { decoder.run::<true>() } else { decoder.run::<false>() }
        })
    }

    fn encode(&self, tile: &Plain<'_>, out: &mut Vec<u8>) -> Result<(), Cause> {
        encode(tile.bytes, out);
        Ok(())
    }
}

/// Whether the bits run from the lowest up, as writers had it before TIFF 6.0: the first code is Clear in that order.
fn is_old(bytes: &[u8]) -> bool {
    matches!(bytes, [0, second, ..] if second & 1 == 1)
}

/// What each code stands for.
///
/// Every string but the single bytes has been written out already, one byte more than the code before it gave: a place
/// and a length name it. The first [`SHORT`] bytes are kept as well, so that a short string is one store, with no read
/// of bytes that were written a moment ago.
struct Table {
    /// First bytes, the lowest first.
    head: [u64; CODES],
    /// Where in the output.
    start: [u32; CODES],
    /// 0 where the code has no string: the two that command, and all that are not yet given.
    len: [u16; CODES],
}

impl Table {
    fn new() -> Self {
        let mut table = Self { head: [0; CODES], start: [0; CODES], len: [0; CODES] };
        for byte in 0..=255u8 {
            table.head[byte as usize] = byte.into();
            table.len[byte as usize] = 1;
        }
        table
    }

    /// Forgets the strings of the codes below `end`.
    fn clear(&mut self, end: usize) {
        self.len[FIRST..end].fill(0);
    }
}

/// The string of the code before, which ends where the output does.
#[derive(Clone, Copy)]
struct Last {
    len: u32,
    head: u64,
}

/// Why a run of codes of one width stopped.
enum Stop {
    /// All of them are decoded.
    Counted,
    /// The output is full.
    Full,
    /// A code with no string.
    Special(usize),
}

struct Decoder<'a> {
    table: &'a mut Table,
    bytes: &'a [u8],
    out: &'a mut [u8],
    /// Next bit of `bytes`.
    bit: usize,
    /// Next byte of `out`.
    at: usize,
}

impl Decoder<'_> {
    /// Decodes until the output is full. `OLD` data have the lowest bit first and widen one code later.
    fn run<const OLD: bool>(&mut self) -> Result<(), Cause> {
        self.table.clear(CODES);
        while self.at < self.out.len() {
            match self.code::<OLD>(MIN_WIDTH) {
                Some(CLEAR) => {}
                Some(code @ 0..CLEAR) => {
                    self.out[self.at] = code as u8;
                    let last = Last { len: 1, head: code as u64 };
                    self.at += 1;
                    if !self.until_clear::<OLD>(last)? {
                        break;
                    }
                }
                None | Some(END) => break,
                Some(code) => return Err(self.unknown(code)),
            }
        }
        if self.at == self.out.len() { Ok(()) } else { Err(short(self.at, self.out.len())) }
    }

    /// Decodes until the table is cleared; false when nothing comes after.
    fn until_clear<const OLD: bool>(&mut self, mut last: Last) -> Result<bool, Cause> {
        let (mut next, mut width) = (FIRST, MIN_WIDTH);
        loop {
            let left = (self.bytes.len() * 8).saturating_sub(self.bit) / width as usize;
            if left == 0 {
                return Ok(false);
            }
            let stop = if next < CODES {
                // The width grows when the codes reach its end, or one before it.
                let end = if width == MAX_WIDTH { CODES } else { (1 << width) - usize::from(!OLD) };
                let count = left.min(end - next);
                self.codes::<OLD, true>(&mut last, &mut next, width, count)
            } else {
                // Writers ought to clear a full table; those that do not go on with it as it is.
                self.codes::<OLD, false>(&mut last, &mut next, width, left)
            };
            match stop {
                Stop::Counted if next + usize::from(!OLD) >= 1 << width => width = (width + 1).min(MAX_WIDTH),
                Stop::Counted => {}
                Stop::Special(CLEAR) => {
                    self.table.clear(next);
                    return Ok(true);
                }
                Stop::Full | Stop::Special(END) => return Ok(false),
                // What comes after the last byte is nobody's.
                Stop::Special(_) if self.at == self.out.len() => return Ok(false),
                Stop::Special(code) => return Err(self.unknown(code)),
            }
        }
    }

    /// Decodes `count` codes of one width, each of which gives the table a string when it `GROW`s.
    ///
    /// Never part of its caller: how fast the loop is must not depend on what else the compiler keeps in registers there.
    /// Builds of the same loop differed by a tenth.
    #[inline(never)]
    fn codes<const OLD: bool, const GROW: bool>(
        &mut self,
        last: &mut Last,
        next: &mut usize,
        width: u32,
        count: usize,
    ) -> Stop {
        let (table, bytes, out) = (&mut *self.table, self.bytes, &mut *self.out);
        // Every place in the output fits 32 bits, which spares the checks of sums of it.
        let (mut bit, mut at, mut before) = (self.bit, self.at as u32, *last);
        let (mut given, end) = (*next, *next + count);
        let mut stop = Stop::Counted;
        'codes: while given < end {
            let mut window = window::<OLD>(bytes, bit);
            let group = end.min(given + GROUP);
            bit += (group - given) * width as usize;
            while given < group {
                let code = take::<OLD>(&mut window, width);
                let (mut head, mut len) = (table.head[code], u32::from(table.len[code]));
                let full = if len.wrapping_sub(1) < SHORT as u32 {
                    put(out, at, head, len)
                } else if len > 0 {
                    repeat(out, table.start[code], at, len)
                } else if GROW && code == given {
                    // The very string that this code gives: the one before and its own first byte.
                    (head, len) = (append(before, before.head), before.len + 1);
                    if len <= SHORT as u32 { put(out, at, head, len) } else { repeat(out, at - before.len, at, len) }
                } else {
                    bit -= (group - given - 1) * width as usize;
                    stop = Stop::Special(code);
                    break 'codes;
                };
                if full {
                    (stop, at) = (Stop::Full, out.len() as u32);
                    break 'codes;
                }
                if GROW {
                    let given = given % CODES;
                    table.head[given] = append(before, head);
                    table.start[given] = at - before.len;
                    table.len[given] = before.len as u16 + 1;
                }
                given += 1;
                before = Last { len, head };
                at += len;
            }
        }
        (self.bit, self.at, *last) = (bit, at as usize, before);
        if GROW {
            *next = given;
        }
        stop
    }

    /// The next code, if the data hold one more.
    fn code<const OLD: bool>(&mut self, width: u32) -> Option<usize> {
        let end = self.bit + width as usize;
        (end <= self.bytes.len() * 8).then(|| {
            let code = take::<OLD>(&mut window::<OLD>(self.bytes, self.bit), width);
            self.bit = end;
            code
        })
    }

    fn unknown(&self, code: usize) -> Cause {
        Cause::damaged(format!("LZW code {code} has no string, after {} of {} bytes", self.at, self.out.len()))
    }
}

/// First bytes of the string before with the first byte of `head` behind it.
///
/// Of strings longer than [`SHORT`] only the first byte is ever used: the shift may turn round, but must spare that one.
#[inline(always)]
fn append(before: Last, head: u64) -> u64 {
    before.head | (head & 0xff).wrapping_shl(8 * before.len) & !0xff
}

/// The bits from `bit` on, at least enough for [`GROUP`] codes; zeros stand beyond the end.
#[inline(always)]
fn window<const OLD: bool>(bytes: &[u8], bit: usize) -> u64 {
    let from = bit / 8;
    let word = match bytes.get(from..from + 8).and_then(|word| word.try_into().ok()) {
        Some(word) => word,
        None => last_word(bytes, from),
    };
    if OLD { u64::from_le_bytes(word) >> (bit % 8) } else { u64::from_be_bytes(word) << (bit % 8) }
}

/// Takes one code off.
#[inline(always)]
fn take<const OLD: bool>(window: &mut u64, width: u32) -> usize {
    let code = if OLD { *window & ((1 << width) - 1) } else { *window >> (64 - width) };
    *window = if OLD { *window >> width } else { *window << width };
    code as usize % CODES
}

#[cold]
fn last_word(bytes: &[u8], from: usize) -> [u8; 8] {
    let mut word = [0; 8];
    let rest = bytes.get(from..).unwrap_or_default();
    let len = rest.len().min(8);
    word[..len].copy_from_slice(&rest[..len]);
    word
}

/// Writes a short string; true when the output is full.
#[inline(always)]
fn put(out: &mut [u8], at: u32, head: u64, len: u32) -> bool {
    let at = at as usize;
    // Beyond the string too, where the next ones come.
    match out.get_mut(at..at + SHORT) {
        Some(into) => {
            into.copy_from_slice(&head.to_le_bytes());
            false
        }
        None => put_end(&mut out[at..], &head.to_le_bytes()[..len as usize]),
    }
}

#[cold]
fn put_end(out: &mut [u8], string: &[u8]) -> bool {
    let len = string.len().min(out.len());
    out[..len].copy_from_slice(&string[..len]);
    len == out.len()
}

/// Copies a long string from `start` to `at`; true when the output is full.
///
/// A string ends where the one before it began or earlier, or it overlaps itself by its last byte: so it lies at least
/// its length less one back, and pieces no longer than that copy right, in order.
#[inline(always)]
fn repeat(out: &mut [u8], start: u32, at: u32, len: u32) -> bool {
    let (start, at, len) = (start as usize, at as usize, len as usize);
    const WIDE: usize = 2 * SHORT;
    // The pieces may write over the end of the string, where the next ones come.
    if at + len + WIDE > out.len() {
        return repeat_end(out, start, at, len);
    }
    if len <= WIDE {
        for k in [0, SHORT] {
            piece::<SHORT>(out, start + k, at + k);
        }
    } else {
        for k in (0..len).step_by(WIDE) {
            piece::<WIDE>(out, start + k, at + k);
        }
    }
    false
}

#[inline(always)]
fn piece<const N: usize>(out: &mut [u8], from: usize, to: usize) {
    let mut piece = [0; N];
    piece.copy_from_slice(&out[from..from + N]);
    out[to..to + N].copy_from_slice(&piece);
}

#[cold]
fn repeat_end(out: &mut [u8], start: usize, at: usize, len: usize) -> bool {
    let end = out.len().min(at + len);
    for to in at..end {
        out[to] = out[start + to - at];
    }
    end == out.len()
}

/// Slots of the encoder's hash table: so many more than the strings it ever holds that few meet.
const SLOTS: usize = 4 * CODES;

/// Bits of a prefix and a byte.
const KEY_BITS: u32 = MAX_WIDTH + 8;
const KEY: u32 = (1 << KEY_BITS) - 1;

/// Codes known when the encoder clears its table, as libtiff has it: one is left for the command itself.
const FULL: usize = CODES - 2;

fn encode(bytes: &[u8], out: &mut Vec<u8>) {
    // No code stands for less than a byte, and none is wider than twelve bits.
    out.reserve(bytes.len() + bytes.len() / 2 + bytes.len() / 1024 + 16);
    let mut writer = Writer { out, bits: 0, held: 0 };
    // A code, and below it the prefix and the byte it stands for. No string has code 0, so 0 is an empty slot.
    let mut slots = [0u32; SLOTS];
    let (mut next, mut width) = (FIRST, MIN_WIDTH);
    writer.put(CLEAR as u32, width);
    let Some((&first, rest)) = bytes.split_first() else {
        writer.put(END as u32, width);
        return writer.finish();
    };
    let mut prefix = u32::from(first);
    for &byte in rest {
        let key = prefix << 8 | u32::from(byte);
        let mut slot = home(prefix, byte);
        let mut entry = slots[slot];
        while entry != 0 && entry & KEY != key {
            slot = (slot + 1) % SLOTS;
            entry = slots[slot];
        }
        if entry != 0 {
            prefix = entry >> KEY_BITS;
            continue;
        }
        writer.put(prefix, width);
        slots[slot] = (next as u32) << KEY_BITS | key;
        next += 1;
        prefix = u32::from(byte);
        if next == FULL {
            writer.put(CLEAR as u32, width);
            slots.fill(0);
            (next, width) = (FIRST, MIN_WIDTH);
        } else if next == 1 << width {
            width += 1;
        }
    }
    writer.put(prefix, width);
    // The reader counts a string for the last code too, so the width of the end may be one more.
    if next + 1 == FULL {
        writer.put(CLEAR as u32, width);
        width = MIN_WIDTH;
    } else if next + 1 == 1 << width {
        width += 1;
    }
    writer.put(END as u32, width);
    writer.finish();
}

/// Where to look for a string first. Those with one last byte never meet; the factor keeps different bytes apart.
#[inline(always)]
fn home(prefix: u32, byte: u8) -> usize {
    ((prefix << 2) ^ (u32::from(byte) * 0x1a35)) as usize % SLOTS
}

/// Bits, the highest first.
struct Writer<'a> {
    out: &'a mut Vec<u8>,
    bits: u64,
    held: u32,
}

impl Writer<'_> {
    #[inline(always)]
    fn put(&mut self, code: u32, width: u32) {
        self.bits = self.bits << width | u64::from(code);
        self.held += width;
        if self.held >= 32 {
            self.held -= 32;
            self.out.extend_from_slice(&((self.bits >> self.held) as u32).to_be_bytes());
        }
    }

    fn finish(self) {
        let bytes = ((self.bits << (32 - self.held)) as u32).to_be_bytes();
        self.out.extend_from_slice(&bytes[..self.held.div_ceil(8) as usize]);
    }
}

#[cfg(test)]
mod tests {
    use super::super::testing::{self, Random, check, decode, samples, torture};
    use super::*;
    use weezl::BitOrder;

    #[test]
    fn there_and_back() {
        check(&Lzw, None);
    }

    #[test]
    fn damage_is_an_error_or_pixels() {
        torture(&Lzw, None);
    }

    #[test]
    fn weezl_reads_what_we_write() {
        for plain in samples() {
            let packed = testing::encode(&Lzw, &plain, plain.len(), None).unwrap();
            let mut weezl = weezl::decode::Decoder::with_tiff_size_switch(BitOrder::Msb, 8);
            assert!(weezl.decode(&packed).unwrap() == plain);
        }
    }

    #[test]
    fn every_length_ends_right() {
        // The end falls on every width, on the codes around each change of it, and around the clearing of the table.
        let noise = Random::new(3).bytes(4400);
        for len in 0..noise.len() {
            let packed = testing::encode(&Lzw, &noise[..len], len, None).unwrap();
            let mut weezl = weezl::decode::Decoder::with_tiff_size_switch(BitOrder::Msb, 8);
            assert!(weezl.decode(&packed).unwrap() == noise[..len], "{len}");
            assert!(decode(&Lzw, &packed, len).unwrap() == noise[..len], "{len}");
        }
    }

    #[test]
    fn we_read_what_weezl_writes() {
        for plain in samples() {
            let packed = weezl::encode::Encoder::with_tiff_size_switch(BitOrder::Msb, 8).encode(&plain).unwrap();
            assert!(decode(&Lzw, &packed, plain.len()).unwrap() == plain);
        }
    }

    #[test]
    fn we_read_the_old_bit_order() {
        for plain in samples() {
            // Lowest bit first with the late change of width is what GIF has too.
            let packed = weezl::encode::Encoder::new(BitOrder::Lsb, 8).encode(&plain).unwrap();
            assert!(plain.is_empty() || is_old(&packed));
            assert!(decode(&Lzw, &packed, plain.len()).unwrap() == plain);
        }
    }

    /// Packs codes of the widths that a reader expects, with no hand on which codes.
    fn pack(codes: &[usize]) -> Vec<u8> {
        let mut out = Vec::new();
        let mut writer = Writer { out: &mut out, bits: 0, held: 0 };
        let (mut next, mut width, mut fresh) = (FIRST, MIN_WIDTH, true);
        for &code in codes {
            writer.put(code as u32, width);
            if code == CLEAR {
                (next, width, fresh) = (FIRST, MIN_WIDTH, true);
                continue;
            }
            next += usize::from(!fresh);
            fresh = false;
            if next + 1 >= 1 << width {
                width = (width + 1).min(MAX_WIDTH);
            }
        }
        writer.finish();
        out
    }

    /// The slow and plain twin: strings as strings.
    fn naive(codes: &[usize]) -> Vec<u8> {
        let mut strings: Vec<Vec<u8>> = Vec::new();
        let (mut out, mut last): (Vec<u8>, Option<Vec<u8>>) = (Vec::new(), None);
        for &code in codes {
            if code == CLEAR {
                strings.clear();
                last = None;
                continue;
            }
            let mut string = match code {
                0..CLEAR => vec![code as u8],
                _ => strings.get(code - FIRST).cloned().unwrap_or_default(),
            };
            if let Some(mut grown) = last {
                grown.push(*string.first().unwrap_or(&grown[0]));
                if string.is_empty() {
                    string.clone_from(&grown);
                }
                if strings.len() < CODES - FIRST {
                    strings.push(grown);
                }
            }
            out.extend(&string);
            last = Some(string);
        }
        out
    }

    #[test]
    fn any_codes_that_have_a_meaning() {
        let mut random = Random::new(5);
        for round in 0..60 {
            let (mut codes, mut given) = (vec![CLEAR; round % 3], 0);
            // Some never clear, so that the table runs full and stays so.
            let clears = [0, 700, 5000][round / 3 % 3];
            for _ in 0..[30, 900, 9000][round % 3] {
                let newest = FIRST + given;
                codes.push(match random.below(4) {
                    _ if clears > 0 && random.below(clears) == 0 => CLEAR,
                    // `newest` itself is the string that is made by its own code.
                    0 if given < CODES - FIRST && !matches!(codes.last(), None | Some(&CLEAR)) => newest,
                    1 | 2 if given > 0 => FIRST + random.below(given),
                    _ => random.below(256),
                });
                given = match codes[..] {
                    [.., CLEAR] => 0,
                    [.., CLEAR, _] | [_] => given,
                    _ => (given + 1).min(CODES - FIRST),
                };
            }
            let plain = naive(&codes);
            let packed = pack(&codes);
            assert!(decode(&Lzw, &packed, plain.len()).unwrap() == plain);
            let part = random.below(plain.len());
            assert!(decode(&Lzw, &packed, part).unwrap() == plain[..part]);
        }
    }

    #[test]
    fn the_first_clear_and_the_end_may_be_missing() {
        assert_eq!(decode(&Lzw, &pack(&[7, 7, 258, 259]), 6).unwrap(), [7, 7, 7, 7, 7, 7]);
    }

    #[test]
    fn codes_after_the_last_byte_do_not_matter() {
        // Strings of one to eight bytes, the last of which is stored whole.
        let codes = [CLEAR, 7, 258, 259, 260, 261, 262, 263, 264, 400];
        assert_eq!(decode(&Lzw, &pack(&codes), 36).unwrap(), [7; 36]);
        assert!(decode(&Lzw, &pack(&codes), 37).is_err());
    }

    #[test]
    fn codes_with_no_string_are_refused() {
        for codes in [&[CLEAR, 258][..], &[CLEAR, 1, 260], &[CLEAR, 1, 2, CLEAR, 300], &[CLEAR, 1, 2, CLEAR, 3, 259]] {
            let cause = decode(&Lzw, &pack(codes), 100).unwrap_err().to_string();
            assert!(cause.contains("has no string"), "{cause}");
        }
    }
}
