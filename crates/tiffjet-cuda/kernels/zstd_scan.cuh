// The headers of frames and blocks, a warp for each tile: what there is to decode, and where.
#pragma once
#include "zstd.cuh"

enum : u32 { ZSTD_MAGIC = 0xfd2fb528u, ZSTD_SKIP = 0x184d2a50u, ZSTD_BLOCK_MOST = 128 * 1024 };
// Frames to be skipped that a tile may have: nobody writes many, and each makes the walk longer.
enum : u32 { ZSTD_SKIPS = 64 };

// A walk over frames and blocks. It ends where the data do, or with a status that says why it went no further.
struct ZstdWalk {
    const u8* in;
    u32 in_bytes;
    u32 out_bytes;
    u32 at;
    u32 status;
    u32 flags;  // of the open frame, and FIRST until its first block
    u32 open;
    u32 most;
    u32 content;
    u32 skips;
};

// What the header of a block says, and its frame.
struct ZstdStep {
    u32 kind, flags, at, size, most, content, sum;
};

DEVICE ZstdWalk zstd_walk(const Tile& tile) {
    return ZstdWalk{tile.in, tile.in_bytes, tile.out_bytes, 0, STATUS_OK, 0, 0, 0, 0, 0};
}

DEVICE bool zstd_stop(ZstdWalk& w, u32 status) {
    w.status = status;
    return false;
}

// Opens the frame at `at`, or goes past one that is to be skipped.
DEVICE bool zstd_frame(ZstdWalk& w) {
    u32 left = w.in_bytes - w.at;
    if (left < 5) return zstd_stop(w, STATUS_INPUT);
    const u8* p = w.in + w.at;
    u32 magic = zstd_load(p);
    if ((magic & ~15u) == ZSTD_SKIP) {
        if (left < 8) return zstd_stop(w, STATUS_INPUT);
        u32 size = zstd_load(p + 4);
        if (size > left - 8) return zstd_stop(w, STATUS_INPUT);
        if (++w.skips > ZSTD_SKIPS) return zstd_stop(w, STATUS_FOREIGN);
        w.at += 8 + size;
        return true;
    }
    if (magic != ZSTD_MAGIC) return zstd_stop(w, STATUS_FOREIGN);
    u32 descriptor = p[4], single = descriptor >> 5 & 1;
    u32 dictionary = descriptor & 3, content = descriptor >> 6;
    u32 dictionary_size = dictionary == 3 ? 4 : dictionary;
    u32 content_size = content ? 1u << content : single;
    u32 size = 5 + (1 - single) + dictionary_size + content_size;
    if (left < size) return zstd_stop(w, STATUS_INPUT);
    if (descriptor & 8) return zstd_stop(w, STATUS_FOREIGN);
    u32 window = p[5];
    p += 5 + (1 - single);
    if (dictionary_size && (zstd_load(p) & (FULL_WARP >> (32 - 8 * dictionary_size)))) return zstd_stop(w, STATUS_FOREIGN);
    p += dictionary_size;
    u32 most = ZSTD_BLOCK_MOST;
    w.flags = ZSTD_FIRST;
    if (descriptor & 4) w.flags |= ZSTD_SUM;
    w.content = 0;
    if (content_size) {
        u32 low = zstd_load(p);
        if (content_size < 4) low &= content_size == 1 ? 0xff : 0xffff;
        if (content_size == 2) low += 256;
        u32 high = content_size == 8 ? zstd_load(p + 4) : 0;
        // More than there is room for: the host looks at what it may keep of it.
        if (high || low > w.out_bytes) return zstd_stop(w, STATUS_FOREIGN);
        w.flags |= ZSTD_CONTENT;
        w.content = low;
        if (single) most = zstd_min(most, low);
    }
    if (!single) {
        u32 exponent = window >> 3;
        // 2 GiB is the most that the host takes.
        if (exponent > 21) return zstd_stop(w, STATUS_FOREIGN);
        u32 base = 1u << zstd_min(10 + exponent, 24);
        most = zstd_min(most, base + (base >> 3) * (window & 7));
    }
    w.most = most;
    w.open = 1;
    w.at += size;
    return true;
}

