// SPDX-License-Identifier: Apache-2.0
// Functions of the program that run in the order of a stream: on the stream's
// thread (host functions), or on a thread of the program that subscribed to the
// stream and calls aclrtProcessReport (callbacks).
#include "acl/callback.h"

#include <pthread.h>

#include <algorithm>
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
  const void* stream;           // that came to it
  const void* subscribed;       // the stream whose subscriber runs it
  std::shared_ptr<Latch> done;  // null: the stream does not wait for it
};

// A thread of the program, and what it shall call.
struct Subscriber {
  int streams = 0;
  int waiting = 0;     // calls of aclrtProcessReport
  bool ended = false;  // the thread processed callbacks, and is no more
  std::deque<Call> calls;
  std::condition_variable changed;
};

struct Subscription {
  uint64_t thread;
  bool ending;  // the stream is being destroyed
};

// Who subscribed to what; under `mutex`. One thread has one entry, whichever
// streams it serves.
struct Callbacks {
  std::mutex mutex;
  std::map<uint64_t, std::shared_ptr<Subscriber>> by_thread;
  std::map<const void*, Subscription> by_stream;

  // Forgets a thread that nobody needs.
  void Tidy(uint64_t thread) {
    const auto owner = by_thread.find(thread);
    if (owner == by_thread.end()) return;
    const Subscriber& subscriber = *owner->second;
    if (subscriber.streams == 0 && subscriber.waiting == 0 &&
        subscriber.calls.empty()) {
      by_thread.erase(owner);
    }
  }
};

// aclrtSubscribeReport and aclrtSubscribeHostFunc know nothing of each other.
// Nothing is ever handed to the second kind of subscriber: host functions run
// on the threads of streams, whoever subscribed.
enum class Kind : uint8_t { kReport, kHostFunc };

PerProcess<Callbacks>& AllCallbacks(Kind kind) {
  static PerProcess<Callbacks> tables[2];
  return tables[static_cast<size_t>(kind)];
}

Callbacks& TheCallbacks(Kind kind) { return *AllCallbacks(kind); }

// The streams whose blocking callbacks the thread is in, the innermost first.
struct Running {
  const void* stream;
  const Running* outer;
};
thread_local const Running* running = nullptr;

uint64_t ThisThread() { return static_cast<uint64_t>(pthread_self()); }

// Lets streams go on that wait for what is dropped.
void Drop(const Call& call) {
  if (call.done != nullptr) call.done->Open();
}

// Drops the calls of `subscriber` that `dropped` is true for.
template <typename F>
void DropIf(Subscriber& subscriber, F&& dropped) {
  std::erase_if(subscriber.calls, [&](const Call& call) {
    const bool is = dropped(call);
    if (is) Drop(call);
    return is;
  });
}

// Whether nobody will come for a call that waits for the thread.
bool IsAbandoned(const Callbacks& table, uint64_t thread,
                 const Subscriber& subscriber, const Call& call) {
  const auto entry = table.by_stream.find(call.subscribed);
  return entry == table.by_stream.end() || entry->second.thread != thread ||
         subscriber.ended;
}

// Notes the end of a thread that processed callbacks. What it leaves waits for
// another of its number, or for the end of the stream.
struct EndOfThread {
  ~EndOfThread() {
    Callbacks* const made = AllCallbacks(Kind::kReport).IfMade();
    if (made == nullptr) return;
    Callbacks& table = *made;
    std::lock_guard lock(table.mutex);
    const auto owner = table.by_thread.find(ThisThread());
    if (owner == table.by_thread.end()) return;
    owner->second->ended = true;
    DropIf(*owner->second, [&](const Call& call) {
      const auto entry = table.by_stream.find(call.stream);
      return entry != table.by_stream.end() && entry->second.ending;
    });
    table.Tidy(owner->first);
  }
};

