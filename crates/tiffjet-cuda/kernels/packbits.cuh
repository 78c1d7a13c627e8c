// PackBits: a header of one byte says whether bytes as they are or a repeated one follow.
//
// Where a header stands depends on all headers before. So a block looks at a piece of the input as if every byte were a
// header: each names the next. Following these names from the first, which is a header, finds all: after one round the
// first two, then four, eight and so on, while the names are made to jump twice as far each time. Sums over the headers
// give every packet its place in the output, which is then made in units of 16 bytes.
#pragma once
#include "abi.h"
#include "lanes.h"

enum {
    PACKBITS_THREADS = 256,
    PACKBITS_PIECE = 4096,  // bytes of the input looked at together
    PACKBITS_PER_THREAD = PACKBITS_PIECE / PACKBITS_THREADS,
    PACKBITS_PACKET = 129,  // bytes of the longest packet
    // A packet that begins in the piece may end behind it; and the piece begins anywhere in 16 bytes.
    PACKBITS_STAGED = (PACKBITS_PIECE + PACKBITS_PACKET + 15 + 15) & ~15,
};

struct PackBitsShared {
    __align__(16) u8 staged[PACKBITS_STAGED];
    __align__(16) u8 header[PACKBITS_PIECE];  // 1 for a byte that is one
    union {
        u16 next[PACKBITS_PIECE];    // where the header stands that comes after this one, if this is one
        u16 packet[PACKBITS_PIECE];  // headers in order, those that give bytes
    };
    u32 place[PACKBITS_PIECE + 1];  // of each packet in the output of the piece
    u32 sums[2][32];
    u32 exit;  // behind the last packet of the piece
};

static_assert(PACKBITS_PER_THREAD == 16, "a thread's marks are one Quad");

// A packet at `at` of the piece, of which `left` bytes of input are left, its header included.
struct Packet {
    u32 header, takes, gives;

    __device__ Packet(u32 byte, u32 left) : header(byte) {
        if (byte < 128) {
            takes = byte + 2;
            // Writers that cut the last packet short have still given these bytes.
            gives = smaller(byte + 1, left - 1);
        } else {
            takes = byte == 128 ? 1 : 2;
            gives = byte == 128 || left < 2 ? 0 : 257 - byte;
        }
    }
};

// Brings `bytes` bytes of input into shared memory; gives where the first of them stands.
DEVICE u32 packbits_stage(PackBitsShared& s, const u8* in, u32 bytes) {
    const u32 skew = (u32)(address_of(in) & 15);
    for (u32 at = 16 * threadIdx.x; at < skew + bytes; at += 16 * PACKBITS_THREADS) {
        *(Quad*)(s.staged + at) = *(const Quad*)(in - skew + at);
    }
    __syncthreads();
    return skew;
}

// Marks the headers among the first `bytes` bytes of the piece.
DEVICE void packbits_headers(PackBitsShared& s, const u8* piece, u32 bytes, u32 left) {
    const u32 thread = threadIdx.x;
    if (thread == 0) s.exit = bytes;
#pragma unroll
    for (u32 k = 0; k < PACKBITS_PER_THREAD; ++k) {
        const u32 at = k * PACKBITS_THREADS + thread;
        s.header[at] = at == 0;
        if (at < bytes) s.next[at] = (u16)smaller(at + Packet(piece[at], left - at).takes, bytes);
    }
    __syncthreads();
    // Each round marks as many headers as there are: never more rounds than the piece has bits in its length.
    while (s.next[0] < bytes) {
        u16 far[PACKBITS_PER_THREAD];
        u32 marks = 0;
#pragma unroll
        for (u32 k = 0; k < PACKBITS_PER_THREAD; ++k) {
            const u32 at = k * PACKBITS_THREADS + thread;
            far[k] = (u16)bytes;
            if (at >= bytes) continue;
            const u32 next = s.next[at];
            if (next < bytes) far[k] = s.next[next];
            if (s.header[at]) marks |= 1u << k;
        }
        __syncthreads();
#pragma unroll
        for (u32 k = 0; k < PACKBITS_PER_THREAD; ++k) {
            const u32 at = k * PACKBITS_THREADS + thread;
            if (at >= bytes) continue;
            const u32 next = s.next[at];
            if ((marks >> k & 1) && next < bytes) s.header[next] = 1;
            s.next[at] = far[k];
        }
        __syncthreads();
    }
}

