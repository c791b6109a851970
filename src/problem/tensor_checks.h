// SPDX-License-Identifier: Apache-2.0
// What single tensors of a problem must satisfy: CheckProblem is made of these.
#pragma once

#include <cstdint>
#include <initializer_list>
#include <string_view>

#include "base/status.h"
#include "problem/attention_problem.h"
#include "problem/slot.h"
#include "problem/tensor_spec.h"

namespace flashacl {

// What the tensors of a problem must have room for.
struct Needs {
  int64_t sequences = 0;
  int64_t rows = 0;     // most rows of a sequence
  int64_t columns = 0;  // most columns
  int64_t row_end = 0;  // where the last sequence ends on the row axis
  int64_t key_end = 0;  // and on that of the keys
  int64_t prefix = 0;   // keys before each sequence's own
};

Needs NeedsOf(const AttentionProblem& problem);

// Whether the slot is in use, where it has to be or must not be.
Status Required(const AttentionProblem& problem, Slot slot, bool required);
Status Forbidden(const AttentionProblem& problem, Slot slot, bool forbidden,
                 std::string_view why);

// Extents and strides any tensor may have.
Status CheckSpec(Slot slot, const TensorSpec& spec);

Status CheckDType(Slot slot, const TensorSpec& spec,
                  std::initializer_list<DType> accepted);
Status CheckFloat(Slot slot, const TensorSpec& spec);

// Channels may be in blocks where `may` says so, and then reach as far as
// these.
Status CheckBlocksOfChannels(Slot slot, const TensorSpec& spec, bool may);

// Offsets come from dims and strides alone.
Status CheckStrided(Slot slot, const TensorSpec& spec);

// An axis has at least `needed` elements, or repeats one.
Status Reaches(Slot slot, const TensorSpec& spec, size_t axis, int64_t needed);
Status Equals(Slot slot, const TensorSpec& spec, size_t axis, int64_t expected);

// No axis after the first repeats: results need a place each.
Status CheckApart(Slot slot, const TensorSpec& spec);

// A [sequence, row, head, channel] tensor.
struct RowsOf {
  int64_t sequences, row_end, heads, dim;
};
Status CheckRows(Slot slot, const TensorSpec& spec, const RowsOf& want);

// A grid with one element per score, for every head and sequence.
Status CheckScoreGrid(const AttentionProblem& problem, const Needs& needs,
                      Slot slot);

// A grid with one element per row and lane.
Status CheckRowGrid(const AttentionProblem& problem, const Needs& needs,
                    Slot slot);

}  // namespace flashacl
