//! Inflate for pixels: a lookup gives up to three literals, or two and the length of a match.
//!
//! What a predictor leaves of an image is literals of three to six bits, and short matches. One lookup for each of them waits
//! for the one before; a lookup that knows all of what its twelve bits stand for waits two or three times less often.
//!
//! Only whole, sound streams that give exactly the bytes due are done here, and their checksum has the last word. About
//! anything else somebody else decides.

mod tables;
#[cfg(test)]
mod tests;

use libdeflater::adler32;

use tables::{
    COUNT, COUNT_SHIFT, Code, DISTANCES, Distances, END, LINK, LITERAL_SHIFT, LONGEST_MATCH, MOST_LITERALS, NONE,
    SYMBOLS, Shares, Symbols, TAKEN, Written, before, distance, length,
};

/// Bytes that a match is copied by, and by which a long one is.
const STEP: usize = 16;
const LONG_STEP: usize = 64;
/// Output that a round may touch: lookups of literals, a match, and what its last step is too long.
const ROOM: usize = 3 * MOST_LITERALS + LONGEST_MATCH + LONG_STEP;
/// The order in which the lengths of the codes of lengths are written.
const LENGTHS_ORDER: [usize; 19] = [16, 17, 18, 0, 8, 7, 9, 6, 10, 5, 11, 4, 12, 3, 13, 2, 14, 1, 15];

/// Bytes below which the tables cost more than they save.
const SMALLEST: usize = 8 << 10;
/// How many times longer than the stream is what it gives if it is nearly all long matches.
const LONG_MATCHES: usize = 6;
/// Streams in a row of which one tells whether they are for us: tiles of an image are alike.
const ALIKE: u32 = 16;

/// That a stream is none of those done here.
#[derive(Debug)]
pub(super) struct NotMine;

/// The tables of a block, kept from one stream to the next.
pub(super) struct Inflater {
    symbols: Symbols,
    distances: Distances,
    code: Code,
    /// Whether the last streams were for us, and of how many more to believe it.
    gains: bool,
    alike: u32,
}

impl Inflater {
    pub(super) fn new() -> Box<Self> {
        let (symbols, distances, code) = (Symbols::new(), Distances::new(), Code::new());
        Box::new(Self { symbols, distances, code, gains: true, alike: 0 })
    }

    /// Inflates a zlib stream that gives exactly the bytes due, unless others are as quick with such ones. Of any other,
    /// `out` holds anything afterwards.
    pub(super) fn inflate(&mut self, bytes: &[u8], out: &mut [u8]) -> Result<(), NotMine> {
        if out.len() < SMALLEST || !(out.len() / LONG_MATCHES..out.len()).contains(&bytes.len()) {
            return Err(NotMine);
        }
        let judged = self.alike == 0;
        if judged {
            (self.alike, self.gains) = (ALIKE, true);
        }
        self.alike -= 1;
        if !self.gains {
            return Err(NotMine);
        }
        let outcome = self.stream(bytes, out, judged);
        self.gains &= outcome.is_ok();
        outcome
    }

    /// Inflates any such stream. One that is judged is given up where its first code says that nothing is gained, and at its
    /// end all codes of it tell whether something was.
    fn stream(&mut self, bytes: &[u8], out: &mut [u8], judged: bool) -> Result<(), NotMine> {
        let [method, flags, ref rest @ ..] = *bytes else { return Err(NotMine) };
        let dictionary = flags & 0x20 != 0;
        if method & 15 != 8 || method >> 4 > 7 || u16::from_be_bytes([method, flags]) % 31 != 0 || dictionary {
            return Err(NotMine);
        }
        let mut bits = Bits::new(bytes, rest);
        let mut done = 0;
        let mut judge = judged.then(|| Judge::new(flags, bytes.len(), out.len()));
        loop {
            bits.refill()?;
            let last = bits.take(1) == 1;
            match bits.take(2) {
                0 => done = stored(&mut bits, out, done)?,
                kind @ 1..3 => {
                    if kind == 1 {
                        self.take_fixed()?
                    } else {
                        self.take_codes(&mut bits)?
                    }
                    let start = done;
                    if judge.as_mut().is_some_and(|judge| !judge.starts(&self.symbols)) {
                        return Err(NotMine);
                    }
                    done = self.block(&mut bits, out, done)?;
                    if let Some(judge) = &mut judge {
                        judge.ends(done - start);
                    }
                }
                _ => return Err(NotMine),
            }
            if last {
                break;
            }
        }
        if let Some(judge) = judge {
            self.gains = judge.gained();
        }
        let sum = bits.rest().first_chunk().map(|sum| u32::from_be_bytes(*sum));
        if done == out.len() && sum == Some(adler32(out)) { Ok(()) } else { Err(NotMine) }
    }

