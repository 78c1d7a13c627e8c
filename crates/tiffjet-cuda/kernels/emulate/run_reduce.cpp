// Reads plans and rows from the input, gives the rows that are made of them: the other side of `tests/reduce.rs`.
#include "cases.h"

#include "../reduce.cu"

typedef void (*ReduceEntry)(Reduction);

static const struct {
    const char* name;
    ReduceEntry entry;
} ENTRIES[] = {
#define ENTRY(NAME) {#NAME, NAME},
#define ENTRIES_OF(TYPE) ENTRY(reduce_mean_##TYPE) ENTRY(reduce_##TYPE) ENTRY(reduce_whole_##TYPE)
    ENTRIES_OF(u8) ENTRIES_OF(i8) ENTRIES_OF(u16) ENTRIES_OF(i16) ENTRIES_OF(u32) ENTRIES_OF(i32) ENTRIES_OF(u64)
    ENTRIES_OF(i64) ENTRIES_OF(f16) ENTRIES_OF(f32) ENTRIES_OF(f64)
    ENTRY(reduce_complex_i16) ENTRY(reduce_complex_i32) ENTRY(reduce_complex_f32) ENTRY(reduce_complex_f64)
    ENTRY(reduce_nearest) ENTRY(reduce_mask)
};

template <class T> static T next() {
    T value;
    Cases::bytes(&value, sizeof value);
    return value;
}

static ReduceEntry find(const char* name) {
    for (const auto& entry : ENTRIES) {
        if (!strcmp(entry.name, name)) return entry.entry;
    }
    return nullptr;
}

// Bytes of the input in memory of their own.
static u8* taken(Cases& memory, u32& bytes) {
    bytes = next<u32>();
    u8* at = memory.take(bytes);
    Cases::bytes(at, bytes);
    return at;
}

int main() {
    const u64 seed = next<u64>();
    for (u32 left = next<u32>(); left > 0; --left) {
        Cases memory;
        char marker[24] = {}, name[24] = {};
        Cases::bytes(marker, sizeof marker);
        Cases::bytes(name, sizeof name);
        Reduction plan = next<Reduction>();
        const u32 bands = next<u32>();
        u32 bytes;
        u8* table = taken(memory, bytes);
        plan.columns = (const ReduceWindow*)(table + (size_t)plan.columns);
        plan.rows = (const ReduceWindow*)(table + (size_t)plan.rows);
        plan.weights = (const double*)(table + (size_t)plan.weights);
        plan.in = taken(memory, bytes);
        plan.in_mask = taken(memory, bytes);
        if (!bytes) plan.in_mask = nullptr;
        const u32 out_bytes = next<u32>(), mask_bytes = next<u32>(), scratch = next<u32>();
        plan.out = memory.take(out_bytes);
        memset(plan.out, 0x5a, out_bytes);
        plan.out_mask = mask_bytes ? memory.take(mask_bytes) : nullptr;
        plan.whole = plan.whole ? memory.take(scratch) : nullptr;
        ReduceEntry entry;
        void* args[] = {&entry, &plan};
        const auto run = [](void** a) { (*(ReduceEntry*)a[0])(*(Reduction*)a[1]); };
        const u32 across = (plan.width + REDUCE_THREADS - 1) / REDUCE_THREADS * plan.out_rows;
        if (*marker) {
            if (!(entry = find(marker))) abort();
            simt::launch(dim3(plan.in_rows, bands), dim3(REDUCE_THREADS), 0, run, args, seed);
        }
        if (plan.out_mask) {
            entry = reduce_mask;
            simt::launch(dim3(across), dim3(REDUCE_THREADS), 0, run, args, seed);
        }
        if (!(entry = find(name))) abort();
        simt::launch(dim3(across, bands), dim3(REDUCE_THREADS), 0, run, args, seed);
        fwrite(plan.out, 1, out_bytes, stdout);
        if (mask_bytes) fwrite(plan.out_mask, 1, mask_bytes, stdout);
    }
}
