// A small fuzzer for the emulated kernels, led by coverage, under AddressSanitizer and UBSan. One program for each decoder:
//
//     c++ -DFUZZED='"run_lzw.cpp"' -fsanitize=address,undefined -fsanitize-coverage=trace-pc ... fuzz.cpp
//     fuzz-lzw SECONDS SEED FOLDER...
//
// Inputs of the folders are spoilt, run, and kept where they reach something new. A decoder gets a tile: four bytes with
// the size it must give, then what is compressed. `place` gets what its test gives its program; there only the bytes of
// tiles are spoilt, since all else is made by the host. Each outcome must be the same in another order of lanes.
// What fails is written to the file `crash` beside the program's own log.
#define CASES_IN_MEMORY
#include "cases.h"

#define main kernel_main
#include FUZZED
#undef main

#include <csignal>
#include <ctime>
#include <dirent.h>
#include <sanitizer/common_interface_defs.h>
#include <string>
#include <sys/time.h>
#include <unistd.h>

#define UNSEEN __attribute__((no_sanitize_coverage))

namespace {

using Bytes = std::vector<u8>;

constexpr size_t LARGEST_INPUT = 8 << 10, LARGEST_OUTPUT = 48 << 10;
constexpr unsigned LONGEST_SECONDS = 10;

// What is being run.
Bytes input, output;
size_t at = 0;
// How tile bytes are changed on their way, for programs whose input has a form; 0 for not at all.
u64 spoiling = 0;

// Places that were reached, and how often in this run.
constexpr u32 PLACES = 1 << 16;
u32 reached[PLACES];
u8 known[PLACES];
bool watching = false;

UNSEEN u64 next(u64& state) {
    state ^= state << 13;
    state ^= state >> 7;
    state ^= state << 17;
    return state * 0x2545F4914F6CDD1Dull >> 11;
}

UNSEEN size_t below(u64& state, size_t end) { return end ? next(state) % end : 0; }

UNSEEN void keep(const char* why) {
    fprintf(stderr, "%s\n", why);
    if (FILE* file = fopen("crash", "wb")) {
        fwrite(input.data(), 1, input.size(), file);
        fwrite(&spoiling, 1, sizeof spoiling, file);
        fclose(file);
    }
}

UNSEEN void dying() { keep("a sanitizer speaks"); }

UNSEEN void signalled(int number) {
    keep(number == SIGPROF ? "too slow" : "a signal");
    _exit(77);
}

// One to four changes of bytes with a length that may change, or of as many as there are.
UNSEEN void mutate(Bytes& bytes, const Bytes& other, u64& state) {
    static const u8 WORDS[] = {0, 1, 2, 0x7f, 0x80, 0xff, 0xfe, 0x10, 0x40, 0x78};
    for (size_t left = 1 + below(state, 4); left > 0; --left) {
        size_t place = below(state, bytes.size());
        switch (below(state, 8)) {
            case 0: bytes.resize(place); break;
            case 1: if (!bytes.empty()) bytes[place] ^= 1 << below(state, 8); break;
            case 2: if (!bytes.empty()) bytes[place] = (u8)next(state); break;
            case 3: if (!bytes.empty()) bytes[place] = WORDS[below(state, sizeof WORDS)]; break;
            case 4: bytes.insert(bytes.begin() + place, 1 + below(state, 32), (u8)next(state)); break;
            case 5: {
                size_t count = below(state, bytes.size() - place);
                bytes.erase(bytes.begin() + place, bytes.begin() + place + (count > 32 ? 32 : count));
                break;
            }
            case 6: {
                size_t from = below(state, other.size()), count = below(state, other.size() - from);
                bytes.insert(bytes.begin() + place, other.begin() + from, other.begin() + from + (count > 256 ? 256 : count));
                break;
            }
            default:
                for (size_t i = place; i < bytes.size() && i < place + 8; ++i) bytes[i] = (u8)next(state);
        }
    }
    if (bytes.size() > LARGEST_INPUT) bytes.resize(LARGEST_INPUT);
}

UNSEEN void append(Bytes& to, const void* from, size_t n) {
    to.insert(to.end(), static_cast<const u8*>(from), static_cast<const u8*>(from) + n);
}

// A tile among others that ask for nothing: the number of a tile chooses how it is launched.
UNSEEN Bytes framed(const Bytes& tile, u32 number) {
    Bytes all(8);
    const u32 count = number + 1, none[2] = {0, 0};
    append(all, &count, 4);
    for (u32 i = 0; i < number; ++i) append(all, none, 8);
    u32 size[2] = {0, 0};
    if (tile.size() > 4) {
        memcpy(&size[1], tile.data(), 4);
        size[0] = (u32)tile.size() - 4;
    }
    size[1] %= LARGEST_OUTPUT;
    append(all, size, 8);
    if (size[0]) append(all, tile.data() + 4, size[0]);
    return all;
}

// Ends the process after so much time of the processor, whatever else runs beside it; 0 for never.
UNSEEN void limit(unsigned seconds) {
    itimerval after{};
    after.it_value.tv_sec = seconds;
    setitimer(ITIMER_PROF, &after, nullptr);
}

// Runs `input` in an order of lanes.
UNSEEN const Bytes& run(u64 order) {
    memcpy(input.data(), &order, 8);
    at = 0;
    output.clear();
    memset(reached, 0, sizeof reached);
    limit(LONGEST_SECONDS);
    watching = true;
    kernel_main();
    watching = false;
    limit(0);
    return output;
}

// How many places and how many pairs of a place and a rough count are known; tells whether this run brought some.
struct Known {
    u64 places = 0, pairs = 0;

