// SPDX-License-Identifier: Apache-2.0
#include "acl/notify.h"

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

std::atomic<uint32_t> next_id{0};

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
               std::shared_ptr<NotifyWords> words)
    : device_(device),
      family_(family),
      id_(next_id.fetch_add(1)),
      words_(std::move(words)) {}

std::shared_ptr<Notify> Notify::Create(int device, NotifyFamily family,
                                       std::shared_ptr<NotifyWords> words) {
  if (words == nullptr) words = std::make_shared<NotifyWords>();
  std::shared_ptr<Notify> notify(new Notify(device, family, std::move(words)));
  notify->handle_ = NewHandle(notify);
  if (notify->handle_ == nullptr) return nullptr;
  // Counted last, as all else may throw.
  std::atomic<int>& live = Live(device, family);
  if (live.fetch_add(1) < kNotifiesPerDevice) return notify;
  live.fetch_sub(1);
  Take<Notify>(notify->handle_);
  return nullptr;
}

aclError Notify::Change(Stream& stream, NotifyChange change, uint32_t value,
                        std::string_view function) {
  return stream.Push(
      [self = shared_from_this(), change, value] {
        self->words_->Change(
            [&](uint32_t word) { return Changed(change, word, value); });
        return ACL_SUCCESS;
      },
      function, TaskKind::kControl);
}

aclError Notify::Wait(Stream& stream, const NotifyWait& wait,
                      std::string_view function) {
  return stream.Push(
      [self = shared_from_this(), wait]() -> aclError {
        NotifyWords& words = *self->words_;
        const auto holds = [&](uint32_t word) {
          return Holds(wait.test, word, wait.value);
        };
        if (words.Try(holds, wait.clears)) return ACL_SUCCESS;
        Stream& at = ThisStream();
        const Deadline deadline =
            wait.seconds == 0 ? std::nullopt
                              : DeadlineIn(int64_t{wait.seconds} * 1000);
        const bool held = at.WaitInTask(
            [&] {
              return words.Wait(holds, wait.clears, deadline,
                                [&] { return at.aborting(); });
            },
            [&] { words.Poke(); });
        // Otherwise the stream was aborted, which nobody asks it about.
        if (held || at.aborting()) return ACL_SUCCESS;
        return Fail(ACL_ERROR_RT_WAIT_TIMEOUT, Title::kTimeout,
                    Str("stream {} waited {} s for notify {} in vain", at.id(),
                        wait.seconds, self->id()));
      },
      function, TaskKind::kWait);
}

void Notify::Reset() {
  words_->Change([](uint32_t) { return 0u; });
}

bool Notify::Destroy() {
  if (Take<Notify>(handle_) == nullptr) return false;
  Live(device_, family_).fetch_sub(1);
  return true;
}

}  // namespace flashacl::acl
