// SPDX-License-Identifier: Apache-2.0
// The reference on subproblems, until it has taken long enough.
#include "verify/spot_check.h"

#include <algorithm>
#include <array>
#include <chrono>
#include <utility>
#include <vector>

#include "base/random.h"
#include "base/str.h"
#include "plan/plan.h"
#include "plan/sequences.h"
#include "verify/compare.h"
#include "verify/fill.h"
#include "verify/subproblem.h"

namespace flashacl {
namespace {

using Clock = std::chrono::steady_clock;

// The reference computes some GFLOP per second.
constexpr double kFlopsOfSubproblem = 4e8;  // if that is a row
constexpr int64_t kMaxLines = 16;           // rows or columns of a subproblem
constexpr int64_t kMaxSubproblems = 8;      // at least two of them, then
constexpr double kMaxSeconds = 2;           // until these are over

// Computes `problem` into memory of its own and compares.
Status CompareWithReference(const Backend& backend,
                            const AttentionProblem& problem,
                            const Bindings& bindings) {
  const AttentionProblem wide = WithWideResults(problem);
  const Result<Plan> plan =
      MakePlan(backend, wide,
               {.only = backend.implementations.back().name, .without = {}});
  if (!plan.ok()) return plan.status();
  std::array<GuardedBytes, kSlots> memory;
  Bindings own = bindings;
  const auto allocate = [&](int64_t bytes, GuardedBytes& to) -> Status {
    to = GuardedBytes::Allocate(*backend.memory, bytes);
    if (to.present()) return {};
    return {Code::kOutOfMemory, Str("no memory for {} bytes", bytes)};
  };
  for (size_t n = 0; n < kSlots; ++n) {
    const auto slot = static_cast<Slot>(n);
    if (!wide.has(slot) || !IsOutput(wide.direction, slot)) continue;
    FLASHACL_RETURN_IF_ERROR(allocate(BytesOf(wide, slot), memory[n]));
    own[slot] = memory[n].data();
  }
  GuardedBytes workspace;
  FLASHACL_RETURN_IF_ERROR(allocate(plan->workspace.bytes(), workspace));
  FLASHACL_RETURN_IF_ERROR(Run(*backend.queue, *plan, own, workspace.data()));
  return backend.queue->OnHost([&](Workers&) -> Status {
    for (const Difference& difference :
         Compare({problem, bindings}, {wide, own})) {
      if (!difference.ok()) return Internal("{}", Describe(difference));
    }
    return {};
  });
}

// Subproblems along one side: from the start of the first sequence, to the end
// of the last one, then from anywhere.
class SpotCheck {
 public:
  using Side = Range Sequence::*;
  using Take = Result<Subproblem> (*)(const AttentionProblem&, const Bindings&,
                                      int64_t, Range);

  SpotCheck(const Backend& backend, const Sample& sample, double flops,
            std::vector<Sequence> sequences)
      : backend_(backend),
        sample_(sample),
        flops_(flops),
        sequences_(std::move(sequences)) {}

  // Adds to `done` how many rows or columns were compared in at most `most`
  // subproblems.
  Status Check(Side side, Take take, int64_t most, int64_t& done) {
    const std::vector<size_t> filled = Filled(side);
    const int64_t lines = LinesOfSubproblem(side);
    const Clock::time_point start = Clock::now();
    for (int64_t n = 0; n < most && !filled.empty(); ++n) {
      const std::chrono::duration<double> taken = Clock::now() - start;
      if (n >= 2 && taken.count() > kMaxSeconds) break;
      const size_t b = filled[static_cast<size_t>(
          Pick(n, static_cast<int64_t>(filled.size()) - 1))];
      const int64_t size = (sequences_[b].*side).size();
      const int64_t count = std::min(lines, size);
      const int64_t first = Pick(n, size - count);
      FLASHACL_RETURN_IF_ERROR(CheckOne(take, b, {first, first + count}));
      done += count;
    }
    return {};
  }

 private:
  // Sequences with anything to take.
  std::vector<size_t> Filled(Side side) const {
    std::vector<size_t> filled;
    for (size_t b = 0; b < sequences_.size(); ++b) {
      const bool rows = !sequences_[b].queries.empty();
      if (rows && !(sequences_[b].*side).empty()) filled.push_back(b);
    }
    return filled;
  }

