// SPDX-License-Identifier: Apache-2.0
// Streams: a queue of tasks and one thread that runs them in order, started by
// the first task. A failed task's message waits for whoever synchronises.
#pragma once

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <deque>
#include <memory>
#include <mutex>
#include <string_view>
#include <utility>
#include <vector>

#include "acl/acl_rt.h"
#include "acl/error.h"
#include "acl/handle.h"
#include "acl/latch.h"
#include "acl/racecheck.h"
#include "acl/recorder.h"
#include "base/function_ref.h"
#include "plan/backend.h"

namespace flashacl::acl {

class Context;

// A failure that is reported once, by whoever synchronises first.
struct StreamFailure : Failure {
  std::atomic<bool> reported{false};
};

// What aclrtSetStreamAttribute and its relatives store.
struct StreamAttributes {
  std::atomic<uint64_t> failure_mode{ACL_CONTINUE_ON_FAILURE};
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

  // A default stream does not count against the device's limit. Null if the
  // limit is reached.
  static std::shared_ptr<Stream> Create(const std::shared_ptr<Context>& context,
                                        uint32_t flags, bool is_default);
  ~Stream();

  void* handle() const { return handle_; }
  int32_t id() const { return id_; }
  int device() const { return device_; }
  uint32_t flags() const { return flags_; }
  bool is_default() const { return is_default_; }
  std::shared_ptr<Context> context() const { return context_.lock(); }
  Queue& queue() const { return *backend_queue_; }  // once it has a thread

  // Whether the calling thread is the one that runs this stream's tasks.
  bool IsThisThread() const;

  // After everything submitted so far; if the stream has a recorder, that takes
  // it. `function` lives forever. On success *number, if not null, is what
  // WaitFor takes.
  aclError Push(Task task, std::string_view function, TaskKind kind,
                uint64_t* number = nullptr);

  // The same, whatever records the stream.
  aclError PushPastRecorder(Task task, std::string_view function, TaskKind kind,
                            uint64_t* number = nullptr);

  // Does `work` at once, on the calling thread, in place of a submission, where
  // nobody could tell: nothing records the stream, nothing is queued or runs
  // there, no failure waits. What others submit meanwhile comes after it. False
  // where it was not done, or failed, without a message: it is to be submitted.
  // When it succeeds it holds nothing any more.
  bool RunHere(FunctionRef<Status(Queue&)> work);

  // What takes submissions in place of the queue; null: nothing.
  std::shared_ptr<Recorder> recorder() const;
  // Puts `next` where `expected` is; false if something else is there, or if
  // the stream is destroyed.
  bool ReplaceRecorder(const Recorder* expected,
                       std::shared_ptr<Recorder> next);
  bool capturing() const;
  // To a graph that is built by hand. Persistent streams take nothing else.
  bool bound() const;
  bool persistent() const { return (flags_ & ACL_STREAM_PERSISTENT) != 0; }
  bool Idle() const;

  // Tasks are numbered from 1: the newest, and up to which one all are done.
  uint64_t pushed() const { return pushed_.load(); }
  uint64_t finished() const { return finished_.load(); }

  // Waits for all tasks pushed so far, and reports the stream's failure.
  aclError Synchronize(Deadline deadline, std::string_view function);

  // Waits for one task, and reports nothing.
  aclError WaitFor(uint64_t number, Deadline deadline,
                   std::string_view function);

  // Drops the tasks that have not started, makes the running one give up its
  // waits, and forgets the failure.
  void Abort();

  // Makes the running task give up its waits, and keeps the others.
  void Stop();

  // Makes the handle stale. The thread ends after the queued tasks, which this
  // call waits for unless a task makes it; by force, they are dropped. False if
  // another thread destroyed it first.
  bool Destroy(bool force);

  // For tasks: waits on `latch` until it opens, the time is over, or the stream
  // is aborted. True if it opened. `known`: who opened it tells what it knows;
  // of all other waits racecheck takes that everybody did.
  bool WaitInTask(Latch& latch, Deadline deadline, bool known = false);

  // The same with something else than a latch: returns what `wait` does, which
  // looks at aborting() again after each `poke`, from whatever thread.
  bool WaitInTask(FunctionRef<bool()> wait, FunctionRef<void()> poke,
                  bool known = false);

  // For tasks: whether the stream is aborted, so that waits are to end.
  bool aborting() const { return aborting_.load(); }

  // Makes the task that runs give up its waits, until it resumes them.
  void EndWaits();
  void ResumeWaits();

  // For tasks that may never end: waits while the process exits.
  void HoldInTask();

  // For tasks: whether work on the device is not run, as some of it failed.
  bool skips() const;

  // For tasks: that a replay fails by work on the device, not by a wait.
  void MarkDeviceFault() { device_fault_ = true; }
  bool TakeDeviceFault() { return std::exchange(device_fault_, false); }

  // The failure nobody has reported yet, or null.
  std::shared_ptr<StreamFailure> failure() const;

  StreamAttributes attributes;

