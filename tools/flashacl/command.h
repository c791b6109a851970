// SPDX-License-Identifier: Apache-2.0
// The commands of the tool. Each is one file that parses, calls and prints.
#pragma once

#include <CLI/App.hpp>
#include <CLI/Config.hpp>
#include <CLI/Formatter.hpp>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "base/status.h"
#include "tools/flashacl/command_line.h"

namespace flashacl::tool {

// What a problem is, in as many words as an option's help has room for.
inline constexpr std::string_view kLineHelp =
    "A problem, e.g. \"fwd bf16 h=32/8 d=128 q=64x1 k=64x4096 causal\", with "
    "or "
    "without quotes";

struct Command {
  CLI::App* app = nullptr;
  std::function<int()> run;  // the exit code of the process
};

Command MakeInfo(CLI::App& tool);
Command MakeExplain(CLI::App& tool);
Command MakeMask(CLI::App& tool);
Command MakeVerify(CLI::App& tool);
Command MakeCheck(CLI::App& tool);
Command MakeBench(CLI::App& tool);
Command MakeCompare(CLI::App& tool);
Command MakePeers(CLI::App& tool);
Command MakeShow(CLI::App& tool);
Command MakeReplay(CLI::App& tool);
Command MakeHelp(CLI::App& tool);

// Says on stderr what is wrong; returns the exit code for it.
int Mistake(const Status& status);

// Adds the option --threads, which FLASHACL_NUM_THREADS is for, too.
void AddThreads(CLI::App& app, int& threads);

// Numbers of at least so much; its message has no more digits than they need.
CLI::Validator AtLeast(int64_t least);

// Whether implementations of these names exist. Fails naming the nearest.
Status CheckImplementations(const std::vector<std::string>& names);

}  // namespace flashacl::tool
