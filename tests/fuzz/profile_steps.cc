// SPDX-License-Identifier: Apache-2.0
// Profiles, and what a program marks in them.
#include <array>
#include <cstddef>

#include "acl/acl.h"
#include "acl/acl_prof.h"
#include "mstx/ms_tools_ext.h"
#include "tests/fuzz/steps.h"

namespace flashacl::testing {
namespace {

const char* Words(World& w) {
  constexpr const char* kWords[] = {"step", "", "a \"quoted\"\n\x01 text",
                                    "\xff\xc3", nullptr};
  return w.bytes.Pick(kWords);
}

// Beyond the end of a text, too.
size_t Length(World& w) {
  constexpr size_t kLengths[] = {1, 127, 0, 128, 256, 257};
  return w.bytes.Pick(kLengths);
}

// Never a part of the path: folders come about.
size_t PathLength(World& w) {
  constexpr size_t kLengths[] = {4096, 0, 4097};
  return w.bytes.Pick(kLengths);
}

aclprofConfig* Config(World& w) {
  return w.Get<aclprofConfig*>(Kind::kProfile);
}

aclprofAicoreMetrics Metrics(World& w) {
  return w.bytes.OneIn(2) ? ACL_AICORE_NONE : w.Enum<aclprofAicoreMetrics>(10);
}

const aclprofConfig* NewConfig(World& w) {
  auto* const devices = w.In<std::array<uint32_t, 64>>();
  return aclprofCreateConfig(
      devices == nullptr ? nullptr : devices->data(),
      static_cast<uint32_t>(w.bytes.OneIn(4) ? w.bytes.Below(66) : 1),
      Metrics(w), nullptr, w.Number<uint64_t>());
}

int PushOperator(World& w) {
  std::array<aclprofTensor, 2> tensors{};
  tensors[0].shapeDim = w.Number<uint32_t>();
  aclprofTensorInfo info{};
  info.opNameId = aclprofStr2Id(Words(w));
  info.opTypeId = w.Number<uint64_t>();
  info.tensorNum = static_cast<uint32_t>(w.bytes.Below(3));
  info.tensors = w.bytes.OneIn(8) ? nullptr : tensors.data();
  aclprofEventAttributes attributes{};
  attributes.size = sizeof(attributes);
  attributes.messageType = w.bytes.OneIn(8);
  attributes.message.tensorInfo = w.bytes.OneIn(8) ? nullptr : &info;
  return aclprofRangePushEx(w.bytes.OneIn(16) ? nullptr : &attributes);
}

mstxDomainHandle_t Domain(World& w) {
  if (w.bytes.OneIn(8)) return w.Get<mstxDomainHandle_t>(Kind::kStamp);
  return mstxDomainCreateA(Words(w));
}

int StartRange(World& w) {
  uint32_t number = 0;
  const int status = aclprofRangeStart(w.Get(Kind::kStamp),
                                       w.bytes.OneIn(16) ? nullptr : &number);
  if (uint64_t* const word = w.Word()) *word = number;
  return status;
}

// With the number that a call gave, or any.
uint64_t Number(World& w) {
  const uint64_t* const word = w.bytes.OneIn(8) ? nullptr : w.Word();
  return word == nullptr ? w.Number<uint64_t>() : *word;
}

int Keep(World& w, uint64_t number) {
  if (uint64_t* const word = w.Word()) *word = number;
  return 0;
}

constexpr Step kSteps[] = {
    STEP(aclprofInit(w.Folder(), PathLength(w))),
    STEP(aclprofInit(w.bytes.OneIn(2) ? "/no such folder/x" : nullptr, 17)),
    STEP(aclprofFinalize()),
    STEP(w.PutMade(Kind::kProfile, NewConfig(w))),
    STEP(aclprofDestroyConfig(Config(w))),
    STEP(aclprofStart(Config(w))),
    STEP(aclprofStop(Config(w))),
    STEP(aclprofSetConfig(w.Enum<aclprofConfigType>(18), Words(w), Length(w))),
    STEP(w.PutMade(Kind::kStamp, aclprofCreateStamp())),
    STEP((aclprofDestroyStamp(w.Get(Kind::kStamp)), 0)),
    STEP(aclprofSetStampTraceMessage(w.Get(Kind::kStamp), Words(w),
                                     static_cast<uint32_t>(Length(w)))),
    STEP(aclprofMark(w.Get(Kind::kStamp))),
    STEP(aclprofMarkEx(Words(w), Length(w), w.Get(Kind::kStream))),
    STEP(aclprofPush(w.Get(Kind::kStamp))),
    STEP(aclprofPop()),
    PushOperator,
    STEP(aclprofRangePop()),
    StartRange,
    STEP(aclprofRangeStop(static_cast<uint32_t>(Number(w)))),
    STEP(w.PutMade(Kind::kStepInfo, aclprofCreateStepInfo())),
    STEP((aclprofDestroyStepInfo(w.Get<aclprofStepInfo*>(Kind::kStepInfo)), 0)),
    STEP(aclprofGetStepTimestamp(w.Get<aclprofStepInfo*>(Kind::kStepInfo),
                                 w.Enum<aclprofStepTag>(3),
                                 w.Get(Kind::kStream))),
    STEP((mstxMarkA(Words(w), w.Get(Kind::kStream)), 0)),
    STEP(Keep(w, mstxRangeStartA(Words(w), w.Get(Kind::kStream)))),
    STEP((mstxRangeEnd(Number(w)), 0)),
    STEP((mstxDomainDestroy(Domain(w)), 0)),
    STEP((mstxDomainMarkA(Domain(w), Words(w), w.Get(Kind::kStream)), 0)),
    STEP(Keep(
        w, mstxDomainRangeStartA(Domain(w), Words(w), w.Get(Kind::kStream)))),
    STEP((mstxDomainRangeEnd(Domain(w), Number(w)), 0)),
};

}  // namespace

std::span<const Step> ProfileSteps() { return kSteps; }

}  // namespace flashacl::testing
