// LZW as TIFF 6.0 has it: highest bit first, the width of codes grows one code early; and as it was before.
//
// Every code but the first after a clear gives the table one string, so the number of a code in its segment (what lies
// between two clears) says where its bits are and which string it makes: string 258 + j is what code j stands for and one
// byte more, which is what code j + 1 begins with. That string stands in the output already, where code j was written;
// also when code j + 1 is that very string, for then it overlaps itself by one byte. Hence
//
//     length of code j   = 1 for a byte, else 1 + length of its parent, code j' = code - 258 < j
//     place of code j    = sum of the lengths before
//     any byte of code j = the byte of its parent at the same distance from the start; one behind the parent's end is the
//                          first of code j' + 1, and stands there in the output too
//
// and a byte of the output is found by jumping back from code to parent, until a byte or a place that is written already.
//
// Segments do not refer to each other. Writers clear the table when it is full, so a clear is looked for where it must
// then be: one warp for each tile makes a list of segments, and every segment gets a block. Blocks find their place in the
// output by looking back at the lengths of the segments before. Where a segment is not what the list says (a writer that
// clears early), the whole tile is done again by one block, one segment after the other.
#pragma once
#include "abi.h"
#include "lanes.h"

enum {
    LZW_CLEAR = 256,
    LZW_END = 257,
    LZW_FIRST = 258,
    LZW_THREADS = 256,
    // Codes of a segment that are worked on at once: a full table has 4096 - 258 strings, and writers clear before, or
    // soon after. Whoever never does is served by `lzw_go_on`.
    LZW_CODES = 3840,
    LZW_PER_THREAD = LZW_CODES / LZW_THREADS,
    // Clears are looked for among the last 32 of them.
    LZW_EARLIEST = LZW_CODES - 32,
    // Bytes of the output that are made before they are stored.
    LZW_WINDOW = 5632,
    // Consecutive bytes a thread makes between two barriers are this many times LZW_THREADS apart.
    LZW_BYTES = 2,
    // A tile has room for one segment more than it has so many bytes. Segments that fill the table have 5362 or more.
    LZW_SEGMENT_BYTES = 4096,
};

struct LzwShared {
    u32 place[LZW_CODES + 1];  // in the output of the segment; behind the last code its length
    union {
        struct {
            u16 code[LZW_CODES];
            u16 length[LZW_CODES];
        } in;
        u32 back[LZW_CODES];  // from a code to its parent, or LZW_BYTE and a byte
    };
    u32 starts[(LZW_WINDOW + 64) / 32];  // a bit for each byte of the window that a code begins with
    u16 rank[(LZW_WINDOW + 64) / 32];    // number of the code that the byte before each 32 belongs to
    u32 sums[32];
    u32 special;  // first code that is no string: clear, end, or the end of the data
    u32 wrong;    // first code with no string
    u32 bad;
    u32 ticket;
    u64 before;
    __align__(16) u8 window[LZW_WINDOW + 64];
};

#define LZW_BYTE 0x80000000u

// Where a block of the second kernel begins.
struct LzwSlot {
    u64 state;  // LzwState in the high two bits; bytes of this segment, or of all up to it
    u64 start;  // bit of its first code
    u32 tile;   // or LZW_NO_TILE
    u32 number;
    u32 last;
    u32 pad;
};

enum LzwState { LZW_UNKNOWN = 0, LZW_OWN = 1, LZW_ALL = 2, LZW_FAILED = 3 };
#define LZW_NO_TILE 0xffffffffu

// Slots of a tile.
DEVICE u32 lzw_room(const Tile& tile) { return tile.in_bytes / LZW_SEGMENT_BYTES + 1; }

struct LzwHead {
    u32 ticket;  // blocks that have begun
    u32 used;    // slots that tiles have taken
    u32 pad[2];
};

// The slot of a ticket, or none. Blocks of one tile wait for each other, so those at work should be of many: with `turns`,
// the number of tiles, tickets go round them all before they come to the next segment of the first. A tile's segments begin
// in their order either way.
DEVICE LzwSlot* lzw_slot(LzwSlot* slots, const Tile* tiles, const u32* bases, u32 turns, u32 ticket) {
    if (turns == 0) return slots + ticket;
    const u32 tile = ticket % turns, number = ticket / turns;
    return number < lzw_room(tiles[tile]) ? slots + bases[tile] + number : nullptr;
}

