// SPDX-License-Identifier: Apache-2.0
#include "tools/flashacl/script.h"

#include <unistd.h>

#include <cerrno>
#include <cstring>

#include "base/str.h"
#include "tools/flashacl/command.h"
#include "tools/flashacl/workloads.h"

namespace flashacl::tool {

int BecomeScript(const std::string& python, const std::string& name,
                 std::vector<std::string> words) {
  words.insert(words.begin(), {python, SharedPath(name).value_or(name)});
  std::vector<char*> pointers;
  for (std::string& word : words) pointers.push_back(word.data());
  pointers.push_back(nullptr);
  execvp(pointers[0], pointers.data());
  return Mistake(
      RuntimeFailure("cannot start {}: {}", python, std::strerror(errno)));
}

}  // namespace flashacl::tool
