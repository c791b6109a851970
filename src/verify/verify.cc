// SPDX-License-Identifier: Apache-2.0
// Runs implementations in several ways and compares.
#include "verify/verify.h"

#include <optional>
#include <utility>

#include "base/str.h"
#include "plan/cost.h"
#include "plan/plan.h"
#include "verify/kv_split_check.h"

namespace flashacl {
namespace {

// One worker, in the given order or in the opposite one.
class Alone : public Workers {
 public:
  explicit Alone(bool backwards) : backwards_(backwards) {}

  void ForEach(int64_t count, FunctionRef<void(int64_t)> body) override {
    for (int64_t n = 0; n < count; ++n) body(backwards_ ? count - 1 - n : n);
  }
  int count() const override { return 1; }

 private:
  bool backwards_;
};

// Null where the implementation does not run on the host.
const HostPrepared* OnHost(const Plan& plan) {
  return dynamic_cast<const HostPrepared*>(plan.prepared.get());
}

// Runs the plan on the sample's fresh outputs; on `workers`, unless it is null,
// of the host. A failure of the run, or what it wrote that is not its own.
Status RunOnce(const Backend& backend, const Plan& plan, Workers* workers,
               Sample& sample) {
  const GuardedBytes workspace =
      GuardedBytes::Allocate(*backend.memory, plan.workspace.bytes());
  if (!workspace.present()) {
    return {Code::kOutOfMemory,
            Str("workspace: no memory for {} bytes", plan.workspace.bytes())};
  }
  sample.ResetOutputs();
  FLASHACL_RETURN_IF_ERROR(
      workers == nullptr
          ? Run(*backend.queue, plan, sample.bindings(), workspace.data())
          : backend.queue->OnHost([&](Workers&) {
              return OnHost(plan)->Run(sample.bindings(), workspace.data(),
                                       *workers);
            }));
  if (!workspace.GuardsIntact()) {
    return RuntimeFailure("workspace: written outside of its {} bytes",
                          plan.workspace.bytes());
  }
  return sample.CheckUntouched();
}

// Checks one implementation on one sample.
class Examiner {
 public:
  Examiner(const Backend& backend, const Plan& plan, Sample& sample,
           Verdict& verdict)
      : backend_(backend), plan_(plan), sample_(sample), verdict_(verdict) {}

  void CheckResults(const Sample& truth) {
    if (!RunWith(nullptr, "a run")) return;
    first_ = sample_.Outputs();
    verdict_.checked.all = true;
    const Status compared = backend_.queue->OnHost([&](Workers&) -> Status {
      verdict_.differences = Compare(sample_, truth);
      return {};
    });
    if (!compared.ok()) verdict_.faults.push_back(compared.message());
    for (const Difference& difference : verdict_.differences) {
      if (!difference.ok()) verdict_.faults.push_back(Describe(difference));
    }
  }

  // Against the reference's answer for parts of the problem.
  void CheckSome(double flops) {
    if (!RunWith(nullptr, "a run")) return;
    first_ = sample_.Outputs();
    const Result<Checked> checked =
        CheckAnswer(backend_, sample_, flops, /*flops_of_whole=*/0);
    if (!checked.ok()) {
      verdict_.faults.push_back(checked.status().message());
    } else {
      verdict_.checked = *checked;
    }
  }

  void CheckRepeats(Workers* workers, std::string_view how) {
    if (first_.empty() || !RunWith(workers, how)) return;
    if (sample_.Outputs() != first_) {
      verdict_.faults.push_back(Str("{} gives other bits", how));
    }
  }

  void CheckHalves(uint64_t seed) {
    // Probs that are rounded do not combine: they depend on the row's maximum.
    if (plan_.problem().has(Slot::kWeightScale)) return;
    const Status same =
        CheckSplit(backend_, *plan_.implementation, sample_, seed);
    if (!same.ok()) verdict_.faults.push_back(same.message());
  }

 private:
  bool RunWith(Workers* workers, std::string_view how) {
    const Status ran = RunOnce(backend_, plan_, workers, sample_);
    if (!ran.ok()) {
      verdict_.faults.push_back(Str("{}: {}", how, ran.message()));
    }
    return ran.ok();
  }

  const Backend& backend_;
  const Plan& plan_;
  Sample& sample_;
  Verdict& verdict_;
  std::vector<std::byte> first_;
};

// FLOP of what VerifySome runs but once: a run of it takes a minute.
constexpr double kMostForRepeats = 2e12;

// One problem on one backend.
struct Examination {
  const Backend& backend;
  const AttentionProblem& problem;
  uint64_t seed;
  FunctionRef<void(std::string_view)> progress;

