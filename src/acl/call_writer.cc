// SPDX-License-Identifier: Apache-2.0
#include "acl/call_writer.h"

#include <condition_variable>
#include <cstdlib>
#include <memory>
#include <mutex>
#include <optional>
#include <utility>

#include "acl/say.h"
#include "base/contain.h"
#include "base/fork.h"
#include "base/once.h"
#include "base/str.h"
#include "base/thread.h"
#include "record/directory.h"

namespace flashacl::acl {
namespace {

struct WriterState {
  std::mutex mutex;  // of what follows
  std::condition_variable changed;
  std::optional<WrittenCall> waiting;
  bool writing = false;
  bool has_thread = false;
  std::unique_ptr<record::Writer> writer;   // null: not opened yet
  std::shared_ptr<const Recording> opened;  // what it is the writer of
};

// Threads and numbers of calls are each process's own.
WriterState& TheWriterState() {
  static constinit PerProcess<WriterState> state;
  return *state;
}

void Stop(const Recording& recording, const Status& status) {
  if (recording.over.exchange(true)) return;
  Say(Str("{}: recording ends: {}", recording.asked, status.message()));
}

// Under the lock, while nothing is being written; null where it is over.
record::Writer* OpenWriter(WriterState& state,
                           const std::shared_ptr<const Recording>& recording) {
  if (recording->over) return nullptr;
  if (state.opened == recording) return state.writer.get();
  state.writer = nullptr;
  state.opened = recording;
  const RecordingSetting& setting = recording->setting;
  Result<std::unique_ptr<record::Writer>> opened =
      record::Writer::Open(setting.directory, setting.max_bytes);
  if (opened.ok()) {
    state.writer = std::move(*opened);
  } else {
    Stop(*recording, opened.status());
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

void Write(WriterState& state, const WrittenCall& call) {
  const Status status =
      Contain([&] { return Put(*state.writer, call); },
              [](bool) { return Status(Code::kOutOfMemory, "no memory"); });
  if (!status.ok()) Stop(*call.recording, status);
}

void* RunThread(void* argument) {
  WriterState& state = *static_cast<WriterState*>(argument);
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

void WaitUntilWritten(WriterState& state, std::unique_lock<std::mutex>& lock) {
  state.changed.wait(
      lock, [&] { return !state.waiting.has_value() && !state.writing; });
}

// What was handed over before the process ended by itself is not lost.
void Finish() { FinishWriting(); }

}  // namespace

void WriteCall(WrittenCall call) {
  WriterState& state = TheWriterState();
  static constinit Once registered;
  registered.Do([] { std::atexit(&Finish); });
  std::unique_lock lock(state.mutex);
  WaitUntilWritten(state, lock);
  if (OpenWriter(state, call.recording) == nullptr) return;
  if (!state.has_thread) {
    state.has_thread = StartDetached(&RunThread, &state) == 0;
  }
  if (!state.has_thread) return Write(state, call);
  state.waiting = std::move(call);
  state.changed.notify_all();
}

bool IsWritten(const std::shared_ptr<const Recording>& recording,
               const std::string& digest) {
  WriterState& state = TheWriterState();
  std::unique_lock lock(state.mutex);
  // Another one's writer may still be at work.
  if (state.opened != recording) WaitUntilWritten(state, lock);
  const record::Writer* const writer = OpenWriter(state, recording);
  return writer != nullptr && writer->Has(digest);
}

void FinishWriting() {
  WriterState& state = TheWriterState();
  std::unique_lock lock(state.mutex);
  if (state.has_thread) WaitUntilWritten(state, lock);
}

}  // namespace flashacl::acl
