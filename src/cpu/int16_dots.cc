// SPDX-License-Identifier: Apache-2.0
#include "cpu/int16_dots.h"

#include <atomic>

#include "cpu/processor_kind.h"

namespace flashacl::cpu {
namespace {

constexpr int kNoInt16Dots = -1;
std::atomic<int> chosen_int16_dots{kNoInt16Dots};

}  // namespace

Int16Dots ChooseInt16Dots(bool has_code, ByteDots bytes) {
  if (!has_code) return Int16Dots::kNone;
  const int test = chosen_int16_dots.load(std::memory_order_relaxed);
  if (test != kNoInt16Dots) return static_cast<Int16Dots>(test);
  if (bytes == ByteDots::kMatrices) return Int16Dots::kNone;
  if (!HasByteInstruction()) return Int16Dots::kMultiplyAdds;
  return kProcessorKind == ProcessorKind::kOther ? Int16Dots::kInTwos
                                                 : Int16Dots::kInstruction;
}

void SetInt16DotsForTest(std::optional<Int16Dots> dots) {
  chosen_int16_dots.store(dots ? static_cast<int>(*dots) : kNoInt16Dots);
}

}  // namespace flashacl::cpu
