// SPDX-License-Identifier: Apache-2.0
// Marks, ranges and steps of the program: the rest of acl_prof.h.
#include <algorithm>
#include <array>
#include <cstring>
#include <map>
#include <mutex>
#include <string>
#include <string_view>
#include <utility>

#include "acl/acl_prof.h"
#include "acl/error.h"
#include "acl/handle.h"
#include "acl/profile/ranges.h"
#include "acl/raw_enum.h"
#include "base/fork.h"
#include "base/once.h"

namespace flashacl::acl::profile {
namespace {

constexpr size_t kMaxMark = 127;

struct Stamp {
  static constexpr HandleKind kHandleKind = HandleKind::kStamp;

  std::mutex mutex;
  std::shared_ptr<const Said> said;
};

struct StepInfo {
  static constexpr HandleKind kHandleKind = HandleKind::kStepInfo;

  std::mutex mutex;
  std::array<bool, 2> tagged{};  // by aclprofStepTag
  std::shared_ptr<OpenRange> range;
};

std::shared_ptr<const Said> Saying(std::string text) {
  return std::make_shared<const Said>(Said{std::move(text)});
}

// At most `length` characters.
std::string TextOf(const char* text, size_t length) {
  return {text, strnlen(text, length)};
}

template <typename T>
aclError FailHandle(std::string_view function, std::string_view parameter,
                    const void* handle) {
  if (handle == nullptr) return FailNull(function, parameter);
  return FailValue(ACL_ERROR_INVALID_PARAM, function, parameter,
                   Str("{}", handle),
                   ExpectedInsteadOf(T::kHandleKind, handle));
}

// An object of the program, or null with a message.
template <typename T>
void* Create(std::string_view function, std::shared_ptr<T> object) {
  void* const made = NewHandle(std::move(object));
  if (made == nullptr) {
    Fail(ACL_ERROR_RT_RESOURCE_ALLOC_FAIL, Title::kRuntime,
         Str("{} failed because there are no handles left.", function));
  }
  return made;
}

// What the stamp says now; null, and *error, if it is none.
std::shared_ptr<const Said> Read(std::string_view function, const void* stamp,
                                 aclError* error) {
  const auto found = Find<Stamp>(stamp);
  if (found == nullptr) {
    *error = FailHandle<Stamp>(function, "stamp", stamp);
    return nullptr;
  }
  std::lock_guard lock(found->mutex);
  return found->said;
}

aclError SetMessage(const void* stamp, const char* message, uint32_t length) {
  constexpr std::string_view kName = "aclprofSetStampTraceMessage";
  const auto found = Find<Stamp>(stamp);
  if (found == nullptr) return FailHandle<Stamp>(kName, "stamp", stamp);
  if (message == nullptr) return FailNull(kName, "msg");
  auto said = Saying(TextOf(message, length));
  std::lock_guard lock(found->mutex);
  found->said.swap(said);
  return ACL_SUCCESS;
}

aclError MarkEx(const char* message, size_t length, aclrtStream stream) {
  constexpr std::string_view kName = "aclprofMarkEx";
  if (message == nullptr) return FailNull(kName, "msg");
  if (length == 0 || length > kMaxMark) {
    return FailValue(ACL_ERROR_INVALID_PARAM, kName, "msgLen",
                     Str("{}", length), Str("[1, {}]", kMaxMark));
  }
  return MarkOnStream(kName, Saying(TextOf(message, length)), stream);
}

OpenRanges& TheRanges() {
  static constinit MadeOnce<OpenRanges> ranges;
  return ranges.Get([] { return OpenRanges(UINT32_MAX); });
}

aclError StartRange(const void* stamp, uint32_t* number) {
  constexpr std::string_view kName = "aclprofRangeStart";
  aclError error = ACL_SUCCESS;
  const auto said = Read(kName, stamp, &error);
  if (said == nullptr) return error;
  if (number == nullptr) return FailNull(kName, "rangeId");
  std::shared_ptr<OpenRange> range;
  if (IsRecording()) {
    range = std::make_shared<OpenRange>();
    range->said = said;
    range->begin_ns = Now();
  }
  *number = static_cast<uint32_t>(TheRanges().Add(std::move(range)));
  return ACL_SUCCESS;
}

// The texts that have numbers.
struct Texts {
  static constexpr size_t kMax = size_t{1} << 16;

