// SPDX-License-Identifier: Apache-2.0
// Notifies, words that streams write and wait for, reductions. No program may
// wait for what never comes: what a wait needs is recorded before it or after,
// or its stream is aborted. Where another stream takes the record, the wait
// ends after a second.
#include <array>

#include "acl/acl.h"
#include "tests/fuzz/steps.h"

namespace flashacl::testing {
namespace {

// Recorded on the same stream, so that replays of a graph end, too.
int RecordAndWait(World& w) {
  void* const notify = w.Get(Kind::kNotify);
  void* const stream = w.Get(Kind::kStream);
  if (!w.MayWait()) return 0;
  (void)aclrtRecordNotify(notify, stream);
  return aclrtWaitAndResetNotify(notify, stream, 1);
}

// One stream waits, another one comes to its record.
int WaitAndRecord(World& w) {
  void* const notify = w.Get(Kind::kNotify);
  void* const waiting = w.Get(Kind::kStream);
  void* const recording = w.Get(Kind::kStream);
  if (w.captured() || !w.MayWait()) return 0;
  const int status = aclrtWaitAndResetNotify(notify, waiting, 1);
  if (status != 0) return status;
  if (waiting != recording && aclrtRecordNotify(notify, recording) == 0) {
    return 0;
  }
  return aclrtStreamAbort(waiting);
}

aclrtCntNotifyRecordInfo Count(World& w) {
  return {w.Enum<aclrtCntNotifyRecordMode>(6), w.Number<uint32_t>()};
}

int RecordCount(World& w) {
  aclrtCntNotifyRecordInfo info = Count(w);
  return aclrtCntNotifyRecord(w.Get(Kind::kCountNotify), w.Get(Kind::kStream),
                              w.bytes.OneIn(16) ? nullptr : &info);
}

// The count that a wait of this mode waits for.
uint32_t Met(aclrtCntNotifyWaitMode mode, uint32_t value) {
  if (mode == ACL_RT_CNT_NOTIFY_WAIT_LESS_MODE) return value - 1;
  return mode == ACL_RT_CNT_NOTIFY_WAIT_BIGGER_MODE ? value + 1 : value;
}

int CountAndWait(World& w) {
  void* const notify = w.Get(Kind::kCountNotify);
  void* const stream = w.Get(Kind::kStream);
  const auto value = static_cast<uint32_t>(1 + w.bytes.Below(64));
  aclrtCntNotifyWaitInfo wait{
      w.Enum<aclrtCntNotifyWaitMode>(6), value, 1, w.bytes.Next(), {}};
  aclrtCntNotifyRecordInfo record{ACL_RT_CNT_NOTIFY_RECORD_SET_VALUE_MODE,
                                  Met(wait.mode, value)};
  if (!w.MayWait()) return 0;
  (void)aclrtCntNotifyRecord(notify, stream, &record);
  return aclrtCntNotifyWaitWithTimeout(notify, stream, &wait);
}

// Nobody is sure to write what it waits for.
int WaitForValue(World& w) {
  void* const at = w.Get(Kind::kBlock);
  void* const stream = w.Get(Kind::kStream);
  if (w.captured() || !w.MayWait()) return 0;
  const int status =
      aclrtValueWait(at, w.Number<uint64_t>(), w.Enum<uint32_t>(5), stream);
  return status != 0 ? status : aclrtStreamAbort(stream);
}

aclrtNotify* Notifies(World& w) {
  auto* const notifies = w.Out<std::array<aclrtNotify, 2>>();
  if (notifies == nullptr) return nullptr;
  for (aclrtNotify& one : *notifies) one = w.Get(Kind::kNotify);
  return notifies->data();
}

constexpr Step kSteps[] = {
    STEP(aclrtCreateNotify(w.New(Kind::kNotify), w.bytes.Below(3))),
    STEP(aclrtDestroyNotify(w.Get(Kind::kNotify))),
    STEP(aclrtRecordNotify(w.Get(Kind::kNotify), w.Get(Kind::kStream))),
    RecordAndWait,
    WaitAndRecord,
    STEP(aclrtGetNotifyId(w.Get(Kind::kNotify), w.Out<uint32_t>())),
    STEP(aclrtNotifyBatchReset(Notifies(w), w.bytes.Below(3))),
    STEP(aclrtCntNotifyCreate(w.New(Kind::kCountNotify), w.bytes.Below(3))),
    STEP(aclrtCntNotifyDestroy(w.Get(Kind::kCountNotify))),
    RecordCount,
    CountAndWait,
    STEP(aclrtCntNotifyReset(w.Get(Kind::kCountNotify), w.Get(Kind::kStream))),
    STEP(aclrtCntNotifyGetId(w.Get(Kind::kCountNotify), w.Out<uint32_t>())),
    STEP(aclrtValueWrite(w.Get(Kind::kBlock), w.Number<uint64_t>(),
                         w.bytes.OneIn(8), w.Get(Kind::kStream))),
    WaitForValue,
    STEP(aclrtReduceAsync(w.Memory(), w.Memory(), w.Size(),
                          w.Enum<aclrtReduceKind>(16), w.Enum<aclDataType>(31),
                          w.Get(Kind::kStream), nullptr)),
    STEP(aclrtCmoAsync(w.Memory(), w.Size(), w.Enum<aclrtCmoType>(5),
                       w.Get(Kind::kStream))),
};

}  // namespace

std::span<const Step> NotifySteps() { return kSteps; }

}  // namespace flashacl::testing