aclError Subscribe(Kind kind, std::string_view function, uint64_t thread,
                   aclrtStream stream) {
  aclError error = ACL_SUCCESS;
  const auto found = FindStream(stream, function, &error);
  if (found == nullptr) return error;
  Callbacks& table = TheCallbacks(kind);
  std::lock_guard lock(table.mutex);
  // Whatever allocation fails, no half of a subscription stays.
  struct Tidier {
    Callbacks& table;
    uint64_t thread;
    ~Tidier() { table.Tidy(thread); }
  } tidier{table, thread};
  auto fresh = std::make_shared<Subscriber>();
  auto& subscriber =
      *table.by_thread.emplace(thread, std::move(fresh)).first->second;
  const Subscription wanted{thread, false};
  if (!table.by_stream.emplace(found->handle(), wanted).second) {
    return Fail(ACL_ERROR_RT_STREAM_SUBSCRIBE, Title::kCallSequence,
                Str("{} failed because stream {} has a subscriber already.",
                    function, found->id()));
  }
  ++subscriber.streams;
  subscriber.changed.notify_all();
  return ACL_SUCCESS;
}

void Erase(Callbacks& table,
           std::map<const void*, Subscription>::iterator subscription) {
  const uint64_t thread = subscription->second.thread;
  table.by_stream.erase(subscription);
  Subscriber& subscriber = *table.by_thread.find(thread)->second;
  --subscriber.streams;
  subscriber.changed.notify_all();
  table.Tidy(thread);
}

// Calls that the stream has come to stay for the thread to process.
aclError Unsubscribe(Kind kind, std::string_view function, uint64_t thread,
                     aclrtStream stream) {
  aclError error = ACL_SUCCESS;
  const auto found = FindStream(stream, function, &error);
  if (found == nullptr) return error;
  Callbacks& table = TheCallbacks(kind);
  std::lock_guard lock(table.mutex);
  const auto entry = table.by_stream.find(found->handle());
  if (entry == table.by_stream.end() || entry->second.thread != thread) {
    return Fail(ACL_ERROR_RT_STREAM_SUBSCRIBE, Title::kCallSequence,
                Str("{} failed because thread {} is not subscribed to stream "
                    "{}.",
                    function, thread, found->id()));
  }
  Erase(table, entry);
  return ACL_SUCCESS;
}

aclError FailNoSubscriber(int32_t stream) {
  return Fail(ACL_ERROR_RT_STREAM_NO_CB_REG, Title::kCallSequence,
              Str("aclrtLaunchCallback failed because no thread is subscribed "
                  "to stream {}. Call aclrtSubscribeReport first, and "
                  "aclrtUnSubscribeReport after synchronizing.",
                  stream));
}

// One aclrtLaunchCallback. May run any number of times, on whatever stream.
struct Launch {
  aclrtCallback function;
  void* user_data;
  bool blocks;
  const void* subscribed;  // the stream whose subscriber runs it
  int32_t id;              // of that stream

  aclError operator()() const;
};

aclError Launch::operator()() const {
  Stream& stream = ThisStream();
  Call call{function, user_data, stream.handle(), subscribed, nullptr};
  if (blocks) call.done = std::make_shared<Latch>();
  TellProgram();
  Callbacks& table = TheCallbacks(Kind::kReport);
  std::shared_ptr<Subscriber> subscriber;
  {
    std::lock_guard lock(table.mutex);
    const auto entry = table.by_stream.find(subscribed);
    if (entry == table.by_stream.end()) return FailNoSubscriber(id);
    subscriber = table.by_thread.find(entry->second.thread)->second;
    if (entry->second.ending && subscriber->ended) return ACL_SUCCESS;
    subscriber->calls.push_back(call);
    subscriber->changed.notify_all();
  }
  if (!blocks || stream.WaitInTask(*call.done, std::nullopt)) {
    return ACL_SUCCESS;
  }
  // The stream is aborted.
  std::lock_guard lock(table.mutex);
  DropIf(*subscriber, [&](const Call& one) { return one.done == call.done; });
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
  if (type != ACL_CALLBACK_NO_BLOCK && type != ACL_CALLBACK_BLOCK) {
    return FailValue(ACL_ERROR_INVALID_PARAM, kName, "blockType",
                     Str("{}", type),
                     "ACL_CALLBACK_NO_BLOCK or ACL_CALLBACK_BLOCK");
  }
  aclError error = ACL_SUCCESS;
  const auto found = FindStream(stream, kName, &error);
  if (found == nullptr) return error;
  // In a capture it is the stream's that began it.
  const auto recorder = found->recorder();
  const bool captured = recorder != nullptr && recorder->captures();
  const void* const of = captured ? recorder->origin() : found->handle();
  {
    Callbacks& table = TheCallbacks(Kind::kReport);
    std::lock_guard lock(table.mutex);
    if (table.by_stream.count(of) == 0) return FailNoSubscriber(found->id());
  }
  return found->Push(
      Launch{function, user_data, type == ACL_CALLBACK_BLOCK, of, found->id()},
      kName, TaskKind::kControl);
}

