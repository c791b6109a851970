// SPDX-License-Identifier: Apache-2.0
#include "acl/share/shared_event.h"

#include <unistd.h>

#include <algorithm>
#include <utility>

#include "acl/error.h"
#include "acl/futex.h"
#include "base/spin.h"
#include "base/str.h"

namespace flashacl::acl {

// A record that is done exactly once: when its task runs, or is dropped.
class SharedEvent::Pending {
 public:
  explicit Pending(std::shared_ptr<SharedEvent> event)
      : event_(std::move(event)) {}
  ~Pending() {
    // A forked child drops what its parent does.
    if (process_ == getpid()) Set();
  }
  Pending(const Pending&) = delete;
  Pending& operator=(const Pending&) = delete;

  // Now, as all is there that the record needs to be done. False if the event
  // has no place for it.
  bool Begin(const Stream& stream) {
    record_ = event_->Begin(stream);
    return record_ != 0;
  }

  void Set() {
    const uint64_t record = std::exchange(record_, 0);
    if (record != 0) event_->Finish(record);
  }

 private:
  const std::shared_ptr<SharedEvent> event_;
  const pid_t process_ = getpid();
  uint64_t record_ = 0;  // 0: not begun, or done
};

SharedEvent::SharedEvent(std::shared_ptr<SharedObject> object)
    : object_(std::move(object)), words_(object_->words<SharedEventWords>()) {}

bool SharedEvent::IsDone(uint64_t record) const {
  if (record == 0) return true;
  const uint32_t done = PlaceOf(record).done.load(std::memory_order_acquire);
  return static_cast<int32_t>(done - LowNumber(record)) >= 0;
}

bool SharedEvent::IsAlone(uint64_t record) {
  ProcessId by;
  {
    ShareLock lock(object_->page());
    if (IsDone(record)) return false;
    by = PlaceOf(record).by;
  }
  return !IsAlive(by) && !IsDone(record);
}

// The stream's own, or else one whose records are all done, or else one of a
// process that has ended. With the page's mutex.
SharedEvent::Place* SharedEvent::FindPlace(const Stream& stream) {
  const ProcessId self = ThisProcess();
  Place* free = nullptr;
  for (Place& place : words_.places) {
    if (place.by == self && place.stream == stream.id()) return &place;
    const bool done = place.done.load() == static_cast<uint32_t>(place.newest);
    if (done && free == nullptr) free = &place;
  }
  if (free != nullptr) return free;
  const auto ended = std::ranges::find_if(
      words_.places, [](const Place& place) { return !IsAlive(place.by); });
  return ended == words_.places.end() ? nullptr : &*ended;
}

uint64_t SharedEvent::Begin(const Stream& stream) {
  ShareLock lock(object_->page());
  Place* const place = FindPlace(stream);
  if (place == nullptr) return 0;
  const uint64_t number = words_.last.load() / kPlaces + 1;
  if (place->by != ThisProcess() || place->stream != stream.id()) {
    // Nothing here is under way any more.
    place->done.store(static_cast<uint32_t>(number - 1));
    place->by = ThisProcess();
    place->stream = stream.id();
  }
  place->newest = number;
  const auto index = static_cast<uint64_t>(place - words_.places.data());
  const uint64_t record = number * kPlaces + index;
  words_.last.store(record, std::memory_order_release);
  return record;
}

// Later records of the stream may be done already, by threads that drop them.
void SharedEvent::Finish(uint64_t record) {
  std::atomic<uint32_t>& done = PlaceOf(record).done;
  uint32_t before = done.load();
  while (static_cast<int32_t>(LowNumber(record) - before) > 0 &&
         !done.compare_exchange_weak(before, LowNumber(record))) {
  }
  Poke(record);
}

void SharedEvent::Poke(uint64_t record) { FutexWake(PlaceOf(record).done); }

SharedEvent::Ended SharedEvent::Wait(uint64_t record, Deadline deadline,
                                     FunctionRef<bool()> stop) {
  if (SpinUntil([&] { return IsDone(record) || stop(); }) && IsDone(record)) {
    return Ended::kDone;
  }
  const auto& done = PlaceOf(record).done;
  for (Clock::time_point look = Clock::now() + kShareLook;;) {
    const uint32_t seen = done.load(std::memory_order_acquire);
    if (IsDone(record)) return Ended::kDone;
    const Clock::time_point now = Clock::now();
    if (stop() || (deadline.has_value() && now >= *deadline)) {
      return Ended::kGivenUp;
    }
    if (now >= look) {
      if (IsAlone(record)) return Ended::kAlone;
      look = now + kShareLook;
    }
    FutexWait(done, seen, std::min(look, deadline.value_or(look)));
  }
}

SharedEvent::Ended SharedEvent::Wait(uint64_t record, Deadline deadline) {
  return Wait(record, deadline, [] { return false; });
}

aclError SharedEvent::FailAlone(uint32_t id, std::string_view function) {
  return Fail(ACL_ERROR_RT_IPC_ERROR, Title::kRuntime,
              Str("{} failed because the process that recorded event {} ended "
                  "before the record was done.",
                  function, id));
}

aclError SharedEvent::RequireNotRecorded(const Stream& stream, uint32_t id,
                                         std::string_view function) {
  if (stream.recorder() == nullptr) return ACL_SUCCESS;
  return Fail(ACL_ERROR_RT_FEATURE_NOT_SUPPORT, Title::kNotSupported,
              Str("{} failed because event {} is between processes, and work "
                  "on stream {} is recorded in a graph.",
                  function, id, stream.id()));
}

aclError SharedEvent::Record(Stream& stream, uint32_t id,
                             std::string_view function) {
  if (aclError error = RequireNotRecorded(stream, id, function)) return error;
  auto pending = std::make_shared<Pending>(shared_from_this());
  if (!pending->Begin(stream)) {
    return Fail(ACL_ERROR_RT_RESOURCE_ALLOC_FAIL, Title::kRuntime,
                Str("{} failed because event {} has records under way on {} "
                    "other streams, as many as it may. Wait for one of them.",
                    function, id, kPlaces));
  }
  return stream.PushPastRecorder(
      [pending = std::move(pending)] {
        pending->Set();
        return ACL_SUCCESS;
      },
      function, TaskKind::kControl);
}

aclError SharedEvent::WaitOn(Stream& stream, uint32_t id, int64_t seconds,
                             std::string_view function) {
  if (aclError error = RequireNotRecorded(stream, id, function)) return error;
  const uint64_t record = last();
  if (record == 0) return ACL_SUCCESS;
  return stream.PushPastRecorder(
      [self = shared_from_this(), record, id, seconds]() -> aclError {
        if (self->IsDone(record)) return ACL_SUCCESS;
        Stream& at = ThisStream();
        const Deadline deadline =
            seconds == 0 ? std::nullopt : DeadlineIn(seconds * 1000);
        Ended ended = Ended::kGivenUp;
        at.WaitInTask(
            [&] {
              ended =
                  self->Wait(record, deadline, [&] { return at.aborting(); });
              return ended == Ended::kDone;
            },
            [&] { self->Poke(record); });
        if (ended == Ended::kAlone) {
          return self->FailAlone(id, Str("a wait of stream {}", at.id()));
        }
        // Nobody asks an aborted stream.
        if (ended == Ended::kDone || at.aborting()) return ACL_SUCCESS;
        return Fail(ACL_ERROR_RT_WAIT_TIMEOUT, Title::kTimeout,
                    Str("stream {} waited {} s for event {} in vain", at.id(),
                        seconds, id));
      },
      function, TaskKind::kWait);
}

}  // namespace flashacl::acl
