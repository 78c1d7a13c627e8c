//! The tables of a block: what the next bits of a stream stand for.

use super::NotMine;

/// Bits of the longest code.
pub(super) const LONGEST: usize = 15;
/// Literals, the end of a block, and lengths of matches. The fixed code has two more, and two more distances, which stand
/// for nothing.
pub(super) const SYMBOLS: usize = 286;
pub(super) const DISTANCES: usize = 30;
const END_OF_BLOCK: usize = 256;
const LENGTHS: usize = SYMBOLS - END_OF_BLOCK - 1;
pub(super) const LONGEST_MATCH: usize = 258;

// An entry says how many bits it takes, and
pub(super) const TAKEN: u32 = 63;
// how many literals it gives, if it is literals alone, and these from the first up;
pub(super) const COUNT_SHIFT: u32 = 6;
pub(super) const COUNT: u32 = 3 << COUNT_SHIFT;
pub(super) const LITERAL_SHIFT: u32 = 8;
pub(super) const MOST_LITERALS: usize = 3;
// or two of them at most, how many, and the symbol of the length of a match behind them;
const BEFORE_SHIFT: u32 = 24;
const BEFORE: u32 = 3;
const LENGTH_SHIFT: u32 = 27;
// or one of these: the block ends, there is no such symbol, the code is longer than a lookup and goes on in the part of the
// rest of the table that stands in place of literals.
pub(super) const END: u32 = 29 << LENGTH_SHIFT;
pub(super) const NONE: u32 = 30 << LENGTH_SHIFT;
pub(super) const LINK: u32 = 31 << LENGTH_SHIFT;
const PART_SHIFT: u32 = 8;
const PART: u32 = (1 << 16) - 1;
// Entries of distances have a base, none if it is 0, and say how many of the bits come before those that are added to it.
const CODE_SHIFT: u32 = 8;
const CODE: u32 = 15;
const BASE_SHIFT: u32 = 16;
const BASE: u32 = (1 << 15) - 1;
const DISTANCE_LINK: u32 = 1 << 31;

/// What each length of a match begins at and how many bits are added.
const LENGTH_BASES: [(u16, u8); 32] = {
    let mut bases = [(0, 0); 32];
    let (mut at, mut base) = (0, 3);
    while at < LENGTHS - 1 {
        let extra = if at < 8 { 0 } else { at as u8 / 4 - 1 };
        bases[at] = (base, extra);
        base += 1 << extra;
        at += 1;
    }
    bases[at] = (LONGEST_MATCH as u16, 0);
    bases
};

/// The entries of all symbols, but for the bits of their codes.
const SYMBOL_ENTRIES: [u32; SYMBOLS + 2] = {
    let mut entries = [NONE; SYMBOLS + 2];
    let mut symbol = 0;
    while symbol < SYMBOLS {
        entries[symbol] = if symbol < END_OF_BLOCK {
            (symbol as u32) << LITERAL_SHIFT | 1 << COUNT_SHIFT
        } else if symbol == END_OF_BLOCK {
            END
        } else {
            let length = symbol - END_OF_BLOCK - 1;
            (length as u32) << LENGTH_SHIFT | LENGTH_BASES[length].1 as u32
        };
        symbol += 1;
    }
    entries
};

/// The same of distances.
const DISTANCE_ENTRIES: [u32; DISTANCES + 2] = {
    let mut entries = [0; DISTANCES + 2];
    let (mut at, mut base) = (0, 1);
    while at < DISTANCES {
        let extra = if at < 4 { 0 } else { at as u32 / 2 - 1 };
        entries[at] = base << BASE_SHIFT | extra;
        base += 1 << extra;
        at += 1;
    }
    entries
};

/// The same of the symbols by which the lengths of codes are written.
const WRITTEN_ENTRIES: [u32; 19] = {
    let mut entries = [0; 19];
    let mut symbol = 0;
    while symbol < entries.len() {
        entries[symbol] = (symbol as u32) << LITERAL_SHIFT;
        symbol += 1;
    }
    entries
};

/// How many literals come before a match.
#[inline(always)]
pub(super) fn before(entry: u32) -> usize {
    ((entry >> BEFORE_SHIFT) & BEFORE) as usize
}

