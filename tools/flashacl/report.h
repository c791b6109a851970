// SPDX-License-Identifier: Apache-2.0
// What flashacl bench found, as JSON for bench/compare.py and for whoever keeps
// it.
#pragma once

#include <string>
#include <vector>

#include "base/status.h"
#include "plan/cost.h"
#include "tools/flashacl/measure.h"
#include "tools/flashacl/spot_check.h"
#include "tools/flashacl/workloads.h"

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

// Writes a text file; - is stdout.
Status WriteText(const std::string& path, const std::string& text);

}  // namespace flashacl::tool
