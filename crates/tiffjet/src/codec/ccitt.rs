//! CCITT bilevel codes: modified Huffman (2, 32771), Group 3 (3, T.4) and Group 4 (4, T.6).
//!
//! White is always bit 0 and black bit 1, whatever PhotometricInterpretation says: that tag tells how to show the bits.
//!
//! Damage is an error, but for what T.4 itself mends: a Group 3 row goes on at the next end-of-line code.
//!
//! A row is held as the places where its colour changes, strictly rising: the first starts the first black run. That is
//! what two-dimensional coding refers to, and what the pixels are filled from.

use super::{Cause, Codec, Encoded};

/// CCITT RLE, Group 3 and Group 4.
#[derive(Debug)]
pub struct Ccitt;

impl Codec for Ccitt {
    fn name(&self) -> &'static str {
        "ccitt"
    }

    fn compression(&self) -> &'static [u16] {
        &[2, 3, 4, 32771]
    }

    fn decode(&self, tile: &Encoded<'_>, out: &mut [u8]) -> Result<(), Cause> {
        let format = tile.format;
        if format.bits != 1 || format.samples != 1 {
            return Err(Cause::unsupported(format!(
                "{} samples of {} bits a pixel: CCITT codes are for one bit",
                format.samples, format.bits
            )));
        }
        let scheme = Scheme::new(format.compression, format.fax_options);
        let uncompressed = format.compression >= 3 && format.fax_options & 2 != 0;
        Rows::new(tile.bytes, format.width, scheme).decode(out).map_err(|(row, fault)| match fault {
            Fault::Uncompressed if uncompressed => Cause::unsupported(format!("row {row}: uncompressed mode")),
            fault => Cause::damaged(format!("row {row}: {}", fault.what())),
        })
    }
}

/// How rows follow each other, and how each is coded.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Scheme {
    /// One-dimensional rows, each at a multiple of so many bits from the start of the tile.
    Aligned(usize),
    /// One-dimensional rows after an end-of-line code each.
    Group3,
    /// The same with a bit after each end-of-line code: 1 for a one-dimensional row, 0 for a two-dimensional one.
    Group3Mixed,
    /// Two-dimensional rows with nothing between them.
    Group4,
}

impl Scheme {
    fn new(compression: u16, options: u32) -> Self {
        match compression {
            2 => Self::Aligned(8),
            32771 => Self::Aligned(16),
            4 => Self::Group4,
            _ if options & 1 != 0 => Self::Group3Mixed,
            _ => Self::Group3,
        }
    }
}

/// What is wrong in a row.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Fault {
    Code,
    Short,
    Length,
    End,
    Marker,
    Uncompressed,
}

impl Fault {
    fn what(self) -> &'static str {
        match self {
            Self::Code => "no such code",
            Self::Short => "an end-of-line code before its end",
            Self::Length => "runs do not fit the width",
            Self::End => "the data ends",
            Self::Marker => "no end-of-line code before it",
            Self::Uncompressed => "an extension code that the options do not announce",
        }
    }
}

/// Decoder of the rows of one tile.
struct Rows<'a> {
    bits: Bits<'a>,
    width: u32,
    scheme: Scheme,
    /// Data before the first end-of-line code was left out.
    skipped: bool,
    /// Changes of the row being decoded.
    line: Line,
    /// Changes of the row above: all white above the first.
    above: Line,
}

impl<'a> Rows<'a> {
    fn new(bytes: &'a [u8], width: u32, scheme: Scheme) -> Self {
        let mut bits = Bits { bytes, pos: 0 };
        let skipped = matches!(scheme, Scheme::Group3 | Scheme::Group3Mixed) && bits.seek_end_of_line();
        Self { bits, width, scheme, skipped, line: Line::new(width), above: Line::new(width) }
    }