    /// The codes that need not be written.
    fn take_fixed(&mut self) -> Result<(), NotMine> {
        let mut lengths = [8; SYMBOLS + 2];
        lengths[144..256].fill(9);
        lengths[256..280].fill(7);
        self.symbols.fill(self.code.set(&lengths)?)?;
        self.distances.fill(self.code.set(&[5; DISTANCES + 2])?)
    }

    /// The codes of a block that has its own.
    fn take_codes(&mut self, bits: &mut Bits<'_>) -> Result<(), NotMine> {
        bits.refill()?;
        let symbols = 257 + bits.take(5) as usize;
        let distances = 1 + bits.take(5) as usize;
        let written = 4 + bits.take(4) as usize;
        if symbols > SYMBOLS || distances > DISTANCES {
            return Err(NotMine);
        }
        let mut lengths = [0; LENGTHS_ORDER.len()];
        for &of in &LENGTHS_ORDER[..written] {
            bits.refill()?;
            lengths[of] = bits.take(3) as u8;
        }
        let written = Written::new(self.code.set(&lengths)?)?;
        // Runs may go on from one code into the other, but not beyond.
        let mut lengths = [0; SYMBOLS + DISTANCES];
        let lengths = &mut lengths[..symbols + distances];
        let mut at = 0usize;
        while at < lengths.len() {
            bits.refill()?;
            let entry = written.at(bits.held);
            bits.skip(entry);
            let (length, times) = match (entry >> LITERAL_SHIFT) as u8 {
                16 => (*at.checked_sub(1).and_then(|at| lengths.get(at)).ok_or(NotMine)?, 3 + bits.take(2)),
                17 => (0, 3 + bits.take(3)),
                18 => (0, 11 + bits.take(7)),
                length => {
                    lengths[at] = length;
                    at += 1;
                    continue;
                }
            };
            let run = lengths.get_mut(at..at + times as usize).ok_or(NotMine)?;
            run.fill(length);
            at += run.len();
        }
        let (symbols, distances) = lengths.split_at(symbols);
        self.symbols.fill(self.code.set(symbols)?)?;
        self.distances.fill(self.code.set(distances)?)
    }

    /// Inflates a block behind the bytes done, and gives how many are done then.
    fn block(&self, bits: &mut Bits<'_>, out: &mut [u8], done: usize) -> Result<usize, NotMine> {
        let (done, ended) = self.quickly(bits, out, done)?;
        if ended { Ok(done) } else { self.carefully(bits, out, done) }
    }

