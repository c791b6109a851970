// SPDX-License-Identifier: Apache-2.0
#include "cpu/pair_dots.h"

#include <atomic>
#include <fstream>
#include <iterator>
#include <string>

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

void SetPairDotsForTest(std::optional<PairDots> dots) {
  chosen.store(dots ? static_cast<int>(*dots) : kNobodyChose);
}

}  // namespace flashacl::cpu
