// SPDX-License-Identifier: Apache-2.0
// Functions of the program that run in the order of a stream: on the stream's
// thread (host functions), or on a thread of the program that subscribed to the
// stream and calls aclrtProcessReport (callbacks).
#include <pthread.h>

#include <condition_variable>
#include <deque>
#include <map>
#include <memory>
#include <mutex>
#include <utility>

#include "acl/acl_rt.h"
#include "acl/error.h"
#include "acl/raw_enum.h"
#include "acl/stream.h"
#include "base/fork.h"

namespace flashacl::acl {
namespace {

struct Call {
  aclrtCallback function;
  void* user_data;
  std::shared_ptr<Latch> done;  // null: no stream waits for it
};

// A thread of the program, and what it shall call. All under Table::mutex.
struct Subscriber {
  int streams = 0;
  std::deque<Call> calls;
  std::condition_variable changed;
};

struct Table {
  std::mutex mutex;  // guards everything
  std::map<uint64_t, std::shared_ptr<Subscriber>> by_thread;
  // Handles are never reused, so a destroyed stream's entry cannot mislead.
  std::map<const void*, uint64_t> thread_of_stream;

  // Forgets a thread that no stream and no call needs.
  void Tidy(uint64_t thread) {
    const auto owner = by_thread.find(thread);
    if (owner != by_thread.end() && owner->second->streams == 0 &&
        owner->second->calls.empty()) {
      by_thread.erase(owner);
    }
  }
};

Table& TheTable() {
  static PerProcess<Table> table;
  return *table;
}

aclError Subscribe(std::string_view function, uint64_t thread,
                   aclrtStream stream) {
  aclError error = ACL_SUCCESS;
  const auto found = FindStream(stream, function, &error);
  if (found == nullptr) return error;
  Table& table = TheTable();
  std::lock_guard lock(table.mutex);
  // Whatever allocation fails, no half of a subscription stays.
  struct Tidier {
    Table& table;
    uint64_t thread;
    ~Tidier() { table.Tidy(thread); }
  } tidier{table, thread};
  auto fresh = std::make_shared<Subscriber>();
  auto& subscriber =
      *table.by_thread.emplace(thread, std::move(fresh)).first->second;
  if (!table.thread_of_stream.emplace(found->handle(), thread).second) {
    return Fail(ACL_ERROR_RT_STREAM_SUBSCRIBE, Title::kCallSequence,
                Str("{} failed because stream {} has a subscriber already.",
                    function, found->id()));
  }
  ++subscriber.streams;
  return ACL_SUCCESS;
}

// Calls that are queued already stay for the thread to process.
aclError Unsubscribe(std::string_view function, uint64_t thread,
                     aclrtStream stream) {
  aclError error = ACL_SUCCESS;
  const auto found = FindStream(stream, function, &error);
  if (found == nullptr) return error;
  Table& table = TheTable();
  std::lock_guard lock(table.mutex);
  const auto entry = table.thread_of_stream.find(found->handle());
  if (entry == table.thread_of_stream.end() || entry->second != thread) {
    return Fail(ACL_ERROR_RT_STREAM_SUBSCRIBE, Title::kCallSequence,
                Str("{} failed because thread {} is not subscribed to stream "
                    "{}.",
                    function, thread, found->id()));
  }
  table.thread_of_stream.erase(entry);
  const std::shared_ptr<Subscriber> subscriber = table.by_thread[thread];
  --subscriber->streams;
  subscriber->changed.notify_all();
  table.Tidy(thread);
  return ACL_SUCCESS;
}

// On the stream's thread.
aclError HandOver(Stream& stream, Subscriber& subscriber, const Call& call) {
  {
    std::lock_guard lock(TheTable().mutex);
    subscriber.calls.push_back(call);
  }
  subscriber.changed.notify_all();
  if (call.done != nullptr) stream.WaitInTask(*call.done, std::nullopt);
  return ACL_SUCCESS;
}

aclError LaunchCallback(aclrtCallback function, void* user_data, int type,
                        aclrtStream stream) {
  constexpr std::string_view kName = "aclrtLaunchCallback";
  if (function == nullptr) {
    return Fail(ACL_ERROR_RT_PARAM_INVALID, Title::kNullPointer,
                "aclrtLaunchCallback failed because fn cannot be a NULL "
                "pointer.");
  }
  const int number = static_cast<int>(type);
  if (number != ACL_CALLBACK_NO_BLOCK && number != ACL_CALLBACK_BLOCK) {
    return FailValue(ACL_ERROR_INVALID_PARAM, kName, "blockType",
                     Str("{}", number),
                     "ACL_CALLBACK_NO_BLOCK or ACL_CALLBACK_BLOCK");
  }
  aclError error = ACL_SUCCESS;
  const auto found = FindStream(stream, kName, &error);
  if (found == nullptr) return error;
  Call call{function, user_data, nullptr};
  if (number == ACL_CALLBACK_BLOCK) call.done = std::make_shared<Latch>();
  std::shared_ptr<Subscriber> subscriber;
  {
    Table& table = TheTable();
    std::lock_guard lock(table.mutex);
    const auto thread = table.thread_of_stream.find(found->handle());
    if (thread != table.thread_of_stream.end()) {
      subscriber = table.by_thread[thread->second];
    }
  }
  if (subscriber == nullptr) {
    return Fail(ACL_ERROR_RT_STREAM_NO_CB_REG, Title::kCallSequence,
                Str("aclrtLaunchCallback failed because no thread is "
                    "subscribed to stream {}. Call aclrtSubscribeReport first.",
                    found->id()));
  }
  return found->Push([at = found.get(), subscriber,
                      call] { return HandOver(*at, *subscriber, call); },
                     kName, TaskKind::kControl);
}

// Calls, and then lets the stream go on, whatever comes out of the function.
void Run(const Call& call) {
  struct Opener {
    Latch* latch;
    ~Opener() {
      if (latch != nullptr) latch->Open();
    }
  } opener{call.done.get()};
  call.function(call.user_data);
}

aclError ProcessReport(std::string_view function, int32_t ms) {
  if (ms == 0 || ms < -1) {
    return FailValue(ACL_ERROR_RT_PARAM_INVALID, function, "timeout",
                     Str("{}", ms), "-1 or a positive number of milliseconds");
  }
  const Deadline deadline = DeadlineIn(ms);
  const uint64_t thread = static_cast<uint64_t>(pthread_self());
  Table& table = TheTable();
  std::unique_lock lock(table.mutex);
  // By its state at the end: the thread may be subscribed anew meanwhile.
  struct Tidier {
    Table& table;
    std::unique_lock<std::mutex>& lock;
    uint64_t thread;
    ~Tidier() {
      if (!lock.owns_lock()) lock.lock();
      table.Tidy(thread);
    }
  } tidier{table, lock, thread};
  const auto owner = table.by_thread.find(thread);
  std::shared_ptr<Subscriber> self;
  if (owner != table.by_thread.end()) self = owner->second;
  size_t due = 0;
  bool subscribed = false;
  if (self != nullptr) {
    const auto ready = [&] {
      return !self->calls.empty() || self->streams == 0;
    };
    if (deadline.has_value()) {
      self->changed.wait_until(lock, *deadline, ready);
    } else {
      self->changed.wait(lock, ready);
    }
    due = self->calls.size();
    subscribed = self->streams > 0;
  }
  if (due == 0 && !subscribed) {
    return Fail(ACL_ERROR_RT_THREAD_SUBSCRIBE, Title::kCallSequence,
                Str("{} failed because the calling thread is not subscribed to "
                    "a stream.",
                    function));
  }
  if (due == 0) {
    return Fail(ACL_ERROR_RT_REPORT_TIMEOUT, Title::kTimeout,
                Str("{}: no callback came within {} ms.", function, ms));
  }
  // One by one: to take them all would need memory, and streams wait for them.
  for (; due > 0 && !self->calls.empty(); --due) {
    const Call call = std::move(self->calls.front());
    self->calls.pop_front();
    lock.unlock();
    Run(call);
    lock.lock();
  }
  return ACL_SUCCESS;
}

aclError LaunchHostFunc(aclrtStream stream, aclrtHostFunc function,
                        void* args) {
  if (function == nullptr) {
    return Fail(ACL_ERROR_RT_PARAM_INVALID, Title::kNullPointer,
                "aclrtLaunchHostFunc failed because fn cannot be a NULL "
                "pointer.");
  }
  return Enqueue(
      stream,
      [function, args] {
        function(args);
        return ACL_SUCCESS;
      },
      "aclrtLaunchHostFunc", TaskKind::kControl);
}

}  // namespace
}  // namespace flashacl::acl