    /// Inflates as long as neither end is near. Gives how many bytes are done, and whether the block has ended.
    ///
    /// Everything waits for one chain: bits, entry, how many bits it takes, next bits. So whatever else there is to do with
    /// an entry is done after the next one is looked up.
    #[inline(never)]
    fn quickly(&self, stream: &mut Bits<'_>, out: &mut [u8], mut done: usize) -> Result<(usize, bool), NotMine> {
        // A copy, which stays in registers.
        let mut bits = *stream;
        if !bits.hold() {
            return Ok((done, false));
        }
        let mut entry = self.symbols.at(bits.held);
        let ended = 'block: loop {
            let Some(room) = out.get_mut(done..).and_then(|out| out.first_chunk_mut::<ROOM>()) else { break false };
            let mut got = 0;
            'literals: {
                // Of the 56 bits held, two lookups leave enough for a length.
                for _ in 0..2 {
                    if entry & COUNT == 0 {
                        break 'literals;
                    }
                    let literals = entry;
                    bits.skip(entry);
                    entry = self.symbols.at(bits.held);
                    got += put(room, got, literals);
                }
                if entry & COUNT == 0 {
                    break 'literals;
                }
                // Three leave enough for the next one, which need not wait until more is held.
                let literals = entry;
                bits.skip(entry);
                entry = self.symbols.at(bits.held);
                done += got + put(room, got, literals);
                if !bits.hold() {
                    break 'block false;
                }
                continue 'block;
            }
            if entry >= END {
                if entry >= LINK {
                    entry = self.symbols.at_link(entry, bits.held);
                }
                if entry & COUNT != 0 {
                    bits.skip(entry);
                    done += got + put(room, got, entry);
                    if !bits.hold() {
                        break 'block false;
                    }
                    entry = self.symbols.at(bits.held);
                    continue;
                }
                if entry >= END {
                    done += got;
                    bits.skip(entry);
                    break ended(entry)?;
                }
            }
            let (near, at_near) = (entry, bits.held);
            bits.skip(near);
            if bits.count() < Distances::LONGEST {
                bits.hold_again();
            }
            let (far, at_far) = (self.distances.at(bits.held), bits.held);
            bits.skip(far);
            let goes_on = bits.hold();
            if !goes_on {
                put(room, got, near);
                done += got + before(near);
                let length = length(near, at_near);
                repeat_at_end(out, done, distance(far, at_far), length)?;
                done += length;
                break false;
            }
            entry = self.symbols.at(bits.held);
            put(room, got, near);
            done += got + before(near);
            let length = length(near, at_near);
            repeat(out, done, distance(far, at_far), length)?;
            done += length;
        };
        *stream = bits;
        Ok((done, ended))
    }

    /// Inflates entry by entry, up to the end of the block.
    #[cold]
    fn carefully(&self, bits: &mut Bits<'_>, out: &mut [u8], mut done: usize) -> Result<usize, NotMine> {
        loop {
            bits.refill()?;
            let mut entry = self.symbols.at(bits.held);
            if entry & COUNT == 0 && entry >= LINK {
                entry = self.symbols.at_link(entry, bits.held);
            }
            let held = bits.held;
            bits.skip(entry);
            let alone = (entry & COUNT) >> COUNT_SHIFT;
            if alone == 0 && entry >= END {
                return ended(entry).map(|_| done);
            }
            let count = if alone == 0 { before(entry) } else { alone as usize };
            let literals = &(entry >> LITERAL_SHIFT).to_le_bytes()[..count];
            out.get_mut(done..done + count).ok_or(NotMine)?.copy_from_slice(literals);
            done += count;
            if alone == 0 {
                let length = length(entry, held);
                bits.refill()?;
                let entry = self.distances.at(bits.held);
                repeat_at_end(out, done, distance(entry, bits.held), length)?;
                bits.skip(entry);
                done += length;
            }
        }
    }
}

/// Who tells whether lookups that give several symbols make a stream quicker. The thresholds are measured (decision 13).
struct Judge {
    /// Whether the compressor took whatever came first: its matches hardly differ in anything, a processor foresees what
    /// comes next, and waiting for lookups is not what takes the time.
    hurried: bool,
    /// How many times longer than the stream the bytes due are.
    ratio: f32,
    /// How many symbols a lookup gives and how many lookups give a match, in this block and in all before.
    block: Shares,
    all: Shares,
    bytes: f32,
}

impl Judge {
    fn new(flags: u8, packed: usize, due: usize) -> Self {
        let nothing = Shares { symbols: 0.0, matches: 0.0 };
        let ratio = due as f32 / packed as f32;
        Self { hurried: flags >> 6 == 0, ratio, block: nothing, all: nothing, bytes: 0.0 }
    }

