// SPDX-License-Identifier: Apache-2.0
// Commands that are scripts in Python, which lie beside the workloads.
#pragma once

#include <string>
#include <vector>

namespace flashacl::tool {

// Becomes the script of this name in `python`, with these words: returns, with
// the exit code for it, only if that fails.
int BecomeScript(const std::string& python, const std::string& name,
                 std::vector<std::string> words);

}  // namespace flashacl::tool
