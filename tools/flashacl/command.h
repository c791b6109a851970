// SPDX-License-Identifier: Apache-2.0
// The commands of the tool. Each is one file that parses, calls and prints.
#pragma once

#include <CLI/App.hpp>
#include <CLI/Config.hpp>
#include <CLI/Formatter.hpp>
#include <functional>
#include <string_view>

#include "base/status.h"

namespace flashacl::tool {

inline constexpr int kSuccess = 0;
inline constexpr int kFailure = 1;  // the check that was asked for failed
inline constexpr int kMistake = 2;  // it could not be made

// What a problem is, in as many words as an option's help has room for.
inline constexpr std::string_view kLineHelp =
    "A problem, e.g. \"fwd bf16 h=32/8 d=128 q=64x1 k=64x4096 causal\"";

struct Command {
  CLI::App* app = nullptr;
  std::function<int()> run;  // the exit code of the process
};

Command MakeInfo(CLI::App& tool);
Command MakeExplain(CLI::App& tool);
Command MakeMask(CLI::App& tool);
Command MakeVerify(CLI::App& tool);
Command MakeBench(CLI::App& tool);

// Says on stderr what is wrong; returns the exit code for it.
int Mistake(const Status& status);

}  // namespace flashacl::tool
