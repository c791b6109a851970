// SPDX-License-Identifier: Apache-2.0
// The one place that reads the environment. Everything else asks for the
// values below, so a program sees one consistent set of them.
#pragma once

#include <string>

namespace flashacl::acl {

struct Environment {
  std::string trace_path;  // FLASHACL_TRACE; empty: no trace
  bool strict = false;     // FLASHACL_STRICT=1
  int num_threads = 0;     // FLASHACL_NUM_THREADS; 0: all
  std::string target;      // FLASHACL_TARGET; empty: the best there is
  bool has_visible_devices = false;
  std::string visible_devices;  // ASCEND_RT_VISIBLE_DEVICES
  int log_level = 3;            // ASCEND_GLOBAL_LOG_LEVEL, 0 (debug) to 3
  bool log_to_stdout = false;   // ASCEND_SLOG_PRINT_TO_STDOUT=1
  std::string home_path;        // ASCEND_HOME_PATH; empty: not set
  int devices = 0;              // FLASHACL_DEVICES; 0: not set
  std::string soc;              // FLASHACL_SOC; empty: the usual one
};

// Read on the first call, from whichever thread makes it; constant afterwards.
const Environment& TheEnvironment();

}  // namespace flashacl::acl