    /// Fills `out`, or says which row is at fault.
    fn decode(mut self, out: &mut [u8]) -> Result<(), (usize, Fault)> {
        out.fill(0);
        let row_bytes = (self.width as usize).div_ceil(8).max(1);
        let last = (out.len() / row_bytes).saturating_sub(1);
        for (number, row) in out.chunks_exact_mut(row_bytes).enumerate() {
            std::mem::swap(&mut self.line, &mut self.above);
            self.line.changes.clear();
            match self.row(number == 0, number == last) {
                Ok(true) => self.line.fill(row),
                Ok(false) => return Ok(()),
                Err(fault) => return Err((number, fault)),
            }
        }
        Ok(())
    }

    /// Decodes one row into `line`; false when the data says that the page ends before it.
    fn row(&mut self, first: bool, last: bool) -> Result<bool, Fault> {
        match self.scheme {
            Scheme::Aligned(bits) => {
                self.bits.align(bits);
                self.row_1d()?;
            }
            Scheme::Group3 => {
                // Rows without end-of-line codes are read too: no run starts with eleven zeros.
                self.bits.end_of_line();
                if self.skipped && last && self.bits.is_empty() {
                    // The codes stand after the rows, not before: what was left out was the first row, as all readers
                    // do, and so there is one less.
                    return Ok(false);
                }
                self.row_1d().or_else(|fault| self.cut_short(fault))?;
            }
            Scheme::Group3Mixed => {
                if !self.bits.end_of_line() {
                    return Err(Fault::Marker);
                }
                if self.bits.take(1) == 1 { self.row_1d()? } else { self.row_2d()? }
            }
            Scheme::Group4 => {
                // Writers that know the height only afterwards end the block early, and mean white.
                if !first && self.bits.peek(12) == END_OF_LINE {
                    return Ok(false);
                }
                self.row_2d()?;
            }
        }
        if self.bits.overrun() { Err(Fault::End) } else { Ok(true) }
    }

    /// T.4 lets a receiver go on at the next end-of-line code after a transmission error: the rest of the row is white.
    fn cut_short(&mut self, fault: Fault) -> Result<(), Fault> {
        if fault != Fault::Short {
            return Err(fault);
        }
        if !self.line.is_white() {
            self.line.changes.pop();
        }
        Ok(())
    }

    fn row_1d(&mut self) -> Result<(), Fault> {
        let mut at = 0;
        loop {
            at = self.run(at, &WHITE)?;
            if at == self.width {
                return Ok(());
            }
            at = self.run(at, &BLACK)?;
            if at == self.width {
                return Ok(());
            }
        }
    }

    fn row_2d(&mut self) -> Result<(), Fault> {
        let mut at = 0;
        // Place in the row above: the next change to the colour that this row does not have now.
        let mut b = 0;
        while at < self.width {
            let b1 = self.above.get(b);
            let (mode, length) = MODES[self.bits.peek(7) as usize];
            self.bits.skip(length.into());
            match mode {
                Mode::Pass => at = self.above.get(b + 1),
                Mode::Horizontal => {
                    let white = self.line.is_white();
                    at = if white { self.run(at, &WHITE)? } else { self.run(at, &BLACK)? };
                    at = if white { self.run(at, &BLACK)? } else { self.run(at, &WHITE)? };
                }
                Mode::Vertical(shift) => {
                    let a1 = b1.checked_add_signed(shift.into()).ok_or(Fault::Length)?;
                    if a1 < at || a1 > self.width {
                        return Err(Fault::Length);
                    }
                    at = a1;
                    self.line.change(at);
                    // The colour turned, so the change wanted is a neighbour. Going left may have passed an earlier one.
                    b = if shift < 0 { b.checked_sub(1).unwrap_or(1) } else { b + 1 };
                }
                Mode::Extension => return Err(Fault::Uncompressed),
                Mode::Invalid if self.bits.overrun_by(7) => return Err(Fault::End),
                Mode::Invalid => return Err(Fault::Code),
            }
            while self.above.get(b) <= at && self.above.get(b) < self.width {
                b += 2;
            }
        }
        Ok(())
    }

    /// Reads a run and gives where it ends.
    fn run<const N: usize>(&mut self, start: u32, table: &[u16; N]) -> Result<u32, Fault> {
        let mut at = start;
        loop {
            let entry = table[self.bits.peek(N.ilog2()) as usize];
            let (run, length) = (u32::from(entry >> 4), usize::from(entry & 15));
            if length == 0 {
                return self.unterminated(start, at);
            }
            self.bits.skip(length);
            at += run;
            if at > self.width {
                return Err(Fault::Length);
            }
            if run < 64 {
                self.line.change(at);
                return Ok(at);
            }
        }
    }

