// SPDX-License-Identifier: Apache-2.0
#include "acl/call_writer.h"

#include <atomic>
#include <condition_variable>
#include <cstdlib>
#include <memory>
#include <mutex>
#include <optional>
#include <utility>

#include "acl/environment.h"
#include "acl/say.h"
#include "base/contain.h"
#include "base/fork.h"
#include "base/str.h"
#include "base/thread.h"
#include "record/directory.h"

namespace flashacl::acl {
namespace {

struct State {
  std::mutex mutex;  // of what follows
  std::condition_variable changed;
  std::optional<WrittenCall> waiting;
  bool writing = false;
  bool has_thread = false;
  std::unique_ptr<record::Writer> writer;  // null: not opened yet
  std::atomic<bool> over{false};
};

// Threads and numbers of calls are each process's own.
State& TheState() {
  static PerProcess<State>& state = *new PerProcess<State>;
  return *state;
}

void Stop(State& state, const Status& status) {
  if (state.over.exchange(true)) return;
  const record::Setting& setting = *TheEnvironment().record;
  Say(Str("FLASHACL_RECORD={}: recording ends: {}", setting.directory,
          status.message()));
}

// Under the lock.
record::Writer* OpenWriter(State& state) {
  if (state.writer != nullptr || state.over) return state.writer.get();
  const record::Setting& setting = *TheEnvironment().record;
  Result<std::unique_ptr<record::Writer>> opened =
      record::Writer::Open(setting.directory, setting.max_bytes);
  if (opened.ok()) {
    state.writer = std::move(*opened);
  } else {
    Stop(state, opened.status());
  }
  return state.writer.get();
}

Status Put(record::Writer& writer, const WrittenCall& call) {
  for (const NewBytes& tensor : call.tensors) {
    if (writer.Has(tensor.digest)) continue;
    FLASHACL_RETURN_IF_ERROR(
        writer.PutTensor(*tensor.type, tensor.digest, tensor.bytes));
  }
  return writer.PutCall(call.call);
}

void Write(State& state, const WrittenCall& call) {
  const Status status =
      Contain([&] { return Put(*state.writer, call); },
              [](bool) { return Status(Code::kOutOfMemory, "no memory"); });
  if (!status.ok()) Stop(state, status);
}

void* RunThread(void* argument) {
  State& state = *static_cast<State*>(argument);
  std::unique_lock lock(state.mutex);
  while (true) {
    state.changed.wait(lock, [&] { return state.waiting.has_value(); });
    state.writing = true;
    {
      const WrittenCall call = *std::exchange(state.waiting, std::nullopt);
      lock.unlock();
      Write(state, call);
    }
    lock.lock();
    state.writing = false;
    state.changed.notify_all();
  }
  return nullptr;
}

void WaitUntilWritten(State& state, std::unique_lock<std::mutex>& lock) {
  state.changed.wait(
      lock, [&] { return !state.waiting.has_value() && !state.writing; });
}

// What was handed over before the process ended by itself is not lost.
void Finish() {
  State& state = TheState();
  std::unique_lock lock(state.mutex);
  if (state.has_thread) WaitUntilWritten(state, lock);
}

}  // namespace

void WriteCall(WrittenCall call) {
  State& state = TheState();
  static const int registered = std::atexit(&Finish);
  (void)registered;
  std::unique_lock lock(state.mutex);
  WaitUntilWritten(state, lock);
  if (OpenWriter(state) == nullptr || state.over) return;
  if (!state.has_thread) {
    state.has_thread = StartDetached(&RunThread, &state) == 0;
  }
  if (!state.has_thread) return Write(state, call);
  state.waiting = std::move(call);
  state.changed.notify_all();
}

bool IsWritten(const std::string& digest) {
  State& state = TheState();
  const std::lock_guard lock(state.mutex);
  const record::Writer* const writer = OpenWriter(state);
  return writer != nullptr && writer->Has(digest);
}

bool RecordIsOver() noexcept { return TheState().over.load(); }

}  // namespace flashacl::acl