DEVICE u32 big_endian(u32 word) { return __byte_perm(word, 0, 0x0123); }

// Bits of a tile. Their numbers count from an aligned word. OLD data have the lowest bit first, and the width of their
// codes grows one code later.
template <bool OLD> struct LzwBits {
    const u32* words;
    u64 first, end;

    __device__ explicit LzwBits(const Tile& tile) {
        const u32 skew = (u32)(address_of(tile.in) & 3);
        words = (const u32*)(tile.in - skew);
        first = 8 * skew;
        end = first + 8 * (u64)tile.in_bytes;
    }

    // Bit of code j from the start of its segment, and how many it has.
    MEMBER u32 bit(u32 j) {
        if (j <= 254 + OLD) return 9 * j;
        if (j <= 766 + OLD) return 10 * j - 254 - OLD;
        if (j <= 1790 + OLD) return 11 * j - 1020 - 2 * OLD;
        return 12 * j - 2810 - 3 * OLD;
    }
    MEMBER u32 width(u32 j) { return j < 254 + OLD ? 9 : j < 766 + OLD ? 10 : j < 1790 + OLD ? 11 : 12; }

    // A code, or LZW_END where the data end. Reads up to 8 bytes behind the end.
    __device__ __forceinline__ u32 code(u64 bit, u32 width) const {
        if (bit + width > end) return LZW_END;
        const u32* word = words + (bit >> 5);
        if (OLD) return __funnelshift_r(__ldg(word), __ldg(word + 1), (u32)bit & 31) & ((1u << width) - 1);
        return __funnelshift_l(big_endian(__ldg(word + 1)), big_endian(__ldg(word)), (u32)bit & 31) >> (32 - width);
    }

    // Code j of the segment at `start`.
    __device__ __forceinline__ u32 code_of(u64 start, u32 j) const { return code(start + bit(j), width(j)); }
};

// Writers before TIFF 6.0 had the lowest bit first: the first code is a clear in that order.
DEVICE bool lzw_is_old(const Tile& tile) { return tile.in_bytes >= 2 && tile.in[0] == 0 && (tile.in[1] & 1) == 1; }

// The first code of the segment at `start` that is a clear, an end, or the end of the data; LZW_CODES for none. One warp
// looks.
DEVICE u32 lzw_special(const LzwBits<false>& bits, u64 start, u32 lane) {
    enum { AT_ONCE = 4 };
    for (u32 first = 0; first < LZW_CODES; first += 32 * AT_ONCE) {
        u32 special = LZW_CODES;
#pragma unroll
        for (u32 k = AT_ONCE; k-- > 0;) {
            const u32 j = first + 32 * k + lane;
            const u32 code = bits.code_of(start, j);
            if (code == LZW_CLEAR || code == LZW_END) special = j;
        }
#pragma unroll
        for (int d = 16; d > 0; d /= 2) special = smaller(special, __shfl_xor_sync(FULL_WARP, special, d));
        if (special < LZW_CODES) return special;
    }
    return LZW_CODES;
}

