// SPDX-License-Identifier: Apache-2.0
// The functions of the C API that build graphs by hand.
#include <string_view>

#include "acl/context.h"
#include "acl/graph/build.h"
#include "acl/graph/lookup.h"

namespace flashacl::acl {
namespace {

aclError Begin(aclmdlRI* model, uint32_t flag) {
  constexpr std::string_view kName = "aclmdlRIBuildBegin";
  if (model == nullptr) return FailNull(kName, "modelRI");
  if (flag != 0) {
    return FailValue(ACL_ERROR_RT_PARAM_INVALID, kName, "flag", Str("{}", flag),
                     "0");
  }
  const std::shared_ptr<Context> context = CurrentContext();
  if (context == nullptr) return RequireContext(kName);
  const auto graph = Graph::Create(context);
  if (graph == nullptr) {
    return Fail(ACL_ERROR_RT_RESOURCE_ALLOC_FAIL, Title::kRuntime,
                Str("{} failed because there are no handles left.", kName));
  }
  // Whatever fails, no graph stays that nobody knows.
  const aclError error = GuardRuntime([&]() -> aclError {
    graph->StartBuild(context);
    return ACL_SUCCESS;
  });
  if (error != ACL_SUCCESS) {
    graph->Discard();
    return error;
  }
  *model = graph->handle();
  return ACL_SUCCESS;
}

// A graph that is built by hand; any other is 207000.
std::shared_ptr<Graph> FindBuilt(aclmdlRI model, std::string_view function,
                                 aclError* error) {
  const auto graph = FindGraph(model, function, error);
  if (graph == nullptr || graph->build() != nullptr) return graph;
  *error = Fail(ACL_ERROR_RT_FEATURE_NOT_SUPPORT, Title::kNotSupported,
                Str("{} failed because graph {} is captured; streams are bound "
                    "to graphs of aclmdlRIBuildBegin.",
                    function, graph->id()));
  return nullptr;
}

// What may be bound to `graph`; 107005 for the default stream and for one that
// is bound.
aclError CheckBindable(const Stream& stream, const Graph& graph,
                       std::string_view function) {
  aclError error = RequireNotCapturing(stream, function);
  if (error == ACL_SUCCESS) error = RequireNotBound(stream, function);
  if (error != ACL_SUCCESS) return error;
  if (!stream.persistent()) {
    return FailValue(ACL_ERROR_RT_PARAM_INVALID, function, "stream",
                     Str("stream {}", stream.id()),
                     "one that was created with ACL_STREAM_PERSISTENT");
  }
  if (stream.context() == graph.context()) return ACL_SUCCESS;
  return Fail(ACL_ERROR_RT_STREAM_CONTEXT, Title::kStreamContext,
              Str("{} failed because stream {} and graph {} are of different "
                  "contexts.",
                  function, stream.id(), graph.id()));
}

aclError Bind(aclmdlRI model, aclrtStream stream, uint32_t flag) {
  constexpr std::string_view kName = "aclmdlRIBindStream";
  aclError error = ACL_SUCCESS;
  const auto graph = FindBuilt(model, kName, &error);
  if (graph == nullptr) return error;
  if (flag != ACL_MODEL_STREAM_FLAG_HEAD &&
      flag != ACL_MODEL_STREAM_FLAG_DEFAULT) {
    return FailValue(
        ACL_ERROR_RT_PARAM_INVALID, kName, "flag", Str("{:#x}", flag),
        "ACL_MODEL_STREAM_FLAG_HEAD or ACL_MODEL_STREAM_FLAG_DEFAULT");
  }
  if (stream == nullptr) {
    return Fail(ACL_ERROR_RT_STREAM_MODEL, Title::kNullPointer,
                Str("{} failed because stream is NULL, and a default stream "
                    "cannot be bound to a graph.",
                    kName));
  }
  const auto found = FindStream(stream, kName, &error);
  if (found == nullptr) return error;
  error = CheckBindable(*found, *graph, kName);
  if (error != ACL_SUCCESS) return error;
  return graph->build()->Bind(*found, flag == ACL_MODEL_STREAM_FLAG_HEAD,
                              kName);
}

aclError Unbind(aclmdlRI model, aclrtStream stream) {
  constexpr std::string_view kName = "aclmdlRIUnbindStream";
  aclError error = ACL_SUCCESS;
  const auto graph = FindBuilt(model, kName, &error);
  if (graph == nullptr) return error;
  const auto found = FindNamedStream(stream, kName, &error);
  if (found == nullptr) return error;
  error = graph->WaitForReplays(kName);
  if (error != ACL_SUCCESS) return error;
  return graph->build()->Unbind(*found, kName);
}

aclError EndTask(aclmdlRI model, aclrtStream stream) {
  constexpr std::string_view kName = "aclmdlRIEndTask";
  aclError error = ACL_SUCCESS;
  const auto graph = FindBuilt(model, kName, &error);
  if (graph == nullptr) return error;
  const auto found = FindNamedStream(stream, kName, &error);
  if (found == nullptr) return error;
  error = RequireNotCapturing(*found, kName);
  if (error != ACL_SUCCESS) return error;
  return graph->build()->EndTask(*found, kName);
}

aclError EndBuild(aclmdlRI model, void* reserve) {
  constexpr std::string_view kName = "aclmdlRIBuildEnd";
  aclError error = ACL_SUCCESS;
  const auto graph = FindBuilt(model, kName, &error);
  if (graph == nullptr) return error;
  if (reserve != nullptr) {
    return FailValue(ACL_ERROR_INVALID_PARAM, kName, "reserve",
                     Str("{}", reserve), "NULL");
  }
  return graph->build()->End(kName);
}

}  // namespace
}  // namespace flashacl::acl

namespace a = flashacl::acl;

extern "C" {

aclError aclmdlRIBuildBegin(aclmdlRI* modelRI, uint32_t flag) {
  return a::GuardRuntime([&] { return a::Begin(modelRI, flag); });
}

aclError aclmdlRIBindStream(aclmdlRI modelRI, aclrtStream stream,
                            uint32_t flag) {
  return a::GuardRuntime([&] { return a::Bind(modelRI, stream, flag); });
}

aclError aclmdlRIUnbindStream(aclmdlRI modelRI, aclrtStream stream) {
  return a::GuardRuntime([&] { return a::Unbind(modelRI, stream); });
}

aclError aclmdlRIEndTask(aclmdlRI modelRI, aclrtStream stream) {
  return a::GuardRuntime([&] { return a::EndTask(modelRI, stream); });
}

aclError aclmdlRIBuildEnd(aclmdlRI modelRI, void* reserve) {
  return a::GuardRuntime([&] { return a::EndBuild(modelRI, reserve); });
}

}  // extern "C"
