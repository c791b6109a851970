// SPDX-License-Identifier: Apache-2.0
// Contents of inputs, slot by slot. Every slot draws from a generator of
// its own, so that adding a tensor changes no other.
#include "verify/fill.h"

#include <algorithm>
#include <iterator>
#include <numeric>
#include <span>
#include <utility>
#include <vector>

#include "base/number.h"
#include "base/random.h"
#include "plan/sequences.h"
#include "problem/grid.h"

namespace flashacl {
namespace {

using Rows = KvSource::Rows;

int64_t Elements(const TensorSpec& spec, size_t axes) {
  int64_t last = 0;
  for (size_t axis = 0; axis < axes; ++axis) {
    if (spec.dims[axis] <= 0) return 0;
    last += axis == 3 ? spec.ChannelSpan()
                      : (spec.dims[axis] - 1) * spec.strides[axis];
  }
  return last + 1;
}

// Slots in the order in which they joined the first ones, of which each draws
// the numbers that it always drew.
constexpr Slot kJoined[] = {
    Slot::kQueryPadding, Slot::kLse,           Slot::kKeyRowScale,
    Slot::kKeyRowOffset, Slot::kValueRowScale, Slot::kValueRowOffset,
    Slot::kKeyPrefix,    Slot::kValuePrefix,   Slot::kQueryRowScale};

// Of a slot's generator.
uint64_t SeedOf(Slot slot) {
  const auto* const at =
      std::find(std::begin(kJoined), std::end(kJoined), slot);
  if (at != std::end(kJoined)) {
    return kSlots - std::size(kJoined) +
           static_cast<uint64_t>(at - std::begin(kJoined));
  }
  const auto before = std::count_if(std::begin(kJoined), std::end(kJoined),
                                    [&](Slot one) { return one < slot; });
  return static_cast<uint64_t>(slot) - static_cast<uint64_t>(before);
}

class Filler {
 public:
  Filler(const AttentionProblem& problem, const Bindings& bindings,
         uint64_t seed)
      : problem_(problem), bindings_(bindings), seed_(seed) {}

  void All() {
    FillLengths(Slot::kQueryLengths, &Sequence::queries,
                problem_.lengths.queries);
    FillLengths(Slot::kKeyLengths, &Sequence::keys, problem_.lengths.keys);
    FillPadding(Slot::kQueryPadding, Slot::kQuery);
    FillPadding(Slot::kKeyPadding, Slot::kKey);
    sequences_ = ResolveSequences(problem_, bindings_);
    FillBlockTable();
    for (Slot slot : {Slot::kQuery, Slot::kQueryRope, Slot::kGradOut}) {
      FillQueryRows(slot);
    }
    for (Slot slot : {Slot::kKey, Slot::kKeyRope, Slot::kValue}) {
      FillKeyRows(slot);
    }
    for (Slot slot : {Slot::kKeyPrefix, Slot::kValuePrefix}) FillPrefix(slot);
    FillTopK();
    FillFactors();
    FillMask();
    FillBias();
    FillSink();
    FillKeep();
  }

 private:
  Random RandomOf(Slot slot) const { return Random(seed_ * 64 + SeedOf(slot)); }

  const TensorSpec& spec(Slot slot) const { return problem_[slot]; }

  std::byte* At(Slot slot, int64_t offset) const {
    return bindings_[slot] + offset * SizeOf(spec(slot).dtype);
  }

  void Write(Slot slot, int64_t offset, double value) const {
    WriteNumber(spec(slot).dtype, At(slot, offset), value);
  }

  template <typename Draw>
  void FillDense(Slot slot, Draw draw) const {
    const int64_t count = ElementsOf(problem_, slot);
    for (int64_t n = 0; n < count; ++n) Write(slot, n, draw());
  }

  // Counts up to what is allowed, or ends that ascend; often the most.
  void FillLengths(Slot slot, Range Sequence::*side,
                   Lengths::Device device) const {
    if (!problem_.has(slot)) return;
    Random random = RandomOf(slot);
    const bool counts = device == Lengths::Device::kCounts;
    const int64_t sequences = problem_.lengths.count();
    int64_t end = 0;
    for (int64_t b = 0; b < sequences; ++b) {
      const Range most =
          problem_.lengths.sequences[static_cast<size_t>(b)].*side;
      int64_t value;
      if (counts) {
        value = random.OneIn(3) ? most.size() : random.Within(0, most.size());
      } else {
        const int64_t share = (most.last - end) / (sequences - b);
        end += random.Within(0, std::max<int64_t>(share, 0));
        if (b + 1 == sequences && random.OneIn(2)) end = most.last;
        value = end;
      }
      Write(slot, spec(slot).At(b), static_cast<double>(value));
    }
  }

