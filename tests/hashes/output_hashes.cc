// SPDX-License-Identifier: Apache-2.0
// Prints one hash per random problem and implementation, of every byte that a
// run writes. A change that must not change bits prints the same lines before
// and after:
//
//   output_hashes COUNT WORKERS TARGET > before.txt
//
// for COUNT problems of each size, with WORKERS workers and at most TARGET's
// vector instructions (SSE4, AVX2, AVX3...; empty: the best there are).
#include <cstdio>
#include <cstdlib>
#include <span>
#include <string_view>
#include <vector>

#include "backends.h"
#include "base/random.h"
#include "plan/plan.h"
#include "problem/notation.h"
#include "tests/testing/generator.h"
#include "verify/sample.h"

namespace flashacl::testing {
namespace {

// FNV-1a, 64 bits.
uint64_t HashOf(std::span<const std::byte> bytes) {
  uint64_t hash = 0xcbf29ce484222325u;
  for (const std::byte byte : bytes) {
    hash = (hash ^ std::to_integer<uint64_t>(byte)) * 0x100000001b3u;
  }
  return hash;
}

void PrintHashes(const AttentionProblem& problem, const char* size,
                 uint64_t seed) {
  const Backend& backend = CpuBackend();
  Result<Sample> sample = Sample::Make(problem, seed, backend);
  if (!sample.ok()) {
    std::printf("%s %llu: %s\n", size, static_cast<unsigned long long>(seed),
                sample.status().message().c_str());
    return;
  }
  size_t row = 0;
  for (const Implementation& one : backend.implementations) {
    ++row;
    const Choice choice{.only = one.name, .without = {}};
    const Result<Plan> plan = MakePlan(backend, problem, choice);
    if (!plan.ok()) continue;
    sample->ResetOutputs();
    std::vector<std::byte> memory(
        static_cast<size_t>(plan->workspace.bytes() + 64));
    const auto at = reinterpret_cast<uintptr_t>(memory.data());
    std::byte* const workspace = memory.data() + (64 - at % 64) % 64;
    const Status status =
        Run(*backend.queue, *plan, sample->bindings(), workspace);
    std::printf("%s %llu row %zu: %d %016llx\n", size,
                static_cast<unsigned long long>(seed), row, status.ok(),
                static_cast<unsigned long long>(HashOf(sample->Outputs())));
  }
}

void PrintAll(uint64_t count) {
  Space small;
  small.inference = false;  // what old builds have not does not count
  small.caches = false;     // as when hashes were first kept
  Space long_keys = small;  // few rows on many keys: decode and its splits
  long_keys.backward = false;
  long_keys.most_rows = 3;
  long_keys.most_columns = 3000;
  long_keys.most_heads = 40;
  Space wide = small;  // several tiles each way
  wide.most_sequences = 2;
  wide.most_rows = 300;
  wide.most_columns = 300;
  wide.most_heads = 4;
  Space lists = small;  // many keys listed
  lists.most_sequences = 2;
  lists.most_rows = 12;
  lists.most_columns = 1200;
  lists.most_heads = 32;
  const struct {
    const char* name;
    const Space& space;
    uint64_t every;  // fewer of the larger ones
  } sizes[] = {{"small", small, 1},
               {"long", long_keys, 8},
               {"wide", wide, 8},
               {"lists", lists, 8}};
  for (const auto& size : sizes) {
    for (uint64_t seed = 1; seed <= count / size.every; ++seed) {
      Random random(seed);
      PrintHashes(RandomProblem(random, size.space), size.name, seed);
    }
  }
}

}  // namespace
}  // namespace flashacl::testing

int main(int argc, char** argv) {
  if (argc != 4) {
    std::fprintf(stderr, "usage: output_hashes COUNT WORKERS TARGET\n");
    return 2;
  }
  const flashacl::Status limited = flashacl::LimitVectorTarget(argv[3]);
  if (!limited.ok()) {
    std::fprintf(stderr, "%s\n", limited.message().c_str());
    return 2;
  }
  flashacl::SetWorkerCount(std::atoi(argv[2]));
  flashacl::testing::PrintAll(std::strtoull(argv[1], nullptr, 10));
}
