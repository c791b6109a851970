// SPDX-License-Identifier: Apache-2.0
// The functions of the C API for labels, and for the jumps in graphs that are
// built by hand.
#include <string_view>
#include <utility>
#include <vector>

#include "acl/context.h"
#include "acl/graph/build.h"
#include "acl/graph/label.h"
#include "acl/graph/lookup.h"
#include "acl/raw_enum.h"

namespace flashacl::acl {
namespace {

constexpr size_t kLongestList = 65535;

template <typename T>
std::shared_ptr<T> FindOf(void* handle, std::string_view function,
                          std::string_view parameter, aclError* error) {
  if (handle == nullptr) {
    *error = FailNull(function, parameter);
    return nullptr;
  }
  auto found = Find<T>(handle);
  if (found == nullptr) {
    *error = FailStale(T::kHandleKind, function, parameter, handle);
  }
  return found;
}

aclError CreateLabel(aclrtLabel* label) {
  constexpr std::string_view kName = "aclrtCreateLabel";
  if (label == nullptr) return FailNull(kName, "label");
  const std::shared_ptr<Context> context = CurrentContext();
  if (context == nullptr) return RequireContext(kName);
  const auto made = Label::Create(context);
  if (made == nullptr) {
    return Fail(
        ACL_ERROR_RT_RESOURCE_ALLOC_FAIL, Title::kRuntime,
        Str("{} failed because the process has no labels left.", kName));
  }
  *label = made->handle();
  return ACL_SUCCESS;
}

aclError FailLabelContext(std::string_view function, std::string_view other) {
  return Fail(ACL_ERROR_RT_LABEL_CONTEXT, Title::kCallSequence,
              Str("{} failed because the label was created in another context "
                  "than {}.",
                  function, other));
}

aclError DestroyLabel(aclrtLabel label) {
  constexpr std::string_view kName = "aclrtDestroyLabel";
  aclError error = ACL_SUCCESS;
  const auto found = FindOf<Label>(label, kName, "label", &error);
  if (found == nullptr) return error;
  error = RequireContext(kName);
  if (error != ACL_SUCCESS) return error;
  if (found->context() != CurrentContext()) {
    return FailLabelContext(kName, "the thread's current one");
  }
  if (found->Destroy()) return ACL_SUCCESS;
  return FailStale(HandleKind::kLabel, kName, "label", label);
}

// A stream that is bound to a graph, and what keeps its tasks; another is
// 107005, or 107027 and 207000 if it is captured.
struct Bound {
  std::shared_ptr<Stream> stream;
  std::shared_ptr<Build> build;
};

aclError FailCaptured(const Stream& stream, std::string_view function) {
  const auto by = stream.recorder();
  if (by != nullptr && by->captures()) {
    const auto error =
        RequireRoot(*static_cast<const Capture&>(*by).graph(), function);
    if (error != ACL_SUCCESS) return error;
  }
  return RequireNotCapturing(stream, function);
}

aclError FindBound(aclrtStream stream, std::string_view function,
                   std::string_view parameter, Bound* found) {
  if (stream == nullptr) return FailNull(function, parameter);
  aclError error = ACL_SUCCESS;
  found->stream = FindStream(stream, function, &error);
  if (found->stream == nullptr) return error;
  error = FailCaptured(*found->stream, function);
  if (error != ACL_SUCCESS) return error;
  const auto by = found->stream->recorder();
  if (by != nullptr && by->kind() == RecorderKind::kBuild) {
    found->build = std::static_pointer_cast<Build>(by);
    return ACL_SUCCESS;
  }
  return Fail(ACL_ERROR_RT_STREAM_MODEL, Title::kCallSequence,
              Str("{} failed because {} {} is not bound to a graph. Call "
                  "aclmdlRIBindStream first.",
                  function, parameter, found->stream->id()));
}

// What is appended to a stream, `at`, starts `started`, of the same graph.
aclError FindStarted(aclrtStream started, const Bound& at,
                     std::string_view function, std::string_view parameter,
                     WeakBinding* binding) {
  Bound found;
  if (aclError error = FindBound(started, function, parameter, &found)) {
    return error;
  }
  *binding = at.build->BindingOf(*found.stream);
  if (!binding->expired()) return ACL_SUCCESS;
  return Fail(ACL_ERROR_RT_STREAM_MODEL, Title::kCallSequence,
              Str("{} failed because {} {} and stream {} are bound to "
                  "different graphs.",
                  function, parameter, found.stream->id(), at.stream->id()));
}

aclError SetLabel(aclrtLabel label, aclrtStream stream) {
  constexpr std::string_view kName = "aclrtSetLabel";
  if (stream == nullptr && label != nullptr) return FailNull(kName, "stream");
  aclError error = ACL_SUCCESS;
  const auto found = FindOf<Label>(label, kName, "label", &error);
  if (found == nullptr) return error;
  Bound at;
  error = FindBound(stream, kName, "stream", &at);
  if (error != ACL_SUCCESS) return error;
  if (found->context() != at.stream->context()) {
    return FailLabelContext(kName, "the stream");
  }
  return at.build->SetLabel(*at.stream, *found, kName);
}

aclError CreateList(aclrtLabel* labels, size_t num, aclrtLabelList* list) {
  constexpr std::string_view kName = "aclrtCreateLabelList";
  if (labels == nullptr) return FailNull(kName, "labels");
  if (list == nullptr) return FailNull(kName, "labelList");
  if (num == 0 || num > kLongestList) {
    return FailValue(ACL_ERROR_RT_PARAM_INVALID, kName, "num", Str("{}", num),
                     Str("1 to {}", kLongestList));
  }
  std::vector<std::shared_ptr<Label>> all;
  all.reserve(num);
  for (size_t i = 0; i < num; ++i) {
    aclError error = ACL_SUCCESS;
    all.push_back(
        FindOf<Label>(labels[i], kName, Str("labels[{}]", i), &error));
    if (error != ACL_SUCCESS) return error;
  }
  const auto context = all[0]->context();
  const auto made =
      context == nullptr ? nullptr : LabelList::Create(context, std::move(all));
  if (made == nullptr) {
    return Fail(ACL_ERROR_RT_RESOURCE_ALLOC_FAIL, Title::kRuntime,
                Str("{} failed because there are no handles left.", kName));
  }
  *list = made->handle();
  return ACL_SUCCESS;
}

aclError DestroyList(aclrtLabelList list) {
  constexpr std::string_view kName = "aclrtDestroyLabelList";
  aclError error = ACL_SUCCESS;
  const auto found = FindOf<LabelList>(list, kName, "labelList", &error);
  if (found == nullptr || found->Destroy()) return error;
  return FailStale(HandleKind::kLabelList, kName, "labelList", list);
}

// A number in device memory.
aclError CheckNumber(const void* at, size_t bytes, std::string_view function,
                     std::string_view parameter) {
  Block block;
  const bool fits =
      FindBlock(at, &block) && block.device() &&
      block.reserved - static_cast<size_t>(static_cast<const std::byte*>(at) -
                                           block.base) >=
          bytes;
  if (fits && reinterpret_cast<uintptr_t>(at) % bytes == 0) return ACL_SUCCESS;
  return FailValue(
      ACL_ERROR_RT_PARAM_INVALID, function, parameter, Str("{}", at),
      Str("{} bytes of device memory, at a multiple of {}", bytes, bytes));
}

aclError SwitchLabel(const void* index, uint32_t count, aclrtLabelList list,
                     aclrtStream stream) {
  constexpr std::string_view kName = "aclrtSwitchLabelByIndex";
  if (index == nullptr) return FailNull(kName, "ptr");
  aclError error = ACL_SUCCESS;
  const auto found = FindOf<LabelList>(list, kName, "labelList", &error);
  if (found == nullptr) return error;
  Bound at;
  error = FindBound(stream, kName, "stream", &at);
  if (error != ACL_SUCCESS) return error;
  const auto& labels = found->labels();
  if (count == 0 || count > labels.size()) {
    return FailValue(ACL_ERROR_RT_PARAM_INVALID, kName, "maxValue",
                     Str("{}", count),
                     Str("1 to {}, the labels of the list", labels.size()));
  }
  error = CheckNumber(index, sizeof(uint32_t), kName, "ptr");
  if (error != ACL_SUCCESS) return error;
  const void* const addresses[] = {index};
  return at.build->Add(
      *at.stream,
      MakeLabelSwitch(static_cast<const std::byte*>(index), BlockUse(addresses),
                      {labels.begin(), labels.begin() + count}),
      kName);
}

aclError CheckRange(int value, int last, std::string_view function,
                    std::string_view parameter, std::string_view expected) {
  if (value >= 0 && value <= last) return ACL_SUCCESS;
  return FailValue(ACL_ERROR_RT_PARAM_INVALID, function, parameter,
                   Str("{}", value), expected);
}

// What aclrtSwitchStream compares.
aclError ReadComparison(const void* left, int condition, const void* right,
                        int type, Comparison* comparison) {
  constexpr std::string_view kName = "aclrtSwitchStream";
  aclError error = CheckRange(condition, ACL_RT_LESS_OR_EQUAL, kName,
                              "condition", "an aclrtCondition");
  if (error == ACL_SUCCESS) {
    error = CheckRange(type, ACL_RT_SWITCH_INT64, kName, "dataType",
                       "an aclrtCompareDataType");
  }
  const bool wide = type == ACL_RT_SWITCH_INT64;
  const size_t bytes = wide ? sizeof(int64_t) : sizeof(int32_t);
  if (error == ACL_SUCCESS) {
    error = CheckNumber(left, bytes, kName, "leftValue");
  }
  if (error == ACL_SUCCESS) {
    error = CheckNumber(right, bytes, kName, "rightValue");
  }
  if (error != ACL_SUCCESS) return error;
  const void* const addresses[] = {left, right};
  *comparison = {static_cast<const std::byte*>(left),
                 static_cast<const std::byte*>(right), condition, wide,
                 BlockUse(addresses)};
  return ACL_SUCCESS;
}

aclError SwitchStream(const void* left, int condition, const void* right,
                      int type, aclrtStream true_stream,
                      aclrtStream false_stream, aclrtStream stream) {
  constexpr std::string_view kName = "aclrtSwitchStream";
  if (left == nullptr) return FailNull(kName, "leftValue");
  if (right == nullptr) return FailNull(kName, "rightValue");
  if (true_stream == nullptr) return FailNull(kName, "trueStream");
  if (stream == nullptr) return FailNull(kName, "stream");
  if (false_stream != nullptr) {
    return FailValue(ACL_ERROR_INVALID_PARAM, kName, "falseStream",
                     Str("{}", false_stream),
                     "NULL: where the comparison does not hold, the stream "
                     "goes on");
  }
  Comparison comparison;
  aclError error = ReadComparison(left, condition, right, type, &comparison);
  if (error != ACL_SUCCESS) return error;
  Bound at;
  error = FindBound(stream, kName, "stream", &at);
  if (error != ACL_SUCCESS) return error;
  WeakBinding started;
  error = FindStarted(true_stream, at, kName, "trueStream", &started);
  if (error != ACL_SUCCESS) return error;
  return at.build->Add(*at.stream,
                       MakeStreamSwitch(std::move(comparison), started), kName);
}

aclError Activate(aclrtStream started, aclrtStream stream) {
  constexpr std::string_view kName = "aclrtActiveStream";
  if (started == nullptr) return FailNull(kName, "activeStream");
  Bound at;
  aclError error = FindBound(stream, kName, "stream", &at);
  if (error != ACL_SUCCESS) return error;
  WeakBinding binding;
  error = FindStarted(started, at, kName, "activeStream", &binding);
  if (error != ACL_SUCCESS) return error;
  return at.build->Add(*at.stream, MakeActivation(binding), kName);
}

}  // namespace
}  // namespace flashacl::acl