  void FillPadding(Slot padding, Slot tensor) const {
    if (!problem_.has(padding)) return;
    const int64_t rows = spec(tensor).dims[1];
    Write(padding, 0,
          static_cast<double>(RandomOf(padding).Within(0, rows / 4)));
  }

  // Every page serves once, in random order, as long as there are enough.
  void FillBlockTable() {
    if (!problem_.has(Slot::kBlockTable)) return;
    Random random = RandomOf(Slot::kBlockTable);
    const TensorSpec& table = spec(Slot::kBlockTable);
    const int64_t pages = spec(Slot::kKey).dims[0];
    std::vector<int64_t> order(static_cast<size_t>(pages));
    std::iota(order.begin(), order.end(), int64_t{0});
    for (size_t n = order.size(); n > 1; --n) {
      std::swap(order[n - 1], order[static_cast<size_t>(random.Within(
                                  0, static_cast<int64_t>(n) - 1))]);
    }
    int64_t used = 0;
    for (int64_t b = 0; b < problem_.lengths.count(); ++b) {
      const int64_t needed = CeilDiv(
          sequences_[static_cast<size_t>(b)].columns(), problem_.kv.page_rows);
      for (int64_t index = 0; index < table.dims[1]; ++index) {
        int64_t page = -1;
        if (index < needed && pages > 0) {
          page = order[static_cast<size_t>(used++ % pages)];
        }
        Write(Slot::kBlockTable, table.At(b, index), static_cast<double>(page));
      }
    }
  }

  struct Tensor {
    const TensorSpec& spec;
    std::byte* base;
  };

  // All heads and channels of one row.
  static void FillRow(const Tensor& to, int64_t offset, Random& random) {
    const bool int8 = to.spec.dtype == DType::kI8;
    const int64_t size = SizeOf(to.spec.dtype);
    if (to.spec.dtype == DType::kI4x8) return FillWords(to, offset, random);
    for (int64_t head = 0; head < to.spec.dims[2]; ++head) {
      for (int64_t d = 0; d < to.spec.dims[3]; ++d) {
        const double value = int8
                                 ? static_cast<double>(random.Within(-127, 127))
                                 : static_cast<double>(random.Bell());
        WriteNumber(to.spec.dtype,
                    to.base + (offset + to.spec.At(0, 0, head, d)) * size,
                    value);
      }
    }
  }

  static void FillWords(const Tensor& to, int64_t offset, Random& random) {
    for (int64_t head = 0; head < to.spec.dims[2]; ++head) {
      for (int64_t d = 0; d < to.spec.channels(); ++d) {
        const int64_t at = offset + to.spec.At(0, 0, head, d / 8);
        WriteFourBits(to.base + at * SizeOf(to.spec.dtype), d % 8,
                      static_cast<int32_t>(random.Within(-8, 7)));
      }
    }
  }

  void FillQueryRows(Slot slot) const {
    if (!problem_.has(slot)) return;
    Random random = RandomOf(slot);
    const Tensor to{spec(slot), bindings_[slot]};
    for (size_t b = 0; b < sequences_.size(); ++b) {
      const Range rows = sequences_[b].queries;
      for (int64_t row = rows.first; row < rows.last; ++row) {
        FillRow(to, to.spec.At(static_cast<int64_t>(b), row), random);
      }
    }
  }

  void FillKeyRows(Slot slot) const {
    if (!problem_.has(slot)) return;
    Random random = RandomOf(slot);
    for (size_t b = 0; b < sequences_.size(); ++b) {
      const bool listed =
          problem_.kv.rows == Rows::kList && slot != Slot::kKeyRope;
      const bool key = slot == Slot::kKey;
      const auto& specs = key ? problem_.kv.key_list : problem_.kv.value_list;
      const auto& bases = key ? bindings_.key_list : bindings_.value_list;
      const Tensor to{listed ? specs[b] : spec(slot),
                      listed ? bases[b] : bindings_[slot]};
      const auto sequence = static_cast<int64_t>(b);
      for (int64_t j = 0; j < sequences_[b].keys.size(); ++j) {
        const int64_t offset = OffsetOf(to.spec, listed ? 0 : sequence, j);
        if (offset >= 0) FillRow(to, offset, random);
      }
    }
  }

  void FillPrefix(Slot slot) const {
    if (!problem_.has(slot)) return;
    Random random = RandomOf(slot);
    const Tensor to{spec(slot), bindings_[slot]};
    for (int64_t j = 0; j < sequences_[0].prefix; ++j) {
      FillRow(to, to.spec.At(0, j), random);
    }
  }

