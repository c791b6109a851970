// SPDX-License-Identifier: Apache-2.0
// flashacl bench: how fast implementations are, and how fast they could be.
#include <chrono>
#include <fstream>
#include <memory>
#include <utility>
#include <vector>

#include "backends.h"
#include "base/str.h"
#include "plan/compare.h"
#include "plan/plan.h"
#include "problem/notation.h"
#include "tools/flashacl/amounts.h"
#include "tools/flashacl/command.h"
#include "tools/flashacl/measure.h"
#include "tools/flashacl/progress.h"
#include "tools/flashacl/statistics.h"

namespace flashacl::tool {
namespace {

constexpr uint64_t kSeed = 1;
constexpr double kMostVerified = 2e9;  // FLOP in the reference: some seconds

struct Options {
  std::vector<std::string> sources;
  std::string only;
  std::string without;
  int threads = 0;
  Effort effort;
};

// The problem's inputs; a backward problem's from the fastest forward.
Result<Sample> MakeSample(const Backend& backend,
                          const AttentionProblem& problem) {
  Backend forward = backend;
  if (problem.direction == Direction::kBackward) {
    const Result<Plan> plan = MakePlan(backend, ForwardOf(problem));
    if (!plan.ok()) return plan.status();
    forward.implementations = {plan->implementation, 1};
  }
  return Sample::Make(problem, kSeed, forward);
}

Result<std::string> CheckAnswer(const Backend& backend, const Sample& sample,
                                const Work& work) {
  if (work.flops > kMostVerified) return std::string("not verified: too large");
  Result<Sample> truth = MakeSample(backend, WithWideResults(sample.problem()));
  if (!truth.ok()) return truth.status();
  const Result<Plan> plan =
      MakePlan(backend, truth->problem(),
               {.only = backend.implementations.back().name, .without = {}});
  if (!plan.ok()) return plan.status();
  const GuardedBytes workspace =
      GuardedBytes::Allocate(plan->workspace.bytes());
  FLASHACL_RETURN_IF_ERROR(
      Run(backend, *plan, truth->bindings(), workspace.data()));
  for (const Difference& difference : Compare(sample, *truth)) {
    if (!difference.ok()) return Internal("WRONG: {}", Describe(difference));
  }
  return std::string("verified");
}

void PrintSpeed(const Plan& plan, const Measurement& measurement,
                int64_t peak_bytes) {
  const Work work = CountWork(plan.problem);
  const Summary seconds = Summarise(measurement.Seconds());
  const Summary flops = Summarise(measurement.FlopsRatios(work));
  const Summary bandwidth = Summarise(measurement.BandwidthRatios(work));
  const double bytes = work.bytes_read + work.bytes_written;
  fmt::print("    {:.4g} ms +-{:.1f} %, {} repetitions of {}\n",
             1e3 * seconds.median, 100 * seconds.spread(),
             measurement.repetitions.size(), measurement.runs);
  fmt::print("    {:.4g} GFLOP/s, {:.3f} of the FMA peak (+-{:.1f} %)\n",
             work.flops / seconds.median / 1e9, flops.median,
             100 * flops.spread());
  fmt::print("    {:.4g} GB/s, {:.3f} of the read bandwidth (+-{:.1f} %)\n",
             bytes / seconds.median / 1e9, bandwidth.median,
             100 * bandwidth.spread());
  fmt::print("    workspace {}, memory besides operands {}\n",
             Bytes(static_cast<double>(plan.workspace.bytes())),
             Bytes(static_cast<double>(peak_bytes)));
}

Status BenchOne(const Backend& backend, const AttentionProblem& problem,
                const Options& options, Progress& progress) {
  const Result<Plan> plan =
      MakePlan(backend, problem, {options.only, options.without});
  if (!plan.ok()) return plan.status();
  const std::string line = ToString(problem);
  progress.Say(Str("inputs: {}", line));
  Result<Sample> sample = MakeSample(backend, problem);
  if (!sample.ok()) return sample.status();
  progress.Say(Str("first run: {}", line));
  const Result<FirstRun> first = RunOnce(backend, *plan, *sample);
  if (!first.ok()) return first.status();
  progress.Say(Str("verifying: {}", line));
  const Result<std::string> verified =
      CheckAnswer(backend, *sample, CountWork(problem));
  if (!verified.ok()) return verified.status();
  progress.Say(Str("timing: {}", line));
  const Result<Measurement> measurement =
      Measure(backend, *plan, *sample, options.effort);
  if (!measurement.ok()) return measurement.status();
  progress.Clear();
  fmt::print("  {} {}, {} threads, {}\n", backend.name,
             plan->implementation->name, backend.workers->count(), *verified);
  PrintSpeed(*plan, *measurement, first->peak_bytes);
  return {};
}

int BenchAll(const Options& options) {
  SetWorkerCount(options.threads);
  Progress progress;
  for (const std::string& source : options.sources) {
    const Result<AttentionProblem> problem = Parse(source);
    if (!problem.ok()) return Mistake(problem.status());
    fmt::print("{}\n", ToString(*problem));
    for (const Backend& backend : AllBackends()) {
      const Status done = BenchOne(backend, *problem, options, progress);
      if (!done.ok()) return Mistake(done);
    }
  }
  return kSuccess;
}

}  // namespace

Command MakeBench(CLI::App& tool) {
  CLI::App* app = tool.add_subcommand(
      "bench",
      "How fast problems are computed, as a share of what the machine does at "
      "most at the same time");
  auto options = std::make_shared<Options>();
  app->add_option("problems", options->sources, std::string(kLineHelp))
      ->required()
      ->type_name("LINE");
  app->add_option("--implementation", options->only, "Only this one")
      ->type_name("NAME");
  app->add_option("--without", options->without, "Any but this one")
      ->type_name("NAME");
  app->add_option("--threads", options->threads,
                  "How many; as many as there are if 0")
      ->capture_default_str();
  app->add_option("--seconds", options->effort.seconds, "For each problem")
      ->capture_default_str();
  app->add_option("--repetitions", options->effort.repetitions,
                  "At least so many for each problem")
      ->check(CLI::PositiveNumber)
      ->capture_default_str();
  return {app, [options] { return BenchAll(*options); }};
}

}  // namespace flashacl::tool
