// Sequences carried out: a block of threads for each tile, in batches of one sequence for each thread.
//
// No match waits for another: every byte of a batch is followed back, from match to match, until it is a literal or was
// made before the batch. The last bytes of the output are in a ring in shared memory; what leaves it is in global memory
// by then.
#pragma once
#include "zstd_scan.cuh"

// The three last offsets, or what becomes of them: plain values, or one of those before less some number.
struct ZstdOffsets {
    u32 at[3];
};
enum : u32 { ZSTD_EARLIER = 1u << 31, ZSTD_WHICH = 28, ZSTD_FAR = 1u << 29 };

DEVICE u32 zstd_offset(u32 x, const ZstdOffsets& before) {
    if (!(x & ZSTD_EARLIER)) return x;
    u32 which = x >> ZSTD_WHICH & 3, less = x & ((1u << ZSTD_WHICH) - 1);
    u32 from = which == 0 ? before.at[0] : which == 1 ? before.at[1] : before.at[2];
    if (from & ZSTD_EARLIER) return from + less;
    return from > less ? from - less : 0;
}

DEVICE ZstdOffsets zstd_after(const ZstdOffsets& before, const ZstdOffsets& x) {
    return ZstdOffsets{{zstd_offset(x.at[0], before), zstd_offset(x.at[1], before), zstd_offset(x.at[2], before)}};
}

// What one sequence does to the three offsets; the one it uses is the first of them afterwards.
DEVICE ZstdOffsets zstd_turn(u32 value, u32 literals) {
    const u32 first = ZSTD_EARLIER, second = ZSTD_EARLIER | 1u << ZSTD_WHICH, third = ZSTD_EARLIER | 2u << ZSTD_WHICH;
    if (value > 3) return ZstdOffsets{{zstd_min(value - 3, ZSTD_FAR), first, second}};
    u32 which = value - 1 + (literals == 0);
    if (which == 0) return ZstdOffsets{{first, second, third}};
    if (which == 1) return ZstdOffsets{{second, first, third}};
    if (which == 2) return ZstdOffsets{{third, first, second}};
    return ZstdOffsets{{first + 1, first, second}};
}

// Sums of a warp's sequences, or of one.
struct ZstdSums {
    u32 literals, bytes;
    ZstdOffsets offsets;
};

DEVICE ZstdSums zstd_shift_up(const ZstdSums& x, u32 d) {
    return ZstdSums{__shfl_up_sync(FULL_WARP, x.literals, d),
                    __shfl_up_sync(FULL_WARP, x.bytes, d),
                    {{__shfl_up_sync(FULL_WARP, x.offsets.at[0], d), __shfl_up_sync(FULL_WARP, x.offsets.at[1], d),
                      __shfl_up_sync(FULL_WARP, x.offsets.at[2], d)}}};
}

DEVICE ZstdSums zstd_join(const ZstdSums& before, const ZstdSums& x) {
    return ZstdSums{before.literals + x.literals, before.bytes + x.bytes, zstd_after(before.offsets, x.offsets)};
}

DEVICE ZstdSums zstd_scan_warp(ZstdSums x, u32 lane) {
    for (u32 d = 1; d < 32; d <<= 1) {
        ZstdSums y = zstd_shift_up(x, d);
        if (lane >= d) x = zstd_join(y, x);
    }
    return x;
}

DEVICE ZstdSums zstd_nothing() { return ZstdSums{0, 0, zstd_turn(1, 1)}; }

// A sequence of a batch: places in the output.
struct __align__(16) ZstdPart {
    u32 begin;    // of its literals
    u32 match;    // of its match
    u32 offset;
    u32 literal;  // number of its first literal
};

// T threads, W bytes of ring, P bytes that one batch or piece may give.
template <u32 T, u32 W, u32 P>
struct __align__(16) ZstdExecuteShared {
    __align__(16) u8 ring[W];
    ZstdPart parts[T + 1];  // and where the last ends
    u32 begins[P / 32 + 1];  // a bit for each byte where a part begins; the first byte is bit 0
    u16 before[P / 32 + 1];  // parts that begin before each word of them
    ZstdSums sums[T / 32];
    ZstdSums carry;
    u32 lengths[36], matches[53];  // base | bits << 24 of each code
    u32 lone[2];                   // a sequence that is carried out alone
};

// Where bytes come from.
struct ZstdOrigin {
    u32 at;        // byte of the output, or number of the literal
    u32 run;       // bytes that follow each other there
    bool literal;
};

// A tile on its way. All members are the same for all threads.
template <u32 T, u32 W, u32 P>
struct ZstdExecute {
    ZstdExecuteShared<T, W, P>& sh;
    const Tile& tile;
    u32 t, lane;
    u32 done;     // bytes of the output
    u32 flushed;  // of them in global memory, whole units
    u32 frame;    // where the frame began
    ZstdOffsets offsets;

