// SPDX-License-Identifier: Apache-2.0
// flashacl explain: who would compute a problem, how, and what it costs.
#include <memory>
#include <utility>
#include <vector>

#include "backends.h"
#include "base/str.h"
#include "plan/cost.h"
#include "plan/plan.h"
#include "problem/notation.h"
#include "tools/flashacl/amounts.h"
#include "tools/flashacl/command.h"

namespace flashacl::tool {
namespace {

struct Options {
  std::vector<std::string> words;
  std::string only;
  std::string without;
};

void PrintWork(const AttentionProblem& problem) {
  const Cost work = CountCost(problem);
  const char* bound = work.upper_bound ? "at most " : "";
  fmt::print("scores        {}{:.0f} of {:.0f}, {:.1f} % skipped\n", bound,
             work.pairs, work.all_pairs, 100 * work.skipped());
  fmt::print("arithmetic    {}{}\n", bound, Flops(work.flops));
  const double bytes = work.bytes_read + work.bytes_written;
  fmt::print("memory        {}{} read, {} written", bound,
             Bytes(work.bytes_read), Bytes(work.bytes_written));
  fmt::print("; {:.1f} FLOP per byte\n", bytes > 0 ? work.flops / bytes : 0);
  if (work.upper_bound) {
    fmt::print(
        "              \"at most\": lengths, lists or masks are known only "
        "when it runs\n");
  }
}

void PrintWorkspace(const WorkspaceLayout& workspace) {
  fmt::print("workspace     {}\n",
             Bytes(static_cast<double>(workspace.bytes())));
  for (const WorkspaceLayout::Entry& entry : workspace.entries()) {
    fmt::print("  {:<24} {:>14} at {}\n", entry.name,
               Bytes(static_cast<double>(entry.bytes)), entry.offset_bytes);
  }
}

void Print(const Backend& backend, const Plan& plan) {
  fmt::print("{:<14}{}\n", backend.name, plan.implementation->name);
  if (plan.implementation->name.starts_with("reference/")) {
    fmt::print(
        "              *** the fp64 reference: right and slow; no faster "
        "implementation takes this ***\n");
  }
  fmt::print("passed over   {}\n", plan.explanation.empty() ? "nobody" : "");
  fmt::print("{}", plan.explanation);
  fmt::print("tiles         {}\n", plan.prepared->Describe());
  PrintWorkspace(plan.workspace);
  PrintWork(plan.problem());
}

int Explain(const Options& options) {
  const Status names = CheckImplementations({options.only, options.without});
  if (!names.ok()) return Mistake(names);
  const Result<AttentionProblem> problem = Parse(Join(options.words, " "));
  if (!problem.ok()) return Mistake(problem.status());
  std::vector<Plan> plans;
  for (const Backend& backend : AllBackends()) {
    Result<Plan> plan =
        MakePlan(backend, *problem, {options.only, options.without});
    if (!plan.ok()) return Mistake(plan.status());
    plans.push_back(std::move(*plan));
  }
  fmt::print("problem       {}\n", ToString(*problem));
  for (size_t n = 0; n < plans.size(); ++n) Print(AllBackends()[n], plans[n]);
  return kSuccess;
}

}  // namespace

Command MakeExplain(CLI::App& tool) {
  CLI::App* app = tool.add_subcommand(
      "explain",
      "Who would compute a problem and why the others would not, in which "
      "tiles, with which workspace, at which cost");
  auto options = std::make_shared<Options>();
  app->add_option("line", options->words, std::string(kLineHelp))
      ->required()
      ->type_name("LINE");
  app->add_option("--implementation", options->only,
                  "This one or none; `flashacl info` lists them")
      ->type_name("NAME");
  app->add_option("--without", options->without, "Any but this one")
      ->type_name("NAME");
  return {app, [options] { return Explain(*options); }};
}

}  // namespace flashacl::tool