  int64_t LinesOfSubproblem(Side side) const {
    int64_t total = 0;
    for (const Sequence& one : sequences_) total += (one.*side).size();
    const double share =
        kFlopsOfSubproblem / std::max(flops_, 1.0) * static_cast<double>(total);
    return std::clamp<int64_t>(static_cast<int64_t>(share), 1, kMaxLines);
  }

  // The first, the last, then any of [0, last].
  int64_t Pick(int64_t n, int64_t last) {
    if (n == 0) return 0;
    return n == 1 ? last : random_.Within(0, last);
  }

  Status CheckOne(Take take, size_t sequence, Range lines) const {
    const auto b = static_cast<int64_t>(sequence);
    Subproblem subproblem;
    FLASHACL_RETURN_IF_ERROR(backend_.queue->OnHost([&](Workers&) -> Status {
      Result<Subproblem> taken =
          take(sample_.problem(), sample_.bindings(), b, lines);
      if (!taken.ok()) return taken.status();
      subproblem = *std::move(taken);
      return {};
    }));
    const Status same =
        CompareWithReference(backend_, subproblem.problem, subproblem.bindings);
    if (same.code() != Code::kInternal) return same;
    return Internal("in [{},{}) of sequence {}: {}", lines.first, lines.last, b,
                    same.message());
  }

  const Backend& backend_;
  const Sample& sample_;
  const double flops_;
  const std::vector<Sequence> sequences_;
  Random random_{1};
};

// Outputs that no subproblem has.
std::string LeftOut(const AttentionProblem& problem) {
  std::string names;
  for (Slot slot : {Slot::kGradBias, Slot::kGradSink}) {
    if (!problem.has(slot)) continue;
    names += Str("{}{}", names.empty() ? "" : ", ", Name(slot));
  }
  return names;
}

}  // namespace

std::string Describe(const Checked& checked) {
  if (checked.all) return "all verified";
  if (checked.rows == 0) return Str("not verified: {}", checked.without);
  std::string text = Str("{} rows", checked.rows);
  if (checked.columns > 0) text += Str(" and {} columns", checked.columns);
  text += " verified";
  if (!checked.without.empty()) text += Str(", not {}", checked.without);
  return text;
}

Result<Sample> MakeSample(const Backend& backend,
                          const AttentionProblem& problem, uint64_t seed) {
  if (problem.direction == Direction::kForward) {
    return Sample::Make(problem, seed, backend);
  }
  const Result<Plan> plan = MakePlan(backend, ForwardOf(problem));
  if (!plan.ok()) return plan.status();
  Backend forward = backend;
  forward.implementations = {plan->implementation, 1};
  return Sample::Make(problem, seed, forward);
}

Result<Checked> CheckAnswer(const Backend& backend, const Sample& sample,
                            double flops, double flops_of_whole) {
  const AttentionProblem& problem = sample.problem();
  Checked checked;
  if (flops <= flops_of_whole) {
    FLASHACL_RETURN_IF_ERROR(
        CompareWithReference(backend, problem, sample.bindings()));
    checked.all = true;
    return checked;
  }
  checked.without = LeftOut(problem);
  std::vector<Sequence> sequences;
  FLASHACL_RETURN_IF_ERROR(backend.queue->OnHost([&](Workers&) -> Status {
    sequences = ResolveSequences(problem, sample.bindings());
    return {};
  }));
  SpotCheck check(backend, sample, flops, std::move(sequences));
  Status same =
      check.Check(&Sequence::queries, TakeRows, kMaxSubproblems, checked.rows);
  if (same.ok() && problem.direction == Direction::kBackward) {
    // Of listed columns only the first ones can be taken.
    const bool listed = problem.kv.gathers();
    same = check.Check(&Sequence::keys, TakeColumns,
                       listed ? 1 : kMaxSubproblems, checked.columns);
  }
  if (same.code() == Code::kUnsupported) {
    checked.without = same.message();
  } else if (!same.ok()) {
    return same;
  }
  return checked;
}

}  // namespace flashacl
