// SPDX-License-Identifier: Apache-2.0
#include "cpu/shared_conversions.h"

#include <atomic>

#include "cpu/processor_kind.h"

namespace flashacl::cpu {
namespace {

enum class Sharing : int { kAsTheProcessorWants, kNever, kAlways };
std::atomic<Sharing> chosen_sharing{Sharing::kAsTheProcessorWants};

}  // namespace

bool ChooseSharedConversions(bool has_code) {
  const Sharing test = chosen_sharing.load(std::memory_order_relaxed);
  const bool wanted = test == Sharing::kAsTheProcessorWants
                          ? kProcessorKind == ProcessorKind::kOther
                          : test == Sharing::kAlways;
  return has_code && wanted;
}

void SetSharedConversionsForTest(std::optional<bool> shares) {
  chosen_sharing.store(!shares   ? Sharing::kAsTheProcessorWants
                       : *shares ? Sharing::kAlways
                                 : Sharing::kNever);
}

}  // namespace flashacl::cpu