// One warp lists the segments of a tile.
DEVICE void lzw_find_segments(const Tile& tile, u32 number, LzwHead* head, LzwSlot* slots, u32* bases, u32* status,
                              u32 lane) {
    const u32 room = lzw_room(tile);
    u32 base = 0;
    if (lane == 0) bases[number] = base = atomicAdd(&head->used, room);
    base = __shfl_sync(FULL_WARP, base, 0);
    LzwSlot* own = slots + base;
    const LzwBits<false> bits(tile);
    u64 start = bits.first;
    if (bits.code(start, 9) == LZW_CLEAR) start += 9;
    u32 count = 0;
    const bool old = lzw_is_old(tile);
    // The old order, which nobody writes any more, needs no list.
    if (old && lane == 0) status[tile.id] = STATUS_RETRY;
    while (!old) {
        if (lane == 0) own[count].start = start;
        ++count;
        if (count == room) break;
        // A full table is cleared here.
        const u32 late = LZW_EARLIEST + lane;
        const u32 clears = __ballot_sync(FULL_WARP, bits.code(start + bits.bit(late), 12) == LZW_CLEAR);
        if (!clears) {
            // The last segment, or one that is cleared early.
            const u32 special = lzw_special(bits, start, lane);
            if (special == LZW_CODES) break;
            const u64 bit = start + bits.bit(special);
            if (bits.code(bit, bits.width(special)) != LZW_CLEAR) break;
            start = bit + bits.width(special);
            continue;
        }
        // Most writers clear after the same number of codes each time: 32 segments that do so are found at once.
        const u32 length = bits.bit(LZW_EARLIEST + (u32)__ffs((int)clears) - 1) + 12;
        start += length;
        const u64 clear = start + (u64)(lane + 1) * length - 12;
        const u32 missed = ~__ballot_sync(FULL_WARP, bits.code(clear, 12) == LZW_CLEAR);
        const u32 alike = smaller(missed ? (u32)__ffs((int)missed) - 1 : 32, room - count - 1);
        if (lane < alike) own[count + lane].start = start + (u64)lane * length;
        start += (u64)alike * length;
        count += alike;
    }
    __syncwarp();
    for (u32 i = lane; i < room; i += 32) {
        own[i].state = 0;
        own[i].tile = i < count ? number : LZW_NO_TILE;
        own[i].number = i;
        own[i].last = i + 1 == count;
    }
}

// What a segment turned out to be.
struct LzwSegment {
    u32 codes;   // that have strings
    u64 next;    // bit behind the code that ends it
    u32 status;  // why nothing comes after these codes: STATUS_INPUT (an end) or STATUS_DAMAGED; else STATUS_OK
    bool full;   // the codes go on, with a full table
};

// Codes of the segment that begins at `start`, into shared memory.
template <bool OLD> DEVICE LzwSegment lzw_codes(LzwShared& s, const LzwBits<OLD>& bits, u64 start) {
    const u32 thread = threadIdx.x;
    if (thread == 0) s.special = s.wrong = LZW_CODES;
    __syncthreads();
    bool ended = false;
    for (u32 k = 0; k < LZW_PER_THREAD; ++k) {
        const u32 j = k * LZW_THREADS + thread;
        const u32 code = bits.code_of(start, j);
        s.in.code[j] = (u16)code;
        if (code == LZW_CLEAR || code == LZW_END) {
            atomicMin(&s.special, j);
            ended = true;
        } else if (code >= LZW_FIRST && code - LZW_FIRST >= j) {
            atomicMin(&s.wrong, j);
        }
        // Segments of small tiles are short: now and then it is asked whether the rest is needed.
        if (k % 4 == 3 && __syncthreads_or(ended)) break;
    }
    __syncthreads();
    const u32 special = s.special, wrong = s.wrong;
    LzwSegment segment = {smaller(special, wrong), start, STATUS_OK, false};
    if (wrong < special) {
        segment.status = STATUS_DAMAGED;
    } else if (special == LZW_CODES) {
        segment.full = true;
        segment.next = start + bits.bit(LZW_CODES);
    } else {
        if (s.in.code[special] == LZW_END) segment.status = STATUS_INPUT;
        segment.next = start + bits.bit(special) + bits.width(special);
    }
    return segment;
}

// Lengths and places of the first `codes` codes; gives their bytes in all.
DEVICE u32 lzw_places(LzwShared& s, u32 codes) {
    const u32 thread = threadIdx.x;
    for (u32 first = 0; first < codes; first += LZW_THREADS) {
        const u32 j = first + thread;
        if (j < codes) {
            // Parents before this round have their length; those inside are followed.
            u32 length = 1, at = j;
            for (u32 code = s.in.code[at]; code >= LZW_FIRST; code = s.in.code[at]) {
                at = code - LZW_FIRST;
                if (at < first) {
                    length += s.in.length[at];
                    break;
                }
                ++length;
            }
            s.in.length[j] = (u16)length;
        }
        __syncthreads();
    }
    // An odd number for each thread, so that threads do not meet in the banks of shared memory.
    const u32 per_thread = (codes + LZW_THREADS - 1) / LZW_THREADS | 1;
    const u32 begin = smaller(thread * per_thread, codes), end = smaller(begin + per_thread, codes);
    u32 own = 0, total;
    for (u32 j = begin; j < end; ++j) own += s.in.length[j];
    u32 place = block_sum_before<LZW_THREADS>(own, s.sums, total);
    for (u32 j = begin; j < end; ++j) {
        s.place[j] = place;
        place += s.in.length[j];
    }
    if (thread == 0) s.place[codes] = total;
    __syncthreads();
    return total;
}