/// The length of a match.
#[inline(always)]
pub(super) fn length(entry: u32, held: u64) -> usize {
    let (base, extra) = LENGTH_BASES[(entry >> LENGTH_SHIFT) as usize];
    usize::from(base) + added(entry, (entry & TAKEN).wrapping_sub(u32::from(extra)), held)
}

#[inline(always)]
pub(super) fn distance(entry: u32, held: u64) -> usize {
    ((entry >> BASE_SHIFT) & BASE) as usize + added(entry, (entry >> CODE_SHIFT) & CODE, held)
}

/// The bits of an entry without the first ones.
#[inline(always)]
fn added(entry: u32, without: u32, held: u64) -> usize {
    let taken = held & ((1 << (entry & TAKEN)) - 1);
    (taken >> (without & TAKEN)) as usize
}

/// How many symbols a lookup gives on average, and the share of lookups that give a match.
#[derive(Clone, Copy)]
pub(super) struct Shares {
    pub(super) symbols: f32,
    pub(super) matches: f32,
}

/// Literals, ends and lengths. Twelve bits see two or three literals of a noisy image; more would not stay in the cache
/// next to the window.
pub(super) struct Symbols {
    entries: [u32; Self::SIZE],
    runs: Runs,
}

impl Symbols {
    pub(super) const BITS: usize = 12;
    const SIZE: usize = size(Self::BITS, SYMBOLS + 2);

    pub(super) fn new() -> Self {
        Self { entries: [0; Self::SIZE], runs: Runs::new() }
    }

    #[inline(always)]
    pub(super) fn at(&self, held: u64) -> u32 {
        self.entries[held as usize & (RUNS - 1)]
    }

    /// What a link leads to.
    #[inline(always)]
    pub(super) fn at_link(&self, link: u32, held: u64) -> u32 {
        self.entries[linked(link, held, Self::BITS) & (Self::SIZE - 1)]
    }

    /// What lookups give if the code fits what it is used for.
    pub(super) fn shares(&self) -> Shares {
        // An eighth of the table tells, if it is not the same first bits over and over.
        const SAMPLES: usize = RUNS / 8;
        let (mut symbols, mut matches) = (0, 0);
        for sample in 0..SAMPLES {
            let entry = self.at(9 * sample as u64);
            let literals = (entry & COUNT) >> COUNT_SHIFT;
            let is_match = literals == 0 && entry < END;
            symbols += if is_match { 1 + before(entry) } else { literals.max(1) as usize };
            matches += usize::from(is_match);
        }
        Shares { symbols: symbols as f32 / SAMPLES as f32, matches: matches as f32 / SAMPLES as f32 }
    }

    pub(super) fn fill(&mut self, code: &Code) -> Result<(), NotMine> {
        if !code.is_complete() {
            return Err(NotMine);
        }
        self.runs.fill(code, &mut self.entries);
        code.fill_links(&mut self.entries, Self::BITS, (&SYMBOL_ENTRIES, 1), LINK);
        Ok(())
    }
}

/// Distances of matches.
pub(super) struct Distances {
    entries: [u32; Self::SIZE],
}

impl Distances {
    const BITS: usize = 9;
    const SIZE: usize = size(Self::BITS, DISTANCES + 2);
    /// Bits of the longest code, and what is added at most.
    pub(super) const LONGEST: u32 = LONGEST as u32 + 13;

    pub(super) fn new() -> Self {
        Self { entries: [0; Self::SIZE] }
    }

    #[inline(always)]
    pub(super) fn at(&self, held: u64) -> u32 {
        let entry = self.entries[held as usize & ((1 << Self::BITS) - 1)];
        if entry & DISTANCE_LINK == 0 {
            return entry;
        }
        self.entries[linked(entry, held, Self::BITS) & (Self::SIZE - 1)]
    }

    /// A code may have no symbol, or a single one of one bit: no match or one distance needs no more.
    pub(super) fn fill(&mut self, code: &Code) -> Result<(), NotMine> {
        let few = code.count() <= 1 && code.count() == code.of(1).0.len();
        if !code.is_complete() && !few {
            return Err(NotMine);
        }
        let entries = (&DISTANCE_ENTRIES[..], 1 | 1 << CODE_SHIFT);
        code.fill(&mut self.entries, Self::BITS, entries);
        code.fill_links(&mut self.entries, Self::BITS, entries, DISTANCE_LINK);
        Ok(())
    }
}

