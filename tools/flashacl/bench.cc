// SPDX-License-Identifier: Apache-2.0
// flashacl bench: how fast implementations are, and how fast they could be.
#include <algorithm>
#include <cctype>
#include <cstdio>
#include <memory>
#include <utility>
#include <vector>

#include "backends.h"
#include "base/str.h"
#include "plan/plan.h"
#include "problem/notation.h"
#include "tools/flashacl/amounts.h"
#include "tools/flashacl/command.h"
#include "tools/flashacl/measure.h"
#include "tools/flashacl/progress.h"
#include "tools/flashacl/report.h"
#include "tools/flashacl/roofline.h"
#include "tools/flashacl/statistics.h"
#include "tools/flashacl/workloads.h"
#include "verify/spot_check.h"

namespace flashacl::tool {
namespace {

constexpr uint64_t kSeed = 1;

// Larger problems run on the reference only if it is asked for by name: it
// takes seconds for these.
constexpr double kMaxForReference = 5e9;  // FLOP

struct BenchOptions {
  std::vector<std::string> sources;
  std::vector<std::string> only;
  std::string without;
  int threads = 0;
  std::string target;
  Effort effort;
  std::string filter;
  bool list = false;
  std::string json;
  std::string plot;
};

// "12.3 GFLOP/s, 0.456 of the FMA peak".
void PrintRate(const char* unit, const char* roof, double per_second,
               const Summary& ratio) {
  fmt::print("    {:#.4g} {}, {:.3f} of the {} +-{:.1f} %\n", per_second / 1e9,
             unit, ratio.median, roof, 100 * ratio.spread());
}

void Print(const Timing& timing) {
  const Measurement& measurement = timing.measurement;
  const Cost& work = timing.work;
  const Summary seconds = Summarise(measurement.Seconds());
  // "cpu/forward" says it itself, "reference/fp64" does not.
  const bool named = timing.implementation.starts_with(timing.backend + "/");
  fmt::print("  {}{}, {} thread{}, {}\n", named ? "" : timing.backend + " ",
             timing.implementation, timing.threads,
             timing.threads == 1 ? "" : "s", Describe(timing.checked));
  if (timing.implementation.starts_with("reference/")) {
    fmt::print("    *** the fp64 reference: right and slow ***\n");
  }
  fmt::print("    {:#.4g} ms +-{:.1f} %, {} repetition{} of {} run{}{}\n",
             1e3 * seconds.median, 100 * seconds.spread(),
             measurement.repetitions.size(),
             measurement.repetitions.size() == 1 ? "" : "s", measurement.runs,
             measurement.runs == 1 ? "" : "s",
             work.upper_bound ? "; arithmetic and memory \"at most\"" : "");
  PrintRate("GFLOP/s", "FMA peak", work.flops / seconds.median,
            Summarise(measurement.FlopsRatios(work)));
  PrintRate("GB/s", "read bandwidth", timing.bytes() / seconds.median,
            Summarise(measurement.BandwidthRatios(work)));
  const auto bytes = [](int64_t count) {
    return count < 0 ? "unknown" : Bytes(static_cast<double>(count));
  };
  fmt::print("    workspace {}, peak memory besides operands {}\n",
             bytes(timing.workspace_bytes), bytes(timing.first.peak_bytes));
}

class Bench {
 public:
  explicit Bench(const BenchOptions& options) : options_(options) {}

  int Run(const std::vector<Workload>& workloads) {
    for (const Workload& workload : workloads) {
      const std::string line = ToString(workload.problem);
      const std::string& title = workload.title;
      ++number_;
      at_ = Str("{}/{} {}", number_, workloads.size(),
                title.empty() ? line : title);
      if (!title.empty()) Say("{}\n", title);
      Say("{}{}\n", title.empty() ? "" : "  ", line);
      for (const Backend& backend : AllBackends()) OnBackend(backend, workload);
      std::fflush(stdout);  // it may be long before the next
    }
    if (const Status wrote = Write(); !wrote.ok()) return Mistake(wrote);
    if (wrong_ > 0) return kFailure;
    return timings_.empty() ? kMistake : kSuccess;
  }

 private:
  // To stdout, unless that is where JSON goes.
  template <typename... Args>
  void Say(fmt::format_string<Args...> format, Args&&... args) {
    progress_.Clear();
    if (options_.json != "-") {
      fmt::print(format, std::forward<Args>(args)...);
    }
  }

