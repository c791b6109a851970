// SPDX-License-Identifier: Apache-2.0
// flashacl replay: recorded calls again, compared bit by bit, and timed.
#include "replay/replay.h"

#include <cstdio>
#include <cstdlib>
#include <memory>

#include "base/str.h"
#include "tools/flashacl/command.h"
#include "tools/flashacl/records.h"

namespace flashacl::tool {
namespace {

struct ReplayOptions {
  std::string where;
  std::string implementation;
  int threads = 0;
  int repeat = 1;
  bool strict = false;
};

std::string_view Text(replay::Outcome::Kind kind) {
  switch (kind) {
    case replay::Outcome::Kind::kSame:
      return "same bits";
    case replay::Outcome::Kind::kDifferent:
      return "DIFFERENT";
    case replay::Outcome::Kind::kSkipped:
      return "not run";
  }
  return "";
}

void Print(const std::string& name, const record::Call& call,
           const replay::Outcome& outcome) {
  const std::string before = TimeText(call.microseconds);
  fmt::print("{}  {:<34} {:>8}{}  {}\n", name, call.operation,
             TimeText(outcome.microseconds),
             before.empty() ? "" : Str(" (was {})", before),
             Text(outcome.kind));
  for (const std::string& remark : outcome.remarks) {
    fmt::print("          {}\n", remark);
  }
  std::fflush(stdout);
}

int ReplayAll(const ReplayOptions& options) {
  // What the runtime reads when it is first used.
  if (options.strict) setenv("FLASHACL_STRICT", "1", 1);
  if (options.threads > 0) {
    setenv("FLASHACL_NUM_THREADS", Str("{}", options.threads).c_str(), 1);
  }
  if (!options.implementation.empty()) {
    const Status used = replay::UseImplementation(options.implementation);
    if (!used.ok()) return Mistake(used);
  }
  const Result<Records> records = OpenRecords(options.where);
  if (!records.ok()) return Mistake(records.status());
  int counts[3] = {};
  for (const std::string& name : records->calls) {
    const Result<record::Call> call = records->reader.ReadCall(name);
    if (!call.ok()) return Mistake(call.status());
    const Result<replay::Outcome> outcome =
        replay::Replay(records->reader, *call, {.repeat = options.repeat});
    if (!outcome.ok()) {
      return Mistake(Invalid("{}: {}", name, outcome.status().message()));
    }
    Print(name, *call, *outcome);
    ++counts[static_cast<int>(outcome->kind)];
  }
  fmt::print("{} call{}: {} same, {} DIFFERENT, {} not run\n",
             records->calls.size(), records->calls.size() == 1 ? "" : "s",
             counts[0], counts[1], counts[2]);
  return counts[1] == 0 ? kSuccess : kFailure;
}

}  // namespace

Command MakeReplay(CLI::App& tool) {
  CLI::App* app = tool.add_subcommand(
      "replay",
      "Runs recorded calls again, compares their bits with the record's, and "
      "times them");
  auto options = std::make_shared<ReplayOptions>();
  app->add_option("record", options->where, "A record, or one call of it")
      ->required()
      ->type_name("DIR[/CALL]");
  app->add_option("--implementation", options->implementation,
                  "Only this one, whatever planned the call before")
      ->type_name("NAME");
  app->add_flag("--strict", options->strict, "As under FLASHACL_STRICT=1");
  AddThreads(*app, options->threads);
  app->add_option("--repeat", options->repeat,
                  "How often, for the median of the times")
      ->check(AtLeast(1))
      ->type_name("N")
      ->capture_default_str();
  return {app, [options] { return ReplayAll(*options); }};
}

}  // namespace flashacl::tool
