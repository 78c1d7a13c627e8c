// What the host and the kernels agree on. `src/kernels.rs` has the same structs, and a test compares sizes and offsets.
#pragma once
#include "device.h"

// One compressed tile.
//
// `in` has any alignment; 16 bytes before its first aligned 16-byte unit and 32 bytes after its end can be read (their
// content is anyone's). `out` is aligned to 16 bytes and is followed by 16 bytes that may be overwritten.
struct Tile {
    const u8* in;
    u8* out;
    u32 in_bytes;
    u32 out_bytes;  // exactly what the tile must give
    u32 id;         // the place of its status, and its name in errors
    u32 flags;      // TILE_*
};

// Some writers leave out rows that hang over the lower edge of the image: `out_bytes` may then stay short of the tile's.
// The host sets `out_bytes` to what is wanted; more output than that is ignored, as the host codecs do.
enum { TILE_PLAIN = 0 };

// What became of a tile. Anything but OK makes the host codec decide: it gives the pixels, or the error that users see.
enum Status {
    STATUS_OK = 0,
    STATUS_INPUT = 1,     // the data end before the tile is full
    STATUS_DAMAGED = 2,   // a code, length or distance that cannot be
    STATUS_CHECKSUM = 3,  // Adler-32 or XXH64 differs
    STATUS_RETRY = 4,     // between two kernels of one codec, never seen by the host
    STATUS_FOREIGN = 5,   // valid perhaps, but nothing this kernel decodes
    STATUS_LONGER = 6,    // the tile is full and its pixels stand, if the rest of the data is sound
};

// A part of one decoded tile on its way to its place in an array (band, y, x).
//
// `in` has any alignment; the aligned units of 16 bytes that hold its first and its last byte can be read. Parts do not
// overlap in the array, of which nothing else is written.
struct Place {
    const u8* in;   // first wanted row of the tile, its first column included; null: fill
    u8* out;        // the array of the window this tile belongs to, aligned to a value
    u32 x;          // first wanted pixel of each row of the tile
    u32 height;     // wanted rows
    u32 width;      // wanted pixels of a row
    u32 at_y;       // where they go in the array
    u32 at_x;
    u32 plane;      // band of the file that a planar tile holds; 0 when all bands stand in one
};

enum Predictor { PREDICTOR_NONE = 0, PREDICTOR_HORIZONTAL = 1, PREDICTOR_FLOAT = 2 };

enum Depth {
    DEPTH_WHOLE = 0,    // samples of `size` bytes, as in memory but for their byte order
    DEPTH_BITS = 1,     // `bits` bits, the first in the high ones
    DEPTH_FLOAT24 = 2,  // 1 sign, 7 exponent, 16 fraction bits
};

// How the rows of all tiles of a batch are unpacked: bits turned round, bytes swapped, the predictor undone, samples
// widened, in this order.
struct Format {
    u64 row_bytes;    // of a decoded tile
    u64 out_row;      // bytes from one row of the array to the next, whole values
    u64 out_band;     // bytes from one band of the array to the next, whole values
    u32 tile_width;   // pixels of a row of a tile, padding included; less than 2^31 - 1024
    u32 samples;      // of a pixel in a tile; 1 when the planes are apart
    u32 depth;        // Depth
    u32 bits;         // of a sample in the file
    u32 is_signed;    // sign-extend samples of some bits
    u32 size;         // bytes of a value of the array, 1, 2, 4, 8 or 16
    u32 word;         // bytes of a unit of the horizontal predictor or of a float of the floating point one
    u32 swap;         // bytes of a unit to be turned round, 0 for none
    u32 big;          // floats of 24 bits stand in big-endian order
    u32 predictor;    // Predictor
    u32 planar;       // a tile holds one band
    u32 bands;        // bands of the array
    u32 all;          // the bands of the array are those of the file, in order
    u32 reversed;     // the bits of every byte of uncompressed rows are turned round
    u32 nodata;       // values equal to `nodata_value` become NaN (real floats only; both zeros are equal)
    u32 pad;
    const u16* band_of;  // for each band of the array its band in the file; not read when `all`
    u8 fill[16];         // one value, for tiles that are not in the file; stored as it is, nodata or not
    u8 nodata_value[16];
};

