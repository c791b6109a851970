// SPDX-License-Identifier: Apache-2.0
// Marks and ranges that the program puts into the timeline, on its threads and
// on streams.
#pragma once

#include <atomic>
#include <cstdint>
#include <map>
#include <memory>
#include <string_view>

#include "acl/acl_rt.h"
#include "acl/profile/timeline.h"
#include "base/fork.h"

namespace flashacl::acl::profile {

// A range that is not over.
struct OpenRange {
  static constexpr int64_t kNotYet = INT64_MAX;

  std::shared_ptr<const Said> said;
  std::atomic<int64_t> begin_ns{kNotYet};
  // A stream that it is on, too; null: on the thread alone.
  aclrtStream stream = nullptr;
  std::shared_ptr<OpenRange> on_stream = nullptr;
};

// Marks this moment on the calling thread.
void Mark(std::shared_ptr<const Said> said);
// Marks the moment at which `stream` comes here; a wrong stream is an error
// whether or not anybody records.
aclError MarkOnStream(std::string_view function,
                      std::shared_ptr<const Said> said, aclrtStream stream);

// Ends `range` here, and puts it into the timeline if it has begun.
void EndRange(const OpenRange& range);

// The same when `stream` comes here. `range` begins by what Begin does.
aclError BeginOnStream(std::string_view function,
                       std::shared_ptr<OpenRange> range, aclrtStream stream);
aclError EndOnStream(std::string_view function,
                     std::shared_ptr<const OpenRange> range,
                     aclrtStream stream);

// The open ranges of one interface by their numbers, from 1 to `last` and on
// from 1. Static, never destroyed.
class OpenRanges {
 public:
  explicit OpenRanges(uint64_t last) : last_(last) {}

  // A number that was not used for long. Null: a range that nobody records.
  uint64_t Add(std::shared_ptr<OpenRange> range);
  // Null if there is none, or nobody recorded it.
  std::shared_ptr<OpenRange> Take(uint64_t number);

 private:
  const uint64_t last_;
  ProcessMutex mutex_;  // guards what follows
  uint64_t newest_ = 0;
  std::map<uint64_t, std::shared_ptr<OpenRange>> open_;
};

}  // namespace flashacl::acl::profile