namespace a = flashacl::acl;

extern "C" {

aclError aclrtCreateLabel(aclrtLabel* label) {
  return a::GuardRuntime([&] { return a::CreateLabel(label); });
}

aclError aclrtDestroyLabel(aclrtLabel label) {
  return a::GuardRuntime([&] { return a::DestroyLabel(label); });
}

aclError aclrtSetLabel(aclrtLabel label, aclrtStream stream) {
  return a::GuardRuntime([&] { return a::SetLabel(label, stream); });
}

aclError aclrtCreateLabelList(aclrtLabel* labels, size_t num,
                              aclrtLabelList* labelList) {
  return a::GuardRuntime([&] { return a::CreateList(labels, num, labelList); });
}

aclError aclrtDestroyLabelList(aclrtLabelList labelList) {
  return a::GuardRuntime([&] { return a::DestroyList(labelList); });
}

aclError aclrtSwitchLabelByIndex(void* ptr, uint32_t maxValue,
                                 aclrtLabelList labelList, aclrtStream stream) {
  return a::GuardRuntime(
      [&] { return a::SwitchLabel(ptr, maxValue, labelList, stream); });
}

aclError aclrtSwitchStream(void* leftValue, aclrtCondition condition,
                           void* rightValue, aclrtCompareDataType dataType,
                           aclrtStream trueStream, aclrtStream falseStream,
                           aclrtStream stream) {
  return a::GuardRuntime([&] {
    return a::SwitchStream(leftValue, a::Raw(condition), rightValue,
                           a::Raw(dataType), trueStream, falseStream, stream);
  });
}

aclError aclrtActiveStream(aclrtStream activeStream, aclrtStream stream) {
  return a::GuardRuntime([&] { return a::Activate(activeStream, stream); });
}

}  // extern "C"