    // What a piece writes into the ring, and a unit that the piece before has not finished, are not history.
    enum : u32 { MASK = W - 1, PIECE = P, HISTORY = W - P - 2 * ZSTD_UNIT };
    static_assert((W & MASK) == 0 && HISTORY >= P + ZSTD_UNIT && P % 32 == 0, "a flush is never overtaken");

    DEVICE_MEMBER u8* ring(u32 at) const { return sh.ring + (at & MASK); }

    // Everything up to `end` is in the ring; whole units go to global memory.
    DEVICE_MEMBER void flush(u32 end) {
        u32 upto = end & ~(ZSTD_UNIT - 1);
        for (u32 k = flushed + t * ZSTD_UNIT; k < upto; k += T * ZSTD_UNIT) {
            *reinterpret_cast<ZstdUnit*>(tile.out + k) = *reinterpret_cast<const ZstdUnit*>(ring(k));
        }
        flushed = upto;
        done = end;
    }

    // A byte of the output before `from`, the first of the bytes now made.
    DEVICE_MEMBER u8 earlier(u32 at, u32 from) const {
        return at + HISTORY >= from ? *ring(at) : tile.out[at];
    }

    // `n` bytes of `from`, or one of them again and again.
    DEVICE_MEMBER void copy(const u8* from, u32 n, u32 step) {
        for (u32 k0 = 0; k0 < n; k0 += PIECE) {
            u32 piece = zstd_min(PIECE, n - k0);
            for (u32 k = t; k < piece; k += T) *ring(done + k) = from[(k0 + k) * step];
            __syncthreads();
            flush(done + piece);
        }
        __syncthreads();
    }

    // A match of any length, all threads at it.
    DEVICE_MEMBER void repeat(u32 offset, u32 n) {
        for (u32 k0 = 0; k0 < n; k0 += PIECE) {
            u32 piece = zstd_min(PIECE, n - k0), from = done - offset;
            for (u32 k = t; k < piece; k += T) *ring(done + k) = earlier(from + (k < offset ? k : k % offset), done);
            __syncthreads();
            flush(done + piece);
        }
        __syncthreads();
    }

    // Four bytes of the output from `at` on, all made before `done`, but only `n` of them matter.
    DEVICE_MEMBER u32 history(u32 at, u32 n) const {
        u32 word = at >> 2, shift = (at & 3) * 8;
        bool more = (at & 3) + n > 4;
        if (at + HISTORY >= done) {
            const u32* words = reinterpret_cast<const u32*>(sh.ring);
            return __funnelshift_r(words[word & (W / 4 - 1)], more ? words[(word + 1) & (W / 4 - 1)] : 0, shift);
        }
        // The word after may be in the ring alone.
        if (at + n + HISTORY <= done) {
            const u32* words = reinterpret_cast<const u32*>(tile.out);
            return __funnelshift_r(words[word], more ? words[word + 1] : 0, shift);
        }
        u32 bytes = 0;
        for (u32 k = 0; k < n; ++k) bytes |= static_cast<u32>(earlier(at + k, done)) << 8 * k;
        return bytes;
    }

    // Follows a byte of the batch, and up to `run` with it, to where they come from. Each step leads to an earlier part, or
    // to a literal of this one.
    DEVICE_MEMBER ZstdOrigin origin(u32 at, u32 run) const {
        for (;;) {
            u32 k = at - done, word = k >> 5;
            u32 upto = sh.begins[word] & FULL_WARP >> (31 - (k & 31));
            u32 number = sh.before[word] + __popc(upto) - 1;
            const ZstdPart part = sh.parts[number];
            if (at < part.match) return ZstdOrigin{part.literal + (at - part.begin), zstd_min(run, part.match - at), true};
            run = zstd_min(run, sh.parts[number + 1].begin - at);
            // The bytes of a match that is longer than its offset come again.
            u32 into = at - part.match;
            if (into >= part.offset) into %= part.offset;
            run = zstd_min(run, part.offset - into);
            at = part.match - part.offset + into;
            if (at < done) return ZstdOrigin{at, zstd_min(run, done - at), false};
        }
    }

    DEVICE_MEMBER void put(u32 word, u32 first, u32 last, u32 bytes) {
        if (last - first == 4) {
            *reinterpret_cast<u32*>(ring(word)) = bytes;
        } else {
            for (u32 at = first; at < last; ++at) *ring(at) = static_cast<u8>(bytes >> (at & 3) * 8);
        }
    }