  void OnBackend(const Backend& backend, const Workload& workload) {
    std::vector<std::string> names = options_.only;
    if (names.empty()) names.emplace_back();  // whoever is best
    for (const std::string& name : names) {
      const Result<Plan> plan =
          MakePlan(backend, workload.problem, {name, options_.without});
      if (!plan.ok()) {
        Skip(Str("{} {}: {}", backend.name, name, plan.status().message()));
        continue;
      }
      Result<Timing> timing = Time(backend, workload, *plan);
      if (timing.ok()) {
        progress_.Clear();
        if (options_.json != "-") Print(*timing);
        timings_.push_back(std::move(*timing));
      } else if (timing.status().code() == Code::kInternal) {
        ++wrong_;
        Say("  {} {} is WRONG: {}\n", backend.name, plan->implementation->name,
            timing.status().message());
      } else {
        Skip(timing.status().message());
      }
    }
  }

  Result<Timing> Time(const Backend& backend, const Workload& workload,
                      const Plan& plan) {
    const std::string name(plan.implementation->name);
    Timing timing{.workload = workload,
                  .backend = std::string(backend.name),
                  .implementation = name,
                  .threads = WorkersOf(*backend.queue),
                  .workspace_bytes = plan.workspace.bytes(),
                  .work = CountCost(workload.problem)};
    FLASHACL_RETURN_IF_ERROR(CheckPatience(backend, plan, timing.work));
    progress_.Say(Str("{}: inputs", at_));
    Result<Sample> sample = MakeSample(backend, workload.problem, kSeed);
    if (!sample.ok()) return sample.status();
    progress_.Say(Str("{}: first run", at_));
    const Result<FirstRun> first = RunOnce(backend, plan, *sample);
    if (!first.ok()) return first.status();
    timing.first = *first;
    progress_.Say(Str("{}: verifying", at_));
    Result<Checked> checked = CheckAnswer(backend, *sample, timing.work.flops);
    if (!checked.ok()) return checked.status();
    timing.checked = std::move(*checked);
    progress_.Say(Str("{}: {}", at_, name));
    Result<Measurement> measured =
        Measure(backend, plan, *sample, options_.effort, RoofsOf(backend));
    if (!measured.ok()) return measured.status();
    timing.measurement = std::move(*measured);
    return timing;
  }

  // The reference may also be what a backward problem's inputs come from.
  Status CheckPatience(const Backend& backend, const Plan& plan,
                       const Cost& work) const {
    const std::string_view reference = backend.implementations.back().name;
    const bool asked = std::find(options_.only.begin(), options_.only.end(),
                                 reference) != options_.only.end();
    if (work.flops <= kMaxForReference || asked) return {};
    const AttentionProblem& problem = plan.problem();
    bool slow = plan.implementation->name == reference;
    if (!slow && problem.direction == Direction::kBackward) {
      const Result<Plan> forward = MakePlan(backend, ForwardOf(problem));
      if (!forward.ok()) return forward.status();
      slow = forward->implementation->name == reference;
    }
    if (!slow) return {};
    return Unsupported(
        "only {} takes it, and {} take that long; --implementation {} runs it",
        reference, Flops(work.flops), reference);
  }

  // Progress and answers may go elsewhere; what is missing must be seen.
  void Skip(const std::string& why) {
    progress_.Clear();
    const bool ends = why.ends_with('\n');
    fmt::print(stderr, "  skipped: {}{}", why, ends ? "" : "\n");
  }

  Status Write() const {
    if (!options_.json.empty()) {
      FLASHACL_RETURN_IF_ERROR(WriteText(options_.json, ToJson(timings_)));
    }
    if (options_.plot.empty() || timings_.empty()) return {};
    return WriteText(options_.plot, DrawSvg(RooflineOf(timings_)));
  }

