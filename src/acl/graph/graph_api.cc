// SPDX-License-Identifier: Apache-2.0
// The functions of the C API that run graphs, name them and end them.
#include <algorithm>
#include <string>
#include <string_view>

#include "acl/context.h"
#include "acl/graph/lookup.h"
#include "acl/graph/print.h"

namespace flashacl::acl {
namespace {

aclError ExecuteAsync(aclmdlRI model, aclrtStream stream) {
  constexpr std::string_view kName = "aclmdlRIExecuteAsync";
  aclError error = ACL_SUCCESS;
  const auto graph = FindGraph(model, kName, &error);
  if (graph == nullptr) return error;
  const auto found = FindStream(stream, kName, &error);
  if (found == nullptr) return error;
  error = RequireNotCapturing(*found, kName);
  if (error == ACL_SUCCESS && found->bound()) {
    error = FailValue(ACL_ERROR_RT_PARAM_INVALID, kName, "stream",
                      Str("stream {}", found->id()),
                      "a stream that is not bound to a graph");
  }
  if (error == ACL_SUCCESS) error = RequireRoot(*graph, kName);
  if (error == ACL_SUCCESS) error = RequireWhole(*graph, kName);
  if (error == ACL_SUCCESS) error = RequireContext(kName);
  return error != ACL_SUCCESS ? error : graph->Replay(found, kName);
}

aclError Execute(aclmdlRI model, int32_t ms) {
  constexpr std::string_view kName = "aclmdlRIExecute";
  aclError error = ACL_SUCCESS;
  const auto graph = FindGraph(model, kName, &error);
  if (graph == nullptr) return error;
  if (ms == 0 || ms < -1) {
    return FailValue(ACL_ERROR_RT_PARAM_INVALID, kName, "timeout",
                     Str("{}", ms), "-1 or a positive number of milliseconds");
  }
  error = RequireRoot(*graph, kName);
  if (error == ACL_SUCCESS) error = RequireWhole(*graph, kName);
  if (error == ACL_SUCCESS) error = RequireContext(kName);
  return error != ACL_SUCCESS ? error : graph->ReplayAndWait(ms, kName);
}

aclError Abort(aclmdlRI model) {
  constexpr std::string_view kName = "aclmdlRIAbort";
  aclError error = ACL_SUCCESS;
  const auto graph = FindGraph(model, kName, &error);
  if (graph == nullptr) return error;
  error = RequireRoot(*graph, kName);
  if (error == ACL_SUCCESS) graph->Abort();
  return error;
}

aclError Destroy(aclmdlRI model) {
  constexpr std::string_view kName = "aclmdlRIDestroy";
  aclError error = ACL_SUCCESS;
  const auto graph = FindGraph(model, kName, &error);
  if (graph == nullptr) return error;
  error = RequireRoot(*graph, kName);
  if (error == ACL_SUCCESS && graph->build() == nullptr) {
    error = RequireWhole(*graph, kName);
  }
  return error != ACL_SUCCESS ? error : graph->Destroy(kName);
}

aclError GetId(aclmdlRI model, uint32_t* id) {
  constexpr std::string_view kName = "aclmdlRIGetId";
  aclError error = ACL_SUCCESS;
  const auto graph = FindGraph(model, kName, &error);
  if (graph == nullptr) return error;
  if (id == nullptr) return FailNull(kName, "modelRIId");
  *id = graph->id();
  return ACL_SUCCESS;
}

aclError SetName(aclmdlRI model, const char* name) {
  constexpr std::string_view kName = "aclmdlRISetName";
  aclError error = ACL_SUCCESS;
  const auto graph = FindGraph(model, kName, &error);
  if (graph == nullptr) return error;
  if (name == nullptr) return FailNull(kName, "name");
  graph->SetName(name);
  return ACL_SUCCESS;
}

aclError GetName(aclmdlRI model, uint32_t max_len, char* name) {
  constexpr std::string_view kName = "aclmdlRIGetName";
  aclError error = ACL_SUCCESS;
  const auto graph = FindGraph(model, kName, &error);
  if (graph == nullptr) return error;
  if (name == nullptr) return FailNull(kName, "name");
  const std::string text = graph->name();
  if (text.size() >= max_len) {
    return FailValue(ACL_ERROR_RT_PARAM_INVALID, kName, "maxLen",
                     Str("{}", max_len),
                     Str("at least {}, with the NUL", text.size() + 1));
  }
  *std::ranges::copy(text, name).out = '\0';
  return ACL_SUCCESS;
}

aclError AddCallback(aclmdlRI model, aclrtCallback function, void* user_data) {
  constexpr std::string_view kName = "aclmdlRIDestroyRegisterCallback";
  aclError error = ACL_SUCCESS;
  const auto graph = FindGraph(model, kName, &error);
  if (graph == nullptr) return error;
  if (function == nullptr) return FailNull(kName, "func");
  graph->AddCallback(function, user_data);
  return ACL_SUCCESS;
}

aclError RemoveCallback(aclmdlRI model, aclrtCallback function) {
  constexpr std::string_view kName = "aclmdlRIDestroyUnregisterCallback";
  aclError error = ACL_SUCCESS;
  const auto graph = FindGraph(model, kName, &error);
  if (graph == nullptr) return error;
  if (function == nullptr) return FailNull(kName, "func");
  if (graph->RemoveCallback(function)) return ACL_SUCCESS;
  return FailValue(ACL_ERROR_RT_PARAM_INVALID, kName, "func", "a function",
                   "one that is registered for the graph");
}

aclError PrintTo(aclmdlRI model, const char* path, uint32_t flags) {
  constexpr std::string_view kName = "aclmdlRIDebugJsonPrint";
  aclError error = ACL_SUCCESS;
  const auto graph = FindWholeGraph(model, kName, &error);
  if (graph == nullptr) return error;
  if (path == nullptr) return FailNull(kName, "path");
  error = RequireContext(kName);
  if (error != ACL_SUCCESS) return error;
  const bool verbose = (flags & ACL_MDLRI_DEBUG_JSON_PRINT_VERBOSE) != 0;
  return PrintJson(*graph, path, verbose, kName);
}

// There is no log that the program did not ask for; the graph is looked at.
aclError Print(aclmdlRI model) {
  aclError error = ACL_SUCCESS;
  (void)FindWholeGraph(model, "aclmdlRIDebugPrint", &error);
  return error;
}

}  // namespace
}  // namespace flashacl::acl

