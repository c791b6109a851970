// SPDX-License-Identifier: Apache-2.0
// Notifies: a word that streams change and wait for. A plain notify is a flag,
// 0 or 1; a count notify is a 32-bit number.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <mutex>
#include <string_view>

#include "acl/futex.h"
#include "acl/handle.h"
#include "acl/share/shared_object.h"
#include "acl/stream.h"
#include "base/function_ref.h"

namespace flashacl::acl {

// All that a notify is. Holds no address, so that it may lie in memory which
// processes share; zeros are a notify that was never recorded.
class NotifyWords {
 public:
  // Replaces the word by change(word), at once and whole.
  void Change(FunctionRef<uint32_t(uint32_t)> change);

  uint32_t word() const { return word_.load(); }

  // Whether `holds` is true of the word, which becomes 0 then if it `clears`.
  bool Try(FunctionRef<bool(uint32_t)> holds, bool clears);

  // Until Try is true, the time is over, or `stop` is, after a Poke.
  bool Wait(FunctionRef<bool(uint32_t)> holds, bool clears, Deadline deadline,
            FunctionRef<bool()> stop);
  void Poke();

 private:
  std::atomic<uint32_t> word_{0};
  std::atomic<uint32_t> changes_{0};  // of the word, and pokes; sleepers watch
  std::atomic<uint32_t> sleepers_{0};
};

enum class NotifyFamily : uint8_t { kFlag, kCount };

// By their numbers in the C API.
enum class NotifyChange : uint8_t { kSet = 0, kAdd = 1, kOr = 2, kAnd = 4 };
enum class NotifyTest : uint8_t {
  kLess = 0,
  kEqual = 1,
  kGreater = 2,
  kGreaterOrEqual = 3,
  kHasBits = 4,
};

struct NotifyWait {
  NotifyTest test = NotifyTest::kEqual;
  uint32_t value = 1;
  uint32_t seconds = 0;  // 0: as long as it takes
  bool clears = true;
};

class Notify : public std::enable_shared_from_this<Notify> {
 public:
  static constexpr HandleKind kHandleKind = HandleKind::kNotify;

  // With words of its own, or with those of `shared`. Null if the device has
  // all the notifies that it may have.
  static std::shared_ptr<Notify> Create(
      int device, NotifyFamily family,
      std::shared_ptr<SharedObject> shared = nullptr);

  void* handle() const { return handle_; }
  NotifyFamily family() const { return family_; }
  uint32_t id() const { return id_; }

  // Where its words are that processes share; or null.
  std::shared_ptr<SharedObject> shared() const;

  // Moves the words to where they can be shared, unless they are, and returns
  // where they are then. Nothing that is queued, or that waits, notices.
  std::shared_ptr<SharedObject> MoveTo(std::shared_ptr<SharedObject> shared);

  // In the order of `stream`.
  aclError Change(Stream& stream, NotifyChange change, uint32_t value,
                  std::string_view function);
  aclError Wait(Stream& stream, const NotifyWait& wait,
                std::string_view function);

  // At once.
  void Reset();

  // Makes the handle stale; what streams have queued goes on. False for all
  // but the first call.
  bool Destroy();

 private:
  enum class Ended : uint8_t {
    kDone,
    kGivenUp,  // the time is over, or told to stop
    kAlone,    // all processes that it needs have died
  };

  Notify(int device, NotifyFamily family, std::shared_ptr<SharedObject> shared);

  // Whether nobody is left who would record it: all other processes have died,
  // and this one never did.
  bool IsAbandoned(const SharedObject& shared) const;

  std::shared_ptr<NotifyWords> words() const;
  bool Try(const NotifyWait& wait);
  Ended WaitInTask(const NotifyWait& wait, Deadline deadline,
                   const Stream& stream);

  const int device_;
  const NotifyFamily family_;
  const uint32_t id_;
  void* handle_ = nullptr;
  std::atomic<bool> recorded_{false};  // by this process, or will be

  mutable std::mutex mutex_;  // while words change: they may move
  std::shared_ptr<NotifyWords> words_;
  std::shared_ptr<SharedObject> shared_;
};

}  // namespace flashacl::acl
