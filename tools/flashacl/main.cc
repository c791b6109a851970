// SPDX-License-Identifier: Apache-2.0
// flashacl: look at problems, plans, masks and machines without a program.
#include <unistd.h>

#include <cstdio>
#include <exception>
#include <vector>

#include "base/str.h"
#include "tools/flashacl/command.h"

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
  paged:ROWS | list | topk:N   int8:tensor|channel
  mask  bias  sink  keep:P  shared
docs/notation.md has the whole of it.

Examples:
  flashacl info
  flashacl explain "fwd bf16 h=32/8 d=128 q=64x1 k=64x4096 paged:128 causal"
  flashacl mask "fwd f32 h=1 d=64 q=8 k=12 band:-4:0:2" --tile=4x4
  flashacl mask --sparse-mode 4 --sq 512 --skv 768 --pre 99 --next 0 --png m.png
  flashacl verify "bwd f16 h=4/2 d=64 q=3,5 k=7,5 causal"
  echo "fwd f32 h=2 d=16 q=9 k=9 sink" | flashacl verify -
  flashacl bench "fwd f32 h=8 d=64 q=512 k=512 causal" --json now.json

Exit code: 0 done, 1 something computed is wrong, 2 the question makes no sense
)";

int Main(int argc, char** argv) {
  CLI::App tool(kAbout, "flashacl");
  tool.footer(kFooter);
  tool.set_version_flag("--version", FLASHACL_VERSION);
  tool.require_subcommand(1);
  const std::vector<Command> commands = {MakeInfo(tool), MakeExplain(tool),
                                         MakeMask(tool), MakeVerify(tool),
                                         MakeBench(tool)};
  try {
    tool.parse(argc, argv);
  } catch (const CLI::ParseError& error) {
    return tool.exit(error) == 0 ? kSuccess : kMistake;
  }
  for (const Command& command : commands) {
    if (command.app->parsed()) return command.run();
  }
  return kMistake;
}

}  // namespace

}  // namespace flashacl::tool

int main(int argc, char** argv) {
  try {
    const int code = flashacl::tool::Main(argc, argv);
    // A full disk shows only when what was printed leaves the buffer.
    if (std::fflush(stdout) == 0) return code;
    std::perror("flashacl: stdout");
  } catch (const std::exception& error) {
    fmt::print(stderr, "flashacl: {}\n", error.what());
  }
  return flashacl::tool::kMistake;
}