    UNSEEN bool learn() {
        const u64 before = pairs;
        for (u32 i = 0; i < PLACES; ++i) {
            if (!reached[i]) continue;
            u32 log = 31 - __builtin_clz(reached[i]);
            const u8 bit = 1 << (log > 7 ? 7 : log);
            if (known[i] & bit) continue;
            places += !known[i];
            pairs += 1;
            known[i] |= bit;
        }
        return pairs > before;
    }
};

UNSEEN void load(const char* folder, std::vector<Bytes>& corpus) {
    DIR* all = opendir(folder);
    if (!all) return;
    while (dirent* entry = readdir(all)) {
        const std::string path = std::string(folder) + "/" + entry->d_name;
        FILE* file = entry->d_name[0] == '.' ? nullptr : fopen(path.c_str(), "rb");
        if (!file) continue;
        Bytes bytes(1 << 20);
        bytes.resize(fread(bytes.data(), 1, bytes.size(), file));
        fclose(file);
        corpus.push_back(bytes);
    }
    closedir(all);
}

}  // namespace

namespace memory_cases {

UNSEEN void take(void* to, size_t n) {
    if (n > input.size() - at) abort();
    if (n) memcpy(to, input.data() + at, n);
    at += n;
}

UNSEEN void spoil(void* data, size_t n) {
    if (!spoiling || !n) return;
    u64 state = spoiling ^ n;
    for (size_t left = below(state, 8); left > 0; --left) static_cast<u8*>(data)[below(state, n)] = (u8)next(state);
}

UNSEEN void give(const void* from, size_t n) { append(output, from, n); }

}  // namespace memory_cases

extern "C" UNSEEN void __sanitizer_cov_trace_pc() {
    if (!watching) return;
    const u64 place = reinterpret_cast<u64>(__builtin_return_address(0));
    reached[(place ^ place >> 16) % PLACES] += 1;
}

int main(int count, char** arguments) {
    if (count < 4) return 2;
    const time_t end = time(nullptr) + atol(arguments[1]);
    u64 state = strtoull(arguments[2], nullptr, 10) * 0x9E3779B97F4A7C15ull | 1;
    // The form of a program for formats is its own; all others read tiles.
    const bool form = std::string(FUZZED) == "run_place.cpp";
    std::vector<Bytes> corpus;
    for (int i = 3; i < count; ++i) load(arguments[i], corpus);
    if (corpus.empty()) return 2;
    __sanitizer_set_death_callback(dying);
    signal(SIGPROF, signalled);
    signal(SIGABRT, signalled);
    Known so_far;
    u64 runs = 0;
    auto ready = [&](const Bytes& bytes) UNSEEN { input = form ? bytes : framed(bytes, (u32)below(state, 4)); };
    std::vector<Bytes> given;
    given.swap(corpus);
    for (const Bytes& bytes : given) {
        ready(bytes);
        run(runs++ % 5);
        // One that shows nothing new is not worth spoiling, but for those with a form, where it is all there is.
        if (so_far.learn() || form) corpus.push_back(bytes);
    }
    const Known first = so_far;
    const size_t seeds = given.size();
    while (time(nullptr) < end) {
        Bytes bytes = corpus[below(state, corpus.size())];
        if (form) spoiling = next(state) | 1;
        else mutate(bytes, corpus[below(state, corpus.size())], state);
        ready(bytes);
        const u64 order = next(state) % 1000;
        const Bytes once = run(order);
        runs += 1;
        if (so_far.learn() && !form) corpus.push_back(bytes);
        if (runs % 8 == 0 && run(order + 1) != once) {
            keep("the order of lanes shows");
            return 1;
        }
    }
    printf("%s: %llu runs, places %llu to %llu, pairs %llu to %llu, inputs %zu to %zu\n", FUZZED,
           (unsigned long long)runs, (unsigned long long)first.places, (unsigned long long)so_far.places,
           (unsigned long long)first.pairs, (unsigned long long)so_far.pairs, seeds, corpus.size());
    return 0;
}