    /// Sees the code of a block. It is the first one that decides whether to go on.
    fn starts(&mut self, symbols: &Symbols) -> bool {
        self.block = symbols.shares();
        self.bytes > 0.0 || self.gain(self.block)
    }

    /// Sees how many bytes the block has given.
    fn ends(&mut self, bytes: usize) {
        let bytes = bytes as f32;
        self.bytes += bytes;
        let weight = if self.bytes > 0.0 { bytes / self.bytes } else { 0.0 };
        self.all.symbols += (self.block.symbols - self.all.symbols) * weight;
        self.all.matches += (self.block.matches - self.all.matches) * weight;
    }

    fn gain(&self, shares: Shares) -> bool {
        let Shares { symbols, matches } = shares;
        let literals = symbols >= 1.6 || (symbols >= 1.44 && matches <= 0.2);
        // As 16-bit images have them: short ones, and literals before some.
        let short_matches = symbols >= 1.2 && matches >= 0.68 && (1.6..3.0).contains(&self.ratio) && !self.hurried;
        literals || short_matches
    }

    /// Whether the whole stream gained. What is not compressed is copied in the same time by anybody.
    fn gained(&self) -> bool {
        self.bytes == 0.0 || self.gain(self.all)
    }
}

/// Writes the literals of an entry, and gives how many they are if it is literals alone. Whatever is written behind them
/// comes later.
#[inline(always)]
fn put(room: &mut [u8; ROOM], at: usize, entry: u32) -> usize {
    room[at..at + 4].copy_from_slice(&(entry >> LITERAL_SHIFT).to_le_bytes());
    ((entry & COUNT) >> COUNT_SHIFT) as usize
}

/// Whether a block ends with an entry that is no match.
fn ended(entry: u32) -> Result<bool, NotMine> {
    if entry < NONE { Ok(true) } else { Err(NotMine) }
}

/// Copies a block that is not compressed.
fn stored(bits: &mut Bits<'_>, out: &mut [u8], done: usize) -> Result<usize, NotMine> {
    let [a, b, c, d, ref rest @ ..] = *bits.rest() else { return Err(NotMine) };
    let length = u16::from_le_bytes([a, b]);
    if length != !u16::from_le_bytes([c, d]) {
        return Err(NotMine);
    }
    let length = usize::from(length);
    let (block, rest) = rest.split_at_checked(length).ok_or(NotMine)?;
    out.get_mut(done..done + length).ok_or(NotMine)?.copy_from_slice(block);
    *bits = Bits::new(bits.bytes, rest);
    Ok(done + length)
}

/// Copies what stands a distance behind `done`; where that is nearer than long, what was just copied is copied again. May
/// write up to a long step more.
#[inline(always)]
fn repeat(out: &mut [u8], done: usize, distance: usize, length: usize) -> Result<(), NotMine> {
    let from = done.checked_sub(distance).ok_or(NotMine)?;
    let (before, after) = out.split_at_mut_checked(done).ok_or(NotMine)?;
    let step = before.get(from..).and_then(|before| before.first_chunk::<STEP>());
    match (step, after.first_chunk_mut::<STEP>()) {
        (Some(step), Some(room)) => {
            *room = *step;
            if length > STEP {
                repeat_far(out, done + STEP, distance, length - STEP);
            }
            Ok(())
        }
        _ => repeat_near(out, done, distance, length),
    }
}

/// The same for a distance of a step at least.
#[inline(never)]
fn repeat_far(out: &mut [u8], done: usize, distance: usize, length: usize) {
    let Some(out) = out.get_mut(done - distance..) else { return };
    let mut at = 0;
    if distance >= LONG_STEP {
        while at < length {
            out.copy_within(at..at + LONG_STEP, at + distance);
            at += LONG_STEP;
        }
    } else {
        while at < length {
            out.copy_within(at..at + STEP, at + distance);
            at += STEP;
        }
    }
}