    /// A run that no code ends. Some writers leave out the last code, of no pixels, of a row that is whole without it.
    #[cold]
    fn unterminated(&self, start: u32, at: u32) -> Result<u32, Fault> {
        if self.bits.clone().end_of_line() {
            match (start < at, at == self.width) {
                (true, true) => Ok(at),
                (false, false) if at > 0 => Err(Fault::Short),
                _ => Err(Fault::Code),
            }
        } else if self.bits.overrun_by(13) {
            Err(Fault::End)
        } else {
            Err(Fault::Code)
        }
    }
}

/// The changes of colour of one row.
struct Line {
    changes: Vec<u32>,
    width: u32,
}

impl Line {
    fn new(width: u32) -> Self {
        Self { changes: Vec::new(), width }
    }

    /// The change of that number; the end of the row where there are no more.
    fn get(&self, number: usize) -> u32 {
        self.changes.get(number).copied().unwrap_or(self.width)
    }

    /// The colour that the next run has. It holds only before the end of the row.
    fn is_white(&self) -> bool {
        self.changes.len().is_multiple_of(2)
    }

    /// Adds a change. Two at one place, around a run of no pixels, are none.
    fn change(&mut self, at: u32) {
        if self.changes.last() == Some(&at) {
            self.changes.pop();
        } else if at < self.width {
            self.changes.push(at);
        }
    }

    /// Sets the black pixels of a white row.
    fn fill(&self, row: &mut [u8]) {
        for run in self.changes.chunks(2) {
            let end = run.get(1).copied().unwrap_or(self.width);
            blacken(row, run[0] as usize, end as usize);
        }
    }
}

/// Sets the bits from `start` to `end`; there is at least one.
fn blacken(row: &mut [u8], start: usize, end: usize) {
    let (first, last) = (start / 8, (end - 1) / 8);
    let head = 0xff >> (start % 8);
    let tail = 0xff << (7 - (end - 1) % 8);
    if first == last {
        row[first] |= head & tail;
    } else {
        row[first] |= head;
        row[first + 1..last].fill(0xff);
        row[last] |= tail;
    }
}

/// Reader of bits, the highest of each byte first. After the end it reads zeros, which are no code; whoever reads on
/// asks [`Bits::overrun`].
#[derive(Clone)]
struct Bits<'a> {
    bytes: &'a [u8],
    pos: usize,
}

impl Bits<'_> {
    /// The next bits from the top of a word: 57 of them at least.
    fn word(&self) -> u64 {
        let rest = self.bytes.get(self.pos / 8..).unwrap_or_default();
        let word = match rest.first_chunk() {
            Some(bytes) => u64::from_be_bytes(*bytes),
            None => last_word(rest),
        };
        word << (self.pos % 8)
    }

    /// The next `count` bits, 1 to 57.
    fn peek(&self, count: u32) -> u64 {
        self.word() >> (64 - count)
    }

    fn take(&mut self, count: u32) -> u64 {
        let bits = self.peek(count);
        self.skip(count as usize);
        bits
    }

    fn skip(&mut self, count: usize) {
        self.pos += count;
    }

    fn align(&mut self, bits: usize) {
        self.pos = self.pos.next_multiple_of(bits);
    }

    /// More was read than there is.
    fn overrun(&self) -> bool {
        self.overrun_by(0)
    }

    /// The same after `count` more bits.
    fn overrun_by(&self, count: usize) -> bool {
        self.pos + count > self.bytes.len() * 8
    }

    /// Not even a byte is left.
    fn is_empty(&self) -> bool {
        self.overrun_by(8)
    }

    /// Goes to the first end-of-line code; whether something was before it. Without any it stays.
    fn seek_end_of_line(&mut self) -> bool {
        let mut ahead = self.clone();
        while !ahead.overrun() {
            let start = ahead.pos;
            if ahead.end_of_line() {
                self.pos = start;
                return start > 0;
            }
            let zeros = ahead.word().leading_zeros() as usize;
            if zeros >= 11 {
                break; // nothing but zeros follows
            }
            ahead.skip(zeros + 1);
        }
        false
    }

    /// Skips an end-of-line code, eleven zeros or more and a one, where one stands.
    fn end_of_line(&mut self) -> bool {
        if self.peek(11) != 0 {
            return false;
        }
        let mut pos = self.pos;
        while pos < self.bytes.len() * 8 {
            let zeros = Bits { bytes: self.bytes, pos }.word().leading_zeros() as usize;
            if zeros < 57 {
                self.pos = pos + zeros + 1;
                return true;
            }
            pos += 57;
        }
        false
    }
}