  // Of key j of a sequence; negative if it is on no page.
  int64_t OffsetOf(const TensorSpec& rows, int64_t sequence, int64_t j) const {
    const int64_t row = sequences_[static_cast<size_t>(sequence)].keys.first;
    if (problem_.kv.rows != Rows::kPaged) return rows.At(sequence, row + j);
    const int64_t entry =
        spec(Slot::kBlockTable).At(sequence, j / problem_.kv.page_rows);
    const auto page = static_cast<int64_t>(
        ReadNumber(DType::kI32, At(Slot::kBlockTable, entry)));
    return page < 0 ? -1 : rows.At(page, j % problem_.kv.page_rows);
  }

  // Indices of which row i sees at least one column.
  std::vector<int64_t> VisibleIndices(const Band& band, int64_t i,
                                      int64_t columns) const {
    const int64_t unit = problem_.kv.gather_rows;
    std::vector<int64_t> visible;
    for (const Range& seen : band.Row(i, columns)) {
      if (seen.empty()) continue;
      int64_t index = seen.first / unit;
      if (!visible.empty()) index = std::max(index, visible.back() + 1);
      for (; index * unit < seen.last; ++index) visible.push_back(index);
    }
    return visible;
  }

  // Distinct visible indices, then -1; one list in sixteen is empty, one in
  // four short. Lists of kFullColumns or more are full, as those of models are:
  // benchmarks count every place.
  static constexpr int64_t kFullColumns = 1024;

  void FillTopK() const {
    if (!problem_.has(Slot::kTopK)) return;
    Random random = RandomOf(Slot::kTopK);
    FillDense(Slot::kTopK, [] { return -1.0; });
    for (size_t b = 0; b < sequences_.size(); ++b) {
      const Sequence& sequence = sequences_[b];
      const auto number = static_cast<int64_t>(b);
      const Band band =
          problem_.mask.BandOf(number, sequence.rows(), sequence.columns());
      for (int64_t i = 0; i < sequence.rows(); ++i) {
        const std::vector<int64_t> visible =
            VisibleIndices(band, i, sequence.columns());
        for (int64_t head = 0; head < problem_.kv_heads; ++head) {
          const int64_t list =
              spec(Slot::kTopK).At(number, sequence.queries.first + i, head);
          FillList(list, visible, random);
        }
      }
    }
  }

  void FillList(int64_t list, std::vector<int64_t> visible,
                Random& random) const {
    const TensorSpec& places = spec(Slot::kTopK);
    auto count = std::min(static_cast<int64_t>(visible.size()), places.dims[3]);
    if (places.dims[3] * problem_.kv.gather_rows < kFullColumns) {
      if (random.OneIn(16)) count = 0;
      if (random.OneIn(4)) count = random.Within(0, count);
    }
    const auto last = static_cast<int64_t>(visible.size()) - 1;
    for (int64_t place = 0; place < count; ++place) {
      std::swap(visible[static_cast<size_t>(place)],
                visible[static_cast<size_t>(random.Within(place, last))]);
      Write(Slot::kTopK, list + places.At(0, 0, 0, place),
            static_cast<double>(visible[static_cast<size_t>(place)]));
    }
  }

  void FillFactors() const {
    for (Slot slot : {Slot::kKeyScale, Slot::kValueScale, Slot::kKeyRowScale,
                      Slot::kValueRowScale, Slot::kQueryRowScale}) {
      if (!problem_.has(slot)) continue;
      Random random = RandomOf(slot);
      // 8-bit queries have no scale of their own: the keys' is for both.
      const bool both =
          slot == Slot::kKeyScale && problem_.has(Slot::kWeightScale);
      FillDense(slot, [&] {
        const double scale =
            1.0 / static_cast<double>(int64_t{32} << random.Within(0, 2));
        return both ? scale / 64 : scale;
      });
    }
    for (Slot slot : {Slot::kKeyOffset, Slot::kValueOffset, Slot::kKeyRowOffset,
                      Slot::kValueRowOffset}) {
      if (!problem_.has(slot)) continue;
      Random random = RandomOf(slot);
      FillDense(slot,
                [&] { return static_cast<double>(random.Within(-4, 4)); });
    }
    if (problem_.has(Slot::kWeightScale)) {
      FillDense(Slot::kWeightScale, [] { return 127.0; });
    }
    if (problem_.has(Slot::kOutScale)) {
      Random random = RandomOf(Slot::kOutScale);
      FillDense(Slot::kOutScale, [&] { return 32 + 64 * random.Fraction(); });
    }
    if (problem_.has(Slot::kOutOffset)) {
      Random random = RandomOf(Slot::kOutOffset);
      FillDense(Slot::kOutOffset, [&] { return 8 * random.Fraction() - 4; });
    }
  }