    // The bytes of a batch, up to `end`, a word at a time, and a barrier.
    DEVICE_MEMBER void words(u32 end, const u8* literals, u32 step) {
        u32 late = 0;
        for (u32 word = (done & ~3u) + t * 4; word < end; word += T * 4) {
            u32 first = word < done ? done : word, last = zstd_min(word + 4, end), bytes = 0;
            for (u32 at = first; at < last;) {
                ZstdOrigin from = origin(at, last - at);
                u32 found = from.literal ? zstd_load(literals + from.at * step) : history(from.at, from.run);
                if (from.literal && !step) found = (found & 0xff) * 0x01010101u;
                // What was read too much is put right by what follows.
                u32 place = (at & 3) * 8;
                bytes = (bytes & ~(FULL_WARP << place)) | found << place;
                at += from.run;
            }
            if (word < done) late = bytes; else put(word, first, last, bytes);
        }
        __syncthreads();
        // The word that the batch before began is history to all until here; the thread that ends it also flushes it.
        if (t == 0 && (done & 3)) put(done & ~3u, done, zstd_min((done & ~3u) + 4, end), late);
    }

    DEVICE_MEMBER u32 literals_and_matches(const ZstdBlock& b, const ZstdScratch& s);
    DEVICE_MEMBER u32 block(const ZstdBlock& b, const ZstdScratch& s);
    DEVICE_MEMBER void run(const ZstdScratch& s, u32 index, u32* status);
};

// The sequences of a block and the literals after them.
template <u32 T, u32 W, u32 P>
DEVICE_MEMBER u32 ZstdExecute<T, W, P>::literals_and_matches(const ZstdBlock& b, const ZstdScratch& s) {
    const u8* literals = b.literals_kind < ZSTD_LITERALS_TREE ? tile.in + b.literals_at : reinterpret_cast<const u8*>(s.arena + b.literals_unit);
    const u32 step = b.literals_kind == ZSTD_LITERALS_RLE ? 0 : 1;
    const ZstdRecord* records = reinterpret_cast<const ZstdRecord*>(s.arena + b.sequences_unit);
    const u32* stream = reinterpret_cast<const u32*>(tile.in - (reinterpret_cast<u64>(tile.in) & 15));
    const u32 end = done + zstd_min(tile.out_bytes - done, b.most);
    // More than the tile holds may be sound: the host looks at what it may keep of it.
    const u32 too_much = end < tile.out_bytes ? STATUS_DAMAGED : STATUS_FOREIGN;
    u32 literal = 0;  // literals that are used
    for (u32 k0 = 0; k0 < b.sequences;) {
        u32 k = k0 + t, length = 0, match = 0;
        for (u32 q = t; q <= P / 32; q += T) sh.begins[q] = 0;
        ZstdSums sums = zstd_nothing();
        if (k < b.sequences) {
            ZstdRecord r = records[k];
            u32 a = sh.lengths[r.codes & 63], c = sh.matches[r.codes >> 6 & 63], bits = r.codes >> 12 & 31;
            u32 length_bits = a >> 24, match_bits = c >> 24, low = r.bit - length_bits - match_bits - bits;
            const u32* w = stream + (low >> 5);
            u64 v = __funnelshift_r(w[0], w[1], low & 31) | static_cast<u64>(__funnelshift_r(w[1], w[2], low & 31)) << 32;
            length = (a & 0xffffff) + (static_cast<u32>(v) & ((1u << length_bits) - 1));
            v >>= length_bits;
            match = (c & 0xffffff) + (static_cast<u32>(v) & ((1u << match_bits) - 1));
            v >>= match_bits;
            sums.literals = length;
            sums.bytes = length + match;
            sums.offsets = zstd_turn((1u << bits) + (static_cast<u32>(v) & ((1u << bits) - 1)), length);
        }
        sums = zstd_scan_warp(sums, lane);
        if (lane == 31) sh.sums[t >> 5] = sums;
        __syncthreads();
        ZstdSums before = zstd_nothing();
        if (T / 32 <= 4) {
            for (u32 w = 0; w < t >> 5; ++w) before = zstd_join(before, sh.sums[w]);
        } else {
            ZstdSums warps = zstd_scan_warp(lane < T / 32 ? sh.sums[lane] : zstd_nothing(), lane);
            u32 w = t >> 5, source = w ? w - 1 : 0;
            ZstdSums upto = {__shfl_sync(FULL_WARP, warps.literals, source), __shfl_sync(FULL_WARP, warps.bytes, source),
                             {{__shfl_sync(FULL_WARP, warps.offsets.at[0], source), __shfl_sync(FULL_WARP, warps.offsets.at[1], source),
                               __shfl_sync(FULL_WARP, warps.offsets.at[2], source)}}};
            if (w) before = upto;
        }
        before.offsets = zstd_after(offsets, before.offsets);
        sums = zstd_join(before, sums);
        u32 taken = __syncthreads_count(k < b.sequences && sums.bytes <= PIECE);
        bool mine = t < taken;
        u32 offset = sums.offsets.at[0], at = done + sums.bytes - match;
        // The sums of a batch cannot wrap: 1024 sequences of less than 2^18 bytes.
        bool over = mine && done + sums.bytes > end;
        bool bad = mine && (offset == 0 || offset > at - frame || literal + sums.literals > b.literals);
        if (taken == 0) {
            // The first is too long for a batch.
            if (t == 0) {
                sh.lone[0] = length;
                sh.lone[1] = match;
                sh.carry = sums;
            }
            __syncthreads();
            u32 n = sh.lone[0], m = sh.lone[1];
            offsets = sh.carry.offsets;
            offset = offsets.at[0];
            if (n > b.literals - literal || offset == 0 || offset > done + n - frame) return STATUS_DAMAGED;
            if (n + m > end - done) return too_much;
            copy(literals + literal * step, n, step);
            repeat(offset, m);
            literal += n;
            k0 += 1;
            continue;
        }
        if (t == taken - 1) sh.carry = sums;
        if (mine) {
            u32 begin = at - length, bit = begin - done;
            sh.parts[t] = ZstdPart{begin, at, offset, literal + sums.literals - length};
            if (t == taken - 1) sh.parts[taken].begin = done + sums.bytes;
            atomicOr(&sh.begins[bit >> 5], 1u << (bit & 31));
        }
        if (__syncthreads_or(bad || over)) return __syncthreads_or(bad) ? static_cast<u32>(STATUS_DAMAGED) : too_much;
        for (u32 q = t; q * 32 < sh.carry.bytes; q += T) {
            u32 low = 0, high = taken;  // parts that begin before byte 32 q
            while (low < high) {
                u32 middle = (low + high) / 2;
                if (sh.parts[middle].begin < done + q * 32) low = middle + 1; else high = middle;
            }
            sh.before[q] = static_cast<u16>(low);
        }
        __syncthreads();
        words(done + sh.carry.bytes, literals, step);
        literal += sh.carry.literals;
        offsets = sh.carry.offsets;
        flush(done + sh.carry.bytes);
        k0 += taken;
        __syncthreads();
    }
    u32 rest = b.literals - literal;
    if (rest > end - done) return too_much;
    copy(literals + literal * step, rest, step);
    return STATUS_OK;
}

