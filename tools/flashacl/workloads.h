// SPDX-License-Identifier: Apache-2.0
// Problems with titles, from the command line and from files.
#pragma once

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

// The .txt files in the folder of workloads that belongs to this program, in
// order of their names: ../share/flashacl/workloads of the installed tool, or
// ../../bench/workloads of the one in a build folder.
Result<std::vector<std::string>> OwnWorkloadFiles();

}  // namespace flashacl::tool