 private:
  struct Entry {
    Task task;
    uint64_t number = 0;
    TaskKind kind = TaskKind::kControl;
    uint32_t thread = 0;             // that submitted it
    std::string_view function = {};  // for which it was submitted
    // Where its failure goes: made when it is submitted, as there may be no
    // memory when it fails.
    std::shared_ptr<StreamFailure> failure = nullptr;
    // By whoever submitted it; strict mode only.
    std::shared_ptr<const Knowledge> known = nullptr;
  };
  enum class Ended : uint8_t { kFinished, kTimeout, kAborted };
  // A wait of a task; on the stack of who waits.
  struct Waiting {
    FunctionRef<void()> poke;
    Waiting* next;
  };

  Stream(const std::shared_ptr<Context>& context, uint32_t flags,
         bool is_default);

  // Lets the device create another stream. When this one is destroyed, not
  // when its thread lets go of it, so that programs can count on it.
  void GiveBack();
  int StartThread();  // 0, or errno
  static void* RunThread(void* stream);
  void Run();
  bool Next(Entry* entry);
  // Either may be a thread's last use of the stream.
  void WakeThread();
  void TellWaiters();
  // False in a child that the task forked.
  bool RunOne(Entry& entry, uint32_t generation);
  // Counts the task as done, and before it all that came earlier.
  void Finish(uint64_t number);
  void Fault(Entry& entry, aclError code);
  // The number under which the calling thread may go on; 0: it may not.
  uint64_t BeginHere();
  void EndHere(uint64_t number);
  Ended WaitUntil(uint64_t number, Deadline deadline);
  std::deque<Entry> DropQueue();
  void PokeWaits();
  aclError Report();

  friend bool AbortStreams(int device, Deadline deadline);
  friend void HoldStreams(std::chrono::milliseconds patience);
  friend void ReleaseStreams();

  const std::weak_ptr<Context> context_;
  const int device_;
  const uint32_t flags_;
  const bool is_default_;
  const int32_t id_;
  void* handle_ = nullptr;

  mutable std::mutex mutex_;
  std::condition_variable work_;      // something to do, or to end
  std::condition_variable progress_;  // finished_ or aborts_ has grown
  std::deque<Entry> queue_;
  bool has_thread_ = false;
  bool device_fault_ = false;             // only its own thread looks
  std::unique_ptr<Queue> backend_queue_;  // made with the thread
  std::shared_ptr<Recorder> recorder_;
  std::atomic<bool> recorded_{false};  // recorder_ is not null
  bool destroyed_ = false;             // takes no more tasks
  bool ending_ = false;  // the thread ends when the queue is empty
  bool sleeping_ = false;
  Waiting* waiting_ = nullptr;
  std::shared_ptr<StreamFailure> failure_;

  std::atomic<uint64_t> pushed_{0};
  std::atomic<uint64_t> finished_{0};
  std::atomic<uint64_t> aborts_{0};
  std::atomic<int> waiters_{0};
  std::atomic<bool> aborting_{false};  // the running task shall not wait
  std::atomic<bool> here_{false};  // a submitter computes; its thread shall not
};

// Whether somebody watches what streams do: strict mode, a trace, a timeline.
// Then everything is done on their threads.
bool StreamsAreWatched();

// The stream of a handle; null means the default stream of the current context.
// On failure null, and *error is set, with a message.
std::shared_ptr<Stream> FindStream(aclrtStream stream,
                                   std::string_view function, aclError* error);

// Puts `task` after everything submitted to `stream` so far; null is the
// default stream of the current context. Does not wait for anything.
aclError Enqueue(aclrtStream stream, Task task, std::string_view function,
                 TaskKind kind = TaskKind::kDevice);

// The same, and returns when the task is done (or dropped by an abort, which is
// 107023). What the task returns is still the stream's asynchronous error.
aclError EnqueueAndWait(aclrtStream stream, Task task,
                        std::string_view function);

// For tasks: the stream that runs the calling one, which is not always the one
// that it was submitted to.
Stream& ThisStream();

// For tasks: the queue of the backend that this stream's work is put on. A task
// waits for what it puts there, so that a finished task's work is done.
Queue& QueueOfThisStream();

// 0, or 107027: what a capture on `stream` forbids.
aclError RequireNotCapturing(const Stream& stream, std::string_view function);

// 0, or 107005: what is not for streams that are bound to a built graph.
aclError RequireNotBound(const Stream& stream, std::string_view function);

// Those of the process.
std::vector<std::shared_ptr<Stream>> AllStreams();

// Waits for every stream of the process.
aclError SynchronizeAll();

// Aborts every stream of a device, and waits until the tasks that run have
// ended; false if they did not in time.
bool AbortStreams(int device, Deadline deadline);

// The explicit streams a device may still create.
uint32_t AvailableStreams(int device);

// Once the process exits, no stream starts another task unless someone waits
// for it: what a task uses may be gone. Waits at most `patience` for the tasks
// that are running. A call that synchronises releases the streams again.
void HoldStreams(std::chrono::milliseconds patience);
void ReleaseStreams();

}  // namespace flashacl::acl
