// SPDX-License-Identifier: Apache-2.0
#include "acl/graph/print.h"

#include <cerrno>
#include <cstring>
#include <fstream>
#include <nlohmann/json.hpp>
#include <string>

#include "acl/error.h"
#include "acl/executor.h"
#include "acl/graph/graph.h"

namespace flashacl::acl {
namespace {

std::string_view Name(TaskKind kind) {
  switch (kind) {
    case TaskKind::kDevice:
      return "device";
    case TaskKind::kOperator:
      return "operator";
    case TaskKind::kControl:
      return "control";
    case TaskKind::kWait:
      return "wait";
    default:
      return "graph";
  }
}

nlohmann::json ToJson(const Graph& graph, size_t number, bool verbose) {
  const Node& node = graph.nodes()[number];
  nlohmann::json arguments = {{"kind", Name(node.submission.kind)},
                              {"can be updated", node.launch != nullptr}};
  for (const Before& before : node.after) {
    arguments["after"].push_back(
        {{"row", before.branch}, {"tasks", before.count}});
  }
  if (verbose) {
    const std::string text = node.launch == nullptr
                                 ? DescribeLaunch(node.submission.task)
                                 : DescribeLaunch(*node.launch->task());
    if (!text.empty()) arguments["computes"] = text;
  }
  return {{"name", node.submission.function},
          {"ph", "X"},
          {"pid", graph.id()},
          {"tid", node.stream},
          {"ts", number},
          {"dur", 1},
          {"args", std::move(arguments)}};
}

}  // namespace

aclError PrintJson(const Graph& graph, const char* path, bool verbose,
                   std::string_view function) {
  nlohmann::json events = nlohmann::json::array();
  for (size_t i = 0; i < graph.nodes().size(); ++i) {
    events.push_back(ToJson(graph, i, verbose));
  }
  errno = 0;
  std::ofstream file(path, std::ios::trunc);
  file << events.dump(1) << '\n';
  file.close();
  if (file.good()) return ACL_SUCCESS;
  return FailValue(ACL_ERROR_RT_PARAM_INVALID, function, "path", path,
                   Str("a file that can be written ({})",
                       errno == 0 ? "it was not" : std::strerror(errno)));
}

}  // namespace flashacl::acl