  const BenchOptions& options_;
  Progress progress_;
  std::string at_;
  size_t number_ = 0;
  int wrong_ = 0;
  std::vector<Timing> timings_;
};

// Before any second is spent on it.
Status CheckBenchOptions(const BenchOptions& options) {
  if (!options.plot.empty() && !options.plot.ends_with(".svg")) {
    return Invalid("--plot: {} must end in .svg; no other format is drawn",
                   options.plot);
  }
  FLASHACL_RETURN_IF_ERROR(LimitVectorTarget(options.target));
  std::vector<std::string> names = options.only;
  names.push_back(options.without);
  FLASHACL_RETURN_IF_ERROR(CheckImplementations(names));
  FLASHACL_RETURN_IF_ERROR(CheckWritable(options.json));
  return CheckWritable(options.plot);
}

bool Contains(std::string text, std::string part) {
  for (std::string* one : {&text, &part}) {
    for (char& c : *one) {
      c = static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
    }
  }
  return text.find(part) != std::string::npos;
}

Result<std::vector<Workload>> Chosen(const BenchOptions& options) {
  std::vector<std::string> sources = JoinLines(options.sources);
  if (sources.empty()) {
    Result<std::vector<std::string>> own = OwnWorkloadFiles();
    if (!own.ok()) return own.status();
    sources = std::move(*own);
  }
  std::vector<Workload> workloads;
  for (const std::string& source : sources) {
    FLASHACL_RETURN_IF_ERROR(AddWorkloads(source, workloads));
  }
  const size_t before = workloads.size();
  std::erase_if(workloads, [&](const Workload& workload) {
    return !Contains(workload.title, options.filter) &&
           !Contains(ToString(workload.problem), options.filter);
  });
  if (workloads.empty()) {
    return Invalid("--filter: none of {} problems has {} in its title or line",
                   before, options.filter);
  }
  return workloads;
}

// Where it is more than somebody waits for without a word.
void SayHowLong(const BenchOptions& options, size_t count) {
  // Inputs, a first run and its verification, and probes of the machine.
  constexpr double kBesides = 3;
  const double seconds =
      static_cast<double>(count) * (options.effort.seconds + kBesides);
  if (count < 3) return;
  fmt::print(stderr, "{} problems, about {}\n", count,
             seconds < 120 ? Str("{:.0f} seconds", seconds)
                           : Str("{:.0f} minutes", seconds / 60));
}

int BenchAll(const BenchOptions& options) {
  if (const Status status = CheckBenchOptions(options); !status.ok()) {
    return Mistake(status);
  }
  const Result<std::vector<Workload>> workloads = Chosen(options);
  if (!workloads.ok()) return Mistake(workloads.status());
  if (options.list) {
    for (const Workload& workload : *workloads) {
      const std::string& title = workload.title;
      fmt::print("{}{}{}\n", title, title.empty() ? "" : " | ",
                 ToString(workload.problem));
    }
    return kSuccess;
  }
  SetWorkerCount(options.threads);
  SayHowLong(options, workloads->size());
  return Bench(options).Run(*workloads);
}

}  // namespace

Command MakeBench(CLI::App& tool) {
  CLI::App* app = tool.add_subcommand(
      "bench",
      "How fast problems are computed, and which share that is of what the "
      "machine does at most at the same time");
  auto options = std::make_shared<BenchOptions>();
  app->add_option("workloads", options->sources,
                  "Problems, and files with one per line after TITLE |; "
                  "without any, the workloads that come with FlashACL")
      ->type_name("LINE|FILE|-");
  app->add_option("--implementation", options->only,
                  "These and no others; may be repeated")
      ->type_name("NAME")
      ->allow_extra_args(false);
  app->add_option("--without", options->without, "Any but this one")
      ->type_name("NAME");
  AddThreads(*app, options->threads);
  app->add_option("--target", options->target,
                  "Vector instructions to use at most, as flashacl info calls "
                  "them")
      ->type_name("NAME");
  app->add_option("--seconds", options->effort.seconds,
                  "How long to repeat each problem")
      ->check(AtLeast(0))
      ->type_name("X")
      ->capture_default_str();
  app->add_option("--repetitions", options->effort.repetitions,
                  "But at least so often")
      ->check(AtLeast(1))
      ->type_name("N")
      ->capture_default_str();
  app->add_option("--filter", options->filter,
                  "Only those with this in their title or line")
      ->type_name("TEXT");
  app->add_flag("--list", options->list, "Say which these are, and do nothing");
  app->add_option("--json", options->json,
                  "Where to write everything as JSON; - is stdout, and "
                  "nothing else goes there")
      ->type_name("FILE|-");
  app->add_option("--plot", options->plot,
                  "Where to draw speeds below the machine's roofs")
      ->type_name("FILE.svg");
  return {app, [options] { return BenchAll(*options); }};
}

}  // namespace flashacl::tool
