// SPDX-License-Identifier: Apache-2.0
// flashacl verify: whether implementations compute what problems ask.
#include "verify/verify.h"

#include <cstdio>
#include <memory>
#include <vector>

#include "backends.h"
#include "base/str.h"
#include "plan/implementation.h"
#include "problem/notation.h"
#include "tools/flashacl/command.h"
#include "tools/flashacl/progress.h"
#include "tools/flashacl/workloads.h"

namespace flashacl::tool {
namespace {

struct VerifyOptions {
  std::vector<std::string> sources;
  std::string only;
  std::string target;
  uint64_t seed = 1;
  uint64_t seeds = 1;
  int threads = 0;
  bool all = false;
};

// Prints what was found; true if nothing is wrong.
bool Print(const Backend& backend, const Verdict& verdict) {
  fmt::print("  {} {}  {}\n", backend.name, verdict.implementation,
             verdict.ok() ? "ok" : "WRONG");
  for (const std::string& fault : verdict.faults) {
    fmt::print("    wrong: {}\n", fault);
  }
  for (const Difference& difference : verdict.differences) {
    if (difference.ok()) fmt::print("    {}\n", Describe(difference));
  }
  if (verdict.ok() && !verdict.checked.all) {
    fmt::print("    {}; --all checks the whole\n", Describe(verdict.checked));
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

class Verifier {
 public:
  explicit Verifier(const VerifyOptions& options) : options_(options) {}

  // Counts which implementations are wrong in one round.
  Result<int> Verify(const Round& round) {
    const std::string line = ToString(round.problem);
    fmt::print("{}{}\n", line,
               round.seed == 1 ? "" : Str("  (seed {})", round.seed));
    std::fflush(stdout);
    int wrong = 0;
    for (const Backend& backend : AllBackends()) {
      const Result<std::vector<Verdict>> verdicts =
          OnBackend(backend, round, line);
      progress_.Clear();
      if (!verdicts.ok()) return verdicts.status();
      wrong += PrintAll(backend, *verdicts);
    }
    return wrong;
  }

 private:
  Result<std::vector<Verdict>> OnBackend(const Backend& backend,
                                         const Round& round,
                                         const std::string& line) {
    const bool some = !options_.all && IsLong(round.problem) &&
                      options_.only != backend.implementations.back().name;
    const double seconds = EstimateSeconds(backend, round.problem, some);
    constexpr double kShort = 8;  // seconds
    const std::string takes =
        seconds < kShort ? "" : Str(" (about {:.0f} s in all)", seconds);
    const auto say = [&](std::string_view what) {
      progress_.Say(
          Str("{}/{} {}{}: {}", round.number, round.count, what, takes, line));
    };
    return some ? VerifySome(backend, round.problem, round.seed, options_.only,
                             say)
                : flashacl::Verify(backend, round.problem, round.seed,
                                   options_.only, say);
  }

  // Who does not take it is one line, or its reason if it was asked for.
  int PrintAll(const Backend& backend, const std::vector<Verdict>& verdicts) {
    int wrong = 0;
    std::vector<std::string_view> others;
    for (const Verdict& verdict : verdicts) {
      if (verdict.refusal.empty()) {
        wrong += Print(backend, verdict) ? 0 : 1;
      } else if (options_.only.empty()) {
        others.push_back(verdict.implementation);
      } else {
        fmt::print("  {} {}  does not take it: {}\n", backend.name,
                   verdict.implementation, verdict.refusal);
      }
    }
    if (!others.empty()) {
      fmt::print("  {} do{} not take it: flashacl explain says why\n",
                 Join(others, ", "), others.size() == 1 ? "es" : "");
    }
    if (others.size() == verdicts.size() && options_.only.empty()) {
      fmt::print("  only the reference does; --all checks it\n");
    }
    return wrong;
  }

  const VerifyOptions& options_;
  Progress progress_;
};

Result<std::vector<Workload>> WorkloadsOf(const VerifyOptions& options) {
  FLASHACL_RETURN_IF_ERROR(LimitVectorTarget(options.target));
  FLASHACL_RETURN_IF_ERROR(CheckImplementations({options.only}));
  std::vector<Workload> workloads;
  for (const std::string& source : JoinLines(options.sources)) {
    FLASHACL_RETURN_IF_ERROR(AddWorkloads(source, workloads));
  }
  return workloads;
}

int VerifyAll(const VerifyOptions& options) {
  const Result<std::vector<Workload>> workloads = WorkloadsOf(options);
  if (!workloads.ok()) return Mistake(workloads.status());
  SetWorkerCount(options.threads);
  Verifier verifier(options);
  int wrong = 0;
  const size_t count = workloads->size() * options.seeds;
  for (size_t n = 0; n < count; ++n) {
    const Round round{(*workloads)[n / options.seeds].problem,
                      options.seed + n % options.seeds, n + 1, count};
    const Result<int> found = verifier.Verify(round);
    if (!found.ok()) return Mistake(found.status());
    wrong += *found;
  }
  fmt::print("{} problem{}: {}\n", workloads->size(),
             workloads->size() == 1 ? "" : "s",
             wrong == 0 ? "all right" : Str("{} WRONG", wrong));
  return wrong == 0 ? kSuccess : kFailure;
}

}  // namespace

Command MakeVerify(CLI::App& tool) {
  CLI::App* app = tool.add_subcommand(
      "verify",
      "Every implementation against the fp64 reference, and against itself, on "
      "random data; of long problems some rows and columns");
  auto options = std::make_shared<VerifyOptions>();
  app->add_option("problems", options->sources,
                  "Problems; files with one per line, perhaps TITLE | before "
                  "it, and # comments; or - for such lines on stdin")
      ->required()
      ->type_name("LINE|FILE|-");
  app->add_flag("--all", options->all,
                "The whole of long problems, the reference included: minutes, "
                "or hours");
  app->add_option("--seed", options->seed, "Of the random data")
      ->type_name("N")
      ->capture_default_str();
  app->add_option("--seeds", options->seeds, "How many seeds, from --seed on")
      ->check(AtLeast(1))
      ->type_name("N")
      ->capture_default_str();
  AddThreads(*app, options->threads);
  app->add_option("--implementation", options->only, "Only this one")
      ->type_name("NAME");
  app->add_option("--target", options->target,
                  "Vector instructions of this set at most; flashacl info "
                  "names the best")
      ->type_name("NAME");
  return {app, [options] { return VerifyAll(*options); }};
}

}  // namespace flashacl::tool
