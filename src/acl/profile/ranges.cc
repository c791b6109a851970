// SPDX-License-Identifier: Apache-2.0
#include "acl/profile/ranges.h"

#include <mutex>
#include <utility>

#include "acl/stream.h"

namespace flashacl::acl::profile {
namespace {

// Programs that never end their ranges do not fill the memory.
constexpr size_t kMaxOpen = size_t{1} << 16;

// Of the ranges in the timeline.
std::atomic<uint64_t> next_range{1};

// Runs `task` when `stream` comes to it, if anybody records.
aclError OnStream(std::string_view function, Task task, aclrtStream stream) {
  aclError error = ACL_SUCCESS;
  const std::shared_ptr<Stream> found = FindStream(stream, function, &error);
  if (found == nullptr || !IsRecording()) return error;
  return found->Push(std::move(task), function, TaskKind::kControl);
}

}  // namespace

void Mark(std::shared_ptr<const Said> said) {
  if (!IsRecording()) return;
  const int64_t now = Now();
  Add({.kind = Kind::kMark,
       .begin_ns = now,
       .end_ns = now,
       .said = std::move(said)});
}

aclError MarkOnStream(std::string_view function,
                      std::shared_ptr<const Said> said, aclrtStream stream) {
  return OnStream(
      function,
      [said = std::move(said)] {
        Mark(said);
        return ACL_SUCCESS;
      },
      stream);
}

void EndRange(const OpenRange& range) {
  const int64_t begin_ns = range.begin_ns.load();
  if (!IsRecording() || begin_ns == OpenRange::kNotYet) return;
  Add({.kind = Kind::kRange,
       .task = next_range.fetch_add(1),
       .begin_ns = begin_ns,
       .end_ns = Now(),
       .said = range.said});
}

aclError BeginOnStream(std::string_view function,
                       std::shared_ptr<OpenRange> range, aclrtStream stream) {
  return OnStream(
      function,
      [range = std::move(range)] {
        range->begin_ns = Now();
        return ACL_SUCCESS;
      },
      stream);
}

aclError EndOnStream(std::string_view function,
                     std::shared_ptr<const OpenRange> range,
                     aclrtStream stream) {
  return OnStream(
      function,
      [range = std::move(range)] {
        EndRange(*range);
        return ACL_SUCCESS;
      },
      stream);
}

uint64_t OpenRanges::Add(std::shared_ptr<OpenRange> range) {
  std::lock_guard lock(mutex_);
  const uint64_t number = newest_ == last_ ? 1 : newest_ + 1;
  if (range != nullptr && open_.size() < kMaxOpen) {
    open_[number] = std::move(range);
  }
  newest_ = number;
  return number;
}

std::shared_ptr<OpenRange> OpenRanges::Take(uint64_t number) {
  std::lock_guard lock(mutex_);
  const auto found = open_.find(number);
  if (found == open_.end()) return nullptr;
  std::shared_ptr<OpenRange> range = std::move(found->second);
  open_.erase(found);
  return range;
}

}  // namespace flashacl::acl::profile