namespace a = flashacl::acl;

extern "C" {

aclError aclmdlRIExecuteAsync(aclmdlRI modelRI, aclrtStream stream) {
  return a::GuardRuntime([&] { return a::ExecuteAsync(modelRI, stream); });
}

aclError aclmdlRIExecute(aclmdlRI modelRI, int32_t timeout) {
  return a::GuardRuntime([&] { return a::Execute(modelRI, timeout); });
}

aclError aclmdlRIAbort(aclmdlRI modelRI) {
  return a::GuardRuntime([&] { return a::Abort(modelRI); });
}

aclError aclmdlRIDestroy(aclmdlRI modelRI) {
  return a::GuardRuntime([&] { return a::Destroy(modelRI); });
}

aclError aclmdlRIGetId(aclmdlRI modelRI, uint32_t* modelRIId) {
  return a::GuardRuntime([&] { return a::GetId(modelRI, modelRIId); });
}

aclError aclmdlRISetName(aclmdlRI modelRI, const char* name) {
  return a::GuardRuntime([&] { return a::SetName(modelRI, name); });
}

aclError aclmdlRIGetName(aclmdlRI modelRI, uint32_t maxLen, char* name) {
  return a::GuardRuntime([&] { return a::GetName(modelRI, maxLen, name); });
}

aclError aclmdlRIDestroyRegisterCallback(aclmdlRI modelRI, aclrtCallback func,
                                         void* userData) {
  return a::GuardRuntime(
      [&] { return a::AddCallback(modelRI, func, userData); });
}

aclError aclmdlRIDestroyUnregisterCallback(aclmdlRI modelRI,
                                           aclrtCallback func) {
  return a::GuardRuntime([&] { return a::RemoveCallback(modelRI, func); });
}

aclError aclmdlRIDebugPrint(aclmdlRI modelRI) {
  return a::GuardRuntime([&] { return a::Print(modelRI); });
}

aclError aclmdlRIDebugJsonPrint(aclmdlRI modelRI, const char* path,
                                uint32_t flags) {
  return a::GuardRuntime([&] { return a::PrintTo(modelRI, path, flags); });
}

}  // extern "C"
