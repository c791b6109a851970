// SPDX-License-Identifier: Apache-2.0
// Problems with titles, from the command line and from files.
#pragma once

#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "base/status.h"
#include "problem/attention_problem.h"

namespace flashacl::tool {

struct Workload {
  std::string title;  // of the file's author; may be empty
  AttentionProblem problem;
};

// What `source` is: a problem line; a file; or - for lines of a file on stdin.
// A file has one problem per line, or a title, a bar and a problem:
//
//   # comments and empty lines are skipped
//   Llama-3-8B, prompt of 2048 | fwd bf16 h=32/8 d=128 q=2048 k=2048 causal
//
// Adds at least one workload, or fails and names the file and line.
Status AddWorkloads(const std::string& source,
                    std::vector<Workload>& workloads);

// Words of which some are lines that nobody put in quotes: fwd or bwd and what
// comes after it, up to the next, are one line.
std::vector<std::string> JoinLines(const std::vector<std::string>& words);

// A file or folder that is installed with this program: in ../share/flashacl of
// the installed tool, or in ../../bench of the one in a build folder.
std::optional<std::filesystem::path> SharedPath(const std::string& name);

// The .txt files in the folder of workloads that belongs to this program, in
// order of their names.
Result<std::vector<std::string>> OwnWorkloadFiles();

}  // namespace flashacl::tool