/// Less than eight bytes as the top of a word.
#[cold]
fn last_word(rest: &[u8]) -> u64 {
    let mut bytes = [0; 8];
    bytes[..rest.len()].copy_from_slice(rest);
    u64::from_be_bytes(bytes)
}

/// Eleven zeros and a one.
const END_OF_LINE: u64 = 1;

/// What a code of a two-dimensional row says of the next change.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Mode {
    /// No change above the next two.
    Pass,
    /// Two runs follow.
    Horizontal,
    /// It stands so far right of the one above.
    Vertical(i8),
    Extension,
    Invalid,
}

/// Mode and length of the code at the start of seven bits.
static MODES: [(Mode, u8); 128] = modes();

const fn modes() -> [(Mode, u8); 128] {
    let codes = [
        ("1", Mode::Vertical(0)),
        ("011", Mode::Vertical(1)),
        ("000011", Mode::Vertical(2)),
        ("0000011", Mode::Vertical(3)),
        ("010", Mode::Vertical(-1)),
        ("000010", Mode::Vertical(-2)),
        ("0000010", Mode::Vertical(-3)),
        ("0001", Mode::Pass),
        ("001", Mode::Horizontal),
        ("0000001", Mode::Extension),
    ];
    let mut table = [(Mode::Invalid, 0); 128];
    let mut i = 0;
    while i < codes.len() {
        let (code, mode) = codes[i];
        let (first, count) = slots(code, 7);
        let mut j = first;
        while j < first + count {
            table[j] = (mode, code.len() as u8);
            j += 1;
        }
        i += 1;
    }
    table
}

/// Run and length (the low four bits) of the code at the start of twelve bits.
static WHITE: [u16; 1 << 12] = runs(&WHITE_CODES);
/// The same of thirteen bits.
static BLACK: [u16; 1 << 13] = runs(&BLACK_CODES);

const fn runs<const N: usize>(codes: &[&str; 91]) -> [u16; N] {
    let mut table = [0; N];
    let mut i = 0;
    while i < codes.len() + LONG_CODES.len() {
        let code = if i < codes.len() { codes[i] } else { LONG_CODES[i - codes.len()] };
        let run = if i < 64 { i } else { (i - 63) * 64 };
        let (first, count) = slots(code, N.ilog2());
        let mut j = first;
        while j < first + count {
            assert!(table[j] == 0, "two codes begin with the same bits");
            table[j] = (run as u16) << 4 | code.len() as u16;
            j += 1;
        }
        i += 1;
    }
    table
}

/// First and number of the places of a code in a table of so many bits.
const fn slots(code: &str, bits: u32) -> (usize, usize) {
    let mut value = 0;
    let mut i = 0;
    while i < code.len() {
        value = value << 1 | (code.as_bytes()[i] - b'0') as usize;
        i += 1;
    }
    let spare = bits as usize - code.len();
    (value << spare, 1 << spare)
}

