// PackBits, row by row, with the very packets of the host's codec.
//
// A row falls into runs of equal bytes, of at most 128 each. A run of three or more is a packet, a single byte belongs to a
// literal, and a pair is whatever came before it: inside of a literal it costs no more there. So each byte knows its kind
// from the last run that was no pair, and what it adds to the output: a warp looks at 32 bytes at once.
#pragma once
#include "frame.cuh"

enum { PACKBITS_LONGEST = 128 };

// What goes from one step of a row to the next.
struct PackBitsRow {
    u32 run_start = 0;      // of the run that the last byte belongs to
    u32 literal_start = 0;  // of the literal, likewise
    bool literal = false;   // the last byte belongs to one
    bool repeats = true;    // the last run that was no pair became a packet of its own
    u32 at = 0;             // next byte of the output
    u32 head = 0;           // where the head of the literal's last packet goes
    u32 length = 0;         // of that packet so far, less one
};

// The last one of `mask` up to this lane, or `before` for none.
DEVICE u32 last_up_to(u32 mask, u32 lane, u32 base, u32 before) {
    const u32 here = mask & (~0u >> (31 - lane));
    return here ? base + 31 - (u32)__clz((int)here) : before;
}

// Packs a row of `bytes`, or counts what it becomes. Gives the bytes of the output.
template <bool WRITE> DEVICE u32 packbits_row(const u8* in, u32 bytes, u8* out, u32 lane) {
    PackBitsRow row;
    const u32 below = (1u << lane) - 1;
    for (u32 base = 0; base < bytes; base += 32) {
        const u32 place = base + lane, left = place < bytes ? bytes - place : 0;
        const bool valid = left > 0;
        const u32 own = valid ? in[place] : 0;
        const bool starts = valid && (place == 0 || in[place - 1] != own);
        const bool next_same = left > 1 && in[place + 1] == own;
        const bool long_run = next_same && left > 2 && in[place + 2] == own;

        const u32 all_starts = __ballot_sync(FULL_WARP, starts);
        const u32 in_run = (place - last_up_to(all_starts, lane, base, row.run_start)) % PACKBITS_LONGEST;
        const bool head = valid && in_run == 0, pair = next_same && !long_run;
        const u32 deciders = __ballot_sync(FULL_WARP, head && !pair);
        const u32 repeaters = __ballot_sync(FULL_WARP, head && long_run);
        const u32 decider = deciders & (~0u >> (31 - lane));
        const bool repeats = decider ? repeaters >> (31 - (u32)__clz((int)decider)) & 1 : row.repeats;

        const bool literal = valid && !repeats;
        const u32 literals = __ballot_sync(FULL_WARP, literal);
        const u32 literal_starts = literals & ~(literals << 1 | (row.literal ? 1u : 0u));
        const u32 literal_start = last_up_to(literal_starts, lane, base, row.literal_start);
        const u32 in_packet = (place - literal_start) % PACKBITS_LONGEST;
        const bool run_ends = valid && repeats && (!next_same || in_run == PACKBITS_LONGEST - 1);
        const u32 heads = __ballot_sync(FULL_WARP, literal && in_packet == 0);
        const u32 ends = __ballot_sync(FULL_WARP, run_ends);
        const u32 at = row.at + (u32)(__popc(literals & below) + __popc(heads & below) + 2 * __popc(ends & below));

        if (WRITE) {
            // A literal that came to its end with the last step.
            if (lane == 0 && row.literal && !literal) out[row.head] = (u8)row.length;
            if (run_ends) {
                out[at] = (u8)(256 - in_run);
                out[at + 1] = (u8)own;
            }
            if (literal) {
                const u32 data = at + (in_packet == 0);
                out[data] = (u8)own;
                const bool goes_on = lane < 31 ? literals >> (lane + 1) & 1 : left > 1;
                if (in_packet == PACKBITS_LONGEST - 1 || !goes_on) out[data - in_packet - 1] = (u8)in_packet;
            }
            row.head = __shfl_sync(FULL_WARP, at + (in_packet == 0) - in_packet - 1, 31);
            row.length = __shfl_sync(FULL_WARP, in_packet, 31);
        }
        row.at += (u32)(__popc(literals) + __popc(heads) + 2 * __popc(ends));
        row.run_start = last_up_to(all_starts, 31, base, row.run_start);
        row.literal_start = last_up_to(literal_starts, 31, base, row.literal_start);
        row.literal = literals >> 31;
        row.repeats = deciders ? repeaters >> (31 - (u32)__clz((int)deciders)) & 1 : row.repeats;
    }
    return row.at;
}

// A row of a tile: `out_bytes` of the tile are those of a row, and `out` is a word for each row.
struct PackBitsWork {
    Tile tile;
    u32 row;

    DEVICE_MEMBER u32 rows() const { return (tile.in_bytes + tile.out_bytes - 1) / tile.out_bytes; }
    DEVICE_MEMBER const u8* in() const { return tile.in + (u64)row * tile.out_bytes; }
    DEVICE_MEMBER u32 bytes() const { return smaller(tile.out_bytes, tile.in_bytes - row * tile.out_bytes); }
    DEVICE_MEMBER u32* place() const { return (u32*)tile.out + row; }
};

struct PackBitsSumShared {
    u32 warps[32];
};

// Turns the sizes of rows into their places, and gives the size of the tile.
DEVICE u64 packbits_places(PackBitsSumShared& shared, const Tile& tile) {
    const PackBitsWork work = {tile, 0};
    const u32 rows = work.rows();
    u32* sizes = (u32*)tile.out;
    u32 before = 0;
    for (u64 first = 0; first < rows; first += 256) {
        const u64 row = first + threadIdx.x;
        const u32 own = row < rows ? sizes[row] : 0;
        u32 total;
        const u32 lower = block_sum_before<256>(own, shared.warps, total);
        if (row < rows) sizes[row] = before + lower;
        before += total;
        __syncthreads();
    }
    return before;
}
