// SPDX-License-Identifier: Apache-2.0
// Halves of keys, combined in fp64.
#include "verify/kv_split_check.h"

#include <algorithm>
#include <cfloat>
#include <cmath>
#include <vector>

#include "base/number.h"
#include "base/random.h"
#include "base/str.h"
#include "plan/plan.h"
#include "plan/sequences.h"
#include "problem/grid.h"
#include "verify/fill.h"

namespace flashacl {
namespace {

// Which of a row's keys take part.
enum class Keys : uint8_t { kAll, kFirst, kSecond };

// The axes of a mask of one's own: as many heads as the given one tells apart.
TensorSpec MaskSpec(const AttentionProblem& problem) {
  int64_t rows = 1;
  int64_t columns = 1;
  for (const Sequence& sequence : problem.lengths.sequences) {
    rows = std::max(rows, sequence.rows());
    columns = std::max(columns, sequence.columns());
  }
  const TensorSpec& given = problem[Slot::kMask];
  const bool by_head =
      IsBlocks(given.placement) ? given.dims[1] > 1 : given.strides[1] != 0;
  TensorSpec spec = DenseSpec(
      DType::kBool,
      {problem.lengths.count(), by_head ? problem.heads : 1, rows, columns});
  if (!by_head) spec.strides[1] = 0;
  return spec;
}

// The problem with a mask of its own and results that say all f32 can say.
AttentionProblem Split(const AttentionProblem& problem) {
  AttentionProblem split = WithWideResults(problem);
  split[Slot::kMask] = MaskSpec(problem);
  if (split.direction == Direction::kForward) {
    split[Slot::kOut].dtype = DType::kF32;
    split[Slot::kOutScale] = split[Slot::kOutOffset] = {};
    split[Slot::kLse] = {};  // max and sum say as much
    split[Slot::kRowMax] = split[Slot::kRowSum] =
        DenseSpec(DType::kF32, {problem.lengths.count(), problem.heads,
                                split[Slot::kMask].dims[2], 1});
  }
  return split;
}

// What the given mask hides, and the keys of the other half.
std::vector<uint8_t> MaskOf(const Sample& sample, const TensorSpec& spec,
                            Keys keys, uint64_t seed) {
  const std::vector<Sequence> sequences =
      ResolveSequences(sample.problem(), sample.bindings());
  const Grid given(sample.problem()[Slot::kMask], sequences);
  const std::byte* hidden = sample.bindings()[Slot::kMask];
  Random random(seed);
  std::vector<uint8_t> mask(
      static_cast<size_t>(spec.dims[0] * spec.strides[0]));
  for (int64_t b = 0; b < spec.dims[0]; ++b) {
    const Sequence& sequence = sequences[static_cast<size_t>(b)];
    for (int64_t h = 0; h < spec.dims[1]; ++h) {
      const GridPlane plane = given.present() ? given.Plane(b, h) : GridPlane{};
      for (int64_t i = 0; i < sequence.rows(); ++i) {
        for (int64_t j = 0; j < sequence.columns(); ++j) {
          const Keys half = random.OneIn(2) ? Keys::kFirst : Keys::kSecond;
          const bool other = keys != Keys::kAll && keys != half;
          const bool hide = given.present() && j >= given.FirstColumn(b) &&
                            hidden[plane.At(i, j)] != std::byte{0};
          mask[static_cast<size_t>(spec.At(b, h, i, j))] = other || hide;
        }
      }
    }
  }
  return mask;
}

// The f32 results of one run, by slot.
struct Results {
  std::array<std::vector<float>, kSlots> by_slot;

