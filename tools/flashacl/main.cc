// SPDX-License-Identifier: Apache-2.0
// flashacl: look at problems, plans, masks and machines without a program.
#include <cstdio>
#include <exception>

#include "tools/flashacl/command_line.h"

int main(int argc, char** argv) {
  try {
    const int code = flashacl::tool::RunCommandLine(argc, argv);
    // A full disk shows only when what was printed leaves the buffer.
    if (std::fflush(stdout) == 0) return code;
    std::perror("flashacl: stdout");
  } catch (const std::exception& error) {
    std::fprintf(stderr, "flashacl: %s\n", error.what());
  }
  return flashacl::tool::kMistake;
}
