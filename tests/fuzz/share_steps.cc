// SPDX-License-Identifier: Apache-2.0
// Memory, events and notifies of several processes, all of which are this one:
// it imports what it exported, and keys that are none.
#include <cstring>

#include "acl/acl.h"
#include "tests/fuzz/steps.h"

namespace flashacl::testing {
namespace {

size_t KeySize(World& w) {
  constexpr size_t kSizes[] = {World::kTextSize, 65, 64, 0};
  return w.bytes.Pick(kSizes);
}

aclrtIpcEventHandle* EventHandle(World& w) {
  return reinterpret_cast<aclrtIpcEventHandle*>(w.Text());
}

aclrtIpcEventHandle Copied(const aclrtIpcEventHandle* handle) {
  aclrtIpcEventHandle copy{};
  if (handle != nullptr) std::memcpy(&copy, handle, sizeof(copy));
  return copy;
}

uint64_t Value(const uint64_t* word) { return word == nullptr ? 0 : *word; }

// A key of nobody, that was nearly one.
int ChangeText(World& w) {
  char* const text = w.Text();
  if (text != nullptr)
    text[w.bytes.Below(66)] = static_cast<char>(w.bytes.Next());
  return 0;
}

constexpr Step kSteps[] = {
    STEP(aclrtMalloc(w.New(Kind::kBlock), 1 << 16, ACL_MEM_MALLOC_HUGE_FIRST)),
    STEP(aclrtIpcMemGetExportKey(w.Get(Kind::kBlock), w.Size(), w.Text(),
                                 KeySize(w), w.bytes.Below(3))),
    STEP(aclrtIpcMemSetImportPid(w.Text(), w.Processes(), w.bytes.Below(70))),
    STEP(aclrtIpcMemImportByKey(w.Out<void*>(), w.Text(), w.bytes.Below(3))),
    STEP(aclrtIpcMemClose(w.Text())),
    STEP(aclrtMemExportToShareableHandle(w.Get(Kind::kPhysical),
                                         w.Enum<aclrtMemHandleType>(3),
                                         w.bytes.Below(3), w.Word())),
    STEP(aclrtMemSetPidToShareableHandle(Value(w.Word()), w.Processes(),
                                         w.bytes.Below(70))),
    STEP(aclrtMemImportFromShareableHandle(Value(w.Word()), w.bytes.OneIn(8),
                                           w.New(Kind::kPhysical))),
    // 0x40: ACL_EVENT_IPC.
    STEP(aclrtCreateEventExWithFlag(w.New(Kind::kEvent), ACL_EVENT_IPC)),
    STEP(aclrtIpcGetEventHandle(w.Get(Kind::kEvent), EventHandle(w))),
    STEP(aclrtIpcOpenEventHandle(Copied(EventHandle(w)), w.New(Kind::kEvent))),
    STEP(aclrtNotifyGetExportKey(w.Get(Kind::kNotify), w.Text(), KeySize(w),
                                 w.bytes.Below(4))),
    STEP(aclrtNotifySetImportPid(w.Get(Kind::kNotify), w.Processes(),
                                 w.bytes.Below(70))),
    STEP(aclrtNotifyImportByKey(w.New(Kind::kNotify), w.Text(),
                                w.bytes.Below(5))),
    ChangeText,
};

}  // namespace

std::span<const Step> ShareSteps() { return kSteps; }

}  // namespace flashacl::testing
