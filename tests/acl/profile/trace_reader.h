// SPDX-License-Identifier: Apache-2.0
// Reads written traces back, as Perfetto and PyTorch's tools do, and folders
// to write them to.
#pragma once

#include <gtest/gtest.h>
#include <stdlib.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <functional>
#include <map>
#include <nlohmann/json.hpp>
#include <set>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "acl/profile/trace_json.h"

namespace flashacl::testing {

using Json = nlohmann::json;

// A folder that is gone when the test ends.
class TemporaryFolder {
 public:
  TemporaryFolder() { EXPECT_NE(mkdtemp(path_), nullptr); }
  ~TemporaryFolder() {
    std::error_code ignored;
    std::filesystem::remove_all(path_, ignored);
  }
  TemporaryFolder(const TemporaryFolder&) = delete;
  TemporaryFolder& operator=(const TemporaryFolder&) = delete;

  std::string path() const { return path_; }
  std::string operator/(const std::string& name) const {
    return path() + "/" + name;
  }
  // The files in it, sorted.
  std::vector<std::string> Files() const {
    std::vector<std::string> files;
    for (const auto& entry : std::filesystem::directory_iterator(path_)) {
      files.push_back(entry.path().string());
    }
    std::sort(files.begin(), files.end());
    return files;
  }

 private:
  char path_[32] = "/tmp/flashacl_profile_XXXXXX";
};

class ReadTrace {
 public:
  explicit ReadTrace(const std::string& path) {
    std::ifstream file(path);
    EXPECT_TRUE(file.good()) << path;
    all_ = Json::parse(file, nullptr, false);
    EXPECT_FALSE(all_.is_discarded()) << path << " is no JSON";
    if (all_.is_discarded()) all_ = Json{{"traceEvents", Json::array()}};
    EXPECT_EQ(all_.value("displayTimeUnit", ""), "ns");
    for (const Json& event : all_.at("traceEvents")) events_.push_back(event);
    ExpectNested();
    ExpectFlows();
    ExpectNames();
  }

  const std::vector<Json>& events() const { return events_; }
  int64_t dropped() const { return all_["otherData"]["dropped_events"]; }

  // Those of one phase ("X": spans) whose `member` is `value`.
  std::vector<Json> With(const std::string& phase, const std::string& member,
                         const std::string& value) const {
    std::vector<Json> found;
    for (const Json& event : events_) {
      if (event["ph"] == phase && event.value(member, "") == value) {
        found.push_back(event);
      }
    }
    return found;
  }
  std::vector<Json> Named(const std::string& name) const {
    return With("X", "name", name);
  }

  static bool OfStream(const Json& event) {
    return event["pid"] >= acl::profile::kStreamsOfProcess;
  }
  // Nanoseconds: times have three decimals, and doubles hold them for months.
  static int64_t Begin(const Json& event) {
    return std::llround(event["ts"].get<double>() * 1000);
  }
  static int64_t End(const Json& event) {
    return Begin(event) + std::llround(event["dur"].get<double>() * 1000);
  }

 private:
  using Row = std::pair<int64_t, int64_t>;  // process, thread or stream

  static Row RowOf(const Json& event) {
    return {event["pid"].get<int64_t>(), event["tid"].get<int64_t>()};
  }

  // In each row spans come in the order of their begins, and are whole inside
  // of one another or apart.
  void ExpectNested() const {
    std::map<Row, std::vector<Json>> open;
    for (const Json& event : events_) {
      if (event["ph"] != "X") continue;
      EXPECT_LE(Begin(event), End(event)) << event;
      std::vector<Json>& outer = open[RowOf(event)];
      if (!outer.empty()) {
        EXPECT_LE(Begin(outer.back()), Begin(event));
      }
      while (!outer.empty() && End(outer.back()) <= Begin(event)) {
        outer.pop_back();
      }
      if (!outer.empty()) {
        EXPECT_LE(End(event), End(outer.back())) << event << outer.back();
      }
      outer.push_back(event);
    }
  }

  // Every arrow ends once, in the row of its stream, after it starts.
  void ExpectFlows() const {
    std::map<std::string, Json> starts;
    std::set<std::string> ended;
    for (const Json& event : events_) {
      if (event["ph"] == "s") starts[event["id"]] = event;
    }
    for (const Json& event : events_) {
      if (event["ph"] != "f") continue;
      const std::string id = event["id"];
      EXPECT_TRUE(ended.insert(id).second) << event;
      ASSERT_TRUE(starts.contains(id)) << event;
      EXPECT_LE(Begin(starts[id]), Begin(event)) << event;
      EXPECT_TRUE(OfStream(event)) << event;
      EXPECT_EQ(event["bp"], "e");
    }
  }

  void ExpectNames() const {
    std::set<Row> named;
    for (const Json& event : events_) {
      if (event["name"] == "thread_name") named.insert(RowOf(event));
    }
    for (const Json& event : events_) {
      if (event["ph"] == "M") continue;
      EXPECT_TRUE(named.contains(RowOf(event))) << event;
    }
  }

  Json all_;
  std::vector<Json> events_;
};

}  // namespace flashacl::testing
