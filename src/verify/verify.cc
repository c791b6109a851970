// SPDX-License-Identifier: Apache-2.0
// Runs implementations in several ways and compares.
#include "verify/verify.h"

#include <utility>

#include "base/str.h"
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
    const Status compared = backend_.queue->OnHost([&](Workers&) -> Status {
      verdict_.differences = Compare(sample_, truth);
      return {};
    });
    if (!compared.ok()) verdict_.faults.push_back(compared.message());
    for (const Difference& difference : verdict_.differences) {
      if (!difference.ok()) verdict_.faults.push_back(Describe(difference));
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

// One problem on one backend.
struct Examination {
  const Backend& backend;
  const AttentionProblem& problem;
  uint64_t seed;
  FunctionRef<void(std::string_view)> progress;

  Result<Verdict> Of(const Implementation& candidate,
                     const Sample& truth) const;
};

// On a sample of its own, which no other implementation has spoilt.
Result<Verdict> Examination::Of(const Implementation& candidate,
                                const Sample& truth) const {
  Verdict verdict;
  verdict.implementation = candidate.name;
  const Result<Plan> plan =
      MakePlan(backend, problem, {.only = candidate.name, .without = {}});
  if (!plan.ok()) {
    verdict.refusal = plan.status().message();
    return verdict;
  }
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

}  // namespace

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

Result<std::vector<Verdict>> Verify(
    const Backend& backend, const AttentionProblem& problem, uint64_t seed,
    std::string_view only, FunctionRef<void(std::string_view)> progress) {
  progress("the reference");
  const Result<Sample> truth = ReferenceRun(backend, problem, seed);
  if (!truth.ok()) return truth.status();
  const Examination examination{backend, problem, seed, progress};
  std::vector<Verdict> verdicts;
  for (const Implementation& candidate : backend.implementations) {
    if (!only.empty() && candidate.name != only) continue;
    Result<Verdict> verdict = examination.Of(candidate, *truth);
    if (!verdict.ok()) return verdict.status();
    verdicts.push_back(std::move(*verdict));
  }
  if (verdicts.empty()) {
    return Invalid("{}: {} has no such implementation", only, backend.name);
  }
  return verdicts;
}

}  // namespace flashacl
