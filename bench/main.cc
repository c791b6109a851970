// SPDX-License-Identifier: Apache-2.0
// The main function of every benchmark. Google Benchmark's own is in a static
// library, which Ubuntu 22.04 has compiled for its earlier compiler's linker.
#include <benchmark/benchmark.h>

BENCHMARK_MAIN();