// How far each code's parent lies back takes the place of codes and lengths.
DEVICE void lzw_backs(LzwShared& s, u32 codes) {
    const u32 thread = threadIdx.x;
    u32 back[LZW_PER_THREAD];
#pragma unroll
    for (u32 k = 0; k < LZW_PER_THREAD; ++k) {
        const u32 j = k * LZW_THREADS + thread;
        back[k] = 0;
        if (j < codes) {
            const u32 code = s.in.code[j];
            back[k] = code < LZW_CLEAR ? LZW_BYTE | code : s.place[j] - s.place[code - LZW_FIRST];
        }
    }
    __syncthreads();
#pragma unroll
    for (u32 k = 0; k < LZW_PER_THREAD; ++k) {
        const u32 j = k * LZW_THREADS + thread;
        if (j < codes) s.back[j] = back[k];
    }
    __syncthreads();
}

// Which code each byte of a window belongs to: byte `at` of the segment stands at `skew` of the window.
DEVICE void lzw_ranks(LzwShared& s, u32 codes, u32 at, u32 bytes, u32 skew) {
    const u32 thread = threadIdx.x, words = (skew + bytes + 31) / 32;
    for (u32 i = thread; i < words; i += LZW_THREADS) s.starts[i] = 0;
    __syncthreads();
    // The first code that begins in the window.
    u32 first = 0;
    for (u32 end = codes; first < end;) {
        const u32 middle = (first + end) / 2;
        if (s.place[middle] < at) first = middle + 1;
        else end = middle;
    }
    for (u32 j = first + thread; j < codes; j += LZW_THREADS) {
        u32 x = s.place[j] - at;
        if (x >= bytes) break;
        x += skew;
        atomicOr(&s.starts[x / 32], 1u << x % 32);
    }
    __syncthreads();
    const u32 per_thread = (words + LZW_THREADS - 1) / LZW_THREADS;
    const u32 begin = smaller(thread * per_thread, words), end = smaller(begin + per_thread, words);
    u32 own = 0, total;
    for (u32 i = begin; i < end; ++i) own += (u32)__popc(s.starts[i]);
    u32 rank = first - 1 + block_sum_before<LZW_THREADS>(own, s.sums, total);
    for (u32 i = begin; i < end; ++i) {
        s.rank[i] = (u16)rank;
        rank += (u32)__popc(s.starts[i]);
    }
    __syncthreads();
}

// The byte at `x` of the window. Bytes below `done` are there; `out` is the place of the window's first in the output.
DEVICE u8 lzw_byte(const LzwShared& s, const u8* out, u32 x, u32 done, u32 skew) {
    for (int y = (int)x;;) {
        const u32 up_to = s.starts[y >> 5] & (0xffffffffu >> (31 - (y & 31)));
        const u32 back = s.back[(u16)(s.rank[y >> 5] + (u32)__popc(up_to))];
        if (back & LZW_BYTE) return (u8)back;
        y -= (int)back;
        if (y < (int)done) return y >= (int)skew ? s.window[y] : out[y];
    }
}

// Stores bytes skew..end of the window, in units of 16 where they are whole.
DEVICE void lzw_store(const LzwShared& s, u8* out, u32 skew, u32 end) {
    const u32 thread = threadIdx.x, first = (skew + 15) & ~15u, last = end & ~15u;
    if (first >= last) {
        for (u32 x = skew + thread; x < end; x += LZW_THREADS) out[x] = s.window[x];
        return;
    }
    for (u32 x = first + 16 * thread; x < last; x += 16 * LZW_THREADS) *(Quad*)(out + x) = *(const Quad*)(s.window + x);
    if (thread < first - skew) out[skew + thread] = s.window[skew + thread];
    if (thread < end - last) out[last + thread] = s.window[last + thread];
}

