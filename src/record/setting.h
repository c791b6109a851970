// SPDX-License-Identifier: Apache-2.0
// What is recorded: "DIRECTORY[:FILTER,FILTER...]".
//   op=GLOB     operators whose names match, with * and ?
//   calls=A-B   the A-th to B-th call of the process; calls=A: this one
//   every=N     every N-th of those
//   failed      calls that fail, in either phase
//   nan         calls with a NaN or an infinity in an output
//   stats       statistics and digests, without the bytes
//   size=N      stop before there are more bytes: 500M, 2G (8G)
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "base/status.h"

namespace flashacl::record {

struct Setting {
  std::string directory;
  std::string operations = "*";
  int64_t first = 1;
  int64_t last = INT64_MAX;
  int64_t every = 1;
  bool only_failed = false;
  bool only_bad_numbers = false;
  bool statistics_only = false;
  int64_t max_bytes = int64_t{8} << 30;

  // Of the n-th call of the process; what it answers is not known yet.
  bool Wants(std::string_view operation, int64_t number) const;
};

Result<Setting> ParseSetting(std::string_view text);

// Whether `name` is what `glob` means: * is any characters, ? is one.
bool Matches(std::string_view glob, std::string_view name);

}  // namespace flashacl::record