// Calls, and then lets the stream go on, whatever comes out of the function.
void RunCall(const Call& call) {
  struct Runs {
    const Call& call;
    const Running self;
    explicit Runs(const Call& c) : call(c), self{c.stream, running} {
      if (call.done != nullptr) running = &self;
    }
    ~Runs() {
      running = self.outer;
      Drop(call);
    }
  } runs(call);
  const profile::Span span(profile::Kind::kCallback, "callback");
  call.function(call.user_data);
}

// The calling thread as one that waits for callbacks. Holds the table's lock
// but while callbacks run.
class Waiter {
 public:
  Waiter(Callbacks& table, Kind kind)
      : table_(table), lock_(table.mutex), thread_(ThisThread()) {
    if (kind == Kind::kReport) {
      static thread_local const EndOfThread end_of_thread;
      (void)end_of_thread;
    }
    // A stream may wait for a subscriber that has no memory left.
    const auto known = table.by_thread.find(thread_);
    self_ = known != table.by_thread.end() ? known->second
                                           : std::make_shared<Subscriber>();
    if (known == table.by_thread.end()) table.by_thread.emplace(thread_, self_);
    self_->ended = false;
    ++self_->waiting;
  }
  ~Waiter() {
    if (!lock_.owns_lock()) lock_.lock();
    --self_->waiting;
    table_.Tidy(thread_);
  }
  Waiter(const Waiter&) = delete;
  Waiter& operator=(const Waiter&) = delete;

  bool subscribed() const { return self_->streams > 0; }
  size_t due() const { return self_->calls.size(); }

  // Until a callback is due, or the time is over. A thread that is subscribed
  // to nothing waits just as long: it may be a loop that is ahead of whoever
  // subscribes it. Returns early once all its subscriptions end.
  void Wait(int32_t ms) {
    // Somebody who would wait for ever is told in time to look after itself.
    constexpr int32_t kLongest = 100;
    bool was = subscribed();
    const Deadline deadline = DeadlineIn(ms);
    const Deadline first = DeadlineIn(ms < 0 ? kLongest : ms);
    const auto ready = [&] {
      was = was || subscribed();
      return due() > 0 || (was && !subscribed());
    };
    if (!was) {
      self_->changed.wait_until(lock_, *first, [&] { return ready() || was; });
      if (!was) return;
    }
    if (deadline.has_value()) {
      self_->changed.wait_until(lock_, *deadline, ready);
    } else {
      self_->changed.wait(lock_, ready);
    }
  }

  // One by one: to take them all would need memory, and streams wait for them.
  void RunDue() {
    for (size_t left = due(); left > 0 && due() > 0; --left) {
      const Call call = std::move(self_->calls.front());
      self_->calls.pop_front();
      lock_.unlock();
      RunCall(call);
      lock_.lock();
    }
  }

 private:
  Callbacks& table_;
  std::unique_lock<std::mutex> lock_;
  const uint64_t thread_;
  std::shared_ptr<Subscriber> self_;
};

