// SPDX-License-Identifier: Apache-2.0
// Events: marks in a stream that others can wait for and that know their time.
// Each record is a mark of its own, so recording again disturbs no wait that is
// queued already.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <mutex>
#include <string_view>

#include "acl/acl_rt.h"
#include "acl/handle.h"
#include "acl/latch.h"
#include "acl/stream.h"

namespace flashacl::acl {

class SharedEvent;

// One record. All else is written before `done` opens.
struct Mark {
  Latch done;
  Clock::time_point time;
  std::shared_ptr<StreamFailure> failure;  // of the stream so far, or null
  std::shared_ptr<const Knowledge> known;  // of the stream; strict mode only
};

enum class EventFamily : uint8_t {
  kPlain,     // aclrtCreateEvent
  kWithFlag,  // aclrtCreateEventWithFlag
  kEx,        // aclrtCreateEventExWithFlag
};

class Event : public std::enable_shared_from_this<Event> {
 public:
  static constexpr HandleKind kHandleKind = HandleKind::kEvent;

  // Null if the device has all the events it may have. With `shared`, which is
  // for ACL_EVENT_IPC alone, records and waits are those of several processes.
  static std::shared_ptr<Event> Create(
      int device, EventFamily family, uint32_t flags,
      std::shared_ptr<SharedEvent> shared = nullptr);

  void* handle() const { return handle_; }
  uint32_t id() const { return id_; }
  int device() const { return device_; }
  EventFamily family() const { return family_; }
  bool has_time() const { return (flags_ & ACL_EVENT_TIME_LINE) != 0; }
  // A flag that is set or not: no capture takes it for a branch, and waits are
  // for whatever sets it next.
  bool external() const { return (flags_ & ACL_EVENT_EXTERNAL) != 0; }

  // Whether recording and waiting for it makes a branch of a capture.
  bool builds_branches() const {
    return family_ == EventFamily::kEx && shared_ == nullptr;
  }

  // What processes share of it, or null. Then nothing but records, waits and
  // Destroy is asked of the event itself.
  SharedEvent* shared() const { return shared_.get(); }

  // Where a recorder takes what is submitted to `stream`, these are its
  // business, but for external events.
  aclError Record(Stream& stream, std::string_view function);

  // Makes `stream` wait for the last record; `seconds` 0: as long as it takes.
  aclError WaitOn(Stream& stream, int64_t seconds, std::string_view function);

  // Forgets the last record when `stream` comes to it.
  aclError Reset(Stream& stream, std::string_view function);

  // What a graph does to the event of the world outside at each replay. Others
  // see the record when the replay has come to it, not when it is submitted.
  aclError RecordAtReplay(Stream& stream, std::string_view function);
  aclError WaitAtReplay(Stream& stream, int64_t seconds,
                        std::string_view function);

  // For tasks of graphs: what a record, a wait for the world outside, a wait
  // for `latch`, which opens when the graph records it, and a reset do when a
  // replay comes to them.
  void RecordInTask();
  aclError WaitInTask(int64_t seconds);
  aclError WaitInTask(Latch& latch, int64_t seconds);
  void ResetInTask();

  // The record in a capture that is under way, and what captures it; or null.
  std::shared_ptr<const CapturedRecord> captured() const;
  void SetCaptured(std::shared_ptr<const CapturedRecord> record);

  // For captures: whether it was ever recorded outside of one.
  bool recorded() const;

  // The handle becomes stale; waits on a record that never came end. False if
  // another thread destroyed it first.
  bool Destroy();

  // The last record as queries see it; null if there is none.
  std::shared_ptr<Mark> mark() const;

  // Of an external one.
  bool is_set() const { return set_.open(); }

  bool has_pending_waits() const { return waits_.load() > 0; }

 private:
  class PendingMark;
  class PendingWait;

  Event(int device, EventFamily family, uint32_t flags,
        std::shared_ptr<SharedEvent> shared);

  aclError WaitUntilSet(Stream& stream, int64_t seconds,
                        std::string_view function);

  // Whether a wait before any record waits for that record.
  bool WaitsFirst() const {
    return family_ == EventFamily::kWithFlag && (flags_ & ACL_EVENT_SYNC) != 0;
  }

  // For tasks: the last record that streams have come to, or the first one to
  // come; null: there is nothing to wait for.
  std::shared_ptr<Mark> MarkToWaitFor();

  const int device_;
  const EventFamily family_;
  const uint32_t flags_;
  const std::shared_ptr<SharedEvent> shared_;
  const uint32_t id_;
  void* handle_ = nullptr;
  std::atomic<int> waits_{0};

  mutable std::mutex mutex_;
  // The last record in the order of calls, which is what waits refer to, and
  // as far as streams have come, which is what queries see. They differ while
  // a reset is queued.
  std::shared_ptr<Mark> submitted_;
  std::shared_ptr<Mark> visible_;
  std::shared_ptr<Mark> awaited_;  // the next record, if a stream waits for it
  std::shared_ptr<const CapturedRecord> captured_;
  Latch set_;  // of an external event
};

uint32_t AvailableEvents(int device);

}  // namespace flashacl::acl