// The next block, or false at the end.
DEVICE bool zstd_next(ZstdWalk& w, ZstdStep& step) {
    // A frame that is opened has a block or an end, one that is skipped takes eight bytes.
    while (!w.open) {
        if (w.at == w.in_bytes) return false;
        if (!zstd_frame(w)) return false;
    }
    if (w.in_bytes - w.at < 3) return zstd_stop(w, STATUS_INPUT);
    u32 header = zstd_load(w.in + w.at) & 0xffffff;
    u32 size = header >> 3, kind = header >> 1 & 3;
    if (kind == 3 || size > w.most) return zstd_stop(w, STATUS_DAMAGED);
    u32 content = kind == ZSTD_RLE ? 1 : size;
    if (w.in_bytes - w.at - 3 < content) return zstd_stop(w, STATUS_INPUT);
    step.kind = kind;
    step.at = w.at + 3;
    step.size = size;
    step.most = w.most;
    step.content = w.content;
    step.sum = 0;
    step.flags = w.flags;
    w.at += 3 + content;
    w.flags &= ~static_cast<u32>(ZSTD_FIRST);
    if (header & 1) {
        step.flags |= ZSTD_LAST;
        w.open = 0;
        if (w.flags & ZSTD_SUM) {
            if (w.in_bytes - w.at < 4) return zstd_stop(w, STATUS_INPUT);
            step.sum = zstd_load(w.in + w.at);
            w.at += 4;
        }
    }
    return true;
}

// The headers inside a compressed block.
DEVICE u32 zstd_parts(const u8* in, ZstdBlock& b) {
    if (b.size < 3) return STATUS_DAMAGED;
    const u8* p = in + b.at;
    u32 word = zstd_load(p), kind = word & 3, format = word >> 2 & 3, header, compressed;
    b.literals_kind = kind;
    b.streams = 1;
    if (kind < ZSTD_LITERALS_TREE) {
        header = format == 1 ? 2 : format == 3 ? 3 : 1;
        b.literals = header == 1 ? (word & 0xff) >> 3 : header == 2 ? (word & 0xffff) >> 4 : (word & 0xffffff) >> 4;
        compressed = kind == ZSTD_LITERALS_RLE ? 1 : b.literals;
    } else {
        u32 bits = format == 3 ? 18 : format == 2 ? 14 : 10, mask = (1u << bits) - 1;
        header = 3 + (format > 1 ? format - 1 : 0);
        b.streams = format ? 4 : 1;
        if (header > b.size) return STATUS_DAMAGED;
        u64 wide = word | static_cast<u64>(p[4]) << 32;
        b.literals = static_cast<u32>(wide >> 4) & mask;
        compressed = static_cast<u32>(wide >> (4 + bits)) & mask;
        if (!b.literals || !compressed) return STATUS_DAMAGED;
    }
    if (b.literals > b.most || header + compressed >= b.size) return STATUS_DAMAGED;
    b.literals_at = b.at + header;
    b.literals_size = compressed;
    u32 at = header + compressed, left = b.size - at;
    p = in + b.at + at;
    u32 n = p[0], used = 1;
    if (n == 0) {
        b.sequences = 0;
        b.modes = 0;
        b.sequences_at = b.at + b.size;
        return left == 1 ? STATUS_OK : STATUS_DAMAGED;
    }
    u32 next = zstd_load(p + 1);
    if (n == 255) {
        n = (next & 0xffff) + 0x7f00;
        used = 3;
    } else if (n > 127) {
        n = ((n - 128) << 8) + (next & 0xff);
        used = 2;
    }
    // After the count the modes, and at least one byte of bits.
    if (left < used + 2 || n == 0) return STATUS_DAMAGED;
    u32 modes = p[used];
    if (modes & 3) return STATUS_DAMAGED;
    b.sequences = n;
    b.modes = (modes >> 6) | (modes >> 4 & 3) << 2 | (modes >> 2 & 3) << 4;
    b.sequences_at = b.at + at + used + 1;
    return b.literals + 3ull * n <= b.most ? STATUS_OK : STATUS_DAMAGED;
}

DEVICE u32 zstd_sum_scan(u32 x, u32 lane) {
    for (u32 d = 1; d < 32; d <<= 1) {
        u32 y = __shfl_up_sync(FULL_WARP, x, d);
        if (lane >= d) x += y;
    }
    return x;
}

// The nearest block at or before each lane's that describes a table, in the frame; `carry` is the one before lane 0.
DEVICE u32 zstd_source(u32 describes, u32 firsts, u32 base, u32 carry, u32 lane) {
    u32 upto = FULL_WARP >> (31 - lane);
    u32 mine = describes & upto, frame = firsts & upto;
    if (mine && (!frame || zstd_high_bit(mine) >= zstd_high_bit(frame))) return base + zstd_high_bit(mine);
    return frame ? static_cast<u32>(ZSTD_NONE) : carry;
}

