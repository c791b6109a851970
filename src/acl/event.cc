// SPDX-License-Identifier: Apache-2.0
#include "acl/event.h"

#include <algorithm>
#include <array>
#include <utility>

#include "acl/device.h"
#include "acl/error.h"
#include "acl/share/shared_event.h"
#include "base/fork.h"

namespace flashacl::acl {
namespace {

constexpr int kEventsPerDevice = 65536;

std::atomic<int>& LiveEvents(int device) {
  static PerProcess<std::array<std::atomic<int>, kMaxDevices>> live;
  return (*live)[static_cast<size_t>(device)];
}

std::atomic<uint32_t> next_event{0};

}  // namespace

// Sets the mark exactly once: when its task runs, or when the task is dropped
// and others would wait for ever.
class Event::PendingMark {
 public:
  explicit PendingMark(std::shared_ptr<Mark> mark) : mark_(std::move(mark)) {}
  ~PendingMark() { Set(nullptr); }
  PendingMark(const PendingMark&) = delete;
  PendingMark& operator=(const PendingMark&) = delete;

  const std::shared_ptr<Mark>& mark() const { return mark_; }
  void Replace(std::shared_ptr<Mark> mark) { mark_ = std::move(mark); }

  void Set(const Stream* stream) {
    if (std::exchange(is_set_, true)) return;
    mark_->time = Clock::now();
    mark_->known = Known();
    if (stream != nullptr) mark_->failure = stream->failure();
    mark_->done.Open();
  }

 private:
  std::shared_ptr<Mark> mark_;
  bool is_set_ = false;
};

// Counts as a wait of its event until its task has run or is dropped.
class Event::PendingWait {
 public:
  explicit PendingWait(std::shared_ptr<Event> event)
      : event_(std::move(event)) {
    event_->waits_.fetch_add(1);
  }
  ~PendingWait() { event_->waits_.fetch_sub(1); }
  PendingWait(const PendingWait&) = delete;
  PendingWait& operator=(const PendingWait&) = delete;

