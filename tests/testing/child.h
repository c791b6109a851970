// SPDX-License-Identifier: Apache-2.0
// Runs one test of this program in a process of its own: for what happens once
// per process, such as reading the environment and exiting.
#pragma once

#include <map>
#include <string>

namespace flashacl::testing {

struct ChildResult {
  bool timed_out = false;
  int exit_code = -1;  // -1: ended by a signal
  int signal = 0;
  std::string output;

  bool ok() const { return !timed_out && exit_code == 0; }
};

// `test` is "Suite.DISABLED_Name": disabled, so that only children run it.
// `environment` is added to that of the caller. Killed after three minutes.
ChildResult RunChild(const std::string& test,
                     const std::map<std::string, std::string>& environment);

}  // namespace flashacl::testing
