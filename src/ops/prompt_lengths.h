// SPDX-License-Identifier: Apache-2.0
// Which rows are which sequence's in a prefill.
#pragma once

#include <cstdint>

#include "base/status.h"
#include "ops/prompt.h"

namespace flashacl::ops {

// Fills in the sequences, once the three specs are there; those of packed
// layouts get their number of sequences. kContradiction if the lengths do not
// fit the tensors or each other.
Status ReadSequences(Prompt& prompt);

// What a mask has to cover: the padded axes, or the longest packed sequence.
struct ScoreExtents {
  int64_t rows = 0;
  int64_t columns = 0;
};
ScoreExtents ExtentsOf(const Prompt& prompt);

}  // namespace flashacl::ops