// Lists the packets in order with their places in the output; gives how many they are, and their bytes in `total`.
DEVICE u32 packbits_places(PackBitsShared& s, const u8* piece, u32 bytes, u32 left, u32& total) {
    const u32 first = threadIdx.x * PACKBITS_PER_THREAD;
    const Quad quad = *(const Quad*)(s.header + first);
    const u32 marks[4] = {quad.x, quad.y, quad.z, quad.w};
    u32 count = 0, gives = 0, given[PACKBITS_PER_THREAD];
#pragma unroll
    for (u32 k = 0; k < PACKBITS_PER_THREAD; ++k) {
        const u32 at = first + k;
        given[k] = 0;
        if (at >= bytes || !(marks[k / 4] >> 8 * (k % 4) & 1)) continue;
        const Packet packet(piece[at], left - at);
        given[k] = packet.gives;
        count += packet.gives > 0;
        gives += packet.gives;
        if (at + packet.takes >= bytes) s.exit = at + packet.takes;  // one header alone
    }
    u32 packets;
    u32 number = block_sum_before<PACKBITS_THREADS>(count, s.sums[0], packets);
    u32 place = block_sum_before<PACKBITS_THREADS>(gives, s.sums[1], total);
#pragma unroll
    for (u32 k = 0; k < PACKBITS_PER_THREAD; ++k) {
        if (given[k] == 0) continue;
        s.packet[number] = (u16)(first + k);
        s.place[number] = place;
        ++number;
        place += given[k];
    }
    if (threadIdx.x == 0) s.place[packets] = total;
    __syncthreads();
    return packets;
}

// Makes the first `bytes` bytes of the output of a piece.
DEVICE void packbits_write(const PackBitsShared& s, const u8* piece, u32 packets, u8* out, u32 bytes) {
    const u32 skew = (u32)(address_of(out) & 15);
    for (u32 unit = 16 * threadIdx.x; unit < skew + bytes; unit += 16 * PACKBITS_THREADS) {
        const u32 begin = unit < skew ? 0 : unit - skew, end = smaller(unit + 16 - skew, bytes);
        // The packet that the first byte belongs to: the last that begins at or before it.
        u32 packet = 0;
        for (u32 behind = packets; behind - packet > 1;) {
            const u32 middle = (packet + behind) / 2;
            if (s.place[middle] <= begin) packet = middle;
            else behind = middle;
        }
        u32 words[4] = {0, 0, 0, 0};
        u32 from = s.packet[packet], place = s.place[packet], next = s.place[packet + 1];
#pragma unroll
        for (u32 i = 0; i < 16; ++i) {
            const u32 at = unit + i - skew;
            if (unit + i < skew || at >= end) continue;
            if (at == next) {
                ++packet;
                from = s.packet[packet];
                place = next;
                next = s.place[packet + 1];
            }
            const u32 byte = piece[from] < 128 ? piece[from + 1 + at - place] : piece[from + 1];
            words[i / 4] |= byte << 8 * (i % 4);
        }
        u8* to = out - skew + unit;
        if (unit >= skew && unit + 16 <= skew + bytes) {
            *(Quad*)to = Quad{words[0], words[1], words[2], words[3]};
            continue;
        }
#pragma unroll
        for (u32 i = 0; i < 16; ++i) {
            if (unit + i >= skew && unit + i < skew + bytes) to[i] = (u8)(words[i / 4] >> 8 * (i % 4));
        }
    }
}

// One block decodes a tile, piece after piece.
DEVICE void packbits_tile(PackBitsShared& s, const Tile& tile, u32* status) {
    u32 made = 0;
    u64 taken = 0;
    while (made < tile.out_bytes && taken < tile.in_bytes) {
        const u32 left = (u32)(tile.in_bytes - taken), bytes = smaller(left, PACKBITS_PIECE);
        const u32 skew = packbits_stage(s, tile.in + taken, smaller(left, PACKBITS_PIECE + PACKBITS_PACKET));
        const u8* piece = s.staged + skew;
        packbits_headers(s, piece, bytes, left);
        u32 total;
        const u32 packets = packbits_places(s, piece, bytes, left, total);
        total = smaller(total, tile.out_bytes - made);
        if (total > 0) packbits_write(s, piece, packets, tile.out + made, total);
        made += total;
        taken += s.exit;
        __syncthreads();
    }
    if (threadIdx.x == 0) status[tile.id] = made == tile.out_bytes ? STATUS_OK : STATUS_INPUT;
}
