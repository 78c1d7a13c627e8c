// Sequences carried out: a block of threads for each tile, in batches of one sequence for each thread.
//
// The last bytes of the output are in a ring in shared memory: most matches come from there, and the bytes that a batch
// makes are read again by the matches after them. What leaves the ring is in global memory by then.
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

template <u32 T, u32 W>
struct __align__(16) ZstdExecuteShared {
    __align__(16) u8 ring[W];
    ZstdSums sums[T / 32];
    ZstdSums carry;
    u32 place[T];  // first byte of each match of the batch
    u32 pending[2][T / 32 + 1];
    u32 lengths[36], matches[53];  // base | bits << 24 of each code
    u32 lone[3];                   // a sequence that is carried out alone
};

// A tile on its way. All members are the same for all threads.
template <u32 T, u32 W>
struct ZstdExecute {
    ZstdExecuteShared<T, W>& sh;
    const Tile& tile;
    u32 t, lane;
    u32 done;     // bytes of the output
    u32 flushed;  // of them in global memory, whole units
    u32 frame;    // where the frame began
    ZstdOffsets offsets;

    // Half the ring is history. The other half takes what one batch or piece gives, and stays two units short of it: the
    // unit that the piece before has not finished is flushed while the next is being written.
    enum : u32 { MASK = W - 1, HISTORY = W / 2, PIECE = W / 2 - 2 * ZSTD_UNIT };

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

    // Bytes `from` to the ring at `to`, by one thread, from words that are all there.
    DEVICE_MEMBER void copy_words(const u32* words, u32 mask, u32 from, u32 to, u32 n) {
        u32 shift = (from & 3) * 8, word = from >> 2, last = (from + n - 1) >> 2;
        u32 low = words[word & mask];
        for (u32 k = 0; k < n; k += 4) {
            u32 high = word < last ? words[(word + 1) & mask] : 0;
            u32 v = __funnelshift_r(low, high, shift), left = n - k;
            *ring(to + k) = static_cast<u8>(v);
            if (left > 1) *ring(to + k + 1) = static_cast<u8>(v >> 8);
            if (left > 2) *ring(to + k + 2) = static_cast<u8>(v >> 16);
            if (left > 3) *ring(to + k + 3) = static_cast<u8>(v >> 24);
            low = high;
            ++word;
        }
    }

    // A short match, by one thread.
    DEVICE_MEMBER void copy_match(u32 to, u32 offset, u32 n) {
        u32 from = to - offset, used = zstd_min(n, offset);
        if (n <= offset && from + HISTORY >= done && ((from + n + 3) & ~3u) <= done) {
            copy_words(reinterpret_cast<const u32*>(sh.ring), W / 4 - 1, from, to, n);
        } else if (n <= offset && from >= done) {
            // Others may be writing the rest of the words.
            for (u32 k = 0; k < n; ++k) *ring(to + k) = *ring(from + k);
        } else if (n <= offset && from + used + HISTORY <= done) {
            copy_words(reinterpret_cast<const u32*>(tile.out), FULL_WARP, from, to, n);
        } else {
            for (u32 k = 0, j = 0; k < n; ++k) {
                *ring(to + k) = earlier(from + j, done);
                j = j + 1 == offset ? 0 : j + 1;
            }
        }
    }

    DEVICE_MEMBER u32 literals_and_matches(const ZstdBlock& b, const ZstdScratch& s);
    DEVICE_MEMBER void matches(u32 taken, u32 at, u32 offset, u32 length);
    DEVICE_MEMBER u32 block(const ZstdBlock& b, const ZstdScratch& s);
    DEVICE_MEMBER void run(const ZstdScratch& s, u32 index, u32* status);
};

// Lengths from here on are copied by all lanes of a warp together.
enum : u32 { ZSTD_LONG_LITERALS = 16, ZSTD_LONG_MATCH = 32 };