  ProcessMutex mutex;
  std::map<uint64_t, std::string> by_number;
};

Texts& TheTexts() {
  static constinit MadeOnce<Texts> texts;
  return *texts;
}

// FNV-1a of 64 bits.
uint64_t NumberOf(std::string_view text) {
  uint64_t hash = 0xCBF29CE484222325;
  for (const char c : text) {
    hash = (hash ^ static_cast<unsigned char>(c)) * 0x100000001B3;
  }
  return hash == 0 ? 1 : hash;
}

uint64_t Remember(std::string_view text) {
  const uint64_t number = NumberOf(text);
  Texts& texts = TheTexts();
  std::lock_guard lock(texts.mutex);
  if (texts.by_number.size() < Texts::kMax) {
    texts.by_number.emplace(number, text);
  }
  return number;
}

// The text of a number; what can be said of it if there is none.
std::string TextOf(uint64_t number) {
  Texts& texts = TheTexts();
  std::lock_guard lock(texts.mutex);
  const auto found = texts.by_number.find(number);
  return found == texts.by_number.end() ? Str("{:#x}", number) : found->second;
}

// "MatMul [2, 3] [3, 4]".
std::string Detail(const aclprofTensorInfo& info) {
  std::string detail = TextOf(info.opTypeId);
  if (info.tensors == nullptr) return detail;
  for (uint32_t n = 0; n < info.tensorNum; ++n) {
    const aclprofTensor& tensor = info.tensors[n];
    const auto end = tensor.shape +
                     std::min<size_t>(tensor.shapeDim, std::size(tensor.shape));
    detail +=
        Str(" [{}]", Join(std::vector<uint32_t>(tensor.shape, end), ", "));
  }
  return detail;
}

aclError PushEx(const aclprofEventAttributes* attributes) {
  if (attributes == nullptr)
    return FailNull("aclprofRangePushEx", "attributes");
  if (!IsRecording()) return ACL_SUCCESS;
  Said said{"range"};
  const aclprofTensorInfo* const info = attributes->message.tensorInfo;
  if (attributes->messageType == 0 && info != nullptr) {
    said.text = TextOf(info->opNameId);
    said.detail = Detail(*info);
  }
  Push(std::make_shared<const Said>(std::move(said)));
  return ACL_SUCCESS;
}

aclError MarkStep(const aclprofStepInfo* handle, int tag, aclrtStream stream) {
  constexpr std::string_view kName = "aclprofGetStepTimestamp";
  const auto step = Find<StepInfo>(handle);
  if (step == nullptr) return FailHandle<StepInfo>(kName, "stepInfo", handle);
  if (tag != ACL_STEP_START && tag != ACL_STEP_END) {
    return FailValue(ACL_ERROR_INVALID_PARAM, kName, "tag", Str("{}", tag),
                     "ACL_STEP_START or ACL_STEP_END");
  }
  std::lock_guard lock(step->mutex);
  bool& tagged = step->tagged[static_cast<size_t>(tag)];
  if (tagged) {
    return Fail(
        ACL_ERROR_INVALID_PARAM, Title::kReason,
        Str("{} failed because the step has had tag {} before.", kName, tag));
  }
  const aclError error = tag == ACL_STEP_START
                             ? BeginOnStream(kName, step->range, stream)
                             : EndOnStream(kName, step->range, stream);
  tagged = error == ACL_SUCCESS;
  return error;
}

}  // namespace
}  // namespace flashacl::acl::profile

namespace a = flashacl::acl;
namespace p = flashacl::acl::profile;