// Writes the first `bytes` bytes of a segment, of which `lzw_backs` is done.
DEVICE void lzw_write(LzwShared& s, u32 codes, u8* segment, u32 bytes) {
    const u32 thread = threadIdx.x;
    for (u32 at = 0; at < bytes;) {
        const u32 here = smaller(bytes - at, LZW_WINDOW);
        const u32 skew = (u32)(address_of(segment + at) & 15), end = skew + here;
        u8* out = segment + at - skew;
        lzw_ranks(s, codes, at, here, skew);
        for (u32 done = skew; done < end; done += LZW_BYTES * LZW_THREADS) {
#pragma unroll
            for (u32 k = 0; k < LZW_BYTES; ++k) {
                const u32 x = done + k * LZW_THREADS + thread;
                if (x < end) s.window[x] = lzw_byte(s, out, x, done, skew);
            }
            __syncthreads();
        }
        lzw_store(s, out, skew, end);
        at += here;
        __syncthreads();
    }
}

// Goes on behind LZW_CODES codes of a segment whose table is full and is not cleared: codes of 12 bits, all strings
// written already. Gives the bit behind the code that ends it, and its status.
template <bool OLD>
DEVICE LzwSegment lzw_go_on(LzwShared& s, const LzwBits<OLD>& bits, u64 bit, const u8* segment, u8* out, u32 room,
                            u32& made) {
    const u32 thread = threadIdx.x, lane = thread & 31;
    for (made = 0; made < room;) {
        if (thread == 0) s.special = LZW_THREADS;
        __syncthreads();
        const u32 code = bits.code(bit + 12 * thread, 12);
        if (code == LZW_CLEAR || code == LZW_END) atomicMin(&s.special, thread);
        __syncthreads();
        const u32 special = s.special;
        const bool string = code >= LZW_FIRST && thread < special;
        const u32 parent = string ? code - LZW_FIRST : 0;
        const u32 from = s.place[parent];
        u32 length = string ? s.place[parent + 1] - from + 1 : 1, total;
        if (thread >= special) length = 0;
        const u32 before = block_sum_before<LZW_THREADS>(length, s.sums, total);
        for (u32 k = 0; k < 32; ++k) {
            const u32 bytes = __shfl_sync(FULL_WARP, length, k), source = __shfl_sync(FULL_WARP, from, k);
            const u32 to = made + __shfl_sync(FULL_WARP, before, k), literal = __shfl_sync(FULL_WARP, code, k);
            for (u32 i = lane; i < bytes && to + i < room; i += 32) {
                out[to + i] = literal < LZW_CLEAR ? (u8)literal : segment[source + i];
            }
        }
        made = total > room - made ? room : made + total;
        if (special < LZW_THREADS) {
            bit += 12 * (special + 1);
            const bool clear = bits.code(bit - 12, 12) == LZW_CLEAR;
            __syncthreads();
            return LzwSegment{0, bit, clear ? (u32)STATUS_OK : (u32)STATUS_INPUT, false};
        }
        bit += 12 * LZW_THREADS;
        __syncthreads();
    }
    return LzwSegment{0, bit, STATUS_OK, false};
}

// One block decodes a tile, one segment after the other.
template <bool OLD> DEVICE void lzw_in_order(LzwShared& s, const Tile& tile, u32* status) {
    const LzwBits<OLD> bits(tile);
    u64 bit = bits.first;
    u32 at = 0;
    u32 outcome = STATUS_OK;
    // A writer that clears its table every few bytes keeps one thread busy and 255 waiting: better done by the host.
    u32 patience = 64 + tile.out_bytes / 256;
    while (at < tile.out_bytes && outcome == STATUS_OK) {
        if (patience-- == 0) {
            outcome = STATUS_FOREIGN;
            break;
        }
        LzwSegment segment = lzw_codes(s, bits, bit);
        u8* out = tile.out + at;
        u32 bytes = 0;
        if (segment.codes > 0) {
            bytes = smaller(lzw_places(s, segment.codes), tile.out_bytes - at);
            lzw_backs(s, segment.codes);
            lzw_write(s, segment.codes, out, bytes);
            at += bytes;
        }
        if (segment.full && at < tile.out_bytes) {
            u32 made;
            segment = lzw_go_on(s, bits, segment.next, out, tile.out + at, tile.out_bytes - at, made);
            at += made;
        }
        bit = segment.next;
        outcome = segment.status;
        __syncthreads();
    }
    if (threadIdx.x == 0) status[tile.id] = at == tile.out_bytes ? (u32)STATUS_OK : outcome;
}

