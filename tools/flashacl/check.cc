// SPDX-License-Identifier: Apache-2.0
// flashacl check: whose result is right, on tensors that somebody brought.
#include <cstdio>
#include <limits>
#include <memory>

#include "backends.h"
#include "base/str.h"
#include "tools/flashacl/array_file.h"
#include "tools/flashacl/check_picture.h"
#include "tools/flashacl/check_words.h"
#include "tools/flashacl/command.h"
#include "tools/flashacl/progress.h"
#include "verify/check/tensor_check.h"

namespace flashacl::tool {
namespace {

struct Options {
  std::vector<std::string> words;
  std::string png;
  int threads = 0;
  bool all = false;
  bool no_causes = false;
};

std::vector<UserTensor> TensorsOf(const std::vector<NamedArray>& arrays) {
  std::vector<UserTensor> tensors;
  for (const NamedArray& one : arrays) {
    tensors.push_back({one.name, one.array.dtype, one.array.element_bytes,
                       one.array.dims, one.array.bytes.data()});
  }
  return tensors;
}

struct Answer {
  std::vector<Candidate> candidates;
  TensorCheck check;
};

Result<Answer> Ask(const CheckQuestion& question, const Options& options) {
  const Result<BoundInputs> inputs =
      BindInputs(question.problem, TensorsOf(question.inputs), question.layout);
  if (!inputs.ok()) return inputs.status();
  Answer answer;
  for (const NamedResults& results : question.results) {
    Result<TensorSet> set =
        BindResults(*inputs, TensorsOf(results.arrays), results.name + ": ");
    if (!set.ok()) return set.status();
    answer.candidates.push_back({results.name, std::move(*set)});
  }
  CheckOptions how;
  how.causes = !options.no_causes;
  if (options.all) how.flops = std::numeric_limits<double>::infinity();
  Progress progress;
  progress.Say("computing the fp64 answer");
  const Status done =
      AllBackends().front().queue->OnHost([&](Workers& workers) -> Status {
        Result<TensorCheck> check =
            CheckTensors(*inputs, answer.candidates, how, workers);
        if (check.ok()) answer.check = std::move(*check);
        return check.status();
      });
  progress.Clear();
  if (!done.ok()) return done;
  return answer;
}

// The first result that is wrong, or the first.
size_t PicturedResult(const TensorCheck& check) {
  for (size_t n = 0; n < check.results.size(); ++n) {
    if (!check.results[n].judgement.right()) return n;
  }
  return 0;
}

int Check(const Options& options) {
  SetWorkerCount(options.threads);
  const Result<CheckQuestion> question = ReadQuestion(options.words);
  if (!question.ok()) return Mistake(question.status());
  const Result<Answer> answer = Ask(*question, options);
  if (!answer.ok()) return Mistake(answer.status());
  const TensorCheck& check = answer->check;
  if (options.png != "-") {
    fmt::print("{}", Describe(check));
    if (check.rows < check.all_rows) fmt::print("  --all checks every row\n");
  }
  if (!options.png.empty()) {
    const size_t pictured = PicturedResult(check);
    const Status drawn = DrawCheck(answer->candidates[pictured].tensors,
                                   check.results[pictured], options.png);
    if (!drawn.ok()) return Mistake(drawn);
  }
  return check.right() ? kSuccess : kFailure;
}

}  // namespace

Command MakeCheck(CLI::App& tool) {
  CLI::App* app = tool.add_subcommand(
      "check",
      "Who is right: results in files against the fp64 answer to your own "
      "tensors, head by head, and what a wrong one got wrong");
  auto options = std::make_shared<Options>();
  app->add_option(
         "words", options->words,
         Str("{}; then q=FILE k=FILE v=FILE out=FILE, other tensors by their "
             "names (mask, bias, sink, keep, table, topk, dout, ...), results "
             "of others as NAME=FILE, in bwd dq=, dk=, dv= and NAME.dq=; "
             "q=@FILE and k=@FILE are lengths; layout=BSND says the order of "
             "axes where shapes do not. FILE is {}",
             kLineHelp, kFileHelp))
      ->required()
      ->type_name("LINE NAME=FILE...");
  app->add_option("--png", options->png,
                  "Write a picture of where the first wrong result is wrong; "
                  "- is stdout, and nothing else goes there")
      ->type_name("FILE|-");
  app->add_flag("--all", options->all,
                "Every row of large problems: minutes, or hours");
  app->add_flag("--no-causes", options->no_causes,
                "Do not look for what a wrong result got wrong");
  AddThreads(*app, options->threads);
  return {app, [options] { return Check(*options); }};
}

}  // namespace flashacl::tool
