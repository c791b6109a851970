// SPDX-License-Identifier: Apache-2.0
// flashacl peers: the script of this name, which lies beside the workloads.
#include <filesystem>
#include <memory>
#include <string>
#include <vector>

#include "backends.h"
#include "base/str.h"
#include "problem/notation.h"
#include "tools/flashacl/command.h"
#include "tools/flashacl/script.h"
#include "tools/flashacl/workloads.h"

namespace flashacl::tool {
namespace {

struct PeersOptions {
  std::vector<std::string> sources;
  std::string python = "python3";
  int threads = 0;
  std::string target;
  double seconds = 0.5;
  int turns = 5;
  std::string json;
};

int Peers(const PeersOptions& options) {
  std::vector<Workload> workloads;
  for (const std::string& source : JoinLines(options.sources)) {
    const Status added = AddWorkloads(source, workloads);
    if (!added.ok()) return Mistake(added);
  }
  const auto self = std::filesystem::read_symlink("/proc/self/exe");
  std::vector<std::string> words = {"--tool",    self.string(),
                                    "--threads", Str("{}", options.threads),
                                    "--seconds", Str("{}", options.seconds),
                                    "--turns",   Str("{}", options.turns)};
  if (!options.target.empty()) {
    const Status limited = LimitVectorTarget(options.target);
    if (!limited.ok()) return Mistake(limited);
    words.insert(words.end(), {"--target", options.target});
  }
  if (!options.json.empty()) {
    words.insert(words.end(), {"--json", options.json});
  }
  words.emplace_back("--");
  for (const Workload& workload : workloads) {
    words.push_back(ToString(workload.problem));
  }
  return BecomeScript(options.python, "peers.py", std::move(words));
}

}  // namespace

Command MakePeers(CLI::App& tool) {
  CLI::App* app = tool.add_subcommand(
      "peers",
      "How fast other libraries compute the same problems, in turns with "
      "FlashACL; today PyTorch's attention");
  auto options = std::make_shared<PeersOptions>();
  app->add_option("problems", options->sources,
                  "Problems, and files with one per line after TITLE |; "
                  "without any, nine of usual sizes")
      ->type_name("LINE|FILE|-");
  app->add_option("--python", options->python,
                  "The Python that has the others, such as that of make torch")
      ->type_name("FILE")
      ->capture_default_str();
  AddThreads(*app, options->threads);
  app->add_option("--target", options->target,
                  "The best vector instructions to use, ours and theirs")
      ->type_name("NAME");
  app->add_option("--seconds", options->seconds,
                  "How long to repeat a problem in each turn")
      ->type_name("X")
      ->check(AtLeast(0))
      ->capture_default_str();
  app->add_option("--turns", options->turns, "How many, of which medians are")
      ->type_name("N")
      ->check(AtLeast(1))
      ->capture_default_str();
  app->add_option("--json", options->json, "Where to write JSON; - is stdout")
      ->type_name("FILE|-");
  return {app, [options] { return Peers(*options); }};
}

}  // namespace flashacl::tool