/// White runs of 0 to 63 pixels, then of 64, 128 to 1728.
const WHITE_CODES: [&str; 91] = [
    "00110101",
    "000111",
    "0111",
    "1000",
    "1011",
    "1100",
    "1110",
    "1111",
    "10011",
    "10100",
    "00111",
    "01000",
    "001000",
    "000011",
    "110100",
    "110101",
    "101010",
    "101011",
    "0100111",
    "0001100",
    "0001000",
    "0010111",
    "0000011",
    "0000100",
    "0101000",
    "0101011",
    "0010011",
    "0100100",
    "0011000",
    "00000010",
    "00000011",
    "00011010",
    "00011011",
    "00010010",
    "00010011",
    "00010100",
    "00010101",
    "00010110",
    "00010111",
    "00101000",
    "00101001",
    "00101010",
    "00101011",
    "00101100",
    "00101101",
    "00000100",
    "00000101",
    "00001010",
    "00001011",
    "01010010",
    "01010011",
    "01010100",
    "01010101",
    "00100100",
    "00100101",
    "01011000",
    "01011001",
    "01011010",
    "01011011",
    "01001010",
    "01001011",
    "00110010",
    "00110011",
    "00110100",
    "11011",
    "10010",
    "010111",
    "0110111",
    "00110110",
    "00110111",
    "01100100",
    "01100101",
    "01101000",
    "01100111",
    "011001100",
    "011001101",
    "011010010",
    "011010011",
    "011010100",
    "011010101",
    "011010110",
    "011010111",
    "011011000",
    "011011001",
    "011011010",
    "011011011",
    "010011000",
    "010011001",
    "010011010",
    "011000",
    "010011011",
];

/// Black runs of 0 to 63 pixels, then of 64, 128 to 1728.
const BLACK_CODES: [&str; 91] = [
    "0000110111",
    "010",
    "11",
    "10",
    "011",
    "0011",
    "0010",
    "00011",
    "000101",
    "000100",
    "0000100",
    "0000101",
    "0000111",
    "00000100",
    "00000111",
    "000011000",
    "0000010111",
    "0000011000",
    "0000001000",
    "00001100111",
    "00001101000",
    "00001101100",
    "00000110111",
    "00000101000",
    "00000010111",
    "00000011000",
    "000011001010",
    "000011001011",
    "000011001100",
    "000011001101",
    "000001101000",
    "000001101001",
    "000001101010",
    "000001101011",
    "000011010010",
    "000011010011",
    "000011010100",
    "000011010101",
    "000011010110",
    "000011010111",
    "000001101100",
    "000001101101",
    "000011011010",
    "000011011011",
    "000001010100",
    "000001010101",
    "000001010110",
    "000001010111",
    "000001100100",
    "000001100101",
    "000001010010",
    "000001010011",
    "000000100100",
    "000000110111",
    "000000111000",
    "000000100111",
    "000000101000",
    "000001011000",
    "000001011001",
    "000000101011",
    "000000101100",
    "000001011010",
    "000001100110",
    "000001100111",
    "0000001111",
    "000011001000",
    "000011001001",
    "000001011011",
    "000000110011",
    "000000110100",
    "000000110101",
    "0000001101100",
    "0000001101101",
    "0000001001010",
    "0000001001011",
    "0000001001100",
    "0000001001101",
    "0000001110010",
    "0000001110011",
    "0000001110100",
    "0000001110101",
    "0000001110110",
    "0000001110111",
    "0000001010010",
    "0000001010011",
    "0000001010100",
    "0000001010101",
    "0000001011010",
    "0000001011011",
    "0000001100100",
    "0000001100101",
];

/// Runs of 1792, 1856 to 2560 pixels of either colour.
const LONG_CODES: [&str; 13] = [
    "00000001000",
    "00000001100",
    "00000001101",
    "000000010010",
    "000000010011",
    "000000010100",
    "000000010101",
    "000000010110",
    "000000010111",
    "000000011100",
    "000000011101",
    "000000011110",
    "000000011111",
];

#[cfg(test)]
mod tests {
    use super::super::testing::{Random, format, tile};
    use super::*;

    /// A bilevel image, and how to code it.
    struct Image {
        width: usize,
        rows: Vec<Vec<bool>>,
    }