namespace a = flashacl::acl;

extern "C" {

aclError aclrtLaunchHostFunc(aclrtStream stream, aclrtHostFunc fn, void* args) {
  return a::GuardRuntime([&] { return a::LaunchHostFunc(stream, fn, args); });
}

aclError aclrtLaunchCallback(aclrtCallback fn, void* userData,
                             aclrtCallbackBlockType blockType,
                             aclrtStream stream) {
  return a::GuardRuntime([&] {
    return a::LaunchCallback(fn, userData, a::Raw(blockType), stream);
  });
}

aclError aclrtSubscribeReport(uint64_t threadId, aclrtStream stream) {
  return a::GuardRuntime(
      [&] { return a::Subscribe("aclrtSubscribeReport", threadId, stream); });
}

aclError aclrtUnSubscribeReport(uint64_t threadId, aclrtStream stream) {
  return a::GuardRuntime([&] {
    return a::Unsubscribe("aclrtUnSubscribeReport", threadId, stream);
  });
}

aclError aclrtProcessReport(int32_t timeout) {
  return a::GuardRuntime(
      [&] { return a::ProcessReport("aclrtProcessReport", timeout); });
}

aclError aclrtSubscribeHostFunc(uint64_t hostFuncThreadId,
                                aclrtStream exeStream) {
  return a::GuardRuntime([&] {
    return a::Subscribe("aclrtSubscribeHostFunc", hostFuncThreadId, exeStream);
  });
}

aclError aclrtUnSubscribeHostFunc(uint64_t hostFuncThreadId,
                                  aclrtStream exeStream) {
  return a::GuardRuntime([&] {
    return a::Unsubscribe("aclrtUnSubscribeHostFunc", hostFuncThreadId,
                          exeStream);
  });
}

aclError aclrtProcessHostFunc(int32_t timeout) {
  return a::GuardRuntime(
      [&] { return a::ProcessReport("aclrtProcessHostFunc", timeout); });
}

}  // extern "C"
