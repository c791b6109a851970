// SPDX-License-Identifier: Apache-2.0
// Builds a JSON value and prints it.
#include "tools/flashacl/report.h"

#include <cerrno>
#include <cstdio>
#include <cstring>
#include <fstream>
#include <nlohmann/json.hpp>

#include "backends.h"
#include "base/str.h"
#include "flashacl_commit.h"
#include "problem/notation.h"
#include "tools/flashacl/statistics.h"

namespace flashacl::tool {
namespace {

using Json = nlohmann::ordered_json;

#if defined(__clang__)
constexpr char kCompiler[] = "clang " __clang_version__;
#else
constexpr char kCompiler[] = "gcc " __VERSION__;
#endif

#if defined(__OPTIMIZE__) && !defined(FLASHACL_DCHECKS)
constexpr bool kForSpeed = true;
#else
constexpr bool kForSpeed = false;
#endif

Json BuildToJson() {
  return {{"version", FLASHACL_VERSION},
          {"commit", Commit()},
          {"compiler", kCompiler},
          {"for_speed", kForSpeed}};
}

Json DeviceToJson(const Backend& backend) {
  const DeviceInfo& device = backend.device;
  return {{"backend", backend.name},
          {"name", device.name},
          {"instruction_sets", device.instruction_sets},
          {"vector_target", device.vector_target},
          {"l1_bytes", device.l1_bytes},
          {"l2_bytes", device.l2_bytes},
          {"l3_bytes", device.l3_bytes}};
}

Json SummaryToJson(const Summary& summary) {
  return {{"median", summary.median},
          {"spread", summary.spread()},
          {"least", summary.least},
          {"greatest", summary.greatest}};
}

Json TimingToJson(const Timing& timing) {
  const Measurement& measurement = timing.measurement;
  Json json = {
      {"title", timing.workload.title},
      {"problem", ToString(timing.workload.problem)},
      {"backend", timing.backend},
      {"implementation", timing.implementation},
      {"threads", timing.threads},
      {"verified", Describe(timing.checked)},
      {"flops", timing.work.flops},
      {"bytes", timing.bytes()},
      {"upper_bound", timing.work.upper_bound},
      {"workspace_bytes", timing.workspace_bytes},
      {"peak_bytes", timing.first.peak_bytes},
      {"first_seconds", timing.first.seconds},
      {"runs_per_repetition", measurement.runs},
      {"seconds", SummaryToJson(Summarise(measurement.Seconds()))},
      {"flops_ratio",
       SummaryToJson(Summarise(measurement.FlopsRatios(timing.work)))},
      {"bandwidth_ratio",
       SummaryToJson(Summarise(measurement.BandwidthRatios(timing.work)))}};
  Json samples = Json::array();
  for (const Repetition& one : measurement.repetitions) {
    samples.push_back({{"seconds", one.seconds},
                       {"flops_roof", one.flops_roof},
                       {"bandwidth_roof", one.bandwidth_roof}});
  }
  json["samples"] = std::move(samples);
  return json;
}

}  // namespace

std::string NameOf(const Workload& workload) {
  return workload.title.empty() ? ToString(workload.problem) : workload.title;
}

std::string ToJson(const std::vector<Timing>& timings) {
  Json json = {{"build", BuildToJson()}};
  for (const Backend& backend : AllBackends()) {
    json["devices"].push_back(DeviceToJson(backend));
  }
  json["timings"] = Json::array();
  for (const Timing& timing : timings) {
    json["timings"].push_back(TimingToJson(timing));
  }
  return json.dump(2) + "\n";
}

std::string Commit() { return FLASHACL_COMMIT; }

Status CheckWritable(const std::string& path) {
  if (path.empty() || path == "-") return {};
  std::ofstream file(path, std::ios::app);
  if (file.is_open()) return {};
  return RuntimeFailure("cannot write {}: {}", path, std::strerror(errno));
}

Status WriteText(const std::string& path, const std::string& text) {
  if (path == "-") {
    fmt::print("{}", text);
    return {};
  }
  std::ofstream file(path);
  file << text;
  file.close();
  if (file.fail()) return RuntimeFailure("cannot write {}", path);
  return {};
}

}  // namespace flashacl::tool