    impl Image {
        /// Runs of all lengths: mostly short, some far longer than the longest code.
        fn random(random: &mut Random, width: usize, height: usize) -> Self {
            let mut rows: Vec<Vec<bool>> = Vec::new();
            for number in 0..height {
                let mut row = match rows.last() {
                    Some(above) if number % 4 != 0 => above.clone(),
                    _ => vec![false; width],
                };
                for _ in 0..random.below(6) {
                    let start = random.below(width);
                    let longest = [3, 70, 3000][random.below(3)];
                    let end = width.min(start + 1 + random.below(longest));
                    let black = random.below(2) == 0;
                    row[start..end].fill(black);
                }
                rows.push(row);
            }
            Self { width, rows }
        }

        fn packed(&self) -> Vec<u8> {
            let byte = |bits: &[bool]| bits.iter().enumerate().fold(0, |byte, (i, &b)| byte | u8::from(b) << (7 - i));
            self.rows.iter().flat_map(|row| row.chunks(8).map(byte)).collect()
        }

        fn decode(&self, compression: u16, options: u32, bytes: &[u8]) -> Result<Vec<u8>, Cause> {
            decode(compression, options, self.width as u32, self.rows.len() as u32, bytes)
        }

        fn encode(&self, compression: u16, options: u32) -> Vec<u8> {
            let mut out = Encoder::default();
            let white = vec![false; self.width];
            for (number, row) in self.rows.iter().enumerate() {
                let above = number.checked_sub(1).map_or(&white, |above| &self.rows[above]);
                match compression {
                    2 | 32771 => {
                        out.row_1d(row);
                        out.align(if compression == 2 { 8 } else { 16 });
                    }
                    3 => {
                        let two_d = options & 1 != 0 && number % 4 != 0;
                        out.end_of_line(options, two_d);
                        if two_d { out.row_2d(row, above) } else { out.row_1d(row) }
                    }
                    _ => out.row_2d(row, above),
                }
            }
            match compression {
                3 => (0..6).for_each(|_| out.end_of_line(options & 1, false)),
                4 => out.put("000000000001000000000001"),
                _ => {}
            }
            out.bytes()
        }
    }

    /// Bits as text: slow, and plain to see.
    #[derive(Default)]
    struct Encoder(String);

    impl Encoder {
        fn put(&mut self, bits: &str) {
            self.0.push_str(bits);
        }

        fn align(&mut self, bits: usize) {
            while !self.0.len().is_multiple_of(bits) {
                self.put("0");
            }
        }

        fn end_of_line(&mut self, options: u32, two_d: bool) {
            if options & 4 != 0 {
                while self.0.len() % 8 != 4 {
                    self.put("0");
                }
            }
            self.put("000000000001");
            if options & 1 != 0 {
                self.put(if two_d { "0" } else { "1" });
            }
        }

        fn run(&mut self, black: bool, mut run: usize) {
            let codes = if black { &BLACK_CODES } else { &WHITE_CODES };
            while run >= 2560 {
                self.put(LONG_CODES[12]);
                run -= 2560;
            }
            match run / 64 {
                0 => {}
                n @ 1..=27 => self.put(codes[63 + n]),
                n => self.put(LONG_CODES[n - 28]),
            }
            self.put(codes[run % 64]);
        }

        fn row_1d(&mut self, row: &[bool]) {
            let (mut at, mut black) = (0, false);
            while at < row.len() {
                let end = next(row, at, black);
                self.run(black, end - at);
                (at, black) = (end, !black);
            }
        }

        fn row_2d(&mut self, row: &[bool], above: &[bool]) {
            let width = row.len();
            let (mut at, mut black, mut first) = (0, false, true);
            while at < width {
                // The first change above, right of here, to the other colour.
                let colour = |x: usize| x > 0 && above[x - 1];
                let from = if first { 0 } else { at + 1 };
                let b1 = (from..width).find(|&x| above[x] != colour(x) && above[x] != black).unwrap_or(width);
                let b2 = next(above, b1, !black);
                let a1 = next(row, at, black);
                let shift = a1 as i64 - b1 as i64;
                if b2 < a1 {
                    self.put("0001");
                    at = b2;
                } else if shift.abs() <= 3 {
                    let codes = ["0000010", "000010", "010", "1", "011", "000011", "0000011"];
                    self.put(codes[(shift + 3) as usize]);
                    (at, black) = (a1, !black);
                } else {
                    let a2 = next(row, a1, !black);
                    self.put("001");
                    self.run(black, a1 - at);
                    self.run(!black, a2 - a1);
                    at = a2;
                }
                first = false;
            }
        }

