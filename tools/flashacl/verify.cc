// SPDX-License-Identifier: Apache-2.0
// flashacl verify: whether implementations compute what problems ask.
#include "verify/verify.h"

#include <memory>

#include "backends.h"
#include "base/str.h"
#include "problem/notation.h"
#include "tools/flashacl/command.h"
#include "tools/flashacl/progress.h"
#include "tools/flashacl/workloads.h"

namespace flashacl::tool {
namespace {

struct Options {
  std::string source;
  std::string only;
  std::string target;
  uint64_t seed = 1;
  uint64_t seeds = 1;
};

// Prints what was found; true if nothing is wrong.
bool Print(const Backend& backend, const Verdict& verdict) {
  const std::string who = Str("  {} {}", backend.name, verdict.implementation);
  if (!verdict.refusal.empty()) {
    fmt::print("{}  does not take it: {}\n", who, verdict.refusal);
    return true;
  }
  fmt::print("{}  {}\n", who, verdict.ok() ? "ok" : "WRONG");
  for (const std::string& fault : verdict.faults) {
    fmt::print("    wrong: {}\n", fault);
  }
  for (const Difference& difference : verdict.differences) {
    if (difference.ok()) fmt::print("    {}\n", Describe(difference));
  }
  return verdict.ok();
}

// One problem with one seed, of how many.
struct Round {
  const AttentionProblem& problem;
  uint64_t seed;
  size_t number;
  size_t count;
};

// Counts which implementations are wrong in one round.
Result<int> VerifyOne(const Round& round, const std::string& only,
                      Progress& progress) {
  const uint64_t seed = round.seed;
  const std::string line = ToString(round.problem);
  fmt::print("{}{}\n", line, seed == 1 ? "" : Str("  (seed {})", seed));
  int wrong = 0;
  for (const Backend& backend : AllBackends()) {
    const Result<std::vector<Verdict>> verdicts =
        Verify(backend, round.problem, seed, only, [&](std::string_view what) {
          progress.Say(
              Str("{}/{} {}: {}", round.number, round.count, what, line));
        });
    progress.Clear();
    if (!verdicts.ok()) return verdicts.status();
    for (const Verdict& verdict : *verdicts) {
      if (!Print(backend, verdict)) ++wrong;
    }
  }
  return wrong;
}

int VerifyAll(const Options& options) {
  if (Status limited = LimitVectorTarget(options.target); !limited.ok()) {
    return Mistake(limited);
  }
  std::vector<Workload> workloads;
  if (Status added = AddWorkloads(options.source, workloads); !added.ok()) {
    return Mistake(added);
  }
  Progress progress;
  int wrong = 0;
  const size_t count = workloads.size() * options.seeds;
  for (size_t n = 0; n < count; ++n) {
    const Round round{workloads[n / options.seeds].problem,
                      options.seed + n % options.seeds, n + 1, count};
    const Result<int> found = VerifyOne(round, options.only, progress);
    if (!found.ok()) return Mistake(found.status());
    wrong += *found;
  }
  fmt::print("{} problem{}: {}\n", workloads.size(),
             workloads.size() == 1 ? "" : "s",
             wrong == 0 ? "all right" : Str("{} WRONG", wrong));
  return wrong == 0 ? kSuccess : kFailure;
}

}  // namespace

Command MakeVerify(CLI::App& tool) {
  CLI::App* app = tool.add_subcommand(
      "verify",
      "Every implementation against the fp64 reference, and against itself, on "
      "random data");
  auto options = std::make_shared<Options>();
  app->add_option("problems", options->source,
                  "A problem; a file with one per line, perhaps TITLE | before "
                  "it, and # comments; or - for such lines on stdin")
      ->required()
      ->type_name("LINE|FILE|-");
  app->add_option("--seed", options->seed, "Of the random data")
      ->capture_default_str();
  app->add_option("--seeds", options->seeds, "How many seeds, from --seed on")
      ->check(CLI::PositiveNumber)
      ->capture_default_str();
  app->add_option("--implementation", options->only, "Only this one")
      ->type_name("NAME");
  app->add_option("--target", options->target,
                  "Vector instructions of this set at most; flashacl info "
                  "names the best")
      ->type_name("NAME");
  return {app, [options] { return VerifyAll(*options); }};
}

}  // namespace flashacl::tool
