#!/bin/sh
# Builds, checks and times the CUDA backend on a machine with a Hopper GPU: one call for everything.
#
#   bench/device.sh [check|bench|sanitize|all] [output folder]
#
# Needs the CUDA toolkit and the packages that scripts/setup names; where they lie elsewhere than in /usr,
# CMAKE_PREFIX_PATH, PKG_CONFIG_PATH and LD_LIBRARY_PATH say so. Full tables go to the output folder (default
# build/device); what failed, and the timings, also to the terminal. The exit code is that of the checks.
set -u
what=${1:-all}
out=${2:-build/device}
mkdir -p "$out" || exit 1

cmake --preset cuda >"$out/configure.log" 2>&1 || { tail -20 "$out/configure.log"; exit 1; }
cmake --build build/cuda --target weir weir_device_check weir_device_bench >"$out/build.log" 2>&1 ||
  { tail -20 "$out/build.log"; exit 1; }
bin=build/cuda/bench

failed=0
if [ "$what" = check ] || [ "$what" = all ]; then
  # Every step against the reference at true and small shapes, then the models' goldens and invariants.
  "$bin/weir_device_check" >"$out/check.txt" 2>&1 || failed=1
  grep -E '^BAD|equal to the golden|checks,' "$out/check.txt"
  # The whole program, its answers beside the CPU's.
  python3 tests/server/device_test.py build/cuda/src/cli/weir cuda 20 >"$out/device_test.txt" 2>&1 || failed=1
  echo "weir serve: $(tail -1 "$out/device_test.txt")"
fi
if [ "$what" = sanitize ] || [ "$what" = all ]; then
  # A terabyte that cannot be allocated is one of the checks, so failed calls are no errors here. Racecheck has
  # not come to an end on choices of tokens (clusters of eight blocks of 1,024 threads), not even from a vocabulary
  # of 60. With 128 threads a block, too few for right choices, it ended within a minute and found no race; it did
  # warn of reads in blocks that might have exited, though all of them meet at a barrier last.
  for run in "memcheck all" "synccheck all" "racecheck steps" "racecheck models"; do
    set -- $run
    compute-sanitizer --tool "$1" --error-exitcode 1 --report-api-errors no "$bin/weir_device_check" "$2" small >"$out/$1-$2.txt" 2>&1 || failed=1
    echo "$run: $(tail -1 "$out/$1-$2.txt")"
  done
fi
if [ "$what" = bench ] || [ "$what" = all ]; then
  "$bin/weir_device_bench" >"$out/bench.txt" 2>&1 || failed=1
  cat "$out/bench.txt"
fi
exit $failed
