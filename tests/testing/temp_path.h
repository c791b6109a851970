// SPDX-License-Identifier: Apache-2.0
// Files of a test: tests of one program run at once, each in a process.
#pragma once

#include <gtest/gtest.h>
#include <unistd.h>

#include <string>
#include <string_view>

namespace flashacl::testing {

// The path of a file that no other running test has.
inline std::string TempPath(std::string_view name) {
  return ::testing::TempDir() + "flashacl_" + std::to_string(getpid()) + "_" +
         std::string(name);
}

}  // namespace flashacl::testing
