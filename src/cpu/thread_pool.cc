// SPDX-License-Identifier: Apache-2.0
// Loops lie on their callers' stacks, in a list that idle threads look through.
#include "cpu/thread_pool.h"

#include <pthread.h>

#include <algorithm>
#include <atomic>
#include <condition_variable>
#include <exception>
#include <new>
#include <utility>

#include "base/contain.h"
#include "base/spin.h"
#include "base/thread.h"

namespace flashacl::cpu {
namespace {

// One loop, shared by the threads that run it.
struct Loop {
  const int64_t count;
  const FunctionRef<void(int64_t)> body;
  std::atomic<int64_t> next{0};

  // Changed under the team's mutex.
  int64_t seats = 0;               // for threads that have not come
  std::atomic<int64_t> inside{0};  // threads that have, without the caller
  std::exception_ptr thrown = nullptr;
  Loop* after = nullptr;  // in the team's list

  void Share() {
    while (true) {
      const int64_t n = next.fetch_add(1, std::memory_order_relaxed);
      if (n >= count) return;
      body(n);
    }
  }
};

}  // namespace

class Pool::Team : public std::enable_shared_from_this<Team> {
 public:
  explicit Team(int threads) : threads_(threads) {}

  int threads() const { return threads_; }
  void Run(Loop& loop);

  // Its threads leave once no loop has a seat for them.
  void Dismiss();

 private:
  void StartThreads();
  static void* RunThread(void* team);
  void Work();
  bool Serve();
  void ShareAndCatch(Loop& loop);
  int64_t Open(Loop& loop);
  void Close(Loop& loop);
  Loop* WithSeat() const;

  const int threads_;              // the caller's included
  std::atomic<int64_t> seats_{0};  // of all loops; changed under the mutex

  std::mutex mutex_;              // guards what follows
  std::condition_variable come_;  // there is a seat, or threads may leave
  std::condition_variable left_;  // the last thread has left some loop
  Loop* first_ = nullptr;         // newest first
  bool started_ = false;
  bool dismissed_ = false;
};

// Once: a process that may have no more threads is not asked again.
void Pool::Team::StartThreads() {
  if (std::exchange(started_, true)) return;
  for (int n = 1; n < threads_; ++n) {
    auto* const team = new (std::nothrow) auto(shared_from_this());
    if (team == nullptr) return;
    if (StartDetached(&Team::RunThread, team) == 0) continue;
    delete team;
    return;
  }
}

void* Pool::Team::RunThread(void* team) {
  pthread_setname_np(pthread_self(), "worker");
  const std::unique_ptr<std::shared_ptr<Team>> owner(
      static_cast<std::shared_ptr<Team>*>(team));
  (*owner)->Work();
  return nullptr;
}

void Pool::Team::Work() {
  const auto news = [&] { return seats_.load() > 0; };
  while (true) {
    while (Serve()) {
    }
    if (SpinUntil(news)) continue;
    std::unique_lock lock(mutex_);
    come_.wait(lock, [&] { return news() || dismissed_; });
    if (!news()) return;
  }
}

// Runs numbers of one loop; false if none has a seat.
bool Pool::Team::Serve() {
  std::unique_lock lock(mutex_);
  Loop* const loop = WithSeat();
  if (loop == nullptr) return false;
  --loop->seats;
  --seats_;
  ++loop->inside;
  lock.unlock();
  ShareAndCatch(*loop);
  lock.lock();
  if (--loop->inside == 0) left_.notify_all();
  return true;
}

void Pool::Team::ShareAndCatch(Loop& loop) {
  Contain([&] { loop.Share(); },
          [&](bool) {
            loop.next.store(loop.count, std::memory_order_relaxed);
            const std::lock_guard lock(mutex_);
            if (loop.thrown == nullptr) loop.thrown = std::current_exception();
          });
}

Loop* Pool::Team::WithSeat() const {
  Loop* loop = first_;
  while (loop != nullptr && loop->seats == 0) loop = loop->after;
  return loop;
}

// Returns how many threads shall come.
int64_t Pool::Team::Open(Loop& loop) {
  const std::lock_guard lock(mutex_);
  StartThreads();
  loop.seats = std::min<int64_t>(loop.count, threads_) - 1;
  loop.after = std::exchange(first_, &loop);
  seats_ += loop.seats;
  return loop.seats;
}

// Waits for the threads that came, so that none looks at the loop afterwards.
void Pool::Team::Close(Loop& loop) {
  std::unique_lock lock(mutex_);
  Loop** at = &first_;
  while (*at != &loop) at = &(*at)->after;
  *at = loop.after;
  seats_ -= loop.seats;
  const auto alone = [&] { return loop.inside.load() == 0; };
  if (alone()) return;
  lock.unlock();
  SpinUntil(alone);
  lock.lock();
  left_.wait(lock, alone);
}

void Pool::Team::Run(Loop& loop) {
  const int64_t wanted = Open(loop);
  for (int64_t n = 0; n < wanted; ++n) come_.notify_one();
  ShareAndCatch(loop);
  Close(loop);
  if (loop.thrown != nullptr) std::rethrow_exception(loop.thrown);
}

void Pool::Team::Dismiss() {
  {
    const std::lock_guard lock(mutex_);
    dismissed_ = true;
  }
  come_.notify_all();
}

Pool::~Pool() { team_->Dismiss(); }

void Pool::ForEach(int64_t count, FunctionRef<void(int64_t)> body) {
  if (count == 1) {  // nothing to share, nobody to wake
    body(0);
    return;
  }
  if (count <= 0) return;
  const std::shared_ptr<Team> team = this->team();
  if (team->threads() == 1) {
    for (int64_t n = 0; n < count; ++n) body(n);
    return;
  }
  Loop loop{count, body};
  team->Run(loop);
}

int Pool::count() const { return team()->threads(); }

void Pool::SetCount(int count) {
  auto team = std::make_shared<Team>(count > 0 ? count : AvailableProcessors());
  {
    const std::lock_guard lock(mutex_);
    std::swap(team_, team);
  }
  if (team != nullptr) team->Dismiss();
}

std::shared_ptr<Pool::Team> Pool::team() const {
  const std::lock_guard lock(mutex_);
  return team_;
}

}  // namespace flashacl::cpu
