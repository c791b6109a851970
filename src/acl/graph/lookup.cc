// SPDX-License-Identifier: Apache-2.0
#include "acl/graph/lookup.h"

#include "acl/graph/build.h"
#include "acl/handle.h"

namespace flashacl::acl {

std::shared_ptr<Graph> FindGraph(aclmdlRI graph, std::string_view function,
                                 aclError* error) {
  if (graph == nullptr) {
    *error = FailNull(function, "modelRI");
    return nullptr;
  }
  std::shared_ptr<Graph> found = Find<Graph>(graph);
  if (found == nullptr) {
    *error = FailStale(HandleKind::kGraph, function, "modelRI", graph);
  }
  return found;
}

aclError RequireWhole(const Graph& graph, std::string_view function) {
  if (graph.build() != nullptr) return graph.build()->RequireComplete(function);
  if (graph.captured()) return ACL_SUCCESS;
  return Fail(ACL_ERROR_RT_MODEL_CAPTURED, Title::kCallSequence,
              Str("{} failed because graph {} is being captured.", function,
                  graph.id()));
}

std::shared_ptr<Graph> FindWholeGraph(aclmdlRI graph, std::string_view function,
                                      aclError* error) {
  std::shared_ptr<Graph> found = FindGraph(graph, function, error);
  if (found == nullptr) return nullptr;
  *error = RequireWhole(*found, function);
  return *error == ACL_SUCCESS ? found : nullptr;
}

std::shared_ptr<Stream> FindNamedStream(aclrtStream stream,
                                        std::string_view function,
                                        aclError* error) {
  if (stream == nullptr) {
    *error = FailNull(function, "stream");
    return nullptr;
  }
  return FindStream(stream, function, error);
}

std::shared_ptr<Capture> FindCapture(const Stream& stream,
                                     std::string_view function,
                                     aclError* error) {
  const std::shared_ptr<Recorder> recorder = stream.recorder();
  if (recorder != nullptr && recorder->captures()) {
    return std::static_pointer_cast<Capture>(recorder);
  }
  *error = Fail(ACL_ERROR_RT_STREAM_NOT_CAPTURED, Title::kCallSequence,
                Str("{} failed because stream {} is not being captured.",
                    function, stream.id()));
  return nullptr;
}

aclError RequireRoot(const Graph& graph, std::string_view function) {
  if (!graph.is_child()) return ACL_SUCCESS;
  return Fail(ACL_ERROR_RT_FEATURE_NOT_SUPPORT, Title::kNotSupported,
              Str("{} failed because graph {} belongs to a condition of "
                  "another graph and runs with that only.",
                  function, graph.id()));
}

}  // namespace flashacl::acl
