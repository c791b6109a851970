// SPDX-License-Identifier: Apache-2.0
// What flashacl bench found, as JSON for bench/compare.py and for whoever keeps
// it.
#pragma once

#include <string>
#include <vector>

#include "base/status.h"
#include "plan/cost.h"
#include "tools/flashacl/measure.h"
#include "tools/flashacl/workloads.h"
#include "verify/spot_check.h"

namespace flashacl::tool {

// One workload computed by one implementation.
struct Timing {
  Workload workload;
  std::string backend;
  std::string implementation;
  int threads = 0;
  int64_t workspace_bytes = 0;
  Cost work;
  Checked checked = {};
  FirstRun first = {};
  Measurement measurement = {};

  double bytes() const { return work.bytes_read + work.bytes_written; }
};

// The title, or the line of a workload that has none.
std::string NameOf(const Workload& workload);

// As JSON with a line break at the end: what was built and where it runs, then
// one object per timing with a sample per repetition. Times are in seconds,
// sizes in bytes, speeds in FLOP and bytes per second.
std::string ToJson(const std::vector<Timing>& timings);

// Where the sources stood when this was built, "" if nobody knows; with
// with "-dirty" at its end if they had changed.
std::string Commit();

// Whether this file can be written to, before what it is to hold is computed;
// "" and - are no files. Makes an empty one where there is none.
Status CheckWritable(const std::string& path);

// Writes a text file; - is stdout.
Status WriteText(const std::string& path, const std::string& text);

}  // namespace flashacl::tool