/// The same for a shorter one.
#[inline(never)]
fn repeat_near(out: &mut [u8], done: usize, distance: usize, length: usize) -> Result<(), NotMine> {
    if distance == 0 {
        return Err(NotMine);
    }
    let out = out.get_mut(done - distance..done + length + LONG_STEP).ok_or(NotMine)?;
    if distance == 1 {
        let byte = out[0];
        for step in out[1..].chunks_exact_mut(LONG_STEP) {
            step.fill(byte);
        }
        return Ok(());
    }
    // The bytes that repeat double until they fill a step.
    let (mut at, end) = (distance, distance + length);
    while at < STEP && at < end {
        out.copy_within(..STEP, at);
        at *= 2;
    }
    let distance = at;
    while at < end {
        out.copy_within(at - distance..at - distance + STEP, at);
        at += STEP;
    }
    Ok(())
}

/// The same byte by byte, where there is no room for more than is due.
#[cold]
fn repeat_at_end(out: &mut [u8], done: usize, distance: usize, length: usize) -> Result<(), NotMine> {
    if distance == 0 || distance > done {
        return Err(NotMine);
    }
    let out = out.get_mut(done - distance..done + length).ok_or(NotMine)?;
    for at in distance..out.len() {
        out[at] = out[at - distance];
    }
    Ok(())
}

/// A stream of bits, the lowest of a byte first.
#[derive(Clone, Copy)]
struct Bits<'a> {
    /// All bytes, and those of which nothing is counted yet.
    bytes: &'a [u8],
    rest: &'a [u8],
    /// The next bits. Those beyond the count are either zero or what will be there.
    held: u64,
    /// How many, in the lowest six bits: whole entries are taken off.
    count: u32,
    /// Bytes behind the end that are counted.
    beyond: usize,
}

impl<'a> Bits<'a> {
    fn new(bytes: &'a [u8], rest: &'a [u8]) -> Self {
        Self { bytes, rest, held: 0, count: 0, beyond: 0 }
    }

    #[inline(always)]
    fn count(&self) -> u32 {
        self.count & TAKEN
    }

    /// Holds 56 bits at least, unless the end is near.
    #[inline(always)]
    fn hold(&mut self) -> bool {
        let Some(next) = self.rest.first_chunk::<16>() else { return false };
        self.add(next.first_chunk());
        true
    }

    /// The same once more: there are bytes enough for that.
    #[inline(always)]
    fn hold_again(&mut self) {
        self.add(self.rest.first_chunk());
    }

    #[inline(always)]
    fn add(&mut self, next: Option<&[u8; 8]>) {
        let Some(next) = next else { return };
        self.held |= u64::from_le_bytes(*next) << (self.count & TAKEN);
        let used = (!self.count & TAKEN) as usize >> 3;
        self.rest = &self.rest[used..];
        self.count |= 56;
    }

    /// Holds 56 bits at least. Behind the end there are a few zeros, so that the last code can be looked up.
    fn refill(&mut self) -> Result<(), NotMine> {
        if self.hold() {
            return Ok(());
        }
        self.count &= TAKEN;
        while self.count < 56 {
            let next = self.rest.split_off_first().copied();
            self.beyond += usize::from(next.is_none());
            self.held |= u64::from(next.unwrap_or(0)) << self.count;
            self.count += 8;
        }
        if self.beyond > 8 { Err(NotMine) } else { Ok(()) }
    }

    fn take(&mut self, bits: u32) -> u32 {
        let taken = self.held as u32 & ((1 << bits) - 1);
        self.skip(bits);
        taken
    }

    /// Skips the bits of an entry.
    #[inline(always)]
    fn skip(&mut self, entry: u32) {
        self.held >>= entry & TAKEN;
        self.count = self.count.wrapping_sub(entry);
    }

    /// The bytes behind the one that was begun.
    fn rest(&self) -> &'a [u8] {
        let at = self.bytes.len() + self.beyond - self.rest.len() - self.count() as usize / 8;
        self.bytes.get(at..).unwrap_or(&[])
    }
}
