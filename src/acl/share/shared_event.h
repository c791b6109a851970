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

// In the object's page; zeros are an event that was never recorded. A stream
// does its records in their order, so all of them need but one place, and no
// call has to wait for one.
struct SharedEventWords {
  // As many streams may have records under way at a time.
  static constexpr size_t kPlaces = 64;

  struct Place {
    std::atomic<uint32_t> done;  // the newest that is done, its low half
    // Under the page's mutex.
    int32_t stream;
    uint64_t newest;  // the number of the newest record here
    ProcessId by;
  };

  std::atomic<uint64_t> last;  // record; changes under the page's mutex
  std::array<Place, kPlaces> places;
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

  // Records and waits in the order of `stream`. 207000 where that is recorded,
  // 207005 where there is no place for a record.
  aclError Record(Stream& stream, uint32_t id, std::string_view function);
  aclError WaitOn(Stream& stream, uint32_t id, int64_t seconds,
                  std::string_view function);

  // 207000 where `stream` is recorded: no graph has events between processes.
  static aclError RequireNotRecorded(const Stream& stream, uint32_t id,
                                     std::string_view function);

  // The newest record: its number, and its place in the low bits. 0: none yet.
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

  using Place = SharedEventWords::Place;
  static constexpr uint64_t kPlaces = SharedEventWords::kPlaces;

  Place& PlaceOf(uint64_t record) const {
    return words_.places[record % kPlaces];
  }
  static uint32_t LowNumber(uint64_t record) {
    return static_cast<uint32_t>(record / kPlaces);
  }
  Place* FindPlace(const Stream& stream);
  uint64_t Begin(const Stream& stream);
  void Finish(uint64_t record);
  void Poke(uint64_t record);

  const std::shared_ptr<SharedObject> object_;
  SharedEventWords& words_;
};

}  // namespace flashacl::acl