  std::vector<float>& operator[](Slot slot) {
    return by_slot[static_cast<size_t>(slot)];
  }
  const std::vector<float>& operator[](Slot slot) const {
    return by_slot[static_cast<size_t>(slot)];
  }
};

// What one run has on the device beside the sample.
struct Buffers {
  GuardedBytes mask, workspace;
  std::array<GuardedBytes, kSlots> outputs;
};

Result<Results> RunOn(const Backend& backend, const Plan& plan,
                      const Sample& sample, const std::vector<uint8_t>& mask) {
  Memory& memory = *backend.memory;
  Buffers buffers;
  const auto allocate = [&](size_t bytes, GuardedBytes& to) -> Status {
    to = GuardedBytes::Allocate(memory, static_cast<int64_t>(bytes));
    if (to.present()) return {};
    return {Code::kOutOfMemory, Str("no memory for {} bytes", bytes)};
  };
  FLASHACL_RETURN_IF_ERROR(allocate(mask.size(), buffers.mask));
  memory.Copy(buffers.mask.data(),
              reinterpret_cast<const std::byte*>(mask.data()), mask.size());
  Bindings bindings = sample.bindings();
  bindings[Slot::kMask] = buffers.mask.data();
  Results results;
  for (size_t n = 0; n < kSlots; ++n) {
    const auto slot = static_cast<Slot>(n);
    if (!IsOutput(plan.problem().direction, slot) ||
        !plan.problem().has(slot)) {
      continue;
    }
    const auto count = static_cast<size_t>(ElementsOf(plan.problem(), slot));
    results[slot].resize(count);
    FLASHACL_RETURN_IF_ERROR(
        allocate(count * sizeof(float), buffers.outputs[n]));
    bindings[slot] = buffers.outputs[n].data();
  }
  FLASHACL_RETURN_IF_ERROR(
      allocate(static_cast<size_t>(plan.workspace.bytes()), buffers.workspace));
  FLASHACL_RETURN_IF_ERROR(
      Run(*backend.queue, plan, bindings, buffers.workspace.data()));
  for (size_t n = 0; n < kSlots; ++n) {
    if (!buffers.outputs[n].present()) continue;
    memory.Copy(reinterpret_cast<std::byte*>(results.by_slot[n].data()),
                buffers.outputs[n].data(), buffers.outputs[n].bytes().size());
  }
  return results;
}

// The results of all keys and of both halves.
struct Runs {
  Results all, first, second;
};

bool Differ(double a, double b, double tolerance) {
  // Where the inputs make a NaN or an infinity there is nothing to add up.
  return std::isfinite(a) && std::isfinite(b) && std::abs(a - b) > tolerance;
}

Status CheckSums(const Runs& runs) {
  for (size_t n = 0; n < kSlots; ++n) {
    const auto slot = static_cast<Slot>(n);
    const std::vector<float>& all = runs.all[slot];
    for (size_t e = 0; e < all.size(); ++e) {
      const double first = runs.first[slot][e];
      const double second = runs.second[slot][e];
      // Each was rounded once.
      const double tolerance =
          FLT_EPSILON * (std::abs(first) + std::abs(second)) + FLT_MIN;
      if (Differ(all[e], first + second, tolerance)) {
        return RuntimeFailure(
            "{}: element {} is {}, but halves of the keys add up to {}",
            Name(slot), e, all[e], first + second);
      }
    }
  }
  return {};
}

// Merges the halves of rows, whose maxima and sums say what each counts for.
class RowMerger {
 public:
  RowMerger(const AttentionProblem& problem, const Sample& sample,
            const Runs& runs)
      : problem_(problem), sample_(sample), runs_(runs) {}

