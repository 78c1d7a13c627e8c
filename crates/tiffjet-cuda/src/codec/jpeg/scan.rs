//! Walks the codes of a scan from the first to the last, without making pixels of them.
//!
//! The library says nothing of data that end too soon, hold codes that no table has or go on behind the image. This walk
//! is stricter than the host's decoder, which decides about all that does not come through.

/// Bits that one look into the table covers.
const LOOK: u32 = 10;
/// What the last code of a block moves its place by.
const END: usize = 128;
/// The largest sizes of values that 8 bits can come to.
const MOST_DC: u8 = 11;
const MOST_AC: u8 = 10;
/// The largest values of the first coefficient.
const FARTHEST: i32 = 2047;

/// The codes of one table.
pub struct Codes {
    /// By the next [`LOOK`] bits: bits of the code and of the value that follows it (5), what it moves the place by (8), the
    /// size of the value (4) above them; 0 for a longer code, or for none.
    fast: [u32; 1 << LOOK],
    /// The first 16-bit prefix that is beyond the codes of a length.
    beyond: [u32; 17],
    /// What turns a code of a length into a place in `entries`.
    shift: [i32; 17],
    /// The same as in `fast`, in the order of codes.
    entries: [u32; 256],
}

impl Codes {
    /// From the counts of codes of 1 to 16 bits, with the symbols in the order of their codes behind them.
    pub fn new(table: &[u8], first_coefficients: bool) -> Option<Box<Self>> {
        let (counts, symbols) = table.split_first_chunk::<16>()?;
        let total: usize = counts.iter().map(|&n| usize::from(n)).sum();
        let symbols = symbols.get(..total).filter(|_| total <= 256)?;
        let mut codes = Box::new(Self { fast: [0; 1 << LOOK], beyond: [0; 17], shift: [0; 17], entries: [0; 256] });
        let (mut code, mut place) = (0u32, 0usize);
        for (bits, &n) in (1u32..).zip(counts) {
            codes.shift[bits as usize] = place as i32 - code as i32;
            for &symbol in &symbols[place..place + usize::from(n)] {
                if code >= 1 << bits {
                    return None;
                }
                let entry = entry(symbol, bits, first_coefficients);
                codes.entries[place] = entry;
                if bits <= LOOK {
                    let free = LOOK - bits;
                    codes.fast[(code << free) as usize..((code + 1) << free) as usize].fill(entry);
                }
                code += 1;
                place += 1;
            }
            codes.beyond[bits as usize] = code << (16 - bits);
            code <<= 1;
        }
        Some(codes)
    }

    /// The entry of the code that 32 bits begin with.
    #[inline(always)]
    fn find(&self, bits: u32) -> Option<u32> {
        match self.fast[(bits >> (32 - LOOK)) as usize] {
            0 => self.find_long(bits),
            entry => Some(entry),
        }
    }

    #[cold]
    fn find_long(&self, bits: u32) -> Option<u32> {
        let next = bits >> 16;
        let length = (LOOK + 1..=16).find(|&length| next < self.beyond[length as usize])?;
        let place = (next >> (16 - length)) as i32 + self.shift[length as usize];
        self.entries.get(usize::try_from(place).ok()?).copied().filter(|&entry| entry != 0)
    }
}

/// What a symbol does, 0 for one that a baseline image of 8 bits does not have.
fn entry(symbol: u8, bits: u32, first_coefficients: bool) -> u32 {
    let (run, size) = (usize::from(symbol >> 4), symbol & 15);
    let (size, moved) = match (first_coefficients, run, size) {
        (true, ..) if symbol <= MOST_DC => (symbol, 1),
        (false, 0, 0) => (0, END),
        (false, 15, 0) => (0, 16),
        (false, run, 1..=MOST_AC) => (size, run + 1),
        _ => return 0,
    };
    u32::from(size) << 16 | (moved as u32) << 8 | (bits + u32::from(size))
}

/// Bits up to the next marker; then zeros.
struct Bits<'a> {
    data: &'a [u8],
    at: usize,
    /// The next bits, left-aligned.
    word: u64,
    held: u32,
    /// Zeros that were made up.
    made_up: u32,
}

impl<'a> Bits<'a> {
    fn new(data: &'a [u8], at: usize) -> Self {
        Self { data, at, word: 0, held: 0, made_up: 0 }
    }