aclError Process(Kind kind, std::string_view function, int32_t ms) {
  if (ms == 0 || ms < -1) {
    return FailValue(ACL_ERROR_INVALID_PARAM, function, "timeout",
                     Str("{}", ms), "-1 or a positive number of milliseconds");
  }
  Waiter waiter(TheCallbacks(kind), kind);
  waiter.Wait(ms);
  if (waiter.due() > 0) {
    waiter.RunDue();
    return ACL_SUCCESS;
  }
  if (waiter.subscribed()) {
    return Fail(ACL_ERROR_RT_REPORT_TIMEOUT, Title::kTimeout,
                Str("{}: no callback came within {} ms.", function, ms));
  }
  return Fail(ACL_ERROR_RT_THREAD_SUBSCRIBE, Title::kCallSequence,
              Str("{} failed because the calling thread is not subscribed to "
                  "a stream.",
                  function));
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
        const profile::Span span(profile::Kind::kCallback, "callback");
        function(args);
        return ACL_SUCCESS;
      },
      "aclrtLaunchHostFunc", TaskKind::kControl);
}

}  // namespace

bool RunsCallbackOf(const void* stream) {
  for (const Running* one = running; one != nullptr; one = one->outer) {
    if (one->stream == stream) return true;
  }
  return false;
}

void DropAbandonedCallbacks(const void* stream) noexcept {
  Callbacks* const made = AllCallbacks(Kind::kReport).IfMade();
  if (made == nullptr) return;
  Callbacks& table = *made;
  std::lock_guard lock(table.mutex);
  const auto entry = table.by_stream.find(stream);
  if (entry != table.by_stream.end()) entry->second.ending = true;
  for (auto at = table.by_thread.begin(); at != table.by_thread.end();) {
    const uint64_t thread = at->first;
    Subscriber& subscriber = *at->second;
    ++at;  // as the thread may be forgotten
    DropIf(subscriber, [&](const Call& call) {
      return call.stream == stream &&
             IsAbandoned(table, thread, subscriber, call);
    });
    table.Tidy(thread);
  }
}

void EndSubscriptions(const void* stream) noexcept {
  for (const Kind kind : {Kind::kReport, Kind::kHostFunc}) {
    Callbacks* const table = AllCallbacks(kind).IfMade();
    if (table == nullptr) continue;
    std::lock_guard lock(table->mutex);
    const auto entry = table->by_stream.find(stream);
    if (entry != table->by_stream.end()) Erase(*table, entry);
  }
}

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
  return a::GuardRuntime([&] {
    return a::Subscribe(a::Kind::kReport, "aclrtSubscribeReport", threadId,
                        stream);
  });
}

aclError aclrtUnSubscribeReport(uint64_t threadId, aclrtStream stream) {
  return a::GuardRuntime([&] {
    return a::Unsubscribe(a::Kind::kReport, "aclrtUnSubscribeReport", threadId,
                          stream);
  });
}

aclError aclrtProcessReport(int32_t timeout) {
  return a::GuardRuntime([&] {
    return a::Process(a::Kind::kReport, "aclrtProcessReport", timeout);
  });
}

aclError aclrtSubscribeHostFunc(uint64_t hostFuncThreadId,
                                aclrtStream exeStream) {
  return a::GuardRuntime([&] {
    return a::Subscribe(a::Kind::kHostFunc, "aclrtSubscribeHostFunc",
                        hostFuncThreadId, exeStream);
  });
}

aclError aclrtUnSubscribeHostFunc(uint64_t hostFuncThreadId,
                                  aclrtStream exeStream) {
  return a::GuardRuntime([&] {
    return a::Unsubscribe(a::Kind::kHostFunc, "aclrtUnSubscribeHostFunc",
                          hostFuncThreadId, exeStream);
  });
}

aclError aclrtProcessHostFunc(int32_t timeout) {
  return a::GuardRuntime([&] {
    return a::Process(a::Kind::kHostFunc, "aclrtProcessHostFunc", timeout);
  });
}

}  // extern "C"