  Status Check(int64_t b, const Sequence& sequence, int64_t h,
               int64_t i) const {
    const TensorSpec& stats = problem_[Slot::kRowMax];
    const auto row = static_cast<size_t>(stats.At(b, h, i));
    const double m = std::max(runs_.first[Slot::kRowMax][row],
                              runs_.second[Slot::kRowMax][row]);
    const double first = Weight(runs_.first, row, m);
    const double second = Weight(runs_.second, row, m);
    const double sum = first + second - SinkWeight(h, m, first, second);
    // Maxima were rounded, and exp turns that into a relative error.
    const double relative = FLT_EPSILON * (4 + 2 * Magnitude(row));
    const TensorSpec& out = problem_[Slot::kOut];
    for (int64_t d = 0; d < problem_.v_dim; ++d) {
      const auto at =
          static_cast<size_t>(out.At(b, sequence.queries.first + i, h, d));
      const double a = first == 0 ? 0 : runs_.first[Slot::kOut][at] * first;
      const double c = second == 0 ? 0 : runs_.second[Slot::kOut][at] * second;
      const double merged = sum == 0 ? 0 : (a + c) / sum;
      const double tolerance =
          sum == 0 ? 0 : relative * (std::abs(a) + std::abs(c)) / sum + FLT_MIN;
      const double all = runs_.all[Slot::kOut][at];
      if (Differ(all, merged, tolerance)) {
        return RuntimeFailure(
            "out: sequence {} row {} head {} channel {} is {}, but halves of "
            "the keys merge to {}",
            b, i, h, d, all, merged);
      }
    }
    return {};
  }

 private:
  // exp(score - m), summed over what the run saw; 0 for a row that saw nothing.
  static double Weight(const Results& run, size_t row, double m) {
    const double sum = run[Slot::kRowSum][row];
    const double max = run[Slot::kRowMax][row];
    if (sum == 0 || max == -FLT_MAX) return 0;
    return sum * std::exp(max - m);
  }

  // Each half counts the sink; the whole counts it once.
  double SinkWeight(int64_t h, double m, double first, double second) const {
    if (!problem_.has(Slot::kSink) || first == 0 || second == 0) return 0;
    const TensorSpec& sink = problem_[Slot::kSink];
    const double of_head =
        ReadNumber(sink.dtype, sample_.bindings()[Slot::kSink] +
                                   sink.At(h) * SizeOf(sink.dtype));
    return std::exp(of_head - m);
  }

  double Magnitude(size_t row) const {
    double most = 0;
    for (const Results* run : {&runs_.first, &runs_.second}) {
      const double max = std::abs((*run)[Slot::kRowMax][row]);
      if (max < FLT_MAX) most = std::max(most, max);
    }
    return most;
  }

  const AttentionProblem& problem_;
  const Sample& sample_;
  const Runs& runs_;
};

Status CheckMerged(const AttentionProblem& problem, const Sample& sample,
                   const Runs& runs) {
  const RowMerger merger(problem, sample, runs);
  const std::vector<Sequence> sequences =
      ResolveSequences(sample.problem(), sample.bindings());
  for (size_t b = 0; b < sequences.size(); ++b) {
    for (int64_t h = 0; h < problem.heads; ++h) {
      for (int64_t i = 0; i < sequences[b].rows(); ++i) {
        FLASHACL_RETURN_IF_ERROR(
            merger.Check(static_cast<int64_t>(b), sequences[b], h, i));
      }
    }
  }
  return {};
}

}  // namespace

Status CheckSplit(const Backend& backend, const Implementation& implementation,
                  const Sample& sample, uint64_t seed) {
  const Result<Plan> plan =
      MakePlan(backend, Split(sample.problem()), {implementation.name, {}});
  if (!plan.ok()) return plan.status();
  const AttentionProblem& problem = plan->problem();
  Runs runs;
  for (const auto& [keys, results] :
       {std::pair{Keys::kAll, &runs.all}, std::pair{Keys::kFirst, &runs.first},
        std::pair{Keys::kSecond, &runs.second}}) {
    std::vector<uint8_t> mask;
    // Clang 14 captures no structured binding by reference.
    const auto fill = [&, which = keys](Workers&) -> Status {
      mask = MaskOf(sample, problem[Slot::kMask], which, seed);
      return {};
    };
    FLASHACL_RETURN_IF_ERROR(backend.queue->OnHost(fill));
    Result<Results> run = RunOn(backend, *plan, sample, mask);
    if (!run.ok()) return run.status();
    *results = std::move(*run);
  }
  if (problem.direction == Direction::kBackward) return CheckSums(runs);
  return backend.queue->OnHost(
      [&](Workers&) { return CheckMerged(problem, sample, runs); });
}

}  // namespace flashacl
