// SPDX-License-Identifier: Apache-2.0
// Streams: a queue of tasks and one thread that runs them in order, started by
// the first task. A failed task's message waits for whoever synchronises.
#pragma once

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <mutex>
#include <string_view>

#include "acl/acl_rt.h"
#include "acl/error.h"
#include "acl/handle.h"
#include "acl/latch.h"

namespace flashacl::acl {

class Context;

// Runs on the stream's thread. A code other than 0 becomes the stream's
// asynchronous error, with the message that Fail queued on that thread; the
// first one surfaces at the next synchronising call.
using Task = std::function<aclError()>;

// A failure that is reported once, by whoever synchronises first.
struct StreamFailure {
  Failure failure;
  std::atomic<bool> reported{false};
};

// What aclrtSetStreamAttribute and its relatives store.
struct StreamAttributes {
  std::atomic<uint64_t> failure_mode{0};
  std::atomic<uint32_t> overflow_switch{0};
  std::atomic<uint32_t> user_tag{0};
  std::atomic<uint32_t> cache_op_info{0};
  std::atomic<uint32_t> priority{0};
  // Core-count hints by aclrtDevResLimitType; 0: not set.
  std::atomic<uint32_t> limits[2] = {0, 0};
};

class Stream : public std::enable_shared_from_this<Stream> {
public:
  static constexpr HandleKind kHandleKind = HandleKind::kStream;

  // Null if the device has all the streams it may have.
  static std::shared_ptr<Stream> Create(const std::shared_ptr<Context> &context,
                                        uint32_t flags);
  ~Stream();

  void *handle() const { return handle_; }
  int32_t id() const { return id_; }
  int device() const { return device_; }
  uint32_t flags() const { return flags_; }
  std::shared_ptr<Context> context() const { return context_.lock(); }

  // Whether the calling thread is the one that runs this stream's tasks.
  bool IsThisThread() const;

  aclError Push(Task task, std::string_view function);
  bool Idle() const;

  // Waits for all tasks pushed so far, and reports the stream's failure.
  aclError Synchronize(Deadline deadline, std::string_view function);

  // Drops the tasks that have not started and ends waits of the running one.
  void Abort();

  // The handle becomes stale; the thread ends when its tasks are done. `wait`
  // says whether to return only then. Only the first call does anything.
  void Destroy(bool wait);

  // For tasks: waits on `latch`, also giving up when the stream is aborted or
  // destroyed by force. False if it gave up or the time is over.
  bool WaitInTask(Latch &latch, Deadline deadline);

  // The failure nobody has reported yet, or null.
  std::shared_ptr<StreamFailure> failure() const;

  StreamAttributes attributes;

private:
  Stream(const std::shared_ptr<Context> &context, uint32_t flags);

  struct Entry {
    Task task;
    uint64_t number;
  };

  aclError StartThread(std::string_view function);
  void Run();
  bool Next(Entry *entry);
  bool SpinForWork() const;
  void RunOne(Entry &entry);
  void Finished(uint64_t number);
  bool WaitFor(uint64_t number, Deadline deadline);
  aclError Report(std::string_view function);

  const std::weak_ptr<Context> context_;
  const int device_;
  const uint32_t flags_;
  const int32_t id_;
  void *handle_ = nullptr;

  mutable std::mutex mutex_;
  std::condition_variable work_;     // something to do, or to end
  std::condition_variable progress_; // finished_ has grown
  std::deque<Entry> queue_;
  bool started_ = false;
  bool ending_ = false;
  bool sleeping_ = false;
  uint64_t aborts_ = 0;
  Latch *waiting_on_ = nullptr;
  std::shared_ptr<StreamFailure> failure_;

  std::atomic<uint64_t> pushed_{0};
  std::atomic<uint64_t> finished_{0};
  std::atomic<int> waiters_{0};
  std::atomic<bool> aborting_{false};

  friend void HoldStreams(std::chrono::milliseconds);
  friend void ReleaseStreams();
  friend void *RunStream(void *);
};

// The stream of a handle; null means the default stream of the current context.
// On failure null, and *error is set, with a message.
std::shared_ptr<Stream> FindStream(aclrtStream stream,
                                   std::string_view function, aclError *error);

// Puts `task` behind everything submitted to `stream` so far; null is the
// default stream of the current context. Does not wait for anything.
aclError Enqueue(aclrtStream stream, Task task, std::string_view function);

// Waits for every stream of the process; reports nothing but a wait on itself.
aclError SynchronizeAll();

} // namespace flashacl::acl
