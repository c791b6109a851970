// SPDX-License-Identifier: Apache-2.0
// Walking tables, lists and masks the way a run would.
#include "plan/device_checks.h"

#include <set>
#include <vector>

#include "base/number.h"
#include "plan/sequences.h"

namespace flashacl {
namespace {

int64_t IntegerAt(const AttentionProblem& problem, const Bindings& bindings,
                  Slot slot, int64_t offset) {
  const TensorSpec& spec = problem[slot];
  return ReadIndex(spec.dtype, bindings[slot] + offset * SizeOf(spec.dtype));
}

Status CheckLengths(const AttentionProblem& problem, const Bindings& bindings,
                    Slot slot, Range Sequence::*side) {
  if (!problem.has(slot)) return {};
  const Lengths::Device device = slot == Slot::kQueryLengths
                                     ? problem.lengths.queries
                                     : problem.lengths.keys;
  const bool ends = device == Lengths::Device::kEnds;
  int64_t before = 0;
  for (int64_t b = 0; b < problem.lengths.count(); ++b) {
    const Range widest =
        problem.lengths.sequences[static_cast<size_t>(b)].*side;
    const int64_t most = ends ? widest.last : widest.size();
    const int64_t value =
        IntegerAt(problem, bindings, slot, problem[slot].At(b));
    if (value < before || value > most) {
      return Invalid("{}[{}]: {}, expected {} to {}", Name(slot), b, value,
                     before, most);
    }
    if (ends) before = value;
  }
  return {};
}

Status CheckBlockTable(const AttentionProblem& problem,
                       const Bindings& bindings,
                       const std::vector<Sequence>& sequences) {
  if (!problem.has(Slot::kBlockTable)) return {};
  const TensorSpec& table = problem[Slot::kBlockTable];
  const int64_t pages = problem[Slot::kKey].dims[0];
  for (size_t b = 0; b < sequences.size(); ++b) {
    const int64_t needed =
        CeilDiv(sequences[b].columns(), problem.kv.page_rows);
    for (int64_t n = 0; n < needed; ++n) {
      const int64_t page = IntegerAt(problem, bindings, Slot::kBlockTable,
                                     table.At(static_cast<int64_t>(b), n));
      if (page >= 0 && page < pages) continue;
      return Invalid("block table[{}][{}]: page {}, but there are {} pages", b,
                     n, page, pages);
    }
  }
  return {};
}

// One list: `places` indices from `offset` on, of blocks in `columns` columns.
Status CheckList(const AttentionProblem& problem, const Bindings& bindings,
                 int64_t offset, int64_t columns) {
  const TensorSpec& list = problem[Slot::kTopK];
  const int64_t blocks = CeilDiv(columns, problem.kv.gather_rows);
  std::set<int64_t> seen;
  bool ended = false;
  for (int64_t place = 0; place < list.dims[3]; ++place) {
    const int64_t u = IntegerAt(problem, bindings, Slot::kTopK,
                                offset + place * list.strides[3]);
    if (u < 0) {
      ended = true;
      continue;
    }
    if (ended) return Invalid("place {}: {} after the end (-1)", place, u);
    if (u >= blocks) {
      return Invalid("place {}: block {}, but there are {}", place, u, blocks);
    }
    if (!seen.insert(u).second) {
      return Invalid("place {}: block {} for the second time", place, u);
    }
  }
  return {};
}

Status CheckTopK(const AttentionProblem& problem, const Bindings& bindings,
                 const std::vector<Sequence>& sequences) {
  if (!problem.has(Slot::kTopK)) return {};
  for (size_t b = 0; b < sequences.size(); ++b) {
    const Range& rows = sequences[b].queries;
    for (int64_t row = rows.first; row < rows.last; ++row) {
      for (int64_t g = 0; g < problem.kv_heads; ++g) {
        const int64_t offset =
            problem[Slot::kTopK].At(static_cast<int64_t>(b), row, g);
        const Status status =
            CheckList(problem, bindings, offset, sequences[b].columns());
        if (status.ok()) continue;
        return Invalid("top-k[sequence {}, row {}], {}", b, row - rows.first,
                       status.message());
      }
    }
  }
  return {};
}

}  // namespace

Status CheckDeviceTensors(const AttentionProblem& problem,
                          const Bindings& bindings) {
  FLASHACL_RETURN_IF_ERROR(
      CheckLengths(problem, bindings, Slot::kQueryLengths, &Sequence::queries));
  FLASHACL_RETURN_IF_ERROR(
      CheckLengths(problem, bindings, Slot::kKeyLengths, &Sequence::keys));
  const std::vector<Sequence> sequences = ResolveSequences(problem, bindings);
  FLASHACL_RETURN_IF_ERROR(CheckBlockTable(problem, bindings, sequences));
  return CheckTopK(problem, bindings, sequences);
}

Status CompressedMask::Check(const std::byte* base) const {
  constexpr int64_t kTriangle = 2048;
  constexpr int64_t kSeen = 1024;  // columns of the rows below the triangle
  for (int64_t i = 0; i < rows; ++i) {
    for (int64_t j = 0; j < columns; ++j) {
      const bool hidden = i < kTriangle ? j > i : j >= kSeen;
      const int value =
          std::to_integer<int>(base[i * row_stride + j * column_stride]);
      if (value == (hidden ? 1 : 0)) continue;
      return Invalid("{}[{}][{}]: {}, expected {} in a compressed mask", name,
                     i, j, value, hidden ? 1 : 0);
    }
  }
  return {};
}

}  // namespace flashacl
