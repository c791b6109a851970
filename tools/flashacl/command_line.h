// SPDX-License-Identifier: Apache-2.0
// What main() is made of, without the command line's library, which takes long
// to compile.
#pragma once

namespace flashacl::tool {

inline constexpr int kSuccess = 0;
inline constexpr int kFailure = 1;  // the check that was asked for failed
inline constexpr int kMistake = 2;  // it could not be made

// Runs the command that the words name; returns the process's exit code. Throws
// what the C++ library throws.
int RunCommandLine(int argc, char** argv);

}  // namespace flashacl::tool
