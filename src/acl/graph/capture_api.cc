// SPDX-License-Identifier: Apache-2.0
// The functions of the C API that capture graphs and update them.
#include <string_view>
#include <utility>

#include "acl/capturing.h"
#include "acl/context.h"
#include "acl/graph/lookup.h"
#include "acl/graph/task_group.h"
#include "acl/raw_enum.h"

namespace flashacl::acl {
namespace {

aclError CheckMode(std::string_view function, int mode) {
  if (mode >= ACL_MODEL_RI_CAPTURE_MODE_GLOBAL &&
      mode <= ACL_MODEL_RI_CAPTURE_MODE_RELAXED) {
    return ACL_SUCCESS;
  }
  return FailValue(ACL_ERROR_RT_PARAM_INVALID, function, "mode",
                   Str("{}", mode), "0, 1 or 2 of aclmdlRICaptureMode");
}

// What Begin asks of a stream, whatever graph it fills. Null, with *error set,
// if it may not be captured.
std::shared_ptr<Stream> FindCapturable(std::string_view function,
                                       aclrtStream stream, int mode,
                                       aclError* error) {
  if (stream == nullptr) {
    *error = FailNull(function, "stream");
    return nullptr;
  }
  *error = CheckMode(function, mode);
  const auto special = Find<Stream>(stream);
  if (*error == ACL_SUCCESS && special != nullptr && special->persistent()) {
    *error = Fail(ACL_ERROR_RT_INTERNAL_ERROR, Title::kNotSupported,
                  Str("{} failed because stream {} was created with "
                      "ACL_STREAM_PERSISTENT; it can be bound to a graph, not "
                      "captured.",
                      function, special->id()));
  }
  if (*error == ACL_SUCCESS) *error = RequireContext(function);
  if (*error != ACL_SUCCESS) return nullptr;
  std::shared_ptr<Stream> found = FindStream(stream, function, error);
  if (found == nullptr) return nullptr;
  if (found->context() != CurrentContext()) {
    *error = Fail(ACL_ERROR_RT_STREAM_CONTEXT, Title::kStreamContext,
                  Str("{} failed because stream {} is not of the current "
                      "context.",
                      function, found->id()));
  } else if (found->is_default()) {
    *error =
        Fail(ACL_ERROR_RT_FEATURE_NOT_SUPPORT, Title::kNotSupported,
             Str("{} failed because the default stream of a context cannot "
                 "be captured. Use a stream of aclrtCreateStream.",
                 function));
  } else {
    *error = RequireNotCapturing(*found, function);
  }
  if (*error == ACL_SUCCESS && found->recorder() != nullptr) {
    *error = Fail(ACL_ERROR_STREAM_TASK_GROUP_STATUS, Title::kCallSequence,
                  Str("{} failed because stream {} updates a group of tasks.",
                      function, found->id()));
  }
  return *error == ACL_SUCCESS ? found : nullptr;
}

aclError Begin(aclrtStream stream, int mode) {
  constexpr std::string_view kName = "aclmdlRICaptureBegin";
  aclError error = ACL_SUCCESS;
  const auto found = FindCapturable(kName, stream, mode, &error);
  if (found == nullptr) return error;
  const auto graph = Graph::Create(found->context());
  if (graph == nullptr) {
    return Fail(ACL_ERROR_RT_RESOURCE_ALLOC_FAIL, Title::kRuntime,
                "aclmdlRICaptureBegin failed because there are no handles "
                "left.");
  }
  // Whatever fails, no graph stays that nobody knows.
  error =
      GuardRuntime([&] { return Capture::Begin(found, graph, mode, kName); });
  if (error != ACL_SUCCESS) graph->Discard();
  return error;
}

aclError BeginChild(aclrtStream stream, aclmdlRI model, int mode) {
  constexpr std::string_view kName = "aclmdlRICaptureToModelRIBegin";
  aclError error = ACL_SUCCESS;
  const auto found = FindCapturable(kName, stream, mode, &error);
  if (found == nullptr) return error;
  const auto graph = FindGraph(model, kName, &error);
  if (graph == nullptr) return error;
  if (!graph->is_child()) {
    return FailValue(ACL_ERROR_RT_PARAM_INVALID, kName, "modelRI",
                     Str("{}", model), "a graph that aclmdlRIAddCondTask made");
  }
  const auto root = graph->LockRoot();
  if (!graph->captured() && (root == nullptr || root->capture() == nullptr)) {
    return Fail(
        ACL_ERROR_RT_PARAM_INVALID, Title::kCallSequence,
        Str("{} failed because the capture that graph {} belongs to has "
            "ended.",
            kName, graph->id()));
  }
  return Capture::Begin(found, graph, mode, kName);
}

aclError GetInfo(aclrtStream stream, aclmdlRICaptureStatus* status,
                 aclmdlRI* model) {
  constexpr std::string_view kName = "aclmdlRICaptureGetInfo";
  if (stream == nullptr) return FailNull(kName, "stream");
  if (status == nullptr && model == nullptr) {
    return FailNull(kName, "status and modelRI, of which one");
  }
  auto answer = ACL_MODEL_RI_CAPTURE_STATUS_NONE;
  aclmdlRI graph = nullptr;
  std::shared_ptr<Recorder> recorder;
  // Adapters ask before every operator: the stream is looked at only where it
  // could be captured.
  if (AnyCapture()) {
    aclError error = ACL_SUCCESS;
    const auto found = FindStream(stream, kName, &error);
    if (found == nullptr) return error;
    recorder = found->recorder();
  }
  if (recorder != nullptr && recorder->captures()) {
    const auto& capture = static_cast<const Capture&>(*recorder);
    answer = capture.status();
    if (answer != ACL_MODEL_RI_CAPTURE_STATUS_NONE) {
      graph = capture.graph()->handle();
    }
  }
  if (status != nullptr) *status = answer;
  if (model != nullptr) *model = graph;
  return ACL_SUCCESS;
}

// Whether the end of the stream's capture needs nowhere to put the graph.
bool CapturesChild(aclrtStream stream) {
  const auto found = Find<Stream>(stream);
  const auto recorder = found == nullptr ? nullptr : found->recorder();
  return recorder != nullptr && recorder->captures() &&
         static_cast<const Capture&>(*recorder).graph()->is_child();
}

aclError EndCapture(aclrtStream stream, aclmdlRI* model) {
  constexpr std::string_view kName = "aclmdlRICaptureEnd";
  if (stream == nullptr) return FailNull(kName, "stream");
  if (model == nullptr && !CapturesChild(stream)) {
    return FailValue(ACL_ERROR_RT_PARAM_INVALID, kName, "modelRI", "NULL",
                     "where the graph's handle goes");
  }
  aclError error = RequireContext(kName);
  if (error != ACL_SUCCESS) return error;
  const auto found = FindStream(stream, kName, &error);
  if (found == nullptr) return error;
  if (found->is_default()) {
    return Fail(ACL_ERROR_RT_FEATURE_NOT_SUPPORT, Title::kNotSupported,
                "aclmdlRICaptureEnd failed because the default stream of a "
                "context cannot be captured.");
  }
  const auto capture = FindCapture(*found, kName, &error);
  if (capture == nullptr) return error;
  const std::shared_ptr<Graph> graph = capture->graph();
  error = capture->End(*found, kName);
  if (model != nullptr && error != ACL_ERROR_RT_STREAM_CAPTURE_UNMATCHED) {
    *model = error == ACL_SUCCESS ? graph->handle() : nullptr;
  }
  return error;
}

aclError ExchangeMode(aclmdlRICaptureMode* mode) {
  constexpr std::string_view kName = "aclmdlRICaptureThreadExchangeMode";
  if (mode == nullptr) return FailNull(kName, "mode");
  if (aclError error = CheckMode(kName, Raw(*mode))) return error;
  if (aclError error = RequireContext(kName)) return error;
  *mode = static_cast<aclmdlRICaptureMode>(ExchangeCaptureMode(Raw(*mode)));
  return ACL_SUCCESS;
}

aclError BeginGroup(aclrtStream stream) {
  constexpr std::string_view kName = "aclmdlRICaptureTaskGrpBegin";
  aclError error = ACL_SUCCESS;
  const auto found = FindNamedStream(stream, kName, &error);
  if (found == nullptr) return error;
  const auto recorder = found->recorder();
  if (recorder != nullptr && recorder->kind() == RecorderKind::kUpdate) {
    return Fail(ACL_ERROR_STREAM_TASK_GROUP_STATUS, Title::kCallSequence,
                Str("{} failed because stream {} updates a group of tasks.",
                    kName, found->id()));
  }
  const auto capture = FindCapture(*found, kName, &error);
  return capture == nullptr ? error : capture->BeginGroup(*found, kName);
}

aclError EndGroup(aclrtStream stream, aclrtTaskGrp* handle) {
  constexpr std::string_view kName = "aclmdlRICaptureTaskGrpEnd";
  aclError error = ACL_SUCCESS;
  const auto found = FindNamedStream(stream, kName, &error);
  if (found == nullptr) return error;
  if (handle == nullptr) return FailNull(kName, "handle");
  const auto capture = FindCapture(*found, kName, &error);
  return capture == nullptr ? error : capture->EndGroup(*found, kName, handle);
}

aclError BeginUpdate(aclrtStream stream, aclrtTaskGrp handle) {
  constexpr std::string_view kName = "aclmdlRICaptureTaskUpdateBegin";
  aclError error = ACL_SUCCESS;
  const auto found = FindNamedStream(stream, kName, &error);
  if (found == nullptr) return error;
  if (handle == nullptr) return FailNull(kName, "handle");
  const auto group = Find<TaskGroup>(handle);
  if (group == nullptr) {
    return FailValue(ACL_ERROR_RT_PARAM_INVALID, kName, "handle",
                     Str("{}", handle),
                     ExpectedInsteadOf(HandleKind::kTaskGroup, handle));
  }
  error = RequireNotCapturing(*found, kName);
  if (error == ACL_SUCCESS) error = RequireNotBound(*found, kName);
  if (error != ACL_SUCCESS) return error;
  if (found->persistent()) {
    return Fail(ACL_ERROR_RT_STREAM_MODEL, Title::kCallSequence,
                Str("{} failed because stream {} was created with "
                    "ACL_STREAM_PERSISTENT, which is for graphs that are "
                    "built by hand.",
                    kName, found->id()));
  }
  const auto fail = [&](std::string_view why) {
    return Fail(ACL_ERROR_STREAM_TASK_GROUP_STATUS, Title::kCallSequence,
                Str("{} failed because {}.", kName, why));
  };
  if (found->recorder() != nullptr) {
    return fail(Str("stream {} updates a group of tasks", found->id()));
  }
  if (!group->StartUpdate()) {
    return fail("another stream updates the group of tasks");
  }
  struct Unfinished {
    TaskGroup* group;
    ~Unfinished() {
      if (group != nullptr) group->EndUpdate();
    }
  } unfinished{group.get()};
  auto update = std::make_shared<Update>(group);
  unfinished.group = nullptr;  // from here on it is the update's
  if (found->ReplaceRecorder(nullptr, std::move(update))) return ACL_SUCCESS;
  return fail(Str("stream {} is used by another thread", found->id()));
}

aclError EndUpdate(aclrtStream stream) {
  constexpr std::string_view kName = "aclmdlRICaptureTaskUpdateEnd";
  aclError error = ACL_SUCCESS;
  const auto found = FindNamedStream(stream, kName, &error);
  if (found == nullptr) return error;
  const auto recorder = found->recorder();
  if (recorder != nullptr && recorder->captures()) {
    return RequireNotCapturing(*found, kName);
  }
  if (recorder == nullptr || recorder->kind() != RecorderKind::kUpdate) {
    return Fail(ACL_ERROR_STREAM_TASK_GROUP_STATUS, Title::kCallSequence,
                Str("{} failed because stream {} updates no group of tasks.",
                    kName, found->id()));
  }
  return std::static_pointer_cast<Update>(recorder)->End(*found, kName);
}

}  // namespace
}  // namespace flashacl::acl