// The matches of a batch, thread k the k-th: each is copied when no match that its source touches is still to be.
template <u32 T, u32 W>
DEVICE_MEMBER void ZstdExecute<T, W>::matches(u32 taken, u32 at, u32 offset, u32 length) {
    bool pending = t < taken;
    u32 from = at - offset, first = 0, touched = 0;
    if (pending) {
        u32 end = from + zstd_min(length, offset);
        if (end > sh.place[0]) {
            u32 low = 0, high = t;  // matches that begin before the end of the source
            while (low < high) {
                u32 middle = (low + high) / 2;
                if (sh.place[middle] < end) low = middle + 1; else high = middle;
            }
            u32 upto = low;
            low = 0;
            high = upto;  // and the last that begins at or before it
            while (low < high) {
                u32 middle = (low + high) / 2;
                if (sh.place[middle] <= from) low = middle + 1; else high = middle;
            }
            first = low ? low - 1 : 0;
            touched = upto - first;
        }
    }
    // Every round copies at least the first pending one.
    for (u32 round = 0;; ++round) {
        bool ready = pending && touched == 0;
        if (pending && touched && round) {
            const u32* bits = sh.pending[round & 1];
            u32 end = first + touched - 1, word = first >> 5, last = end >> 5;
            u32 left = bits[word] & FULL_WARP << (first & 31);
            while (word < last) {
                if (left) break;
                left = bits[++word];
            }
            if (word == last) left &= FULL_WARP >> (31 - (end & 31));
            ready = left == 0;
        }
        if (ready && length < ZSTD_LONG_MATCH) copy_match(at, offset, length);
        for (u32 longs = __ballot_sync(FULL_WARP, ready && length >= ZSTD_LONG_MATCH); longs; longs &= longs - 1) {
            u32 l = zstd_high_bit(longs & (0u - longs));
            u32 to = __shfl_sync(FULL_WARP, at, l), back = __shfl_sync(FULL_WARP, offset, l), n = __shfl_sync(FULL_WARP, length, l);
            for (u32 k = lane; k < n; k += 32) *ring(to + k) = earlier(to - back + (k < back ? k : k % back), done);
        }
        pending = pending && !ready;
        u32 waiting = __ballot_sync(FULL_WARP, pending);
        if (lane == 0) sh.pending[(round + 1) & 1][t >> 5] = waiting;
        if (!__syncthreads_or(pending)) return;
    }
}

// The sequences of a block and the literals after them.
template <u32 T, u32 W>
DEVICE_MEMBER u32 ZstdExecute<T, W>::literals_and_matches(const ZstdBlock& b, const ZstdScratch& s) {
    const u8* literals = b.literals_kind < ZSTD_LITERALS_TREE ? tile.in + b.literals_at : reinterpret_cast<const u8*>(s.arena + b.literals_unit);
    const u32 step = b.literals_kind == ZSTD_LITERALS_RLE ? 0 : 1;
    const ZstdRecord* records = reinterpret_cast<const ZstdRecord*>(s.arena + b.sequences_unit);
    const u32* words = reinterpret_cast<const u32*>(tile.in - (reinterpret_cast<u64>(tile.in) & 15));
    const u32 end = done + zstd_min(tile.out_bytes - done, b.most);
    // More than the tile holds may be sound: the host looks at what it may keep of it.
    const u32 too_much = end < tile.out_bytes ? STATUS_DAMAGED : STATUS_FOREIGN;
    u32 literal = 0;  // literals that are used
    for (u32 k0 = 0; k0 < b.sequences;) {
        u32 k = k0 + t, length = 0, match = 0;
        ZstdSums sums = zstd_nothing();
        if (k < b.sequences) {
            ZstdRecord r = records[k];
            u32 a = sh.lengths[r.codes & 63], c = sh.matches[r.codes >> 6 & 63], bits = r.codes >> 12 & 31;
            u32 length_bits = a >> 24, match_bits = c >> 24, low = r.bit - length_bits - match_bits - bits;
            const u32* w = words + (low >> 5);
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
        if (mine) sh.place[t] = at;
        if (__syncthreads_or(bad || over)) return __syncthreads_or(bad) ? static_cast<u32>(STATUS_DAMAGED) : too_much;
        u32 source = literal + sums.literals - length, to = at - length;
        if (mine && length && length < ZSTD_LONG_LITERALS) {
            if (step) {
                u64 address = reinterpret_cast<u64>(literals);
                copy_words(reinterpret_cast<const u32*>(address & ~3ull), FULL_WARP, source + static_cast<u32>(address & 3), to, length);
            } else {
                for (u32 q = 0; q < length; ++q) *ring(to + q) = literals[0];
            }
        }
        for (u32 longs = __ballot_sync(FULL_WARP, mine && length >= ZSTD_LONG_LITERALS); longs; longs &= longs - 1) {
            u32 l = zstd_high_bit(longs & (0u - longs));
            u32 from = __shfl_sync(FULL_WARP, source, l), there = __shfl_sync(FULL_WARP, to, l), n = __shfl_sync(FULL_WARP, length, l);
            for (u32 q = lane; q < n; q += 32) *ring(there + q) = literals[(from + q) * step];
        }
        __syncthreads();
        matches(taken, at, offset, match);
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

template <u32 T, u32 W>
DEVICE_MEMBER u32 ZstdExecute<T, W>::block(const ZstdBlock& b, const ZstdScratch& s) {
    if (b.kind == ZSTD_COMPRESSED) return literals_and_matches(b, s);
    if (b.size > tile.out_bytes - done) return STATUS_FOREIGN;
    copy(tile.in + b.at, b.size, b.kind == ZSTD_RLE ? 0 : 1);
    return STATUS_OK;
}

template <u32 T, u32 W>
DEVICE_MEMBER void ZstdExecute<T, W>::run(const ZstdScratch& s, u32 index, u32* status) {
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