/// How the lengths of codes are written.
pub(super) struct Written {
    entries: [u32; 1 << Self::BITS],
}

impl Written {
    const BITS: usize = 7;

    pub(super) fn new(code: &Code) -> Result<Self, NotMine> {
        if !code.is_complete() {
            return Err(NotMine);
        }
        let mut entries = [0; 1 << Self::BITS];
        code.fill(&mut entries, Self::BITS, (&WRITTEN_ENTRIES, 1));
        Ok(Self { entries })
    }

    pub(super) fn at(&self, held: u64) -> u32 {
        self.entries[held as usize & ((1 << Self::BITS) - 1)]
    }
}

/// Entries of a table that is looked up with some bits. A part behind it is for the codes that begin alike and are longer;
/// there are two of them at least.
const fn size(bits: usize, symbols: usize) -> usize {
    ((1 << bits) + ((symbols / 2) << (LONGEST - bits))).next_power_of_two()
}

/// Where a link leads to.
#[inline(always)]
fn linked(link: u32, held: u64, bits: usize) -> usize {
    let more = LONGEST - bits;
    let part = ((link >> PART_SHIFT) & PART) as usize;
    (1 << bits) + (part << more) + ((held >> bits) as usize & ((1 << more) - 1))
}

/// A canonical Huffman code.
pub(super) struct Code {
    /// Symbols by length, those of none first, and where each length begins.
    symbols: [u16; SYMBOLS + 2],
    firsts: [usize; LONGEST + 2],
    /// The code of each, in that order, its first bit lowest.
    reversed: [u16; SYMBOLS + 2],
    /// How many of all sequences of the longest length stand for something.
    used: usize,
}

impl Code {
    pub(super) fn new() -> Self {
        Self { symbols: [0; SYMBOLS + 2], firsts: [0; LONGEST + 2], reversed: [0; SYMBOLS + 2], used: 0 }
    }

    /// Takes the lengths of all codes.
    pub(super) fn set(&mut self, lengths: &[u8]) -> Result<&Self, NotMine> {
        let mut counts = [0; LONGEST + 1];
        for &length in lengths {
            counts[usize::from(length) & LONGEST] += 1;
        }
        self.used = 0;
        for (length, &count) in counts.iter().enumerate() {
            self.firsts[length + 1] = self.firsts[length] + count;
            self.used += if length == 0 { 0 } else { count << (LONGEST - length) };
        }
        if self.used > 1 << LONGEST {
            return Err(NotMine);
        }
        let mut next = self.firsts;
        for (symbol, &length) in lengths.iter().enumerate() {
            let next = &mut next[usize::from(length) & LONGEST];
            self.symbols[*next] = symbol as u16;
            *next += 1;
        }
        let mut code = 0u16;
        for length in 1..=LONGEST {
            code <<= 1;
            for reversed in &mut self.reversed[self.firsts[length]..self.firsts[length + 1]] {
                *reversed = code.reverse_bits() >> (16 - length);
                code = code.wrapping_add(1);
            }
        }
        Ok(self)
    }

    /// Whether every sequence of bits stands for something.
    fn is_complete(&self) -> bool {
        self.used == 1 << LONGEST
    }

    fn count(&self) -> usize {
        self.firsts[LONGEST + 1] - self.firsts[1]
    }

    /// The symbols of a length and their codes.
    fn of(&self, length: usize) -> (&[u16], &[u16]) {
        let range = self.firsts[length]..self.firsts[length + 1];
        (&self.symbols[range.clone()], &self.reversed[range])
    }

    /// Fills a table that is looked up with some bits: it doubles with each bit, and the codes that end there come in. Each
    /// bit adds something to the entry of a symbol.
    fn fill(&self, table: &mut [u32], bits: usize, (entries, each): (&[u32], u32)) {
        table[0] = 0;
        for length in 1..=bits {
            let half = 1 << (length - 1);
            table.copy_within(..half, half);
            let (symbols, codes) = self.of(length);
            for (&symbol, &code) in symbols.iter().zip(codes) {
                table[usize::from(code)] = entries[usize::from(symbol)] + length as u32 * each;
            }
        }
    }

