// SPDX-License-Identifier: Apache-2.0
// flashacl show: recorded calls, a line each.
#include <algorithm>
#include <cstdio>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "backends.h"
#include "base/str.h"
#include "record/setting.h"
#include "tools/flashacl/command.h"
#include "tools/flashacl/records.h"

namespace flashacl::tool {
namespace {

struct ShowOptions {
  std::string where;
  std::string operations = "*";
  bool failed = false;
  bool bad_numbers = false;
};

struct Line {
  std::string name;
  record::Call call;
  int64_t bad_numbers = 0;
};

// What went wrong, or what was asked for.
std::string About(const Line& line) {
  const record::Call& call = line.call;
  if (call.plan.status != 0) {
    return Str("{} {}", call.plan.status, call.plan.message);
  }
  if (call.launch.has_value() && call.launch->status != 0) {
    return Str("{} {}", call.launch->status, call.launch->message);
  }
  std::string bad;
  record::ForTensors(
      call, [&](const std::string& name, const record::Tensor& tensor) {
        if (!tensor.after.has_value()) return;
        const record::Statistics& s = tensor.after->statistics;
        if (s.nans + s.infinities == 0) return;
        bad += Str("{}: {} NaN, {} Inf of {}; ", name, s.nans, s.infinities,
                   s.count);
      });
  return bad + call.problem;
}

void PrintTensor(const std::string& name, const record::Tensor& tensor) {
  fmt::print("          {} {} [{}]{}\n", name, tensor.type,
             Join(tensor.shape, ", "),
             tensor.output ? (tensor.input ? " in place" : " output") : "");
  const auto print = [](std::string_view when,
                        const std::optional<record::Contents>& contents) {
    if (!contents.has_value()) return;
    const record::Statistics& s = contents->statistics;
    if (s.count == 0) {
      fmt::print("            {} {}\n", when, contents->digest);
      return;
    }
    fmt::print("            {} {} min {} max {} mean {:.6g} NaN {} Inf {}\n",
               when, contents->digest, s.min, s.max, s.mean, s.nans,
               s.infinities);
  };
  print("before", tensor.before);
  print("after ", tensor.after);
}

void Print(const Line& line, bool alone) {
  const record::Call& call = line.call;
  fmt::print("{}  {:<34} {:>8}  {}\n", line.name, call.operation,
             TimeText(call.microseconds), About(line));
  if (alone) record::ForTensors(call, PrintTensor);
}

int Show(const ShowOptions& options) {
  // What numbers a record has is vector code's to say.
  const Status runs = LimitVectorTarget("");
  if (!runs.ok()) return Mistake(runs);
  const Result<Records> records = OpenRecords(options.where);
  if (!records.ok()) return Mistake(records.status());
  std::vector<Line> lines;
  int broken = 0;
  for (const std::string& name : records->calls) {
    Result<record::Call> call = records->reader.ReadCall(name);
    if (!call.ok()) {
      ++broken;
      (void)Mistake(call.status());
      continue;
    }
    const int64_t bad = record::BadNumbers(*call);
    if (!record::Matches(options.operations, call->operation)) continue;
    if (options.failed && !call->failed()) continue;
    if (options.bad_numbers && bad == 0) continue;
    lines.push_back({name, std::move(*call), bad});
  }
  // Not the one of std::ranges: clang 14 and 15 do not compile libstdc++'s.
  std::stable_partition(lines.begin(), lines.end(),
                        [](const Line& line) { return line.bad_numbers > 0; });
  for (const Line& line : lines) Print(line, records->calls.size() == 1);
  fmt::print("{} call{} of {}\n", lines.size(), lines.size() == 1 ? "" : "s",
             records->calls.size());
  return broken == 0 ? kSuccess : kMistake;
}

}  // namespace

Command MakeShow(CLI::App& tool) {
  CLI::App* app = tool.add_subcommand(
      "show",
      "Recorded calls (FLASHACL_RECORD), a line each, those with NaN or "
      "infinities first; of one call all tensors");
  auto options = std::make_shared<ShowOptions>();
  app->add_option("record", options->where, "A record, or one call of it")
      ->required()
      ->type_name("DIR[/CALL]");
  app->add_option("--op", options->operations,
                  "Only operators with such names; * and ? are wild")
      ->type_name("GLOB")
      ->capture_default_str();
  app->add_flag("--failed", options->failed, "Only calls that failed");
  app->add_flag("--nan", options->bad_numbers,
                "Only calls with NaN or infinities in an output");
  return {app, [options] { return Show(*options); }};
}

}  // namespace flashacl::tool
