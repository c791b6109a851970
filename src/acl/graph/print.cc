// SPDX-License-Identifier: Apache-2.0
#include "acl/graph/print.h"

#include <cerrno>
#include <cstring>
#include <fstream>
#include <nlohmann/json.hpp>
#include <string>

#include "acl/error.h"
#include "acl/executor.h"
#include "acl/graph/build.h"
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

nlohmann::json ToJson(const Graph& graph, const Submission& submission,
                      int32_t stream, size_t number, nlohmann::json arguments) {
  return {{"name", submission.function},
          {"ph", "X"},
          {"pid", graph.id()},
          {"tid", stream},
          {"ts", number},
          {"dur", 1},
          {"args", std::move(arguments)}};
}

nlohmann::json Captured(const Graph& graph, bool verbose) {
  nlohmann::json events = nlohmann::json::array();
  for (const Node& node : graph.nodes()) {
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
    events.push_back(ToJson(graph, node.submission, node.stream, events.size(),
                            std::move(arguments)));
  }
  return events;
}

// Stream after stream, as no order among them is sure.
nlohmann::json Built(const Graph& graph, bool verbose) {
  nlohmann::json events = nlohmann::json::array();
  const std::vector<BoundStream>& streams = graph.build()->streams();
  for (const BoundStream& bound : streams) {
    for (const Step& step : bound.steps) {
      nlohmann::json arguments = {
          {"kind", step.jump == nullptr ? Name(step.submission.kind) : "jump"}};
      const auto places =
          step.jump == nullptr ? std::span<const Place>() : step.jump->places();
      for (const Place& place : places) {
        const auto& to = streams[static_cast<size_t>(place.stream)];
        arguments["to"].push_back(
            {{"row", to.stream_id}, {"tasks", place.step}});
      }
      const std::string text =
          verbose ? DescribeLaunch(step.submission.task) : std::string();
      if (!text.empty()) arguments["computes"] = text;
      events.push_back(ToJson(graph, step.submission, bound.stream_id,
                              events.size(), std::move(arguments)));
    }
  }
  return events;
}

}  // namespace

aclError PrintJson(const Graph& graph, const char* path, bool verbose,
                   std::string_view function) {
  const nlohmann::json events = graph.build() == nullptr
                                    ? Captured(graph, verbose)
                                    : Built(graph, verbose);
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