        fn bytes(mut self) -> Vec<u8> {
            self.align(8);
            self.0.as_bytes().chunks(8).map(|bits| bits.iter().fold(0, |byte, bit| byte << 1 | (bit - b'0'))).collect()
        }
    }

    /// Where a run of that colour that starts `at` ends.
    fn next(row: &[bool], at: usize, black: bool) -> usize {
        (at..row.len()).find(|&x| row[x] != black).unwrap_or(row.len())
    }

    fn bits(text: &str) -> Vec<u8> {
        Encoder(text.replace(' ', "")).bytes()
    }

    fn decode(compression: u16, options: u32, width: u32, rows: u32, bytes: &[u8]) -> Result<Vec<u8>, Cause> {
        let mut format = format(compression, width, rows, 1, 1);
        format.fax_options = options;
        let mut out = vec![0xaa; format.row_bytes() * rows as usize];
        Ccitt.decode(&tile(&format, bytes), &mut out).map(|()| out)
    }

    fn is_damaged(result: Result<Vec<u8>, Cause>) -> bool {
        matches!(result, Err(Cause::Damaged(_)))
    }

    /// Compression and options of every scheme.
    const SCHEMES: [(u16, u32); 7] = [(2, 0), (32771, 0), (3, 0), (3, 4), (3, 1), (3, 5), (4, 0)];

    const EOL: &str = "000000000001";

    #[test]
    fn strips_of_libtiff() {
        #[rustfmt::skip]
        let pixels = [
            0x00, 0x00, 0x00, 0x60, 0x7f, 0xe0, 0x70, 0x6f, 0xe0, 0x15, 0x54, 0x30, 0xff, 0xff, 0xf0, 0x07, 0xc0, 0x00,
        ];
        let strips = [
            (2, "101fe083801ecc718e843a1d0e8743abc0350d00c338"),
            (3, "001100023fc1070011ecc718e00308743a1d0e87578009a868001c3380"),
            (4, "91f3c13738f8723a081522872ad821111119c380080080"),
        ];
        for (compression, hex) in strips {
            let byte = |i: usize| u8::from_str_radix(&hex[i..i + 2], 16).unwrap();
            let bytes: Vec<u8> = (0..hex.len()).step_by(2).map(byte).collect();
            assert_eq!(decode(compression, 0, 20, 6, &bytes).unwrap(), pixels, "{compression}");
        }
    }

    #[test]
    fn codes_fill_the_tables() {
        // Only what begins with eight zeros is no run: fill and end-of-line codes.
        assert!(WHITE.iter().enumerate().all(|(bits, &entry)| (entry == 0) == (bits < 1 << 4)));
        assert!(BLACK.iter().enumerate().all(|(bits, &entry)| (entry == 0) == (bits < 1 << 5)));
    }

    #[test]
    fn images_come_back() {
        let mut random = Random(11);
        for width in [1, 7, 8, 9, 31, 64, 65, 1000, 1728, 9000] {
            let image = Image::random(&mut random, width, 24);
            for (compression, options) in SCHEMES {
                let bytes = image.encode(compression, options);
                let pixels = image.decode(compression, options, &bytes);
                assert!(pixels.as_deref() == Ok(&image.packed()), "{width} {compression} {options} {:?}", pixels.err());
            }
        }
    }

    #[test]
    fn every_run_comes_back() {
        for run in 0..2700 {
            for black in [false, true] {
                let mut row = vec![!black; run + 3];
                row[1..=run].fill(black);
                let image = Image { width: run + 3, rows: vec![row] };
                for compression in [2, 4] {
                    assert!(image.decode(compression, 0, &image.encode(compression, 0)) == Ok(image.packed()), "{run}");
                }
            }
        }
    }

