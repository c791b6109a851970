// SPDX-License-Identifier: Apache-2.0
// Events between processes. Records are numbered from 1 in the order of calls,
// in whichever process; waits refer to the newest number at their call, and end
// when that record is done, or its process ends before.
#pragma once

#include <array>
#include <atomic>
#include <cstdint>
#include <memory>
#include <string_view>

#include "acl/latch.h"
#include "acl/share/shared_object.h"
#include "acl/stream.h"
#include "base/function_ref.h"

namespace flashacl::acl {

// In the object's page; zeros are an event that was never recorded.
struct SharedEventWords {
  // As many records may be under way at a time.
  static constexpr size_t kRecords = 32;

  struct Record {
    std::atomic<uint64_t> number;  // of the newest record that has this place
    std::atomic<uint32_t> done;    // the newest that is done, its low half
    uint32_t unused;
    ProcessId by;  // under the page's mutex
  };

  std::atomic<uint64_t> last;  // changes under the page's mutex
  std::array<Record, kRecords> records;
};

class SharedEvent : public std::enable_shared_from_this<SharedEvent> {
 public:
  enum class Ended : uint8_t {
    kDone,
    kGivenUp,  // the time is over, or told to stop
    kAlone,    // the process that was to record it has ended
  };

  explicit SharedEvent(std::shared_ptr<SharedObject> object);

  const SharedObject& object() const { return *object_; }

  // Nobody opens it any more.
  void Unlink() { object_->Unlink(); }

  // Records and waits in the order of `stream`. 207000 where that is recorded.
  aclError Record(Stream& stream, uint32_t id, std::string_view function);
  aclError WaitOn(Stream& stream, uint32_t id, int64_t seconds,
                  std::string_view function);

  // 207000 where `stream` is recorded: no graph has events between processes.
  static aclError RequireNotRecorded(const Stream& stream, uint32_t id,
                                     std::string_view function);

  // Of the newest record, 0: none yet.
  uint64_t last() const { return words_.last.load(std::memory_order_acquire); }
  bool IsDone(uint64_t record) const;

  // The calling thread waits; `stop` is looked at after each Poke, and now and
  // then.
  Ended Wait(uint64_t record, Deadline deadline, FunctionRef<bool()> stop);
  Ended Wait(uint64_t record, Deadline deadline);

  // Whether the process that is to do a record has ended.
  bool IsAlone(uint64_t record);
  aclError FailAlone(uint32_t id, std::string_view function);

 private:
  class Pending;

  SharedEventWords::Record& PlaceOf(uint64_t record) const {
    return words_.records[record % SharedEventWords::kRecords];
  }
  uint64_t Begin();
  void Finish(uint64_t record);
  void Poke(uint64_t record);

  const std::shared_ptr<SharedObject> object_;
  SharedEventWords& words_;
};

}  // namespace flashacl::acl
