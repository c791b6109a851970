// SPDX-License-Identifier: Apache-2.0
// flashacl verify: whether implementations compute what problems ask.
#include "plan/verify.h"

#include <fstream>
#include <iostream>
#include <memory>

#include "backends.h"
#include "base/str.h"
#include "problem/notation.h"
#include "tools/flashacl/command.h"
#include "tools/flashacl/progress.h"

namespace flashacl::tool {
namespace {

struct Options {
  std::string source;
  std::string only;
  uint64_t seed = 1;
  uint64_t seeds = 1;
};

Status AddLines(std::istream& lines, const std::string& name,
                std::vector<AttentionProblem>& problems) {
  std::string line;
  for (int number = 1; std::getline(lines, line); ++number) {
    const size_t first = line.find_first_not_of(" \t\r");
    if (first == line.npos || line[first] == '#') continue;
    Result<AttentionProblem> problem = Parse(line);
    if (!problem.ok()) {
      return Invalid("{}:{}: {}", name, number, problem.status().message());
    }
    problems.push_back(std::move(*problem));
  }
  if (problems.empty()) return Invalid("{}: no problem in it", name);
  return {};
}

Status AddProblems(const std::string& source,
                   std::vector<AttentionProblem>& problems) {
  if (source == "-") return AddLines(std::cin, "stdin", problems);
  // A line of notation has spaces in it, and a file has not its name.
  if (std::ifstream file(source); file.good()) {
    return AddLines(file, source, problems);
  }
  Result<AttentionProblem> problem = Parse(source);
  if (!problem.ok()) {
    return Invalid("{} (and there is no such file)",
                   problem.status().message());
  }
  problems.push_back(std::move(*problem));
  return {};
}

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
  std::vector<AttentionProblem> problems;
  if (Status added = AddProblems(options.source, problems); !added.ok()) {
    return Mistake(added);
  }
  Progress progress;
  int wrong = 0;
  const size_t count = problems.size() * options.seeds;
  for (size_t n = 0; n < count; ++n) {
    const Round round{problems[n / options.seeds],
                      options.seed + n % options.seeds, n + 1, count};
    const Result<int> found = VerifyOne(round, options.only, progress);
    if (!found.ok()) return Mistake(found.status());
    wrong += *found;
  }
  fmt::print("{} problem{}: {}\n", problems.size(),
             problems.size() == 1 ? "" : "s",
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
                  "A problem; a file with one per line and # comments; or - "
                  "for such lines on stdin")
      ->required()
      ->type_name("LINE|FILE|-");
  app->add_option("--seed", options->seed, "Of the random data")
      ->capture_default_str();
  app->add_option("--seeds", options->seeds, "How many seeds, from --seed on")
      ->check(CLI::PositiveNumber)
      ->capture_default_str();
  app->add_option("--implementation", options->only, "Only this one")
      ->type_name("NAME");
  return {app, [options] { return VerifyAll(*options); }};
}

}  // namespace flashacl::tool