  Result<Verdict> Of(const Implementation& candidate,
                     const Sample& truth) const;
  Result<Verdict> SomeOf(const Implementation& candidate, double flops) const;
};

// Why the candidate does not take the problem goes to the verdict.
std::optional<Plan> PlanOf(const Backend& backend,
                           const AttentionProblem& problem, Verdict& verdict) {
  Result<Plan> plan = MakePlan(backend, problem,
                               {.only = verdict.implementation, .without = {}});
  if (plan.ok()) return *std::move(plan);
  verdict.refusal = plan.status().message();
  return std::nullopt;
}

// On a sample of its own, which no other implementation has spoilt.
Result<Verdict> Examination::Of(const Implementation& candidate,
                                const Sample& truth) const {
  Verdict verdict;
  verdict.implementation = candidate.name;
  const std::optional<Plan> plan = PlanOf(backend, problem, verdict);
  if (!plan) return verdict;
  Result<Sample> sample = Sample::Make(problem, seed, backend);
  if (!sample.ok()) return sample.status();

  Examiner examiner(backend, *plan, *sample, verdict);
  progress(candidate.name);
  examiner.CheckResults(truth);
  progress(Str("{} again", candidate.name));
  examiner.CheckRepeats(nullptr, "a second run");
  if (OnHost(*plan) != nullptr) {
    Alone forwards(/*backwards=*/false);
    progress(Str("{} with one worker", candidate.name));
    examiner.CheckRepeats(&forwards, "one worker");
    Alone backwards(/*backwards=*/true);
    progress(Str("{} backwards", candidate.name));
    examiner.CheckRepeats(&backwards, "one worker going backwards");
  }
  if (&candidate == &backend.implementations.back()) {
    progress(Str("{} on halves of the keys", candidate.name));
    examiner.CheckHalves(seed);
  }
  return verdict;
}

Result<Verdict> Examination::SomeOf(const Implementation& candidate,
                                    double flops) const {
  Verdict verdict;
  verdict.implementation = candidate.name;
  const std::optional<Plan> plan = PlanOf(backend, problem, verdict);
  if (!plan) return verdict;
  progress(Str("{}: inputs", candidate.name));
  Result<Sample> sample = MakeSample(backend, problem, seed);
  if (!sample.ok()) return sample.status();

  Examiner examiner(backend, *plan, *sample, verdict);
  progress(candidate.name);
  examiner.CheckSome(flops);
  if (flops > kMostForRepeats) {
    std::string& without = verdict.checked.without;
    without += Str("{}repeated runs", without.empty() ? "" : ", ");
    return verdict;
  }
  progress(Str("{} again", candidate.name));
  examiner.CheckRepeats(nullptr, "a second run");
  if (OnHost(*plan) != nullptr) {
    Alone backwards(/*backwards=*/true);
    progress(Str("{} with one worker, backwards", candidate.name));
    examiner.CheckRepeats(&backwards, "one worker going backwards");
  }
  return verdict;
}

// FLOP per second of one worker: the reference, and everything else.
constexpr double kReferenceSpeed = 6e8;
constexpr double kKernelSpeed = 4e10;

}  // namespace

bool IsLong(const AttentionProblem& problem) {
  constexpr double kMostSeconds = 10;
  return CountCost(problem).flops * 8 > kMostSeconds * kReferenceSpeed;
}

double EstimateSeconds(const Backend& backend, const AttentionProblem& problem,
                       bool some) {
  const Cost work = CountCost(problem);
  const double workers = WorkersOf(*backend.queue);
  // Two runs of all workers, and one or two of a single one.
  const bool once = some && work.flops > kMostForRepeats;
  const double kernel = work.flops / kKernelSpeed *
                        (once ? 1 / workers : 2 / workers + (some ? 1 : 2));
  constexpr double kSecondsOfSome = 4;
  constexpr double kFillSpeed = 2e8;  // bytes per second
  const double inputs = work.bytes_read / kFillSpeed;
  if (some) return kernel + kSecondsOfSome + inputs;
  // The truth, itself twice, by halves of the keys, and with one worker twice.
  const double reference = work.flops / kReferenceSpeed * (4 / workers + 2);
  return kernel + reference + 2 * inputs;
}

Result<Sample> ReferenceRun(const Backend& backend,
                            const AttentionProblem& problem, uint64_t seed) {
  Result<Sample> truth = Sample::Make(WithWideResults(problem), seed, backend);
  if (!truth.ok()) return truth;
  const Result<Plan> plan =
      MakePlan(backend, truth->problem(),
               {.only = backend.implementations.back().name, .without = {}});
  if (!plan.ok()) return plan.status();
  FLASHACL_RETURN_IF_ERROR(RunOnce(backend, *plan, nullptr, *truth));
  return truth;
}

namespace {

// The implementations of a backend that were asked for, the best first.
Result<std::vector<const Implementation*>> Candidates(const Backend& backend,
                                                      std::string_view only) {
  std::vector<const Implementation*> candidates;
  for (const Implementation& candidate : backend.implementations) {
    if (only.empty() || candidate.name == only) {
      candidates.push_back(&candidate);
    }
  }
  if (!candidates.empty()) return candidates;
  return Invalid("{}: {} has no such implementation", only, backend.name);
}

}  // namespace

Result<std::vector<Verdict>> Verify(
    const Backend& backend, const AttentionProblem& problem, uint64_t seed,
    std::string_view only, FunctionRef<void(std::string_view)> progress) {
  const auto candidates = Candidates(backend, only);
  if (!candidates.ok()) return candidates.status();
  progress("the reference");
  const Result<Sample> truth = ReferenceRun(backend, problem, seed);
  if (!truth.ok()) return truth.status();
  const Examination examination{backend, problem, seed, progress};
  std::vector<Verdict> verdicts;
  for (const Implementation* candidate : *candidates) {
    Result<Verdict> verdict = examination.Of(*candidate, *truth);
    if (!verdict.ok()) return verdict.status();
    verdicts.push_back(std::move(*verdict));
  }
  return verdicts;
}

Result<std::vector<Verdict>> VerifySome(
    const Backend& backend, const AttentionProblem& problem, uint64_t seed,
    std::string_view only, FunctionRef<void(std::string_view)> progress) {
  const auto candidates = Candidates(backend, only);
  if (!candidates.ok()) return candidates.status();
  const double flops = CountCost(problem).flops;
  const Examination examination{backend, problem, seed, progress};
  std::vector<Verdict> verdicts;
  for (const Implementation* candidate : *candidates) {
    if (candidate == &backend.implementations.back()) continue;
    Result<Verdict> verdict = examination.SomeOf(*candidate, flops);
    if (!verdict.ok()) return verdict.status();
    verdicts.push_back(std::move(*verdict));
  }
  return verdicts;
}

}  // namespace flashacl
