// SPDX-License-Identifier: Apache-2.0
// The one place that reads the environment. Everything else asks for the
// values below, so a program sees one consistent set of them.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "record/setting.h"

namespace flashacl::acl {

struct Environment {
  std::string trace_path;                 // FLASHACL_TRACE; empty: no trace
  std::optional<record::Setting> record;  // FLASHACL_RECORD
  bool strict = false;                    // FLASHACL_STRICT=1 or =exit
  bool strict_exit = false;               // FLASHACL_STRICT=exit
  // FLASHACL_NUM_THREADS, else OMP_NUM_THREADS; 0: all
  int num_threads = 0;
  std::string target;  // FLASHACL_TARGET; empty: the best there is
  bool has_visible_devices = false;
  std::string visible_devices;  // ASCEND_RT_VISIBLE_DEVICES
  int log_level = 3;            // ASCEND_GLOBAL_LOG_LEVEL, 0 (debug) to 3
  bool log_to_stdout = false;   // ASCEND_SLOG_PRINT_TO_STDOUT=1
  std::string home_path;        // ASCEND_HOME_PATH; empty: not set
  int devices = 0;              // FLASHACL_DEVICES; 0: not set
  std::string soc;              // FLASHACL_SOC; empty: the usual one
  // What a person should hear of the above: "FLASHACL_X=y is ignored: ...".
  std::vector<std::string> complaints;
};

// Read on the first call, from whichever thread makes it; constant afterwards.
// Then its complaints go to standard error, once per process.
const Environment& TheEnvironment();

}  // namespace flashacl::acl
