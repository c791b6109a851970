// SPDX-License-Identifier: Apache-2.0
// Lengths and padding from device tensors.
#include "plan/sequences.h"

#include <algorithm>

#include "base/number.h"

namespace flashacl {
namespace {

int64_t IntegerAt(const TensorSpec& spec, const std::byte* base,
                  int64_t index) {
  return ReadIndex(spec.dtype, base + spec.At(index) * SizeOf(spec.dtype));
}

// The slot that says the lengths of one side, and how.
struct Side {
  Slot slot;
  Range Sequence::*rows;
  Lengths::Device device;
};

// Narrows one side of all sequences by its tensor, if it has one.
void Narrow(const AttentionProblem& problem, const Bindings& bindings,
            const Side& side, std::span<Sequence> sequences) {
  if (side.device == Lengths::Device::kNone) return;
  int64_t end_before = 0;
  for (size_t b = 0; b < sequences.size(); ++b) {
    Range& rows = sequences[b].*side.rows;
    const int64_t value = IntegerAt(problem[side.slot], bindings[side.slot],
                                    static_cast<int64_t>(b));
    if (side.device == Lengths::Device::kCounts) {
      rows.last = rows.first + std::clamp<int64_t>(value, 0, rows.size());
      continue;
    }
    const int64_t end = std::max(end_before, std::min(value, rows.last));
    rows = {end_before, end};
    end_before = end;
  }
}

// Moves the rows of every sequence in `tensor` to before `padding` rows.
void ShiftBeforePadding(const AttentionProblem& problem,
                        const Bindings& bindings, Slot padding, Slot tensor,
                        Range Sequence::*side, std::span<Sequence> sequences) {
  if (!problem.has(padding)) return;
  const int64_t end = problem[tensor].dims[1];
  const int64_t unused = std::clamp<int64_t>(
      IntegerAt(problem[padding], bindings[padding], 0), 0, end);
  for (Sequence& sequence : sequences) {
    Range& rows = sequence.*side;
    const int64_t last = end - unused;
    const int64_t first = last - rows.size();
    rows = first < 0 ? Range{} : Range{first, last};
  }
}

}  // namespace

void NarrowSequences(const AttentionProblem& problem, const Bindings& bindings,
                     std::span<Sequence> sequences) {
  const Lengths& lengths = problem.lengths;
  Narrow(problem, bindings,
         {Slot::kQueryLengths, &Sequence::queries, lengths.queries}, sequences);
  Narrow(problem, bindings, {Slot::kKeyLengths, &Sequence::keys, lengths.keys},
         sequences);
  ShiftBeforePadding(problem, bindings, Slot::kQueryPadding, Slot::kQuery,
                     &Sequence::queries, sequences);
  ShiftBeforePadding(problem, bindings, Slot::kKeyPadding, Slot::kKey,
                     &Sequence::keys, sequences);
}

std::vector<Sequence> ResolveSequences(const AttentionProblem& problem,
                                       const Bindings& bindings) {
  std::vector<Sequence> sequences = problem.lengths.sequences;
  NarrowSequences(problem, bindings, sequences);
  return sequences;
}

bool SequencesAreKnown(const AttentionProblem& problem) {
  return !problem.has(Slot::kQueryLengths) && !problem.has(Slot::kKeyLengths) &&
         !problem.has(Slot::kKeyPadding) && !problem.has(Slot::kQueryPadding);
}

}  // namespace flashacl
