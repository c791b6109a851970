// SPDX-License-Identifier: Apache-2.0
#include "acl/recording.h"

#include <mutex>
#include <utility>

#include "acl/call_writer.h"
#include "acl/environment.h"
#include "base/contain.h"
#include "base/fork.h"
#include "base/once.h"
#include "base/str.h"

namespace flashacl::acl {
namespace {

struct RecordingState {
  enum Is : int { kUndecided, kOff, kOn };

  std::atomic<int> is{kUndecided};
  ProcessMutex mutex;  // of what follows
  bool by_environment = false;
  std::shared_ptr<const Recording> current;
};

RecordingState& TheRecordingState() {
  static constinit MadeOnce<RecordingState> state;
  return *state;
}

// Under the lock. The environment has the first word.
void Decide(RecordingState& state) {
  if (state.is.load() != RecordingState::kUndecided) return;
  const std::optional<record::Setting>& asked = TheEnvironment().record;
  if (asked.has_value()) {
    state.by_environment = true;
    state.current = std::make_shared<Recording>(
        RecordingSetting{*asked}, Str("FLASHACL_RECORD={}", asked->directory));
  }
  state.is.store(asked.has_value() ? RecordingState::kOn
                                   : RecordingState::kOff);
}

}  // namespace

bool RecordsCalls() noexcept {
  RecordingState& state = TheRecordingState();
  const int is = state.is.load(std::memory_order_relaxed);
  if (is != RecordingState::kUndecided) return is == RecordingState::kOn;
  return Contain(
      [&] {
        const std::lock_guard lock(state.mutex);
        Decide(state);
        return state.is.load() == RecordingState::kOn;
      },
      [](bool /*no_memory*/) { return false; });
}

std::shared_ptr<const Recording> CurrentRecording() {
  if (!RecordsCalls()) return nullptr;
  RecordingState& state = TheRecordingState();
  const std::lock_guard lock(state.mutex);
  return state.current;
}

bool GoesOn(const Recording& recording) {
  return !recording.over.load() && CurrentRecording().get() == &recording;
}

bool EnvironmentRecords() {
  RecordingState& state = TheRecordingState();
  const std::lock_guard lock(state.mutex);
  Decide(state);
  return state.by_environment;
}

void StartRecording(std::shared_ptr<const Recording> recording) {
  RecordingState& state = TheRecordingState();
  const std::lock_guard lock(state.mutex);
  Decide(state);
  if (state.by_environment) return;
  state.current = std::move(recording);
  state.is.store(RecordingState::kOn);
}

void EndRecording() {
  RecordingState& state = TheRecordingState();
  {
    const std::lock_guard lock(state.mutex);
    Decide(state);
    if (state.by_environment) return;
    state.current = nullptr;
    state.is.store(RecordingState::kOff);
  }
  FinishWriting();
}

}  // namespace flashacl::acl
