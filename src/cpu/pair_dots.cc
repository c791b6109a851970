// SPDX-License-Identifier: Apache-2.0
#include "cpu/pair_dots.h"

#include <atomic>
#include <fstream>
#include <iterator>
#include <string>

#include "cpu/tile/attention_params.h"

namespace flashacl::cpu {
namespace {

constexpr int kNobodyChose = -1;
std::atomic<int> chosen{kNobodyChose};

bool Contains(std::string_view text, std::string_view part) {
  return text.find(part) != text.npos;
}

const std::string& CpuInfo() {
  static const auto* const text = [] {
    std::ifstream file("/proc/cpuinfo");
    return new std::string(std::istreambuf_iterator<char>(file), {});
  }();
  return *text;
}

}  // namespace

bool PairDotsPay(std::string_view cpu_info) {
  return Contains(cpu_info, "AuthenticAMD") &&
         Contains(cpu_info, " avx512_bf16");
}

bool HasPairInstruction() {
  static const bool has = Contains(CpuInfo(), " avx512_bf16");
  return has;
}

PairDots ChoosePairDots(bool has_instruction) {
  const int test = chosen.load(std::memory_order_relaxed);
  if (test != kNobodyChose) return static_cast<PairDots>(test);
  static const bool pays = PairDotsPay(CpuInfo());
  return has_instruction && pays ? PairDots::kInstruction : PairDots::kNone;
}

bool ArePairs(const ElementFormat& format, int64_t channels) {
  return format.dtype == DType::kBf16 && format.step == 1 &&
         channels % 2 == 0 && format.channel_block % 2 == 0;
}

bool ArePairs(const ScoreTile& tile) {
  const ScoreParams& params = *tile.params;
  const RowSource& key = tile.keys.key;
  if (!ArePairs(params.query, params.qk_dim) ||
      !ArePairs(key.format, key.channels) || key.quant.scale != nullptr ||
      key.scaled_by_row() || tile.scratch.query_rows->query_scale != nullptr) {
    return false;
  }
  return params.rope_dim == 0 ||
         (ArePairs(params.query_rope, params.rope_dim) &&
          ArePairs(tile.keys.rope.format, tile.keys.rope.channels));
}

void SetPairDotsForTest(std::optional<PairDots> dots) {
  chosen.store(dots ? static_cast<int>(*dots) : kNobodyChose);
}

}  // namespace flashacl::cpu
