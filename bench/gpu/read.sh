#!/usr/bin/env bash
# Reading on a GPU: the suite of all backends, damaged tiles, a list of files against the CPU, and times.
#
#     read.sh PROGRAMS LIST FILE...
#
# PROGRAMS: the folder with the release examples of tiffjet-cuda (cargo build --release -p tiffjet-cuda --examples).
# LIST: a file with the paths of a corpus, one on each line. FILE...: large rasters to time, in the page cache.
set -uo pipefail
programs=$1 list=$2
shift 2
failed=0
run() {
    printf '\n=== %s\n' "$*"
    "$@" || failed=1
}
run "$programs/conformance"
run "$programs/hostile" 100 64
run "$programs/hostile" 20 256
run "$programs/corpus" "$list"
cat "$@" > /dev/null
run "$programs/read_bench" --windows 100 "$@"
for group in 8388608 16777216 50331648 1073741824; do
    run "$programs/read_bench" --group "$group" "$@"
done
exit $failed
