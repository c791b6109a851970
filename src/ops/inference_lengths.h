// SPDX-License-Identifier: Apache-2.0
// Which rows are which sequence's in a call of inference.
#pragma once

#include <cstdint>
#include <string_view>
#include <vector>

#include "base/status.h"
#include "ops/inference.h"

namespace flashacl::ops {

// An array of lengths with one number per sequence: one is everybody's, more
// than there are sequences are ignored. Empty if the caller passed none.
Result<std::vector<int64_t>> ReadLengths(std::string_view name,
                                         const aclIntArray* array,
                                         int64_t sequences);

// Fills in the sequences, once query and cache are there; those of packed
// layouts get their number of sequences. kContradiction if the lengths do not
// fit the tensors or each other.
Status ReadSequences(InferenceCall& call);

// What a mask has to cover: the padded axes, or the longest packed sequence.
struct ScoreExtents {
  int64_t rows = 0;
  int64_t columns = 0;
};
ScoreExtents ExtentsOf(const InferenceCall& call);
ScoreExtents LongestSequences(const InferenceCall& call);

}  // namespace flashacl::ops