extern "C" {

void* aclprofCreateStamp(void) {
  void* made = nullptr;
  (void)a::GuardRuntime([&] {
    auto stamp = std::make_shared<p::Stamp>();
    stamp->said = p::Saying("stamp");
    made = p::Create("aclprofCreateStamp", std::move(stamp));
    return ACL_SUCCESS;
  });
  return made;
}

void aclprofDestroyStamp(void* stamp) {
  (void)a::GuardRuntime([&]() -> aclError {
    if (stamp == nullptr || a::Take<p::Stamp>(stamp) != nullptr) {
      return ACL_SUCCESS;
    }
    return p::FailHandle<p::Stamp>("aclprofDestroyStamp", "stamp", stamp);
  });
}

aclError aclprofSetStampTraceMessage(void* stamp, const char* msg,
                                     uint32_t msgLen) {
  return a::GuardRuntime([&] { return p::SetMessage(stamp, msg, msgLen); });
}

aclError aclprofMark(void* stamp) {
  return a::GuardRuntime([&] {
    aclError error = ACL_SUCCESS;
    auto said = p::Read("aclprofMark", stamp, &error);
    if (said != nullptr) p::Mark(std::move(said));
    return error;
  });
}

aclError aclprofMarkEx(const char* msg, size_t msgLen, aclrtStream stream) {
  return a::GuardRuntime([&] { return p::MarkEx(msg, msgLen, stream); });
}

aclError aclprofPush(void* stamp) {
  return a::GuardRuntime([&] {
    aclError error = ACL_SUCCESS;
    auto said = p::Read("aclprofPush", stamp, &error);
    if (said != nullptr && p::IsRecording()) p::Push(std::move(said));
    return error;
  });
}

aclError aclprofPop(void) {
  if (p::IsRecording()) p::Pop();
  return ACL_SUCCESS;
}

aclError aclprofRangePushEx(aclprofEventAttributes* attributes) {
  return a::GuardRuntime([&] { return p::PushEx(attributes); });
}

aclError aclprofRangePop(void) { return aclprofPop(); }

uint64_t aclprofStr2Id(const char* message) {
  if (message == nullptr) return 0;
  uint64_t number = p::NumberOf(message);
  (void)a::GuardRuntime([&] {
    p::Remember(message);
    return ACL_SUCCESS;
  });
  return number;
}

aclError aclprofRangeStart(void* stamp, uint32_t* rangeId) {
  return a::GuardRuntime([&] { return p::StartRange(stamp, rangeId); });
}

aclError aclprofRangeStop(uint32_t rangeId) {
  return a::GuardRuntime([&] {
    const auto range = p::TheRanges().Take(rangeId);
    if (range != nullptr) p::EndRange(*range);
    return ACL_SUCCESS;
  });
}

aclprofStepInfo* aclprofCreateStepInfo(void) {
  void* made = nullptr;
  (void)a::GuardRuntime([&] {
    auto step = std::make_shared<p::StepInfo>();
    step->range = std::make_shared<p::OpenRange>();
    step->range->said = p::Saying("step");
    made = p::Create("aclprofCreateStepInfo", std::move(step));
    return ACL_SUCCESS;
  });
  return static_cast<aclprofStepInfo*>(made);
}

void aclprofDestroyStepInfo(aclprofStepInfo* stepInfo) {
  (void)a::GuardRuntime([&]() -> aclError {
    if (stepInfo == nullptr || a::Take<p::StepInfo>(stepInfo) != nullptr) {
      return ACL_SUCCESS;
    }
    return p::FailHandle<p::StepInfo>("aclprofDestroyStepInfo", "stepInfo",
                                      stepInfo);
  });
}

aclError aclprofGetStepTimestamp(aclprofStepInfo* stepInfo, aclprofStepTag tag,
                                 aclrtStream stream) {
  return a::GuardRuntime(
      [&] { return p::MarkStep(stepInfo, a::Raw(tag), stream); });
}

}  // extern "C"
