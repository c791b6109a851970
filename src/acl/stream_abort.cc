// SPDX-License-Identifier: Apache-2.0
// Ending streams, and what they run: one task, all of a stream, or all the work
// of a device.
#include <deque>
#include <optional>
#include <utility>
#include <vector>

#include "acl/callback.h"
#include "acl/stream.h"

namespace flashacl::acl {

void Stream::PokeWaits() {
  for (Waiting* one = waiting_; one != nullptr; one = one->next) {
    one->poke();
  }
}

// With the lock held. The caller destroys what it gets without the lock: tasks
// own things.
std::deque<Stream::Entry> Stream::DropQueue() {
  std::deque<Entry> dropped = std::exchange(queue_, {});
  aborts_.fetch_add(1);
  failure_ = nullptr;
  // What was dropped may have been what ends an abort.
  if (!Idle() || !dropped.empty()) {
    aborting_.store(true);
    // Comes after the running task, and ends the dropped ones with it. It does
    // not fail, so it needs no record.
    queue_.push_back({[this] {
                        aborting_.store(false);
                        return ACL_SUCCESS;
                      },
                      pushed_.load(), TaskKind::kControl, 0});
  }
  PokeWaits();
  return dropped;
}

void Stream::Abort() {
  std::deque<Entry> dropped;
  {
    std::lock_guard lock(mutex_);
    dropped = DropQueue();
  }
  WakeThread();
  TellWaiters();
}

bool Stream::Destroy(bool force) {
  // An empty one would ask for memory, and to end a stream takes none.
  std::optional<std::deque<Entry>> dropped;
  {
    std::lock_guard lock(mutex_);
    if (destroyed_) return false;
    if (force) dropped = DropQueue();
    destroyed_ = true;
  }
  // Nothing records it from here on.
  if (const auto by = recorder()) by->Abandon(*this);
  Take<Stream>(handle_);
  GiveBack();
  DropAbandonedCallbacks(handle_);
  if (force) {
    TellWaiters();
  } else if (!IsThisThread() && !RunsCallbackOf(handle_)) {
    WaitUntil(pushed_.load(), std::nullopt);
  }
  EndSubscriptions(handle_);
  if (force) ReleaseStreams();
  {
    std::lock_guard lock(mutex_);
    ending_ = true;
  }
  WakeThread();
  return true;
}

void Stream::EndWaits() {
  std::lock_guard lock(mutex_);
  aborting_.store(true);
  PokeWaits();
}

void Stream::ResumeWaits() { aborting_.store(false); }

void Stream::Stop() {
  std::lock_guard lock(mutex_);
  const uint64_t taken =
      queue_.empty() ? pushed_.load() : queue_.front().number - 1;
  if (finished_.load() >= taken) return;
  // Comes next, under the number of the task that runs.
  queue_.push_front({[this] {
                       aborting_.store(false);
                       return ACL_SUCCESS;
                     },
                     taken, TaskKind::kControl, 0});
  aborting_.store(true);
  PokeWaits();
}

bool AbortStreams(int device, Deadline deadline) {
  std::vector<std::shared_ptr<Stream>> streams = AllStreams();
  std::erase_if(streams, [&](const auto& s) { return s->device() != device; });
  // What is dropped goes when every stream has been told: records that can no
  // longer come let their waits go on.
  std::vector<std::deque<Stream::Entry>> dropped;
  dropped.reserve(streams.size());
  for (const std::shared_ptr<Stream>& stream : streams) {
    {
      std::lock_guard lock(stream->mutex_);
      dropped.push_back(stream->DropQueue());
    }
    stream->WakeThread();
    stream->TellWaiters();
  }
  dropped.clear();
  bool in_time = true;
  for (const std::shared_ptr<Stream>& stream : streams) {
    if (stream->IsThisThread()) continue;
    Stream::Ended ended = Stream::Ended::kAborted;  // by another one again
    while (ended == Stream::Ended::kAborted) {
      ended = stream->WaitUntil(stream->pushed_.load(), deadline);
    }
    in_time = in_time && ended == Stream::Ended::kFinished;
  }
  return in_time;
}

}  // namespace flashacl::acl
