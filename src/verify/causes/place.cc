// SPDX-License-Identifier: Apache-2.0
// What is where, mistaken: heads, layouts, keys and values, pages.
#include <algorithm>
#include <cstring>

#include "base/number.h"
#include "base/str.h"
#include "verify/causes/causes.h"

namespace flashacl {
namespace {

// Each sequence's keys are a tensor of its own: there is no memory that holds
// all of them, to be read in another order.
bool HasLists(const AttentionProblem& problem) {
  return problem.kv.rows == KvSource::Rows::kList;
}

// Keys and values with a head for each query head: `from` says whose.
template <typename From>
void RepeatHeads(Slot slot, size_t axis, From from, TensorSet& set) {
  if (!set.problem.has(slot) || set.bindings[slot] == nullptr) return;
  const TensorSpec spec = set.problem[slot];
  if (spec.strides[axis] == 0) return;
  std::array<int64_t, 4> dims = spec.DistinctDims();
  dims[axis] = set.problem.heads;
  TensorSpec wide = DenseSpec(spec.dtype, dims);
  const int64_t size = SizeOf(spec.dtype);
  std::vector<std::byte> bytes(
      static_cast<size_t>(dims[0] * dims[1] * dims[2] * dims[3] * size));
  std::array<int64_t, 4> at{};
  for (at[0] = 0; at[0] < dims[0]; ++at[0]) {
    for (at[1] = 0; at[1] < dims[1]; ++at[1]) {
      for (at[2] = 0; at[2] < dims[2]; ++at[2]) {
        for (at[3] = 0; at[3] < dims[3]; ++at[3]) {
          std::array<int64_t, 4> of = at;
          of[axis] = from(at[axis]);
          std::memcpy(
              bytes.data() + wide.At(at[0], at[1], at[2], at[3]) * size,
              set.bindings[slot] + spec.At(of[0], of[1], of[2], of[3]) * size,
              static_cast<size_t>(size));
        }
      }
    }
  }
  for (size_t n = 0; n < 4; ++n) {
    if (spec.strides[n] != 0) continue;
    wide.strides[n] = 0;
    wide.dims[n] = spec.dims[n];
  }
  wide.placement = spec.placement;
  set.Bind(slot, wide, std::move(bytes));
}

// Backward the sums over a group move, too: query heads change places instead
// of keys.
bool PermuteQueryHeads(TensorSet& set) {
  if (set.problem.has(Slot::kKeep)) return false;
  const int64_t group = set.problem.group();
  const int64_t kv_heads = set.problem.kv_heads;
  const auto from = [&](int64_t head) {
    return head % group * kv_heads + head / group;
  };
  for (const Slot slot :
       {Slot::kQuery, Slot::kQueryRope, Slot::kQueryRowScale, Slot::kGradOut,
        Slot::kGradQuery, Slot::kGradQueryRope}) {
    RepeatHeads(slot, 2, from, set);
  }
  RepeatHeads(Slot::kMask, 1, from, set);
  RepeatHeads(Slot::kBias, 1, from, set);
  RepeatHeads(Slot::kSink, 0, from, set);
  DropForwardResults(set);
  return true;
}

void InterleaveHeads(const TensorSet& tensors, std::vector<Trial>& trials) {
  const AttentionProblem& problem = tensors.problem;
  const int64_t kv_heads = problem.kv_heads;
  const bool blocks = problem[Slot::kKey].channel_block > 0;
  if (problem.group() == 1 || kv_heads == 1 || blocks) return;
  if (HasLists(problem)) return;
  Trial trial{Str("query head h has kv head h % {}, not h / {}", kv_heads,
                  problem.group()),
              tensors};
  if (problem.direction == Direction::kBackward) {
    if (PermuteQueryHeads(trial.tensors)) trials.push_back(std::move(trial));
    return;
  }
  const auto from = [&](int64_t head) { return head % kv_heads; };
  for (const Slot slot :
       {Slot::kKey, Slot::kKeyRope, Slot::kValue, Slot::kKeyPrefix,
        Slot::kValuePrefix, Slot::kTopK, Slot::kKeyRowScale,
        Slot::kValueRowScale, Slot::kKeyRowOffset, Slot::kValueRowOffset}) {
    RepeatHeads(slot, 2, from, trial.tensors);
  }
  for (const Slot slot : {Slot::kKeyScale, Slot::kKeyOffset, Slot::kValueScale,
                          Slot::kValueOffset}) {
    RepeatHeads(slot, 0, from, trial.tensors);
  }
  trial.tensors.problem.kv_heads = problem.heads;
  trials.push_back(std::move(trial));
}

void SwapKeysAndValues(const TensorSet& tensors, std::vector<Trial>& trials) {
  const AttentionProblem& problem = tensors.problem;
  if (problem.kv.value_is_key || problem.qk_dim != problem.v_dim) return;
  Trial trial{"q.v are the scores, and keys are summed", tensors};
  TensorSet& set = trial.tensors;
  std::swap(set.problem[Slot::kKey], set.problem[Slot::kValue]);
  std::swap(set.bindings[Slot::kKey], set.bindings[Slot::kValue]);
  std::swap(set.problem.kv.key_list, set.problem.kv.value_list);
  std::swap(set.bindings.key_list, set.bindings.value_list);
  std::swap(set.problem[Slot::kKeyScale], set.problem[Slot::kValueScale]);
  std::swap(set.bindings[Slot::kKeyScale], set.bindings[Slot::kValueScale]);
  trials.push_back(std::move(trial));
}

// Slots with rows of queries or keys; results among them.
constexpr Slot kRowInputs[] = {Slot::kQuery, Slot::kQueryRope,
                               Slot::kKey,   Slot::kKeyRope,
                               Slot::kValue, Slot::kGradOut};
constexpr Slot kRowResults[] = {Slot::kOut,           Slot::kGradQuery,
                                Slot::kGradQueryRope, Slot::kGradKey,
                                Slot::kGradKeyRope,   Slot::kGradValue};

bool HasKeys(Slot slot) {
  return slot == Slot::kKey || slot == Slot::kKeyRope || slot == Slot::kValue ||
         slot == Slot::kGradKey || slot == Slot::kGradKeyRope ||
         slot == Slot::kGradValue;
}

// Packed sequences of one length get an axis of their own. False if they are
// not of one length, or end before their tensor does.
bool Unpack(AttentionProblem& problem) {
  auto& sequences = problem.lengths.sequences;
  const int64_t rows = sequences[0].rows();
  const int64_t keys = sequences[0].keys.size();
  for (const Sequence& sequence : sequences) {
    if (sequence.rows() != rows || sequence.keys.size() != keys) return false;
  }
  for (const auto& slots : {std::span<const Slot>(kRowInputs),
                            std::span<const Slot>(kRowResults)}) {
    for (const Slot slot : slots) {
      TensorSpec& spec = problem[slot];
      const bool paged = problem.kv.rows == KvSource::Rows::kPaged;
      if (!spec.present() || (HasKeys(slot) && paged)) continue;
      const int64_t length = HasKeys(slot) ? keys : rows;
      if (spec.strides[0] == 0) {
        spec.dims[0] = problem.lengths.count();
        spec.dims[1] = length;
        spec.strides[0] = length * spec.strides[1];
      }
      if (spec.dims[1] != length) return false;
    }
  }
  for (Sequence& sequence : sequences) {
    sequence.queries = {0, rows};
    sequence.keys = {0, keys};
  }
  return true;
}

// The same memory with two axes in the other order, which must be neighbours
// there.
bool SwapAxes(TensorSpec& spec, size_t a, size_t b) {
  if (!spec.present()) return true;
  const bool a_outer = spec.strides[a] > spec.strides[b];
  const size_t outer = a_outer ? a : b;
  const size_t inner = a_outer ? b : a;
  const int64_t unit = spec.strides[inner];
  if (spec.strides[outer] != unit * spec.dims[inner]) return false;
  spec.strides[inner] = unit * spec.dims[outer];
  spec.strides[outer] = unit;
  return true;
}

void AddSwap(const TensorSet& tensors, size_t a, size_t b,
             std::string_view what, std::vector<Trial>& trials) {
  const bool paged = tensors.problem.kv.rows == KvSource::Rows::kPaged;
  if (tensors.problem.lengths.count() == 0) return;
  if (HasLists(tensors.problem)) return;
  for (const int which : {3, 1, 2}) {
    Trial trial{Str("{}{}", what,
                    which == 3   ? ""
                    : which == 1 ? ", of inputs alone"
                                 : ", of results alone"),
                tensors};
    AttentionProblem& problem = trial.tensors.problem;
    if (!Unpack(problem)) return;
    DropForwardResults(trial.tensors);
    bool swapped = true;
    for (const Slot slot : kRowInputs) {
      if ((which & 1) == 0 || (HasKeys(slot) && paged)) continue;
      swapped = swapped && SwapAxes(problem[slot], a, b);
    }
    for (const Slot slot : kRowResults) {
      if ((which & 2) == 0 || trial.tensors.bindings[slot] == nullptr) continue;
      swapped = swapped && SwapAxes(problem[slot], a, b);
    }
    if (swapped) trials.push_back(std::move(trial));
  }
}

void MistakeLayout(const TensorSet& tensors, std::vector<Trial>& trials) {
  AddSwap(tensors, 0, 1, "sequences and rows in the other order", trials);
  AddSwap(tensors, 1, 2, "rows and heads in the other order", trials);
}

// The table with entry (b, n) from (row(b), n + column).
template <typename RowOf>
Trial WithTable(const TensorSet& tensors, std::string detail, RowOf row_of,
                int64_t column) {
  Trial trial{std::move(detail), tensors};
  const TensorSpec& spec = tensors.problem[Slot::kBlockTable];
  const TensorSpec own =
      DenseSpec(DType::kI64, {spec.dims[0], spec.dims[1], 1, 1});
  std::vector<std::byte> bytes(
      static_cast<size_t>(spec.dims[0] * spec.dims[1] * SizeOf(own.dtype)));
  for (int64_t b = 0; b < spec.dims[0]; ++b) {
    for (int64_t n = 0; n < spec.dims[1]; ++n) {
      const int64_t from_row = row_of(b);
      const int64_t from = n + column;
      const bool inside = from_row >= 0 && from_row < spec.dims[0] &&
                          from >= 0 && from < spec.dims[1];
      const int64_t page =
          inside ? ReadIndex(spec.dtype,
                             tensors.bindings[Slot::kBlockTable] +
                                 spec.At(from_row, from) * SizeOf(spec.dtype))
                 : -1;
      Store(bytes.data() + own.At(b, n) * SizeOf(own.dtype), page);
    }
  }
  trial.tensors.Bind(Slot::kBlockTable, own, std::move(bytes));
  return trial;
}

void MistakePages(const TensorSet& tensors, std::vector<Trial>& trials) {
  if (!tensors.problem.has(Slot::kBlockTable)) return;
  const int64_t count = tensors.problem.lengths.count();
  constexpr int64_t kMostAlone = 32;
  for (const int64_t by : {1, -1}) {
    const auto around = [&](int64_t b) { return (b + by + count) % count; };
    if (count > 1) {
      trials.push_back(WithTable(tensors,
                                 Str("every sequence has the row {} its own",
                                     by > 0 ? "after" : "before"),
                                 around, 0));
      trials.push_back(WithTable(
          tensors,
          Str("every sequence has the row {} its own, and the {} keeps its own",
              by > 0 ? "after" : "before", by > 0 ? "last" : "first"),
          [&](int64_t b) { return std::clamp<int64_t>(b + by, 0, count - 1); },
          0));
    }
    trials.push_back(WithTable(
        tensors,
        Str("pages are counted from {}", by > 0 ? "the second"
                                                : "before the "
                                                  "first"),
        [](int64_t b) { return b; }, by));
    for (int64_t b = 0; count > 1 && b < std::min(count, kMostAlone); ++b) {
      trials.push_back(WithTable(
          tensors, Str("sequence {} has the row of sequence {}", b, around(b)),
          [&](int64_t n) { return n == b ? around(b) : n; }, 0));
    }
  }
}

}  // namespace

std::vector<Cause> PlaceCauses() {
  return {{"head grouping interleaved", InterleaveHeads},
          {"keys and values swapped", SwapKeysAndValues},
          {"layout mistaken", MistakeLayout},
          {"page table row off", MistakePages}};
}

}  // namespace flashacl
