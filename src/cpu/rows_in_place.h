// SPDX-License-Identifier: Apache-2.0
// Whether listed rows of few heads stay where they lie, rather than being
// loaded before they are multiplied (topk/add_listed-inl.h). No bit of a result
// depends on it.
#pragma once

#include <optional>

namespace flashacl::cpu {

// Where that is faster: on Zen 4 and on Intel's processors (docs/notes/0069,
// 0071).
bool RowsStayInPlace();

// Tests choose; none: as before.
void SetRowsInPlaceForTest(std::optional<bool> stay);

}  // namespace flashacl::cpu
