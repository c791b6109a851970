// SPDX-License-Identifier: Apache-2.0
// flashacl compare: the script of this name, which lies beside the workloads.
#include <memory>
#include <string>

#include "tools/flashacl/command.h"
#include "tools/flashacl/script.h"

namespace flashacl::tool {
namespace {

struct CompareOptions {
  std::string before;
  std::string after;
  std::string p = "0.01";
  std::string least = "0.03";
};

int Compare(const CompareOptions& options) {
  return BecomeScript("python3", "compare.py",
                      {"--p", options.p, "--least", options.least, "--",
                       options.before, options.after});
}

}  // namespace

Command MakeCompare(CLI::App& tool) {
  CLI::App* app = tool.add_subcommand(
      "compare",
      "Two files of bench --json: what became faster or slower, by more than "
      "chance");
  auto options = std::make_shared<CompareOptions>();
  app->add_option("before", options->before, "The older file")
      ->required()
      ->type_name("FILE");
  app->add_option("after", options->after, "The newer file")
      ->required()
      ->type_name("FILE");
  app->add_option("--p", options->p,
                  "The most likely chance that is not believed in")
      ->type_name("P")
      ->capture_default_str();
  app->add_option("--least", options->least, "The least change that matters")
      ->type_name("SHARE")
      ->capture_default_str();
  return {app, [options] { return Compare(*options); }};
}

}  // namespace flashacl::tool
