// SPDX-License-Identifier: Apache-2.0
#include "acl/notify.h"

#include <algorithm>
#include <array>
#include <utility>

#include "acl/device.h"
#include "acl/error.h"
#include "base/fork.h"

namespace flashacl::acl {
namespace {

// Of each family.
constexpr int kNotifiesPerDevice = 8192;

std::atomic<int>& Live(int device, NotifyFamily family) {
  static PerProcess<std::array<std::array<std::atomic<int>, 2>, kMaxDevices>>
      live;
  return (*live)[static_cast<size_t>(device)][static_cast<size_t>(family)];
}

std::atomic<uint32_t> next_notify{0};

uint32_t Changed(NotifyChange change, uint32_t word, uint32_t value) {
  switch (change) {
    case NotifyChange::kSet:
      return value;
    case NotifyChange::kAdd:
      return word + value;
    case NotifyChange::kOr:
      return word | value;
    case NotifyChange::kAnd:
      return word & value;
  }
  return word;
}

bool Holds(NotifyTest test, uint32_t word, uint32_t value) {
  switch (test) {
    case NotifyTest::kLess:
      return word < value;
    case NotifyTest::kEqual:
      return word == value;
    case NotifyTest::kGreater:
      return word > value;
    case NotifyTest::kGreaterOrEqual:
      return word >= value;
    case NotifyTest::kHasBits:
      return (word & value) == value;
  }
  return false;
}

}  // namespace

void NotifyWords::Change(FunctionRef<uint32_t(uint32_t)> change) {
  uint32_t word = word_.load();
  while (!word_.compare_exchange_weak(word, change(word))) {
  }
  Poke();
}

bool NotifyWords::Try(FunctionRef<bool(uint32_t)> holds, bool clears) {
  uint32_t word = word_.load();
  while (holds(word)) {
    if (!clears) return true;
    if (!word_.compare_exchange_weak(word, 0)) continue;
    if (word != 0) Poke();  // others may wait for a small number
    return true;
  }
  return false;
}

bool NotifyWords::Wait(FunctionRef<bool(uint32_t)> holds, bool clears,
                       Deadline deadline, FunctionRef<bool()> stop) {
  const auto now = [&] { return Try(holds, clears); };
  if (SpinUntil([&] { return stop() || holds(word_.load()); }) && now()) {
    return true;
  }
  for (;;) {
    // Read before the look at the word: who changes it then, changes this next.
    const uint32_t seen = changes_.load();
    if (now()) return true;
    if (stop() || (deadline.has_value() && Clock::now() >= *deadline)) {
      return false;
    }
    sleepers_.fetch_add(1);
    FutexWait(changes_, seen, deadline);
    sleepers_.fetch_sub(1);
  }
}

void NotifyWords::Poke() {
  changes_.fetch_add(1);
  if (sleepers_.load() > 0) FutexWake(changes_);
}

Notify::Notify(int device, NotifyFamily family,
               std::shared_ptr<SharedObject> shared)
    : device_(device),
      family_(family),
      id_(next_notify.fetch_add(1)),
      words_(shared == nullptr ? std::make_shared<NotifyWords>()
                               : std::shared_ptr<NotifyWords>(
                                     shared, &shared->words<NotifyWords>())),
      shared_(std::move(shared)) {}

std::shared_ptr<Notify> Notify::Create(int device, NotifyFamily family,
                                       std::shared_ptr<SharedObject> shared) {
  std::shared_ptr<Notify> notify(new Notify(device, family, std::move(shared)));
  notify->handle_ = NewHandle(notify);
  if (notify->handle_ == nullptr) return nullptr;
  // Counted last, as all else may throw.
  std::atomic<int>& live = Live(device, family);
  if (live.fetch_add(1) < kNotifiesPerDevice) return notify;
  live.fetch_sub(1);
  Take<Notify>(notify->handle_);
  return nullptr;
}

std::shared_ptr<NotifyWords> Notify::words() const {
  std::lock_guard lock(mutex_);
  return words_;
}

std::shared_ptr<SharedObject> Notify::shared() const {
  std::lock_guard lock(mutex_);
  return shared_;
}

std::shared_ptr<SharedObject> Notify::MoveTo(
    std::shared_ptr<SharedObject> shared) {
  auto& there = shared->words<NotifyWords>();
  std::shared_ptr<NotifyWords> before(shared, &there);
  {
    std::lock_guard lock(mutex_);
    if (shared_ != nullptr) return shared_;
    const uint32_t word = words_->word();
    there.Change([&](uint32_t) { return word; });
    words_.swap(before);
    shared_ = shared;
  }
  before->Poke();  // who waits there shall wait here
  return shared;
}

aclError Notify::Change(Stream& stream, NotifyChange change, uint32_t value,
                        std::string_view function) {
  recorded_.store(true);
  return stream.Push(
      [self = shared_from_this(), change, value] {
        std::lock_guard lock(self->mutex_);
        self->words_->Change(
            [&](uint32_t word) { return Changed(change, word, value); });
        return ACL_SUCCESS;
      },
      function, TaskKind::kControl);
}

bool Notify::Try(const NotifyWait& wait) {
  std::lock_guard lock(mutex_);
  return words_->Try(
      [&](uint32_t word) { return Holds(wait.test, word, wait.value); },
      wait.clears);
}

bool Notify::IsAbandoned(const SharedObject& shared) const {
  return !recorded_.load() && shared.IsAbandoned();
}

Notify::Ended Notify::WaitInTask(const NotifyWait& wait, Deadline deadline,
                                 const Stream& stream) {
  // Not at once: this process may be about to record it.
  Clock::time_point look = Clock::now() + kShareLook;
  while (!Try(wait)) {
    const Clock::time_point now = Clock::now();
    if (stream.aborting() || (deadline.has_value() && now >= *deadline)) {
      return Ended::kGivenUp;
    }
    Deadline until = deadline;
    if (const auto shared = this->shared()) {
      if (now >= look) {
        // Who is gone may have recorded it first.
        if (IsAbandoned(*shared)) {
          return Try(wait) ? Ended::kDone : Ended::kAlone;
        }
        look = now + kShareLook;
      }
      until = std::min(look, deadline.value_or(look));
    }
    const std::shared_ptr<NotifyWords> here = words();
    // Looks only: what is here may move before it is taken.
    here->Wait(
        [&](uint32_t word) { return Holds(wait.test, word, wait.value); },
        false, until, [&] { return stream.aborting() || words() != here; });
  }
  return Ended::kDone;
}

aclError Notify::Wait(Stream& stream, const NotifyWait& wait,
                      std::string_view function) {
  return stream.Push(
      [self = shared_from_this(), wait]() -> aclError {
        if (self->Try(wait)) return ACL_SUCCESS;
        Stream& at = ThisStream();
        const Deadline deadline =
            wait.seconds == 0 ? std::nullopt
                              : DeadlineIn(int64_t{wait.seconds} * 1000);
        Ended ended = Ended::kGivenUp;
        at.WaitInTask(
            [&] {
              ended = self->WaitInTask(wait, deadline, at);
              return ended == Ended::kDone;
            },
            [&] { self->words()->Poke(); });
        // Otherwise the stream was aborted, which nobody asks it about.
        if (ended == Ended::kDone || at.aborting()) return ACL_SUCCESS;
        if (ended == Ended::kAlone) {
          return Fail(
              ACL_ERROR_RT_IPC_ERROR, Title::kRuntime,
              Str("stream {} waited for notify {} in vain: every other "
                  "process that used it has died, and this one has never "
                  "recorded it",
                  at.id(), self->id()));
        }
        return Fail(ACL_ERROR_RT_WAIT_TIMEOUT, Title::kTimeout,
                    Str("stream {} waited {} s for notify {} in vain", at.id(),
                        wait.seconds, self->id()));
      },
      function, TaskKind::kWait);
}

void Notify::Reset() {
  std::lock_guard lock(mutex_);
  words_->Change([](uint32_t) { return 0u; });
}

bool Notify::Destroy() {
  if (Take<Notify>(handle_) == nullptr) return false;
  Live(device_, family_).fetch_sub(1);
  if (const auto shared = this->shared()) shared->Unlink();
  return true;
}

}  // namespace flashacl::acl
