// SPDX-License-Identifier: Apache-2.0
// Words in device memory that streams write and wait for. Copies, operators,
// the host and other processes may write them too, so a wait cannot rely on
// being told: it also looks from time to time, and never spins.
#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <mutex>
#include <string_view>

#include "acl/acl_rt.h"
#include "acl/backend.h"
#include "acl/context.h"
#include "acl/error.h"
#include "acl/futex.h"
#include "acl/memory.h"
#include "acl/stream.h"
#include "base/fork.h"

namespace flashacl::acl {
namespace {

// A wait that comes soon is met soon; one that takes long costs little.
constexpr auto kSoon = std::chrono::milliseconds(10);
constexpr auto kStepSoon = std::chrono::microseconds(50);
constexpr auto kStepLater = std::chrono::milliseconds(1);

// A wait that sleeps; on its stack.
struct Sleeper {
  const std::byte* at;
  std::atomic<uint32_t> woken{0};
  Sleeper* next = nullptr;

  void Wake() {
    woken.store(1);
    FutexWake(woken);
  }
};

// The sleepers of some addresses.
struct Bucket {
  std::atomic<int> count{0};
  std::mutex mutex;
  Sleeper* first = nullptr;  // under mutex
};

Bucket& BucketOf(const std::byte* at) {
  constexpr size_t kBuckets = 64;
  static PerProcess<std::array<Bucket, kBuckets>> buckets;
  // Words of one table of flags go to different ones.
  return (
      *buckets)[reinterpret_cast<uintptr_t>(at) / sizeof(uint64_t) % kBuckets];
}

class Listed {
 public:
  explicit Listed(Sleeper& self) : self_(self), bucket_(BucketOf(self.at)) {
    bucket_.count.fetch_add(1);
    std::lock_guard lock(bucket_.mutex);
    self_.next = bucket_.first;
    bucket_.first = &self_;
  }
  ~Listed() {
    std::lock_guard lock(bucket_.mutex);
    Sleeper** one = &bucket_.first;
    while (*one != &self_) one = &(*one)->next;
    *one = self_.next;
    bucket_.count.fetch_sub(1);
  }
  Listed(const Listed&) = delete;
  Listed& operator=(const Listed&) = delete;

 private:
  Sleeper& self_;
  Bucket& bucket_;
};

// After a word has changed. Either this sees the sleeper, or the sleeper the
// word: each writes its side before it looks at the other's.
void WakeSleepers(const std::byte* at) {
  Bucket& bucket = BucketOf(at);
  if (bucket.count.load() == 0) return;
  std::lock_guard lock(bucket.mutex);
  for (Sleeper* one = bucket.first; one != nullptr; one = one->next) {
    if (one->at == at) one->Wake();
  }
}

bool Holds(uint32_t condition, uint64_t word, uint64_t value) {
  switch (condition) {
    case ACL_STREAM_WAIT_VALUE_GEQ:
      return static_cast<int64_t>(word - value) >= 0;
    case ACL_STREAM_WAIT_VALUE_EQ:
      return word == value;
    case ACL_STREAM_WAIT_VALUE_AND:
      return (word & value) != 0;
    default:
      return ~(word | value) != 0;
  }
}

struct ValueWaiter {
  const std::byte* at;
  uint64_t value;
  uint32_t condition;
  BlockUse use;  // so that the word can be read even if it is freed meanwhile

