// SPDX-License-Identifier: Apache-2.0
// flashacl explain: who would compute a problem, how, and what it costs.
#include <algorithm>
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
#include "tools/flashacl/workloads.h"

namespace flashacl::tool {
namespace {

struct ExplainOptions {
  std::vector<std::string> words;
  std::string workloads;  // a file, or "own"
  int64_t workers = 0;    // 0: those of this machine, without a prediction
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

void PrintBalance(const Balance& balance) {
  if (balance.workers == 0) {
    fmt::print(
        "balance       not predicted: lengths are known only when it runs, or "
        "this implementation does not say\n");
    return;
  }
  fmt::print(
      "balance       {:.3f}: mean work of {} worker{} over that of the busiest "
      "(1: all have the same); busy {:.3f} of the time\n",
      balance.evenness(), balance.workers, balance.workers == 1 ? "" : "s",
      balance.busy());
  fmt::print("pieces        {}, {:.1f} per worker; combining splits {:.2f} %\n",
             balance.pieces,
             static_cast<double>(balance.pieces) /
                 static_cast<double>(balance.workers),
             balance.work > 0 ? 100 * balance.combining / balance.work : 0);
}

void Print(const Backend& backend, const Plan& plan, int64_t workers) {
  fmt::print("{:<14}{}\n", backend.name, plan.implementation->name);
  if (plan.implementation->name.starts_with("reference/")) {
    fmt::print(
        "              *** the fp64 reference: right and slow; no faster "
        "implementation takes this ***\n");
  }
  fmt::print("passed over   {}\n", plan.explanation.empty() ? "nobody" : "");
  fmt::print("{}", plan.explanation);
  fmt::print("tiles         {}\n", plan.prepared->Describe());
  if (workers > 0) PrintBalance(plan.prepared->Predict(workers));
  PrintWorkspace(plan.workspace);
  PrintWork(plan.problem());
}

// The plan that a machine like this one with so many workers would make.
Result<Plan> PlanFor(const Backend& backend, const AttentionProblem& problem,
                     const ExplainOptions& options) {
  Backend device = backend;
  if (options.workers > 0) device.device.workers = options.workers;
  return MakePlan(device, problem, {options.only, options.without});
}

int ExplainOne(const ExplainOptions& options) {
  const Result<AttentionProblem> problem = Parse(Join(options.words, " "));
  if (!problem.ok()) return Mistake(problem.status());
  std::vector<Plan> plans;
  for (const Backend& backend : AllBackends()) {
    Result<Plan> plan = PlanFor(backend, *problem, options);
    if (!plan.ok()) return Mistake(plan.status());
    plans.push_back(std::move(*plan));
  }
  fmt::print("problem       {}\n", ToString(*problem));
  for (size_t n = 0; n < plans.size(); ++n) {
    Print(AllBackends()[n], plans[n], options.workers);
  }
  return kSuccess;
}

// A line for every problem of a file, of the first backend.
int ExplainWorkloads(const ExplainOptions& options) {
  std::vector<std::string> files = {options.workloads};
  if (options.workloads == "own") {
    const Result<std::vector<std::string>> own = OwnWorkloadFiles();
    if (!own.ok()) return Mistake(own.status());
    files = *own;
  }
  std::vector<Workload> workloads;
  for (const std::string& file : files) {
    const Status added = AddWorkloads(file, workloads);
    if (!added.ok()) return Mistake(added);
  }
  const int64_t workers = options.workers > 0
                              ? options.workers
                              : AllBackends().front().device.workers;
  fmt::print(
      "# {} workers. balance: mean work of a worker over that of the busiest, "
      "1 if all have\n# the same; busy: part of the time in which they do not "
      "wait; combining: of the work\n{:>7} {:>6} {:>8} {:>9}  {}\n",
      workers, "balance", "busy", "pieces", "combining", "problem");
  for (const Workload& workload : workloads) {
    const Result<Plan> plan =
        PlanFor(AllBackends().front(), workload.problem, options);
    if (!plan.ok()) return Mistake(plan.status());
    const Balance balance = plan->prepared->Predict(workers);
    const std::string name =
        workload.title.empty() ? ToString(workload.problem) : workload.title;
    if (balance.workers == 0) {
      fmt::print("{:>7} {:>6} {:>8} {:>9}  {}\n", "-", "-", "-", "-", name);
      continue;
    }
    fmt::print("{:>7.3f} {:>6.3f} {:>8} {:>7.2f} %  {}\n", balance.evenness(),
               balance.busy(), balance.pieces,
               balance.work > 0 ? 100 * balance.combining / balance.work : 0,
               name);
  }
  return kSuccess;
}

int Explain(const ExplainOptions& options) {
  const Status runs = LimitVectorTarget("");
  if (!runs.ok()) return Mistake(runs);
  const Status names = CheckImplementations({options.only, options.without});
  if (!names.ok()) return Mistake(names);
  if (options.words.empty() == options.workloads.empty()) {
    return Mistake(Invalid(
        "explain: expected a problem or --workloads FILE, and not both"));
  }
  return options.words.empty() ? ExplainWorkloads(options)
                               : ExplainOne(options);
}

}  // namespace

Command MakeExplain(CLI::App& tool) {
  CLI::App* app = tool.add_subcommand(
      "explain",
      "Who would compute a problem and why the others would not, in which "
      "tiles, with which workspace, at which cost");
  auto options = std::make_shared<ExplainOptions>();
  app->add_option("line", options->words, std::string(kLineHelp))
      ->type_name("LINE");
  app->add_option("--workers", options->workers,
                  "Plan for so many workers, and predict how evenly they "
                  "would share the work")
      ->check(AtLeast(1))
      ->type_name("N");
  app->add_option("--workloads", options->workloads,
                  "A line of that for every problem of a file; own: of the "
                  "files that belong to this program")
      ->type_name("FILE");
  app->add_option("--implementation", options->only,
                  "This one or none; `flashacl info` lists them")
      ->type_name("NAME");
  app->add_option("--without", options->without, "Any but this one")
      ->type_name("NAME");
  return {app, [options] { return Explain(*options); }};
}

}  // namespace flashacl::tool
