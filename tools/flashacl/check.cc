// SPDX-License-Identifier: Apache-2.0
// flashacl check: whose result is right, on tensors that somebody brought or a
// program recorded.
#include <cstdio>
#include <limits>
#include <memory>

#include "backends.h"
#include "base/str.h"
#include "tools/flashacl/array_file.h"
#include "tools/flashacl/check_case.h"
#include "tools/flashacl/check_picture.h"
#include "tools/flashacl/check_words.h"
#include "tools/flashacl/command.h"
#include "tools/flashacl/progress.h"
#include "tools/flashacl/records.h"
#include "verify/check/tensor_check.h"

namespace flashacl::tool {
namespace {

struct CheckSettings {
  std::vector<std::string> words;
  std::string png;
  Python python;
  int threads = 0;
  bool all = false;
  bool no_causes = false;
};

Result<TensorCheck> Ask(const CheckCase& of, const CheckSettings& options) {
  CheckOptions how;
  how.causes = !options.no_causes;
  if (options.all) how.flops = std::numeric_limits<double>::infinity();
  Result<TensorCheck> check = TensorCheck{};
  Progress progress;
  progress.Say("computing the fp64 answer");
  const Status done =
      AllBackends().front().queue->OnHost([&](Workers& workers) -> Status {
        check = CheckTensors(of.inputs, of.candidates, how, workers);
        return check.status();
      });
  progress.Clear();
  if (!done.ok()) return done;
  return check;
}

// The first result that is wrong, or the first.
size_t PicturedResult(const TensorCheck& check) {
  for (size_t n = 0; n < check.results.size(); ++n) {
    if (!check.results[n].judgement.right()) return n;
  }
  return 0;
}

// The exit code, after the report of one case.
int Report(const Result<CheckCase>& of, const CheckSettings& options) {
  if (!of.ok()) return Mistake(of.status());
  const Result<TensorCheck> check = Ask(*of, options);
  if (!check.ok()) return Mistake(check.status());
  if (options.png != "-") {
    fmt::print("{}", Describe(*check));
    if (check->rows < check->all_rows) fmt::print("  --all checks every row\n");
  }
  if (!options.png.empty()) {
    const size_t pictured = PicturedResult(*check);
    const Status drawn = DrawCheck(of->candidates[pictured].tensors,
                                   check->results[pictured], options.png);
    if (!drawn.ok()) return Mistake(drawn);
  }
  std::fflush(stdout);
  return check->right() ? kSuccess : kFailure;
}

// Every call that a record has; other results and a picture are of one call.
int CheckRecord(const CheckSettings& options) {
  const Result<Records> records = OpenRecords(options.words[0]);
  if (!records.ok()) return Mistake(records.status());
  const std::vector<std::string> words(options.words.begin() + 1,
                                       options.words.end());
  const size_t count = records->calls.size();
  if (count != 1 && (!words.empty() || !options.png.empty())) {
    return Mistake(Invalid("{}: it has {} calls; say which, {}/{}, for {}",
                           options.words[0], count, options.words[0], 1,
                           words.empty() ? "--png" : words[0]));
  }
  int counts[3] = {};
  for (const std::string& name : records->calls) {
    const Result<record::Call> call = records->reader.ReadCall(name);
    if (!call.ok()) {
      ++counts[Mistake(call.status())];
      continue;
    }
    if (options.png != "-") fmt::print("{}  {}\n", name, call->operation);
    ++counts[Report(CaseOf(records->reader, *call, words, options.python),
                    options)];
  }
  if (count != 1) {
    fmt::print("{} calls: {} right, {} WRONG, {} not checked\n", count,
               counts[kSuccess], counts[kFailure], counts[kMistake]);
  }
  if (counts[kFailure] > 0) return kFailure;
  return counts[kSuccess] > 0 ? kSuccess : kMistake;
}

int Check(const CheckSettings& options) {
  SetWorkerCount(options.threads);
  if (NamesRecord(options.words[0])) return CheckRecord(options);
  const Result<CheckQuestion> question =
      ReadQuestion(options.words, options.python);
  if (!question.ok()) return Mistake(question.status());
  return Report(CaseOf(*question), options);
}

}  // namespace

Command MakeCheck(CLI::App& tool) {
  CLI::App* app = tool.add_subcommand(
      "check",
      "Who is right: results in files against the fp64 answer to your own "
      "tensors, head by head, and what a wrong one got wrong");
  auto options = std::make_shared<CheckSettings>();
  app->add_option(
         "words", options->words,
         Str("{}; then q=FILE k=FILE v=FILE out=FILE, other tensors by their "
             "names (mask, bias, sink, keep, table, topk, dout, ...), results "
             "of others as NAME=FILE, max=, sum= and lse= (NAME.max=), what "
             "softmax leaves of rows, in bwd dq=, dk=, dv=, dbias=, dsink= and "
             "NAME.dq=; q=@FILE and k=@FILE are lengths; layout=BSND says the "
             "order of axes where shapes do not, layout=TND:blocks that of "
             "rows "
             "in max and sum. FILE is {}. Or a record, DIR[/CALL] "
             "(FLASHACL_RECORD), which has all of this and what the call "
             "wrote; results of others as before",
             kLineHelp, kFileHelp))
      ->required()
      ->type_name("LINE|RECORD NAME=FILE...");
  app->add_option("--png", options->png,
                  "Write a picture of where the first wrong result is wrong; "
                  "- is stdout, and nothing else goes there")
      ->type_name("FILE|-");
  app->add_option("--python", options->python.command,
                  "The Python that reads .pt files, one that has torch")
      ->type_name("FILE")
      ->capture_default_str();
  app->add_flag("--all", options->all,
                "Every row of large problems: minutes, or hours");
  app->add_flag("--no-causes", options->no_causes,
                "Do not look for what a wrong result got wrong");
  AddThreads(*app, options->threads);
  return {app, [options] { return Check(*options); }};
}

}  // namespace flashacl::tool