  bool Holds() const {
    return acl::Holds(condition, DeviceMemory().LoadWord(at), value);
  }
  bool Sleep(Stream& stream, Sleeper& self, bool* freed) const;
  aclError operator()() const;
};

// Until the word is as it should be, freed, or the stream aborted.
bool ValueWaiter::Sleep(Stream& stream, Sleeper& self, bool* freed) const {
  const Clock::time_point start = Clock::now();
  for (;;) {
    self.woken.store(0);
    if (Holds()) return true;
    if (stream.aborting()) return false;
    Block block;
    if (!FindBlock(at, &block)) {
      *freed = true;
      return false;
    }
    const Clock::time_point now = Clock::now();
    const auto step = now - start < kSoon ? Clock::duration(kStepSoon)
                                          : Clock::duration(kStepLater);
    FutexWait(self.woken, 0, now + step);
  }
}

aclError ValueWaiter::operator()() const {
  if (Holds()) return ACL_SUCCESS;
  Stream& stream = ThisStream();
  Sleeper self{at};
  const Listed listed(self);
  bool freed = false;
  stream.WaitInTask([&] { return Sleep(stream, self, &freed); },
                    [&] { self.Wake(); });
  if (!freed) return ACL_SUCCESS;
  return Fail(ACL_ERROR_RT_PARAM_INVALID, Title::kReason,
              Str("aclrtValueWait on stream {} ended because its memory {} was "
                  "freed",
                  stream.id(), static_cast<const void*>(at)));
}

aclError CheckWord(std::string_view function, const void* at) {
  Block block;
  const bool fits =
      FindBlock(at, &block) && block.device() &&
      block.reserved - static_cast<size_t>(static_cast<const std::byte*>(at) -
                                           block.base) >=
          sizeof(uint64_t);
  if (!fits) {
    return FailValue(ACL_ERROR_RT_PARAM_INVALID, function, "devAddr",
                     Str("{}", at), "8 bytes of device memory");
  }
  if (reinterpret_cast<uintptr_t>(at) % sizeof(uint64_t) != 0) {
    return FailValue(ACL_ERROR_RT_PARAM_INVALID, function, "devAddr",
                     Str("{}", at), "a multiple of 8");
  }
  return ACL_SUCCESS;
}

aclError ValueWrite(void* address, uint64_t value, uint32_t flag,
                    aclrtStream stream) {
  constexpr std::string_view kName = "aclrtValueWrite";
  if (address == nullptr) return FailNull(kName, "devAddr");
  if (flag != 0) {
    return FailValue(ACL_ERROR_RT_PARAM_INVALID, kName, "flag", Str("{}", flag),
                     "0");
  }
  if (const aclError error = RequireContext(kName); error != 0) return error;
  if (const aclError error = CheckWord(kName, address)) return error;
  const void* const addresses[] = {address};
  return Enqueue(
      stream,
      [at = static_cast<std::byte*>(address), value,
       use = BlockUse(addresses)] {
        DeviceMemory().StoreWord(at, value);
        WakeSleepers(at);
        return ACL_SUCCESS;
      },
      kName, TaskKind::kControl);
}

aclError ValueWait(void* address, uint64_t value, uint32_t flag,
                   aclrtStream stream) {
  constexpr std::string_view kName = "aclrtValueWait";
  if (address == nullptr) return FailNull(kName, "devAddr");
  if (flag > ACL_STREAM_WAIT_VALUE_NOR) {
    return FailValue(ACL_ERROR_RT_PARAM_INVALID, kName, "flag", Str("{}", flag),
                     "an ACL_STREAM_WAIT_VALUE_ condition");
  }
  if (const aclError error = RequireContext(kName); error != 0) return error;
  if (const aclError error = CheckWord(kName, address)) return error;
  const void* const addresses[] = {address};
  return Enqueue(stream,
                 ValueWaiter{static_cast<const std::byte*>(address), value,
                             flag, BlockUse(addresses)},
                 kName, TaskKind::kWait);
}

}  // namespace
}  // namespace flashacl::acl

namespace a = flashacl::acl;

extern "C" {

aclError aclrtValueWrite(void* devAddr, uint64_t value, uint32_t flag,
                         aclrtStream stream) {
  return a::GuardRuntime(
      [&] { return a::ValueWrite(devAddr, value, flag, stream); });
}

aclError aclrtValueWait(void* devAddr, uint64_t value, uint32_t flag,
                        aclrtStream stream) {
  return a::GuardRuntime(
      [&] { return a::ValueWait(devAddr, value, flag, stream); });
}

}  // extern "C"
