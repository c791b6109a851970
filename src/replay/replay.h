// SPDX-License-Identifier: Apache-2.0
// Runs recorded calls again, through the C API, and compares what they answer
// and write with what was recorded, bit by bit.
#pragma once

#include <string>
#include <vector>

#include "base/status.h"
#include "record/directory.h"

namespace flashacl::replay {

struct Options {
  int repeat = 1;  // runs that are timed
};

struct Outcome {
  enum class Kind { kSame, kDifferent, kSkipped };

  Kind kind = Kind::kSame;
  std::vector<std::string> remarks;  // what differs, or why it was not run
  double microseconds = 0;  // of the run, the median; 0: it did not run
};

// Of all plans from now on: this implementation alone, or the reference where
// it computes no attention. Before the first call.
Status UseImplementation(const std::string& name);

// One call; fails where the record is broken.
Result<Outcome> Replay(const record::Reader& reader, const record::Call& call,
                       const Options& options);

}  // namespace flashacl::replay
