// SPDX-License-Identifier: Apache-2.0
// The keys that bench/compare.py and archives of results rely on.
#include "tools/flashacl/report.h"

#include <gtest/gtest.h>

#include <cstdio>
#include <fstream>
#include <nlohmann/json.hpp>
#include <sstream>

#include "problem/notation.h"

namespace flashacl::tool {
namespace {

Timing Some() {
  Timing timing;
  timing.workload = {"a \"title\"", *Parse("fwd f32 h=1 d=4 q=2 k=3 causal")};
  timing.backend = "cpu";
  timing.implementation = "cpu/x";
  timing.threads = 3;
  timing.workspace_bytes = 64;
  timing.work = CountCost(timing.workload.problem);
  timing.checked.rows = 5;
  timing.first = {0.25, 4096};
  timing.measurement.runs = 2;
  timing.measurement.repetitions = {{1, 400, 40}, {2, 500, 50}, {4, 600, 60}};
  return timing;
}

TEST(Report, SaysWhatWasBuiltAndWhere) {
  const auto json = nlohmann::json::parse(ToJson({}));
  EXPECT_TRUE(json["timings"].is_array() && json["timings"].empty());
  const auto& build = json["build"];
  EXPECT_EQ(build["version"], FLASHACL_VERSION);
  EXPECT_EQ(build["commit"], Commit());
  EXPECT_FALSE(build["compiler"].get<std::string>().empty());
  EXPECT_TRUE(build["for_speed"].is_boolean());
  ASSERT_FALSE(json["devices"].empty());
  const auto& device = json["devices"][0];
  EXPECT_EQ(device["backend"], "cpu");
  EXPECT_FALSE(device["name"].get<std::string>().empty());
  EXPECT_FALSE(device["vector_target"].get<std::string>().empty());
  EXPECT_TRUE(device["instruction_sets"].is_array());
  for (const char* cache : {"l1_bytes", "l2_bytes", "l3_bytes"}) {
    EXPECT_GT(device[cache].get<int64_t>(), 0) << cache;
  }
}

TEST(Report, HasEverySample) {
  const auto json = nlohmann::json::parse(ToJson({Some()}));
  const auto& timing = json["timings"].at(0);
  EXPECT_EQ(timing["title"], "a \"title\"");
  EXPECT_EQ(timing["problem"], "fwd f32 h=1 d=4 q=2 k=3 causal");
  EXPECT_EQ(timing["backend"], "cpu");
  EXPECT_EQ(timing["implementation"], "cpu/x");
  EXPECT_EQ(timing["threads"], 3);
  EXPECT_EQ(timing["verified"], "5 rows verified");
  EXPECT_EQ(timing["flops"], 5 * 16);  // 2 and 3 keys are seen
  EXPECT_EQ(timing["bytes"], 4 * (8 + 12 + 12 + 8));
  EXPECT_EQ(timing["upper_bound"], false);
  EXPECT_EQ(timing["workspace_bytes"], 64);
  EXPECT_EQ(timing["peak_bytes"], 4096);
  EXPECT_EQ(timing["first_seconds"], 0.25);
  EXPECT_EQ(timing["runs_per_repetition"], 2);
  EXPECT_EQ(timing["seconds"]["median"], 2);
  EXPECT_EQ(timing["seconds"]["least"], 1);
  EXPECT_EQ(timing["seconds"]["greatest"], 4);
  EXPECT_EQ(timing["flops_ratio"]["median"], 80.0 / 1000);
  EXPECT_TRUE(timing["bandwidth_ratio"].contains("spread"));
  ASSERT_EQ(timing["samples"].size(), 3u);
  EXPECT_EQ(timing["samples"][1]["seconds"], 2);
  EXPECT_EQ(timing["samples"][1]["flops_roof"], 500);
  EXPECT_EQ(timing["samples"][1]["bandwidth_roof"], 50);
}

TEST(Report, NameIsTheTitleOrElseTheLine) {
  Workload workload = Some().workload;
  EXPECT_EQ(NameOf(workload), "a \"title\"");
  workload.title.clear();
  EXPECT_EQ(NameOf(workload), "fwd f32 h=1 d=4 q=2 k=3 causal");
}

TEST(Report, WritesFilesOrSaysThatItCannot) {
  const std::string path = ::testing::TempDir() + "report_test.txt";
  ASSERT_TRUE(WriteText(path, "one\ntwo").ok());
  std::stringstream text;
  text << std::ifstream(path).rdbuf();
  EXPECT_EQ(text.str(), "one\ntwo");
  std::remove(path.c_str());
  const Status status = WriteText("/no/such/folder/x", "");
  EXPECT_NE(status.message().find("/no/such/folder/x"), std::string::npos);
}

}  // namespace
}  // namespace flashacl::tool
