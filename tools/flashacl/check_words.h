// SPDX-License-Identifier: Apache-2.0
// What stands on the command line of a check: a problem's line, tensors, and
// results of several; of a record results alone.
#pragma once

#include <string>
#include <vector>

#include "arrays/array.h"
#include "base/status.h"
#include "problem/attention_problem.h"
#include "tools/flashacl/torch_file.h"

namespace flashacl::tool {

struct NamedArray {
  std::string name;  // as BindInputs and BindResults know it
  Array array;
};

struct NamedResults {
  std::string name;  // as the user calls them
  std::vector<NamedArray> arrays;
};

struct CheckQuestion {
  AttentionProblem problem;
  std::string layout;
  std::vector<NamedArray> inputs;
  std::vector<NamedResults> results;
};

// Reads all files. Words are fields of the notation, in one word or several,
// and NAME=FILE or NAME=@FILE; q=@FILE and k=@FILE are lengths, one number per
// sequence, with :ends after it where each sequence ends. A name that no tensor
// has is somebody's output; NAME.dq is somebody's dq. dump=CALL takes the files
// that msProbe keeps of a call, NAME.dump=CALL somebody's results of them.
// `python` reads the files of PyTorch's.
Result<CheckQuestion> ReadQuestion(const std::vector<std::string>& words,
                                   const Python& python = {});

// The results alone, where the rest is known: NAME=FILE, and NAME.dump=CALL.
Result<std::vector<NamedResults>> ReadResults(
    const std::vector<std::string>& words, Direction direction,
    const Python& python = {});

}  // namespace flashacl::tool