DEVICE u64 lzw_peek(const u64* state) { return *(const volatile u64*)state; }
DEVICE void lzw_tell(u64* state, u32 kind, u64 bytes) { *(volatile u64*)state = (u64)kind << 62 | bytes; }

// One warp looks back at the segments before: gives their bytes in all, or that one of them failed. Slots are taken in
// their order, so the blocks looked at have begun.
DEVICE bool lzw_look_back(const LzwSlot* own, u32 number, u32 lane, u64& before) {
    // Large tiles have hundreds of segments at work: these many times 32 are asked at once, for each answer takes long.
    enum { AT_ONCE = 8 };
    before = 0;
    u64 states[AT_ONCE] = {};
    for (int first = (int)number - 1, k = 0; first >= 0; first -= 32, ++k) {
        const int mine = first - (int)lane;
        if (k % AT_ONCE == 0) {
#pragma unroll
            for (int i = 0; i < AT_ONCE; ++i) {
                states[i] = mine >= 32 * i ? lzw_peek(&own[mine - 32 * i].state) : (u64)LZW_ALL << 62;
            }
        }
        u64 state = states[0];
        // A shift of registers, for an index would move them to memory.
#pragma unroll
        for (int i = 0; i + 1 < AT_ONCE; ++i) states[i] = states[i + 1];
        while (state >> 62 == LZW_UNKNOWN) state = lzw_peek(&own[mine].state);
        const u32 failed = __ballot_sync(FULL_WARP, state >> 62 == LZW_FAILED);
        const u32 all = __ballot_sync(FULL_WARP, state >> 62 == LZW_ALL);
        // The nearest lane that knows all before it, and those nearer than that.
        const u32 nearest = all ? (u32)__ffs((int)all) - 1 : 32;
        if (failed && (u32)__ffs((int)failed) - 1 < nearest) return false;
        u64 bytes = lane <= nearest ? state & ~(3ull << 62) : 0;
        for (int d = 16; d > 0; d /= 2) bytes += __shfl_xor_sync(FULL_WARP, bytes, d);
        before += bytes;
        if (nearest < 32) return true;
    }
    return true;
}

// One block decodes one segment of the list.
DEVICE void lzw_segment(LzwShared& s, const Tile& tile, LzwSlot* slot, u32* status) {
    const u32 thread = threadIdx.x, number = slot->number;
    const bool last = slot->last;
    const LzwBits<false> bits(tile);
    const LzwSegment segment = lzw_codes(s, bits, slot->start);
    const u32 bytes = segment.codes > 0 ? lzw_places(s, segment.codes) : 0;
    // All but the last must end where the list says.
    const bool foreseen = last || (segment.status == STATUS_OK && segment.next == slot[1].start);
    if (thread == 0) lzw_tell(&slot->state, !foreseen ? LZW_FAILED : number == 0 ? LZW_ALL : LZW_OWN, bytes);
    // What can be done before its place is known gives the others time to say theirs.
    lzw_backs(s, segment.codes);
    if (thread < 32) {
        u64 before = 0;
        const bool good = foreseen && lzw_look_back(slot - number, number, thread, before);
        if (thread == 0) {
            if (number > 0) lzw_tell(&slot->state, good ? LZW_ALL : LZW_FAILED, before + bytes);
            s.bad = !good;
            s.before = before;
        }
    }
    __syncthreads();
    if (s.bad) {
        if (thread == 0) status[tile.id] = STATUS_RETRY;
        return;
    }
    const u32 at = s.before < tile.out_bytes ? (u32)s.before : tile.out_bytes;
    const u32 wanted = smaller(bytes, tile.out_bytes - at);
    if (wanted > 0) lzw_write(s, segment.codes, tile.out + at, wanted);
    if (!last || thread != 0) return;
    // What comes behind the last of the list is not foreseen: a table that stays full, or one cleared early.
    const bool done = at + wanted == tile.out_bytes;
    const bool more = segment.status == STATUS_OK;
    status[tile.id] = done ? (u32)STATUS_OK : more ? (u32)STATUS_RETRY : segment.status;
}
