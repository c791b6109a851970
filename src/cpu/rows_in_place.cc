// SPDX-License-Identifier: Apache-2.0
#include "cpu/rows_in_place.h"

#include <atomic>

#include "cpu/processor_kind.h"

namespace flashacl::cpu {
namespace {

constexpr int kProcessorDecides = -1;
std::atomic<int> rows_choice{kProcessorDecides};

}  // namespace

bool RowsStayInPlace() {
  const int choice = rows_choice.load(std::memory_order_relaxed);
  if (choice != kProcessorDecides) return choice != 0;
  return kIsZen4 || kProcessorKind == ProcessorKind::kOther;
}

void SetRowsInPlaceForTest(std::optional<bool> stay) {
  rows_choice = stay.has_value() ? static_cast<int>(*stay) : kProcessorDecides;
}

}  // namespace flashacl::cpu