    #[test]
    fn a_block_that_ends_early_leaves_white() {
        let row = "001 0111 11"; // two white, two black
        assert_eq!(decode(4, 0, 4, 3, &bits(&format!("{row} 11 {EOL} {EOL}"))).unwrap(), [0x30, 0x30, 0]);
        assert!(is_damaged(decode(4, 0, 4, 3, &bits(&format!("{EOL} {EOL}")))), "without any row");
        assert!(is_damaged(decode(4, 0, 4, 3, &bits(row))), "without saying so");
    }

    #[test]
    fn group_3_goes_on_at_the_next_end_of_line() {
        let row = "0111 11"; // two white, two black
        let cut = decode(3, 0, 4, 2, &bits(&format!("{EOL} 0111 {EOL} {row}")));
        assert_eq!(cut.unwrap(), [0, 0x30], "a row cut short");
        assert_eq!(decode(3, 0, 4, 2, &bits(&format!("{row} {row}"))).unwrap(), [0x30, 0x30], "no such codes");
        let black = format!("{EOL} 00110101 0000001100101 {EOL} 010011011 00110101");
        let pixels = decode(3, 0, 1728, 2, &bits(&black)).unwrap();
        assert!(pixels == [[0xff; 216], [0; 216]].concat(), "a run that no code ends");
        let after = format!("1011 {EOL} {row} {EOL}");
        assert_eq!(decode(3, 0, 4, 2, &bits(&after)).unwrap(), [0x30, 0], "after each row, not before");
        assert!(is_damaged(decode(3, 0, 4, 2, &bits(&format!("{EOL} {row} {EOL} {EOL}")))), "the end of the page");
        assert!(is_damaged(decode(3, 1, 4, 1, &bits(row))), "rows of two kinds need it");
    }

    #[test]
    fn rows_must_have_the_width() {
        assert!(is_damaged(decode(2, 0, 4, 1, &bits("1100"))), "five white");
        assert!(is_damaged(decode(4, 0, 4, 1, &bits("011"))), "right of the end");
        assert!(is_damaged(decode(4, 0, 4, 2, &bits("001 00110101 11 010"))), "left of the start");
    }

    #[test]
    fn uncompressed_mode_is_told_from_damage() {
        let bytes = bits("0000001111");
        assert!(matches!(decode(4, 2, 4, 1, &bytes), Err(Cause::Unsupported(_))));
        assert!(is_damaged(decode(4, 0, 4, 1, &bytes)));
    }

    #[test]
    fn other_pixels_are_unsupported() {
        let format = format(4, 4, 1, 1, 8);
        assert!(matches!(Ccitt.decode(&tile(&format, &[]), &mut [0; 4]), Err(Cause::Unsupported(_))));
    }

    #[test]
    fn truncation_is_an_error() {
        let image = Image::random(&mut Random(5), 301, 12);
        for (compression, options) in SCHEMES {
            let bytes = image.encode(compression, options);
            // Fill and what ends a page are not needed for the pixels.
            let needless = if compression == 3 { 12 } else { 4 };
            for end in 0..bytes.len() - needless {
                let result = image.decode(compression, options, &bytes[..end]);
                assert!(is_damaged(result), "{compression} {options}: {end} of {}", bytes.len());
            }
        }
    }

    #[test]
    fn noise_is_no_panic() {
        let mut random = Random(5);
        let image = Image::random(&mut random, 301, 12);
        for (compression, options) in SCHEMES {
            let bytes = image.encode(compression, options);
            for round in 0..1500 {
                let mut bytes = bytes.clone();
                for _ in 0..=random.below(3) {
                    let at = random.below(bytes.len());
                    bytes[at] = if round % 2 == 0 { random.next() as u8 } else { bytes[at] ^ 1 << random.below(8) };
                }
                let _ = image.decode(compression, options, &bytes);
            }
            for length in 0..300 {
                let _ = image.decode(compression, options, &random.bytes(length));
            }
        }
    }

    #[test]
    fn nothing_but_zeros_is_soon_refused() {
        let zeros = vec![0; 4 << 20];
        for (compression, options) in SCHEMES {
            assert!(is_damaged(decode(compression, options, 100, 100_000, &zeros)), "{compression} {options}");
        }
    }
}
