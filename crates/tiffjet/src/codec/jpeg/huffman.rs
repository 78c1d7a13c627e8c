//! Huffman codes: tables, and the reader of bits they are looked up with.

use super::super::Cause;

/// Bits that one look into the fast table covers.
const LOOK: u32 = 10;
/// In an entry of the fast table: the value that follows the code is in the entry too.
const WHOLE: u32 = 0x80;

/// A table for decoding.
pub(super) struct Huffman {
    /// By the next [`LOOK`] bits: bits to skip (5), [`WHOLE`], symbol (8), value (16); 0 for a longer code.
    fast: [u32; 1 << LOOK],
    /// The first 16-bit prefix that is beyond the codes of a length.
    beyond: [u32; 17],
    /// What turns a code of a length into a place in `symbols`.
    shift: [i32; 17],
    symbols: [u8; 256],
}

impl Huffman {
    /// From the counts of codes of 1 to 16 bits and the symbols in order of their codes.
    pub(super) fn new(counts: &[u8; 16], symbols: &[u8]) -> Result<Box<Self>, Cause> {
        let total: usize = counts.iter().map(|&n| n as usize).sum();
        if total > 256 || total > symbols.len() {
            return Err(Cause::damaged("Huffman table with too many codes"));
        }
        let mut table = Box::new(Self { fast: [0; 1 << LOOK], beyond: [0; 17], shift: [0; 17], symbols: [0; 256] });
        table.symbols[..total].copy_from_slice(&symbols[..total]);
        let (mut code, mut place) = (0u32, 0usize);
        for bits in 1..=16u32 {
            let n = counts[bits as usize - 1] as usize;
            table.shift[bits as usize] = place as i32 - code as i32;
            for _ in 0..n {
                if code >= 1 << bits {
                    return Err(Cause::damaged("Huffman table with impossible codes"));
                }
                table.fill(code, bits, symbols[place]);
                code += 1;
                place += 1;
            }
            table.beyond[bits as usize] = code << (16 - bits);
            code <<= 1;
        }
        Ok(table)
    }

    /// Enters a code that a look covers, together with the value that follows it where a look covers that as well.
    fn fill(&mut self, code: u32, bits: u32, symbol: u8) {
        if bits > LOOK {
            return;
        }
        let free = LOOK - bits;
        let first = code << free;
        let size = symbol as u32 & 15;
        let whole = size != 0 && size <= free;
        for tail in 0..1u32 << free {
            self.fast[(first + tail) as usize] = if whole {
                let value = extend(tail >> (free - size), size);
                (value as u32) << 16 | (symbol as u32) << 8 | WHOLE | (bits + size)
            } else {
                (symbol as u32) << 8 | bits
            };
        }
    }
}

/// The signed value that `size` bits stand for.
#[inline(always)]
pub(super) fn extend(bits: u32, size: u32) -> i32 {
    debug_assert!(size <= 16);
    // Size 0 stands for 0: both shifts give it.
    let half = (1i32 << size) >> 1;
    let negative = if (bits as i32) < half { 1 - (1i32 << size) } else { 0 };
    bits as i32 + negative
}

/// Bits of entropy-coded data, most significant first, up to the next marker; then zeros.
pub(super) struct Bits<'a> {
    data: &'a [u8],
    pos: usize,
    /// The next bits, left-aligned.
    acc: u64,
    /// How many of them are counted.
    held: u32,
    /// Zero bits that were made up after the end.
    made_up: u32,
}

impl<'a> Bits<'a> {
    pub(super) fn new(data: &'a [u8], pos: usize) -> Self {
        Self { data, pos, acc: 0, held: 0, made_up: 0 }
    }

    /// Makes sure of 32 bits: a code and its value.
    #[inline(always)]
    pub(super) fn refill(&mut self) {
        if self.held < 32 {
            if let Some(next) = self.data.get(self.pos..).and_then(|d| d.first_chunk::<8>()) {
                let word = u64::from_be_bytes(*next);
                // A byte of 0xFF is the one whose complement is 0.
                let flip = !word;
                if flip.wrapping_sub(0x0101_0101_0101_0101) & !flip & 0x8080_8080_8080_8080 == 0 {
                    // Bits beyond `held` are the bits that come next: to OR them in again changes nothing.
                    self.acc |= word >> self.held;
                    self.pos += (63 - self.held as usize) >> 3;
                    self.held |= 56;
                    return;
                }
            }
            self.refill_slowly();
        }
    }

