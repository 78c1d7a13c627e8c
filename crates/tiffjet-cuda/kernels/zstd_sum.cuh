// The checksum of frames: XXH64 with seed 0, of which a frame has the low half.
#pragma once
#include "zstd.cuh"

static constexpr u64 XXH_1 = 0x9e3779b185ebca87ull, XXH_2 = 0xc2b2ae3d27d4eb4full, XXH_3 = 0x165667b19e3779f9ull,
                     XXH_4 = 0x85ebca77c2b2ae63ull, XXH_5 = 0x27d4eb2f165667c5ull;

DEVICE u64 xxh_turn(u64 x, u32 n) { return x << n | x >> (64 - n); }
DEVICE u64 xxh_round(u64 state, u64 lane) { return xxh_turn(state + lane * XXH_2, 31) * XXH_1; }
DEVICE u64 xxh_merge(u64 hash, u64 state) { return (hash ^ xxh_round(0, state)) * XXH_1 + XXH_4; }
DEVICE u64 xxh_load(const u8* p) { return zstd_load(p) | static_cast<u64>(zstd_load(p + 4)) << 32; }

// Lanes 0 to 3 of a warp have one of the four states each; all lanes get the result.
DEVICE u64 xxh64(const u8* p, u32 size, u32 lane) {
    u64 hash = XXH_5;
    u32 rounds = size / 32;
    if (rounds) {
        u64 state = lane == 0 ? XXH_1 + XXH_2 : lane == 1 ? XXH_2 : lane == 2 ? 0 : 0 - XXH_1;
        if (lane < 4) {
            for (u32 k = 0; k < rounds; ++k) state = xxh_round(state, xxh_load(p + k * 32 + lane * 8));
        }
        u64 s[4];
        for (u32 k = 0; k < 4; ++k) s[k] = __shfl_sync(FULL_WARP, state, k);
        hash = xxh_turn(s[0], 1) + xxh_turn(s[1], 7) + xxh_turn(s[2], 12) + xxh_turn(s[3], 18);
        for (u32 k = 0; k < 4; ++k) hash = xxh_merge(hash, s[k]);
    }
    hash += size;
    u32 at = rounds * 32;
    for (; at + 8 <= size; at += 8) hash = xxh_turn(hash ^ xxh_round(0, xxh_load(p + at)), 27) * XXH_1 + XXH_4;
    if (at + 4 <= size) {
        hash = xxh_turn(hash ^ zstd_load(p + at) * XXH_1, 23) * XXH_2 + XXH_3;
        at += 4;
    }
    for (; at < size; ++at) hash = xxh_turn(hash ^ p[at] * XXH_5, 11) * XXH_1;
    hash = (hash ^ hash >> 33) * XXH_2;
    hash = (hash ^ hash >> 29) * XXH_3;
    return hash ^ hash >> 32;
}

// All checksums of a tile.
DEVICE void zstd_check_sums(const Tile& tile, u32 index, u32* status, const ZstdScratch& s, u32 lane) {
    ZstdTile list = s.tiles[index];
    if (list.sums == 0 || status[tile.id] != STATUS_OK) return;
    u32 done = 0;
    for (u32 k = 0; k < list.count; ++k) {
        const ZstdBlock& b = s.blocks[list.first + k];
        // Frames after the one that filled the tile were not decoded.
        if ((b.flags & ZSTD_FIRST) && k && done == tile.out_bytes) return;
        if (!(b.flags & ZSTD_LAST) || !(b.flags & ZSTD_SUM)) continue;
        u64 sum = xxh64(tile.out + b.frame_at, b.frame_end - b.frame_at, lane);
        if (lane == 0 && static_cast<u32>(sum) != b.sum) zstd_fail(status, tile, STATUS_CHECKSUM);
        done = b.frame_end;
    }
}