    /// Fills the parts of a table for codes that are longer than a lookup.
    fn fill_links(&self, table: &mut [u32], bits: usize, (entries, each): (&[u32], u32), link: u32) {
        let more = LONGEST - bits;
        let (looked, rest) = table.split_at_mut(1 << bits);
        let mut parts = rest.chunks_exact_mut(1 << more).zip(0..);
        let mut part: &mut [u32] = &mut [];
        let mut before = usize::MAX;
        for length in bits + 1..=LONGEST {
            let (symbols, codes) = self.of(length);
            for (&symbol, &code) in symbols.iter().zip(codes) {
                let (start, goes_on) = (usize::from(code) & ((1 << bits) - 1), usize::from(code) >> bits);
                // Codes that begin alike come one after the other.
                if start != before {
                    let Some((next, number)) = parts.next() else { return };
                    looked[start] = number << PART_SHIFT | link;
                    (part, before) = (next, start);
                }
                for slot in part.iter_mut().skip(goes_on).step_by(1 << (length - bits)) {
                    *slot = entries[usize::from(symbol)] + length as u32 * each;
                }
            }
        }
    }
}

/// At most as many runs end at a bit as there are sequences of bits up to there.
const RUNS: usize = 1 << Symbols::BITS;

/// Literals one after the other that leave bits of a lookup for more, by the bits they take.
struct Runs {
    /// Their codes and their entry.
    all: [(u16, u32); RUNS],
    /// Where those of each number of bits begin and, one farther, end.
    firsts: [usize; Symbols::BITS + 2],
    end: usize,
}

impl Runs {
    fn new() -> Self {
        Self { all: [(0, 0); RUNS], firsts: [0; Symbols::BITS + 2], end: 0 }
    }

    /// Fills a table as [`Code::fill`] does; runs of literals that end at a bit come in as well, and matches behind them.
    fn fill(&mut self, code: &Code, table: &mut [u32; Symbols::SIZE]) {
        // The run of no literals.
        self.all[0] = (0, 0);
        self.firsts[1] = 1;
        self.end = 1;
        table[0] = 0;
        for bits in 1..=Symbols::BITS {
            let half = 1 << (bits - 1);
            table.copy_within(..half, half);
            for more in 1..=bits {
                let before = bits - more;
                let (symbols, codes) = code.of(more);
                let literals = symbols.partition_point(|&symbol| usize::from(symbol) < END_OF_BLOCK);
                let (symbols, codes) = (symbols.split_at(literals), codes.split_at(literals));
                for run in self.firsts[before]..self.firsts[before + 1] {
                    let run = self.all[run & (RUNS - 1)];
                    self.add_literal(table, run, (symbols.0, codes.0), before, bits);
                    add_match(table, run, (symbols.1, codes.1), before, bits);
                }
            }
            self.firsts[bits + 1] = self.end;
        }
    }

    /// A run with each of some literals behind it.
    #[inline(always)]
    fn add_literal(
        &mut self,
        table: &mut [u32; Symbols::SIZE],
        (start, run): (u16, u32),
        (symbols, codes): (&[u16], &[u16]),
        before: usize,
        bits: usize,
    ) {
        let count = (run & COUNT) >> COUNT_SHIFT;
        let run = run & !TAKEN | bits as u32;
        let run = run + (1 << COUNT_SHIFT);
        let goes_on = run & COUNT != COUNT && bits < Symbols::BITS;
        for (&symbol, &code) in symbols.iter().zip(codes) {
            let code = start | code << before;
            let entry = run | u32::from(symbol) << (LITERAL_SHIFT + 8 * count);
            table[usize::from(code) & (RUNS - 1)] = entry;
            if goes_on {
                self.all[self.end & (RUNS - 1)] = (code, entry);
                self.end += 1;
            }
        }
    }
}

/// A run with each of some matches behind it; an end only where there is no literal.
#[inline(always)]
fn add_match(
    table: &mut [u32; Symbols::SIZE],
    (start, run): (u16, u32),
    (symbols, codes): (&[u16], &[u16]),
    before: usize,
    bits: usize,
) {
    let count = (run & COUNT) >> COUNT_SHIFT;
    let run = run & !(COUNT | TAKEN) | count << BEFORE_SHIFT;
    for (&symbol, &code) in symbols.iter().zip(codes) {
        if count == 0 || usize::from(symbol) > END_OF_BLOCK {
            let code = start | code << before;
            table[usize::from(code) & (RUNS - 1)] = run | (SYMBOL_ENTRIES[usize::from(symbol)] + bits as u32);
        }
    }
}