// A tile that is packed from pixels on the device.
//
// `in` and the strides are multiples of the bytes of a value, or of its half where it is complex; the aligned units of 16
// bytes that hold the first and the last byte of a row of the tile can be read. `out` is aligned to 16 bytes; nothing but
// the rows of the tile is written.
struct PackTile {
    const u8* in;            // its first pixel; of a planar tile in its band
    u8* out;
    int64_t band, row, col;  // bytes from one band, row and column of the pixels to the next
    u32 height;              // rows inside the image, 1 at least
    u32 width;               // columns inside the image, 1 at least
    u32 rows;                // of the tile
    u32 pad;
};

// How all tiles of a batch are packed.
struct PackFormat {
    u64 row_bytes;   // of a packed tile
    u32 tile_width;  // pixels of a row of a tile, those outside the image included
    u32 samples;     // of a pixel in a tile
    u32 size;        // bytes of a value, 1, 2, 4, 8 or 16
    u32 bits;        // of a sample in the file; fewer than the value has: the nearest number that fits
    u32 is_signed;
    u32 predictor;  // Predictor
    u32 carried;    // outside the image stands the nearest pixel of it; else zeros
    u32 nan;        // floats that are NaN become `nan_value`
    u32 absent;     // tiles of which all values are `absent_value` are told
    u32 pad;
    u8 nan_value[16];
    u8 absent_value[16];  // one value, repeated
};

// Rows on their way from strides to strides, in bytes, both of which keep values (or halves of complex ones) aligned.
struct CollectCopy {
    const u8* in;
    u8* out;
    int64_t in_band, in_row, in_col;
    int64_t out_band, out_row, out_col;
    u32 bands, rows, columns;
    u32 size;  // bytes of a value, 1, 2, 4, 8 or 16
    u32 nan;   // floats that are NaN become `nan_value`
    u32 pad;
    u8 nan_value[16];
};

// What decides how long tiles are in the file; an array of each, of which `statuses` and `differs` may be null.
struct Lengths {
    const u64* sizes;       // of compressed tiles
    const int32_t* statuses;  // anything but 0: not compressed
    const u32* differs;     // 0: left out of the file
    u32 extra;              // bytes of the frame of a tile
    u32 pad;
};

// Where compressed tiles go, one right behind the other. Tile i goes to `out` + offsets[i] - offsets[first]; one that
// would end behind `room` is not written.
struct Blob {
    const u64* lengths;
    const u64* offsets;
    u8* out;
    u64 room;
    u32 first;  // the tiles of a launch
    u32 count;
};

enum ReduceMethod {
    REDUCE_NEAREST = 0,
    REDUCE_AVERAGE = 1,
    REDUCE_MODE = 2,
    REDUCE_MIN = 3,
    REDUCE_MAX = 4,
    REDUCE_BILINEAR = 5,
    REDUCE_CUBIC = 6,
    REDUCE_RMS = 7,
    REDUCE_GAUSS = 8,
};

// Pixels above, along one axis, that a pixel is made from.
struct ReduceWindow {
    double whole;  // sum of the weights, as the host has it
    u32 start;     // the first pixel
    u32 count;
    u32 weights;   // where the weights of all stand
    u32 pair;      // just two whole pixels
};

// How rows of a level are made from those of the level above. Columns are dense; rows and windows are numbered from the top
// of their level, and all rows above that are needed are there.
struct Reduction {
    const ReduceWindow* columns;  // of all columns of the level
    const ReduceWindow* rows;     // of all its rows
    const double* weights;
    const u8* in;       // the first row that is there
    u64 in_band;        // bytes
    u64 in_row;
    const u8* in_mask;  // rows of a byte a pixel, without gaps; null for none
    u8* out;            // the first row that is made
    u64 out_band;
    u64 out_row;
    u8* out_mask;       // null for none
    u8* whole;          // for each band and row that is there: whether all its pixels count; null when all do always
    u32 in_first;       // number of the first row that is there
    u32 in_rows;
    u32 out_first;      // number of the first row that is made
    u32 out_rows;
    u32 from_width;     // columns above
    u32 width;
    u32 size;           // bytes of a value
    u32 method;         // ReduceMethod
    u32 pairs;          // every window of a column is a pair
    u32 trios;          // none has more than three pixels, and there are three
    u32 masked;         // the image has a mask
    u32 has_nodata;
    u32 negative_nan;   // the sign of what has no result, on the host
    u32 pad;
    u8 nodata[16];
    u8 beside[8];       // written where a result happens to be nodata
    u8 low[8];          // the range of values that the file can hold
    u8 high[8];
};
