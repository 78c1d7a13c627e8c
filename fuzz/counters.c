/* Where code of C libraries went, for libFuzzer: GCC reports each place through this function, and libFuzzer looks at
   any bytes in this section. */
#include <stdint.h>

#define PLACES 65536u

__attribute__((section("__libfuzzer_extra_counters"))) static uint8_t reached[PLACES];

__attribute__((no_sanitize_coverage, no_sanitize_address)) void __sanitizer_cov_trace_pc(void) {
    uintptr_t place = (uintptr_t)__builtin_return_address(0);
    uint8_t *count = &reached[(place ^ place >> 16) % PLACES];
    if (*count < 255) *count += 1;
}