namespace a = flashacl::acl;

extern "C" {

aclError aclmdlRICaptureBegin(aclrtStream stream, aclmdlRICaptureMode mode) {
  return a::GuardRuntime([&] { return a::Begin(stream, a::Raw(mode)); });
}

aclError aclmdlRICaptureToModelRIBegin(aclrtStream stream, aclmdlRI modelRI,
                                       aclmdlRICaptureMode mode) {
  return a::GuardRuntime(
      [&] { return a::BeginChild(stream, modelRI, a::Raw(mode)); });
}

aclError aclmdlRICaptureGetInfo(aclrtStream stream,
                                aclmdlRICaptureStatus* status,
                                aclmdlRI* modelRI) {
  return a::GuardRuntime([&] { return a::GetInfo(stream, status, modelRI); });
}

aclError aclmdlRICaptureEnd(aclrtStream stream, aclmdlRI* modelRI) {
  return a::GuardRuntime([&] { return a::EndCapture(stream, modelRI); });
}

aclError aclmdlRICaptureThreadExchangeMode(aclmdlRICaptureMode* mode) {
  return a::GuardRuntime([&] { return a::ExchangeMode(mode); });
}

aclError aclmdlRICaptureTaskGrpBegin(aclrtStream stream) {
  return a::GuardRuntime([&] { return a::BeginGroup(stream); });
}

aclError aclmdlRICaptureTaskGrpEnd(aclrtStream stream, aclrtTaskGrp* handle) {
  return a::GuardRuntime([&] { return a::EndGroup(stream, handle); });
}

aclError aclmdlRICaptureTaskUpdateBegin(aclrtStream stream,
                                        aclrtTaskGrp handle) {
  return a::GuardRuntime([&] { return a::BeginUpdate(stream, handle); });
}

aclError aclmdlRICaptureTaskUpdateEnd(aclrtStream stream) {
  return a::GuardRuntime([&] { return a::EndUpdate(stream); });
}

}  // extern "C"
