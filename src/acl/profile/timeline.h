// SPDX-License-Identifier: Apache-2.0
// The timeline: what every thread did, in pieces that only their thread writes
// and that anybody may read meanwhile.
#pragma once

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "acl/profile/span.h"

namespace flashacl::acl::profile {

// What the program itself has to say.
struct Said {
  std::string text;
  std::string domain = {};  // of mstx; empty: the default one
  std::string detail = {};
};

struct Event {
  Kind kind = Kind::kCall;
  int32_t stream = kNoStream;
  int code = 0;  // what a call or a task answered
  uint64_t task = 0;
  std::string_view name = {};
  int64_t begin_ns = 0;  // as Now()
  int64_t end_ns = 0;
  int64_t bytes = -1;  // copied or filled; -1: not what it does
  std::shared_ptr<const Plan> plan = nullptr;
  std::shared_ptr<const Said> said = nullptr;
};

// Whose events are drawn in one row.
struct Track {
  uint32_t thread = 0;         // its number in the system
  int32_t stream = kNoStream;  // if the thread runs a stream's tasks
  int device = 0;              // of the stream
  std::array<char, 16> thread_name{};
};

// Some events of one track, in the order of their ends. Its thread adds; what
// is below used() does not change any more.
class Chunk {
 public:
  static constexpr uint32_t kEvents = 128;

  explicit Chunk(const Track& track) : track_(track) {}

  const Track& track() const { return track_; }
  uint32_t used() const { return used_.load(std::memory_order_acquire); }
  const Event& operator[](uint32_t n) const { return events_[n]; }
  bool full() const { return used() == kEvents; }

  // Not if full.
  void Add(Event event) {
    const uint32_t n = used_.load(std::memory_order_relaxed);
    events_[n] = std::move(event);
    used_.store(n + 1, std::memory_order_release);
  }

 private:
  const Track track_;
  std::atomic<uint32_t> used_{0};
  std::array<Event, kEvents> events_;
};

// As many events as a process keeps, of 96 bytes; what comes after is counted
// only.
inline constexpr size_t kMaxEvents = size_t{1} << 20;

struct Recorded {
  std::vector<std::shared_ptr<const Chunk>> chunks;
  uint64_t dropped = 0;
  int64_t begin_ns = 0;  // events outside of these times are not meant
  int64_t end_ns = INT64_MAX;
};

// Nanoseconds of std::chrono::steady_clock.
int64_t Now();

// Recorders are counted: the timeline is kept from the first one's start to the
// last one's stop. StopRecording gives a recorder what came since its start, at
// `begin_ns`, which StartRecording returned.
int64_t StartRecording();
Recorded StopRecording(int64_t begin_ns);

// All that was recorded since `begin_ns`, which goes on.
Recorded Snapshot(int64_t begin_ns);

// Adds what is no scope: to the track of the calling thread.
void Add(Event event) noexcept;

// A range of the calling thread; the innermost one ends. Ending none is fine.
void Push(std::shared_ptr<const Said> said) noexcept;
void Pop() noexcept;

}  // namespace flashacl::acl::profile