    #[cold]
    #[inline(never)]
    fn refill_slowly(&mut self) {
        // The words above may have left bits of the bytes to come: they are read again here.
        self.acc &= !(u64::MAX >> self.held);
        while self.held <= 56 {
            let byte = match (self.data.get(self.pos), self.data.get(self.pos + 1)) {
                (Some(0xFF), Some(0)) => {
                    self.pos += 2;
                    0xFF
                }
                (Some(0xFF), _) | (None, _) => {
                    self.made_up = self.made_up.saturating_add(8);
                    0
                }
                (Some(&byte), _) => {
                    self.pos += 1;
                    byte
                }
            };
            self.acc |= (byte as u64) << (56 - self.held);
            self.held += 8;
        }
    }

    /// Whether more bits were taken than there are.
    pub(super) fn overrun(&self) -> bool {
        self.made_up > self.held
    }

    #[inline(always)]
    fn peek(&self, n: u32) -> u32 {
        debug_assert!((1..=32).contains(&n));
        (self.acc >> (64 - n)) as u32
    }

    #[inline(always)]
    fn skip(&mut self, n: u32) {
        debug_assert!(n <= self.held);
        self.acc <<= n;
        self.held -= n;
    }

    /// `n` bits, 0 to 16, which a refill has made sure of.
    #[inline(always)]
    pub(super) fn take(&mut self, n: u32) -> u32 {
        let bits = (self.acc >> 32) as u32 as u64;
        let value = (bits << n >> 32) as u32;
        self.skip(n);
        value
    }

    /// One bit, with its own refill.
    #[inline(always)]
    pub(super) fn bit(&mut self) -> bool {
        self.refill();
        self.take(1) != 0
    }

    /// The next symbol and the value that follows it (0 where its size is 0), with their refill.
    #[inline(always)]
    pub(super) fn symbol_and_value(&mut self, table: &Huffman) -> Result<(u8, i32), Cause> {
        self.refill();
        let entry = table.fast[self.peek(LOOK) as usize];
        if entry & WHOLE != 0 {
            self.skip(entry & 31);
            return Ok(((entry >> 8) as u8, entry as i32 >> 16));
        }
        let symbol = self.rest_of_symbol(table, entry)?;
        let size = symbol as u32 & 15;
        let bits = self.take(size);
        Ok((symbol, extend(bits, size)))
    }

    /// The next symbol alone, with its refill.
    #[inline(always)]
    pub(super) fn symbol(&mut self, table: &Huffman) -> Result<u8, Cause> {
        self.refill();
        let entry = table.fast[self.peek(LOOK) as usize];
        if entry & WHOLE != 0 {
            let symbol = (entry >> 8) as u8;
            self.skip((entry & 31) - (symbol as u32 & 15));
            return Ok(symbol);
        }
        self.rest_of_symbol(table, entry)
    }

    #[inline(always)]
    fn rest_of_symbol(&mut self, table: &Huffman, entry: u32) -> Result<u8, Cause> {
        if entry != 0 {
            self.skip(entry & 31);
            return Ok((entry >> 8) as u8);
        }
        self.long_symbol(table)
    }

    #[cold]
    fn long_symbol(&mut self, table: &Huffman) -> Result<u8, Cause> {
        let next = self.peek(16);
        for bits in LOOK + 1..=16 {
            if next < table.beyond[bits as usize] {
                let place = (next >> (16 - bits)) as i32 + table.shift[bits as usize];
                self.skip(bits);
                return Ok(table.symbols[place as usize & 255]);
            }
        }
        Err(Cause::damaged("JPEG data with a code that no Huffman table has"))
    }

    /// Goes past the restart marker that must come next.
    pub(super) fn restart(&mut self) -> Result<(), Cause> {
        let found = self.find_marker();
        match found {
            Some(0xD0..=0xD7) if !self.overrun() => {
                *self = Self::new(self.data, self.pos + 2);
                Ok(())
            }
            _ => Err(Cause::damaged("JPEG data without the restart marker that must come")),
        }
    }

    /// Puts `pos` on the next marker.
    fn find_marker(&mut self) -> Option<u8> {
        loop {
            let rest = self.data.get(self.pos..)?;
            self.pos += rest.iter().position(|&b| b == 0xFF)?;
            match *self.data.get(self.pos + 1)? {
                0 => self.pos += 2,
                0xFF => self.pos += 1,
                code => return Some(code),
            }
        }
    }

    /// Where the markers go on after the scan.
    pub(super) fn end(mut self) -> usize {
        while let Some(code) = self.find_marker() {
            if !(0xD0..=0xD7).contains(&code) {
                return self.pos;
            }
            self.pos += 2;
        }
        self.data.len()
    }
}
