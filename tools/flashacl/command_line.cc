// SPDX-License-Identifier: Apache-2.0
// The whole command line: which commands there are, and what it says about
// words that are none.
#include "tools/flashacl/command_line.h"

#include <algorithm>
#include <memory>
#include <vector>

#include "base/nearest.h"
#include "base/str.h"
#include "tools/flashacl/command.h"
#include "tools/flashacl/help.h"
#include "tools/flashacl/report.h"

namespace flashacl::tool {
namespace {

constexpr char kAbout[] =
    "FlashACL " FLASHACL_VERSION
    ": CANN's fused attention operators and runtime, for CPUs";

constexpr char kFooter[] = R"(A problem is one line:
  DIRECTION DTYPE FIELDS
  fwd|bwd   f32|f16|bf16
  h=HEADS[/KV_HEADS]  d=QK[+ROPE][/V]
  q=LENGTHS  k=LENGTHS   each N, or N,N,..., or COUNTxN
  causal | causal-left | window:LEFT:RIGHT | band:LOWER:UPPER[:PREFIX]
  paged:ROWS | list | topk:N   int8:tensor|channel   int4:channel
  mask  bias  sink  keep:P  shared
flashacl help notation has the whole of it.

Examples:
  flashacl info
  flashacl explain "fwd bf16 h=32/8 d=128 q=64x1 k=64x4096 paged:128 causal"
  flashacl mask "fwd f32 h=1 d=64 q=8 k=12 band:-4:0:2" --tile=4x4
  flashacl mask --sparse-mode 4 --sq 512 --skv 768 --pre 99 --next 0 --png m.png
  flashacl verify "bwd f16 h=4/2 d=64 q=3,5 k=7,5 causal"
  echo "fwd f32 h=2 d=16 q=9 k=9 sink" | flashacl verify -
  flashacl check "fwd bf16 h=8 d=64 q=2x9 k=2x9" q=q.npy k=k.npy v=v.npy \
    out=npu.npy gpu=gpu.npy
  flashacl bench "fwd f32 h=8 d=64 q=512 k=512 causal" --json now.json

Exit code: 0 done, 1 something computed is wrong, 2 the question makes no sense
)";

// What stands where a command should.
Status CheckCommand(const std::vector<Command>& commands, const char* word) {
  if (word == nullptr || word[0] == '-') return {};
  std::vector<std::string> names;
  for (const Command& command : commands) {
    names.push_back(command.app->get_name());
    if (names.back() == word) return {};
  }
  const std::vector<std::string_view> known(names.begin(), names.end());
  return Invalid("{}: no such command{}; there are {}", word,
                 DidYouMean(word, known), Join(names, ", "));
}

// The message for a word that no option is, with the nearest that is one.
std::string Explained(const CLI::App& tool, const CLI::ParseError& error,
                      int argc, char** argv) {
  std::string message = error.what();
  const CLI::App* command = &tool;
  for (const CLI::App* one : tool.get_subcommands()) command = one;
  std::vector<std::string> names;
  for (const CLI::Option* option : command->get_options()) {
    for (const std::string& name : option->get_lnames()) {
      names.push_back("--" + name);
    }
  }
  const std::vector<std::string_view> known(names.begin(), names.end());
  for (int n = 1; n < argc; ++n) {
    const std::string_view word = std::string_view(argv[n]).substr(
        0, std::string_view(argv[n]).find('='));
    if (!word.starts_with("--") || std::ranges::count(known, word) > 0)
      continue;
    message += DidYouMean(word, known);
  }
  return message;
}

}  // namespace

int RunCommandLine(int argc, char** argv) {
  CLI::App tool(kAbout, "flashacl");
  tool.formatter(std::make_shared<NarrowFormatter>());
  tool.footer(kFooter);
  const std::string commit = Commit();
  tool.set_version_flag("--version",
                        Str("{}{}", FLASHACL_VERSION,
                            commit.empty() ? "" : Str(" (commit {})", commit)));
  tool.require_subcommand(1);
  const std::vector<Command> commands = {
      MakeInfo(tool),  MakeExplain(tool), MakeMask(tool),    MakeVerify(tool),
      MakeCheck(tool), MakeBench(tool),   MakeCompare(tool), MakePeers(tool),
      MakeShow(tool),  MakeReplay(tool),  MakeHelp(tool)};
  const Status command = CheckCommand(commands, argc > 1 ? argv[1] : nullptr);
  if (!command.ok()) return Mistake(command);
  try {
    tool.parse(argc, argv);
  } catch (const CLI::ExtrasError& error) {
    return Mistake(Invalid("{}", Explained(tool, error, argc, argv)));
  } catch (const CLI::ParseError& error) {
    return tool.exit(error) == 0 ? kSuccess : kMistake;
  }
  for (const Command& one : commands) {
    if (one.app->parsed()) return one.run();
  }
  return kMistake;
}

}  // namespace flashacl::tool