template <u32 T, u32 W, u32 P>
DEVICE_MEMBER u32 ZstdExecute<T, W, P>::block(const ZstdBlock& b, const ZstdScratch& s) {
    if (b.kind == ZSTD_COMPRESSED) return literals_and_matches(b, s);
    if (b.size > tile.out_bytes - done) return STATUS_FOREIGN;
    copy(tile.in + b.at, b.size, b.kind == ZSTD_RLE ? 0 : 1);
    return STATUS_OK;
}

template <u32 T, u32 W, u32 P>
DEVICE_MEMBER void ZstdExecute<T, W, P>::run(const ZstdScratch& s, u32 index, u32* status) {
    // Literals or sequences may have been found damaged.
    if (status[tile.id] != STATUS_OK) return;
    for (u32 k = t; k < 36; k += T) sh.lengths[k] = zstd_length_code(k);
    for (u32 k = t; k < 53; k += T) sh.matches[k] = zstd_match_code(k);
    __syncthreads();
    const ZstdTile list = s.tiles[index];
    u32 failed = STATUS_OK;
    bool open = false;
    for (u32 k = 0; k < list.count && !failed; ++k) {
        const ZstdBlock& b = s.blocks[list.first + k];
        if (b.flags & ZSTD_FIRST) {
            // A full tile is enough, whatever comes after the frame that filled it.
            if (k && done == tile.out_bytes) break;
            open = true;
            frame = done;
            offsets = ZstdOffsets{{1, 4, 8}};
        }
        failed = block(b, s);
        if (failed || !(b.flags & ZSTD_LAST)) continue;
        open = false;
        if ((b.flags & ZSTD_CONTENT) && b.content != done - frame) failed = STATUS_DAMAGED;
        if (t == 0 && (b.flags & ZSTD_SUM)) {
            s.blocks[list.first + k].frame_at = frame;
            s.blocks[list.first + k].frame_end = done;
        }
    }
    if (!failed && (open || done != tile.out_bytes)) failed = list.tail ? list.tail : static_cast<u32>(STATUS_INPUT);
    // The last bytes that are no whole unit.
    if (t < done - flushed) tile.out[flushed + t] = *ring(flushed + t);
    if (t == 0 && failed) zstd_fail(status, tile, failed);
}