    /// Makes sure of 32 bits.
    #[inline(always)]
    fn refill(&mut self) {
        if self.held >= 32 {
            return;
        }
        if let Some(next) = self.data.get(self.at..).and_then(|data| data.first_chunk::<4>()) {
            let next = u32::from_be_bytes(*next);
            // A byte of 0xff is the one whose complement is 0.
            let flip = !next;
            if flip.wrapping_sub(0x0101_0101) & !flip & 0x8080_8080 == 0 {
                self.word |= u64::from(next) << (32 - self.held);
                self.at += 4;
                self.held += 32;
                return;
            }
        }
        self.refill_slowly();
    }

    #[inline(never)]
    fn refill_slowly(&mut self) {
        while self.held <= 56 {
            let byte = match (self.data.get(self.at), self.data.get(self.at + 1)) {
                (Some(0xff), Some(0)) => {
                    self.at += 2;
                    0xff
                }
                (Some(0xff) | None, _) => {
                    self.made_up += 8;
                    0
                }
                (Some(&byte), _) => {
                    self.at += 1;
                    byte
                }
            };
            self.word |= u64::from(byte) << (56 - self.held);
            self.held += 8;
        }
    }

    /// The next code, gone past with its value.
    #[inline(always)]
    fn next(&mut self, codes: &Codes) -> Option<(u32, u32)> {
        self.refill();
        let bits = (self.word >> 32) as u32;
        let entry = codes.find(bits)?;
        let length = entry & 31;
        self.word <<= length;
        self.held -= length;
        Some((entry, bits))
    }

    /// Whether the data are used up, but for what fills the last byte.
    fn is_done(&self) -> bool {
        let left = i64::from(self.held) - i64::from(self.made_up);
        let rest = self.data.get(self.at..).unwrap_or_default();
        (0..8).contains(&left) && rest.first().is_none_or(|&byte| byte == 0xff && rest.get(1) != Some(&0))
    }
}

/// A scan as a walk needs it.
pub struct Scan<'a> {
    /// Its data, without the marker that ends it.
    pub data: &'a [u8],
    /// Units that it is made of.
    pub units: usize,
    /// Units between two markers, 0 for none.
    pub restart: usize,
    /// For each block of a unit its component, and which codes it has.
    pub blocks: &'a [(usize, usize)],
    /// Codes of first coefficients, and those of all others.
    pub codes: &'a [(Box<Codes>, Box<Codes>)],
}

impl Scan<'_> {
    /// Goes through all of it; `None` where it is not what it should be.
    pub fn walk(&self) -> Option<()> {
        let mut bits = Bits::new(self.data, 0);
        let mut before = [0i32; 4];
        for unit in 0..self.units {
            if self.restart > 0 && unit > 0 && unit.is_multiple_of(self.restart) {
                bits = self.restarted(&bits, unit / self.restart - 1)?;
                before = [0; 4];
            }
            for &(component, codes) in self.blocks {
                let (first, others) = self.codes.get(codes)?;
                walk_block(&mut bits, first, others, before.get_mut(component)?)?;
            }
            // Zeros can be codes: without data there is an end to them.
            if bits.made_up > 64 {
                return None;
            }
        }
        bits.is_done().then_some(())
    }

    /// Goes past the marker of a number, which must come next.
    fn restarted<'b>(&self, bits: &Bits<'b>, number: usize) -> Option<Bits<'b>> {
        let mut at = bits.at;
        while bits.data.get(at..at + 2) == Some(&[0xff, 0xff]) {
            at += 1;
        }
        let marker = [0xff, 0xd0 + (number & 7) as u8];
        (bits.is_done() && bits.data.get(at..at + 2) == Some(&marker)).then(|| Bits::new(bits.data, at + 2))
    }
}

#[inline(always)]
fn walk_block(bits: &mut Bits<'_>, first: &Codes, others: &Codes, before: &mut i32) -> Option<()> {
    let (entry, seen) = bits.next(first)?;
    let size = entry >> 16;
    // The value stands behind the code.
    let value = (u64::from(seen) << ((entry & 31) - size) & 0xffff_ffff) >> (32 - size);
    let half = (1i32 << size) >> 1;
    *before += value as i32 + if (value as i32) < half { 1 - (1 << size) } else { 0 };
    if before.abs() > FARTHEST {
        return None;
    }
    let mut place = 1;
    while place < 64 {
        place += (bits.next(others)?.0 >> 8 & 0xff) as usize;
    }
    (place == 64 || place >= END).then_some(())
}
