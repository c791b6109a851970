// SPDX-License-Identifier: Apache-2.0
// The member "dump" of CANN's configuration files, as a setting of records.
// Source: CANN acl API, aclInit and aclmdlSetDump.
//   dump_path       the directory; needed, but for dump_scene, where it is "."
//   dump_op_switch  "on": calls of operators are recorded ("off")
//   dump_mode       "input", "output" ("output") or "all": whose contents
//   dump_data       "tensor" ("tensor"), or "stats": statistics, no bytes
//   dump_debug      "on": calls with a NaN or an infinity in an output
//   dump_scene      "lite_exception", "aic_err_brief_dump",
//                   "aic_err_norm_dump", "aic_err_detail_dump": calls that fail
// dump_list, dump_step, dump_level, dump_stats and "watcher" are of models and
// kernels: they are checked, and choose nothing here.
#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "acl/recording.h"
#include "base/status.h"

namespace flashacl::acl {

// None where `text`, which is a JSON object, has no member "dump", or an empty
// one. kInvalidArgument names the key, what it is and what was expected.
Result<std::optional<RecordingSetting>> ParseDump(std::string_view text);

// Whether calls can be written to this directory, which may be one to be made:
// else why not.
Status CheckDumpDirectory(const std::string& path);

}  // namespace flashacl::acl