// Lists the blocks of a tile; all lanes walk together, then each looks into one of 32 blocks.
DEVICE void zstd_scan_tile(const Tile& tile, u32 index, u32* status, const ZstdScratch& s, u32 lane) {
    u32 most = tile.out_bytes / ZSTD_BYTES_PER_BLOCK + ZSTD_FREE_BLOCKS;
    ZstdStep step;
    u32 count = 0, tail = STATUS_OK;
    if (tile.in_bytes > ZSTD_MOST_INPUT || tile.out_bytes > ZSTD_MOST_OUTPUT) {
        tail = STATUS_FOREIGN;
    } else {
        ZstdWalk w = zstd_walk(tile);
        while (zstd_next(w, step)) {
            if (count == most) {
                w.status = STATUS_FOREIGN;
                break;
            }
            ++count;
        }
        tail = w.status;
    }
    u32 first = 0;
    if (lane == 0 && count) first = atomicAdd(&s.counters->blocks, count);
    first = __shfl_sync(FULL_WARP, first, 0);

    u32 listed = 0, sums = 0, room = tile.out_bytes;
    u32 carry[4] = {ZSTD_NONE, ZSTD_NONE, ZSTD_NONE, ZSTD_NONE};
    ZstdWalk w = zstd_walk(tile);
    for (u32 base = 0; base < count; base += 32) {
        u32 n = zstd_min(32, count - base);
        ZstdBlock b = {};
        for (u32 k = 0; k < n; ++k) {
            zstd_next(w, step);
            if (k != lane) continue;
            b.tile = index;
            b.kind = step.kind;
            b.flags = step.flags;
            b.at = step.at;
            b.size = step.size;
            b.most = step.most;
            b.content = step.content;
            b.sum = step.sum;
        }
        u32 bad = STATUS_OK, least = b.size;
        bool compressed = lane < n && b.kind == ZSTD_COMPRESSED;
        if (compressed) {
            bad = zstd_parts(tile.in, b);
            least = bad ? 0 : b.literals + 3 * b.sequences;
        }
        // What the tile cannot hold is not listed: so the arena always suffices.
        u32 upto = zstd_sum_scan(least, lane);
        if (!bad && lane < n && upto > room) bad = STATUS_FOREIGN;
        bool parts = compressed && !bad, coded = parts && b.sequences;
        u32 firsts = __ballot_sync(FULL_WARP, lane < n && (b.flags & ZSTD_FIRST));
        for (u32 k = 0; k < 4; ++k) {
            bool uses = k == ZSTD_TREE ? parts && b.literals_kind >= ZSTD_LITERALS_TREE : coded;
            bool own = k == ZSTD_TREE ? b.literals_kind == ZSTD_LITERALS_TREE : (b.modes >> 2 * k & 3) != ZSTD_REPEAT;
            u32 describes = __ballot_sync(FULL_WARP, uses && own);
            b.from[k] = zstd_source(describes, firsts, first + base, carry[k], lane);
            if (uses && b.from[k] == ZSTD_NONE) bad = STATUS_DAMAGED;
            carry[k] = __shfl_sync(FULL_WARP, b.from[k], 31);
        }
        u32 wrong = __ballot_sync(FULL_WARP, bad != STATUS_OK);
        u32 good = wrong ? zstd_high_bit(wrong & (0u - wrong)) : n;
        bool listing = lane < good;
        bool tree = listing && compressed && b.literals_kind >= ZSTD_LITERALS_TREE;
        bool codes = listing && coded;
        u32 literals_units = tree ? (b.literals + ZSTD_UNIT - 1) / ZSTD_UNIT + 1 : 0;
        u32 units = literals_units + (codes ? (b.sequences + 1) / 2 : 0);
        u32 units_upto = zstd_sum_scan(units, lane);
        u32 total = __shfl_sync(FULL_WARP, units_upto, 31);
        u32 trees = __ballot_sync(FULL_WARP, tree), coders = __ballot_sync(FULL_WARP, codes);
        u32 unit = 0, tree_job = 0, code_job = 0;
        if (lane == 0) {
            if (total) unit = atomicAdd(&s.counters->units, total);
            if (trees) tree_job = atomicAdd(&s.counters->literals, static_cast<u32>(__popc(trees)));
            if (coders) code_job = atomicAdd(&s.counters->sequences, static_cast<u32>(__popc(coders)));
        }
        unit = __shfl_sync(FULL_WARP, unit, 0);
        tree_job = __shfl_sync(FULL_WARP, tree_job, 0);
        code_job = __shfl_sync(FULL_WARP, code_job, 0);
        u32 before = (1u << lane) - 1;
        if (listing) {
            b.literals_unit = unit + units_upto - units;
            b.sequences_unit = b.literals_unit + literals_units;
            s.blocks[first + base + lane] = b;
        }
        if (tree) s.literals[tree_job + __popc(trees & before)] = first + base + lane;
        if (codes) s.sequences[code_job + __popc(coders & before)] = first + base + lane;
        listed += good;
        sums += __popc(__ballot_sync(FULL_WARP, listing && (b.flags & ZSTD_LAST) && (b.flags & ZSTD_SUM)));
        if (wrong) {
            tail = __shfl_sync(FULL_WARP, bad, good);
            break;
        }
        room -= __shfl_sync(FULL_WARP, upto, 31);
    }
    if (lane == 0) {
        s.tiles[index] = ZstdTile{first, listed, tail, sums};
        status[tile.id] = STATUS_OK;
    }
}
