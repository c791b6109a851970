// SPDX-License-Identifier: Apache-2.0
// Lengths as the device has them.
#include "indexer/sequences.h"

#include "cpu/pair_format.h"
#include "cpu/sizes.h"
#include "plan/sequences.h"

namespace flashacl::indexer {
namespace {

void CutInto(int64_t sequence, Range rows, int64_t most,
             RunVector<RowRange>& pieces) {
  for (int64_t first = rows.first; first < rows.last; first += most) {
    pieces.push_back({sequence, {first, std::min(first + most, rows.last)}});
  }
}

}  // namespace

cpu::PairDots PairDotsOf(const AttentionProblem& problem, bool has_instruction,
                         cpu::MatrixCode matrices) {
  const auto are_pairs = [&](Slot slot) {
    return cpu::ArePairs(cpu::ElementFormat(problem[slot]), problem.qk_dim);
  };
  const bool pairs = are_pairs(Slot::kQuery) && are_pairs(Slot::kKey);
  // Whole matrices along channels, and keys that are dense.
  const bool fill = pairs && problem.qk_dim % cpu::kMatrixNumbers == 0 &&
                    problem[Slot::kKey].channel_block == 0;
  const cpu::PairDots dots = cpu::ChoosePairDots(
      has_instruction, fill ? matrices : cpu::MatrixCode::kNone);
  // Which keys are scored side by side depends on who else works, and must not
  // decide on bits.
  const bool as_floats =
      cpu::kInstructionSumsAsFloats || dots != cpu::PairDots::kInstruction;
  return pairs && as_floats ? dots : cpu::PairDots::kNone;
}

Sequences::Sequences(const Rows& rows, At at)
    : rows_(rows),
      sequences_(rows.problem.lengths.sequences.begin(),
                 rows.problem.lengths.sequences.end()) {
  for (const Place& place : rows.places) {
    std::byte* const data = at[place.argument];
    if (data != nullptr) bindings_[place.slot] = data + place.offset_bytes;
  }
  NarrowSequences(rows.problem, bindings_, sequences_);
}

cpu::TensorRows Sequences::RowsOf(const TensorSpec& spec, std::byte* base,
                                  int64_t sequence) {
  cpu::TensorRows rows;
  rows.format = cpu::ElementFormat(spec);
  const int64_t bytes = rows.format.element_bytes;
  rows.base = base + spec.At(sequence) * bytes;
  rows.row_bytes = spec.strides[1] * bytes;
  rows.head_bytes = spec.strides[2] * bytes;
  return rows;
}

RunVector<RowRange> Sequences::Cut(int64_t most) const {
  RunVector<RowRange> pieces;
  for (int64_t b = 0; b < count(); ++b) {
    CutInto(b, (*this)[b].queries, most, pieces);
  }
  return pieces;
}

RunVector<RowRange> Sequences::CutUnowned(int64_t most) const {
  RunVector<RowRange> pieces;
  const TensorSpec& query = rows_.problem[Slot::kQuery];
  const int64_t all = query.dims[1];
  if (rows_.problem.lengths.queries == Lengths::Device::kEnds) {
    const int64_t owned = count() == 0 ? 0 : (*this)[count() - 1].queries.last;
    CutInto(0, {owned, all}, most, pieces);
    return pieces;
  }
  for (int64_t b = 0; b < count(); ++b) {
    CutInto(b, {(*this)[b].queries.last, all}, most, pieces);
  }
  return pieces;
}

}  // namespace flashacl::indexer