 private:
  const std::shared_ptr<Event> event_;
};

namespace {

// What a task that waited for event `id` answers if it did so in vain.
aclError GaveUp(Stream& stream, int64_t seconds, Deadline deadline,
                uint32_t id) {
  // Otherwise the stream was aborted, which nobody asks it about.
  if (!deadline.has_value() || Clock::now() < *deadline) return ACL_SUCCESS;
  return Fail(ACL_ERROR_RT_WAIT_TIMEOUT, Title::kTimeout,
              Str("stream {} waited {} s for event {} in vain", stream.id(),
                  seconds, id));
}

Deadline DeadlineInSeconds(int64_t seconds) {
  return seconds == 0 ? std::nullopt : DeadlineIn(seconds * 1000);
}

}  // namespace

Event::Event(int device, EventFamily family, uint32_t flags,
             std::shared_ptr<SharedEvent> shared)
    : device_(device),
      family_(family),
      flags_(flags),
      shared_(std::move(shared)),
      id_(next_event.fetch_add(1)) {}

std::shared_ptr<Event> Event::Create(int device, EventFamily family,
                                     uint32_t flags,
                                     std::shared_ptr<SharedEvent> shared) {
  std::shared_ptr<Event> event(
      new Event(device, family, flags, std::move(shared)));
  event->handle_ = NewHandle(event);
  if (event->handle_ == nullptr) return nullptr;
  // Counted last, as all else may throw.
  std::atomic<int>& live = LiveEvents(device);
  if (live.fetch_add(1) < kEventsPerDevice) return event;
  live.fetch_sub(1);
  Take<Event>(event->handle_);
  return nullptr;
}

aclError Event::Record(Stream& stream, std::string_view function) {
  if (shared_ != nullptr) return shared_->Record(stream, id_, function);
  if (external()) {
    return stream.Push(
        [event = shared_from_this()] {
          event->set_.Open();
          return ACL_SUCCESS;
        },
        function, TaskKind::kControl);
  }
  if (const auto by = stream.recorder()) {
    return by->TakeRecord(stream, *this, function);
  }
  SetCaptured(nullptr);
  // Before the awaited mark is taken: it must not be lost for want of memory.
  auto pending = std::make_shared<PendingMark>(std::make_shared<Mark>());
  std::shared_ptr<Mark> mark = pending->mark();
  {
    std::lock_guard lock(mutex_);
    if (awaited_ != nullptr) {
      mark = std::exchange(awaited_, nullptr);
      pending->Replace(mark);
    }
  }
  const auto here = [&](Queue&) {
    pending->Set(&stream);
    return Status();
  };
  if (StreamsAreWatched() || !stream.RunHere(here)) {
    const aclError error = stream.PushPastRecorder(
        [pending = std::move(pending)] {
          pending->Set(&ThisStream());
          return ACL_SUCCESS;
        },
        function, TaskKind::kControl);
    if (error != ACL_SUCCESS) return error;
  }
  std::lock_guard lock(mutex_);
  submitted_ = visible_ = std::move(mark);
  return ACL_SUCCESS;
}

aclError Event::WaitOn(Stream& stream, int64_t seconds,
                       std::string_view function) {
  if (external()) return WaitUntilSet(stream, seconds, function);
  if (shared_ != nullptr) {
    return shared_->WaitOn(stream, id_, seconds, function);
  }
  if (const auto record = captured()) {
    if (const auto by = record->by.lock()) {
      return by->TakeWait(stream, *record, function);
    }
  }
  if (const auto by = stream.recorder()) {
    return by->TakeForeign(stream, *this, {.seconds = seconds}, function);
  }
  std::shared_ptr<Mark> mark;
  {
    std::lock_guard lock(mutex_);
    mark = submitted_;
    if (mark == nullptr && WaitsFirst()) {
      if (awaited_ == nullptr) awaited_ = std::make_shared<Mark>();
      mark = awaited_;
    }
  }
  if (mark == nullptr) {
    if (family_ == EventFamily::kEx) return ACL_SUCCESS;
    return Fail(
        ACL_ERROR_RT_PARAM_INVALID, Title::kCallSequence,
        Str("{} failed because event {} was never recorded.", function, id_));
  }
  // A wait that is over does not wake the stream's thread.
  if (mark->done.open() && !StreamsAreWatched()) return ACL_SUCCESS;
  auto pending = std::make_shared<PendingWait>(shared_from_this());
  return stream.PushPastRecorder(
      [mark, seconds, id = id_, pending = std::move(pending)]() -> aclError {
        const Deadline deadline = DeadlineInSeconds(seconds);
        if (ThisStream().WaitInTask(mark->done, deadline, /*known=*/true)) {
          Learn(mark->known);
          return ACL_SUCCESS;
        }
        return GaveUp(ThisStream(), seconds, deadline, id);
      },
      function, TaskKind::kWait);
}

std::shared_ptr<Mark> Event::MarkToWaitFor() {
  std::lock_guard lock(mutex_);
  if (visible_ != nullptr || !WaitsFirst()) return visible_;
  if (awaited_ == nullptr) awaited_ = std::make_shared<Mark>();
  return awaited_;
}

aclError Event::WaitUntilSet(Stream& stream, int64_t seconds,
                             std::string_view function) {
  // Counts from now on, but for one that a graph keeps.
  auto pending = stream.recorder() != nullptr
                     ? nullptr
                     : std::make_shared<PendingWait>(shared_from_this());
  return stream.Push(
      [event = shared_from_this(), seconds, pending = std::move(pending)]()
          -> aclError { return event->WaitInTask(event->set_, seconds); },
      function, TaskKind::kWait);
}

aclError Event::RecordAtReplay(Stream& stream, std::string_view function) {
  if (external()) return Record(stream, function);
  if (shared_ != nullptr) return shared_->Record(stream, id_, function);
  return stream.Push(
      [event = shared_from_this()] {
        event->RecordInTask();
        return ACL_SUCCESS;
      },
      function, TaskKind::kControl);
}

void Event::RecordInTask() {
  auto mark = std::make_shared<Mark>();
  {
    std::lock_guard lock(mutex_);
    // Who waits already, waits for this one.
    if (awaited_ != nullptr) mark = std::move(awaited_);
    awaited_ = nullptr;
    submitted_ = visible_ = mark;
  }
  PendingMark(std::move(mark)).Set(&ThisStream());
}

aclError Event::WaitAtReplay(Stream& stream, int64_t seconds,
                             std::string_view function) {
  if (external()) return WaitUntilSet(stream, seconds, function);
  if (shared_ != nullptr) {
    return shared_->WaitOn(stream, id_, seconds, function);
  }
  return stream.Push([event = shared_from_this(),
                      seconds] { return event->WaitInTask(seconds); },
                     function, TaskKind::kWait);
}

aclError Event::WaitInTask(int64_t seconds) {
  const std::shared_ptr<Mark> mark = MarkToWaitFor();
  return mark == nullptr ? ACL_SUCCESS : WaitInTask(mark->done, seconds);
}

aclError Event::WaitInTask(Latch& latch, int64_t seconds) {
  const PendingWait counted(shared_from_this());
  const Deadline deadline = DeadlineInSeconds(seconds);
  if (ThisStream().WaitInTask(latch, deadline)) return ACL_SUCCESS;
  return GaveUp(ThisStream(), seconds, deadline, id_);
}

void Event::ResetInTask() {
  if (!WaitsFirst()) return;
  std::lock_guard lock(mutex_);
  submitted_ = visible_ = nullptr;
}

aclError Event::Reset(Stream& stream, std::string_view function) {
  if (shared_ != nullptr) {
    return SharedEvent::RequireNotRecorded(stream, id_, function);
  }
  if (external()) {
    return stream.Push(
        [event = shared_from_this()] {
          event->set_.Close();
          return ACL_SUCCESS;
        },
        function, TaskKind::kControl);
  }
  if (const auto by = stream.recorder()) {
    return by->TakeForeign(stream, *this, {.resets = true}, function);
  }
  if (!WaitsFirst()) return ACL_SUCCESS;
  std::shared_ptr<Mark> mark;
  {
    std::lock_guard lock(mutex_);
    mark = submitted_;
  }
  if (mark == nullptr) return ACL_SUCCESS;
  const aclError error = stream.PushPastRecorder(
      [event = shared_from_this(), mark] {
        std::lock_guard lock(event->mutex_);
        if (event->visible_ == mark) event->visible_ = nullptr;
        return ACL_SUCCESS;
      },
      function, TaskKind::kControl);
  if (error != ACL_SUCCESS) return error;
  std::lock_guard lock(mutex_);
  if (submitted_ == mark) submitted_ = nullptr;
  return ACL_SUCCESS;
}

bool Event::Destroy() {
  if (Take<Event>(handle_) == nullptr) return false;
  LiveEvents(device_).fetch_sub(1);
  if (shared_ != nullptr) shared_->Unlink();
  std::shared_ptr<Mark> awaited;
  {
    std::lock_guard lock(mutex_);
    awaited = std::exchange(awaited_, nullptr);
  }
  set_.Open();  // of an external one
  if (awaited != nullptr) PendingMark(std::move(awaited)).Set(nullptr);
  return true;
}

std::shared_ptr<const CapturedRecord> Event::captured() const {
  std::lock_guard lock(mutex_);
  return captured_ == nullptr || captured_->by.expired() ? nullptr : captured_;
}

void Event::SetCaptured(std::shared_ptr<const CapturedRecord> record) {
  std::lock_guard lock(mutex_);
  captured_.swap(record);
}

bool Event::recorded() const {
  std::lock_guard lock(mutex_);
  return submitted_ != nullptr;
}

std::shared_ptr<Mark> Event::mark() const {
  std::lock_guard lock(mutex_);
  return visible_;
}

uint32_t AvailableEvents(int device) {
  const int live = LiveEvents(device).load();
  return static_cast<uint32_t>(std::max(0, kEventsPerDevice - live));
}

}  // namespace flashacl::acl