  void FillMask() const {
    if (!problem_.has(Slot::kMask)) return;
    Random random = RandomOf(Slot::kMask);
    FillDense(Slot::kMask, [&] { return random.OneIn(4) ? 1.0 : 0.0; });
    if (spec(Slot::kMask).placement == Placement::kDiagonal) return;
    const Grid grid(spec(Slot::kMask), sequences_);
    for (size_t b = 0; b < sequences_.size(); ++b) {
      const auto sequence = static_cast<int64_t>(b);
      for (int64_t head = 0; head < problem_.heads; ++head) {
        const GridPlane plane = grid.Plane(sequence, head);
        if (head > 0 && plane.offset == grid.Plane(sequence, 0).offset) break;
        for (int64_t i = 0; i < sequences_[b].rows(); ++i) {
          const bool hidden = random.OneIn(16);
          if (!hidden && !random.OneIn(4)) continue;
          for (int64_t j = grid.FirstColumn(sequence);
               j < sequences_[b].columns(); ++j) {
            Write(Slot::kMask, plane.At(i, j), hidden ? 1.0 : 0.0);
          }
        }
      }
    }
  }

  void FillBias() const {
    if (!problem_.has(Slot::kBias)) return;
    Random random = RandomOf(Slot::kBias);
    const bool slopes = IsAlibi(problem_.score.bias);
    FillDense(Slot::kBias, [&] {
      return slopes ? random.Fraction() / 2
                    : static_cast<double>(random.Bell());
    });
  }

  void FillSink() const {
    if (!problem_.has(Slot::kSink)) return;
    Random random = RandomOf(Slot::kSink);
    FillDense(Slot::kSink, [&] { return static_cast<double>(random.Bell()); });
  }

  void FillKeep() const {
    if (!problem_.has(Slot::kKeep)) return;
    Random random = RandomOf(Slot::kKeep);
    const double keep = problem_.score.keep_probability;
    const int64_t bytes = BytesOf(problem_, Slot::kKeep);
    for (int64_t n = 0; n < bytes; ++n) {
      unsigned bits = 0;
      for (unsigned bit = 0; bit < 8; ++bit) {
        if (random.Fraction() < keep) bits |= 1u << bit;
      }
      bindings_[Slot::kKeep][n] = static_cast<std::byte>(bits);
    }
  }

  const AttentionProblem& problem_;
  const Bindings& bindings_;
  uint64_t seed_;
  std::vector<Sequence> sequences_;  // as the stream will see them
};

}  // namespace

size_t AxisCount(const AttentionProblem& problem, Slot slot) {
  switch (slot) {
    case Slot::kSink:
    case Slot::kWeightScale:
    case Slot::kGradSink:
    case Slot::kQueryLengths:
    case Slot::kKeyLengths:
    case Slot::kKeyPadding:
    case Slot::kQueryPadding:
      return 1;
    case Slot::kBlockTable:
    case Slot::kKeyScale:
    case Slot::kKeyOffset:
    case Slot::kValueScale:
    case Slot::kValueOffset:
    case Slot::kOutScale:
    case Slot::kOutOffset:
      return 2;
    case Slot::kKeyRowScale:
    case Slot::kKeyRowOffset:
    case Slot::kValueRowScale:
    case Slot::kValueRowOffset:
      return 3;
    case Slot::kBias:
    case Slot::kGradBias:
      return IsAlibi(problem.score.bias) ? 2 : 4;
    default:
      return 4;
  }
}

int64_t ElementsOf(const AttentionProblem& problem, Slot slot) {
  const TensorSpec& spec = problem[slot];
  if (!spec.present()) return 0;
  if (IsBlocks(spec.placement)) {
    if (IsRowResult(slot)) {
      return RowBlockElements(problem, slot);
    }
    return Grid(spec, problem.lengths.sequences).ElementsNeeded();
  }
  const bool listed = problem.kv.rows == Rows::kList &&
                      (slot == Slot::kKey || slot == Slot::kValue);
  return listed ? 0 : Elements(spec, AxisCount(problem, slot));
}

int64_t BytesOf(const AttentionProblem& problem, Slot slot) {
  const int64_t elements = ElementsOf(problem, slot);
  return slot == Slot::kKeep ? CeilDiv(elements, 8)
                             : elements * SizeOf(problem[slot].dtype);
}

int64_t BytesOf(const TensorSpec& spec) {
  return Elements(spec, 4) * SizeOf(spec.dtype);
}

void FillInputs(const AttentionProblem& problem, const Bindings& bindings,
                uint64_t seed) {
  Filler(problem, bindings, seed).All();
}

}  // namespace flashacl
