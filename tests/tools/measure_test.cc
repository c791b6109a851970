// SPDX-License-Identifier: Apache-2.0
// Repetitions are as many as asked for, and share a time with their roofs.
#include "tools/flashacl/measure.h"

#include <gtest/gtest.h>

#include <chrono>
#include <thread>

#include "backends.h"
#include "problem/notation.h"
#include "tests/testing/around_reference.h"

namespace flashacl::tool {
namespace {

using testing::kAroundReference;
using testing::PrepareFunction;
using testing::ReferenceRun;

int launches = 0;

const Implementation& Reference() {
  return CpuBackend().implementations.back();
}

Status Counted(const ReferenceRun& run) {
  ++launches;
  return run.Do();
}

Status Slow(const ReferenceRun& run) {
  std::this_thread::sleep_for(std::chrono::milliseconds(20));
  return Counted(run);
}

Status Unsteady(const ReferenceRun& run) {
  const Status ran = Counted(run);
  *reinterpret_cast<float*>(run.bindings[Slot::kOut]) +=
      static_cast<float>(launches);
  return ran;
}

Status Fails(const ReferenceRun&) { return RuntimeFailure("out of ink"); }

Result<Measurement> MeasureWith(PrepareFunction prepare, const Effort& effort) {
  launches = 0;
  Implementation implementation = Reference();
  implementation.prepare = prepare;
  Backend backend = CpuBackend();
  backend.implementations = {&implementation, 1};
  const Roofs roofs{[](const Backend&) { return 8e9; },
                    [](const Backend&) { return 2e9; }};
  const Result<AttentionProblem> problem = Parse("fwd f32 h=1 d=4 q=2 k=3");
  Result<Sample> sample = Sample::Make(*problem, 1, CpuBackend());
  const Result<Plan> plan = MakePlan(backend, *problem);
  return Measure(backend, *plan, *sample, effort, roofs);
}

TEST(Measure, RepeatsAsOftenAsAsked) {
  const auto measured =
      MeasureWith(kAroundReference<Slow>, {.seconds = 0, .repetitions = 3});
  ASSERT_TRUE(measured.ok()) << measured.status().message();
  EXPECT_EQ(measured->runs, 1);
  EXPECT_EQ(measured->repetitions.size(), 3u);
  EXPECT_EQ(launches, 1 + 3);
  for (const Repetition& one : measured->repetitions) {
    EXPECT_GE(one.seconds, 0.02);
    EXPECT_EQ(one.flops_roof, 8e9);
    EXPECT_EQ(one.bandwidth_roof, 2e9);
  }
}

TEST(Measure, RepeatsUntilTheTimeIsOver) {
  const auto measured =
      MeasureWith(kAroundReference<Slow>, {.seconds = 0.25, .repetitions = 1});
  ASSERT_TRUE(measured.ok());
  EXPECT_GT(measured->repetitions.size(), 1u);
  EXPECT_LE(measured->repetitions.size(), 13u);
}

// Short runs come in bursts, after one that warms up.
TEST(Measure, BurstsOfShortRuns) {
  const auto measure = [] {
    return MeasureWith(kAroundReference<Counted>,
                       {.seconds = 0, .repetitions = 2});
  };
  auto measured = measure();
  // Where others work, too, the first run may not have been short.
  for (int n = 0; n < 100 && measured.ok() && measured->runs == 1; ++n) {
    measured = measure();
  }
  ASSERT_TRUE(measured.ok());
  EXPECT_GT(measured->runs, 1);
  EXPECT_EQ(launches, 1 + 2 * (1 + measured->runs));
}

TEST(Measure, RefusesAnswersThatChange) {
  const auto measured =
      MeasureWith(kAroundReference<Unsteady>, {.seconds = 0, .repetitions = 1});
  ASSERT_FALSE(measured.ok());
  EXPECT_EQ(measured.status().code(), Code::kInternal);
  const auto failed =
      MeasureWith(kAroundReference<Fails>, {.seconds = 0, .repetitions = 1});
  ASSERT_FALSE(failed.ok());
  EXPECT_NE(failed.status().message().find("out of ink"), std::string::npos);
}

TEST(Measure, RatiosAreSharesOfTheRoofs) {
  Measurement measurement;
  measurement.repetitions = {{0.5, 100, 10}, {1, 50, 0}};
  Cost work;
  work.flops = 25;
  work.bytes_read = 3;
  work.bytes_written = 1;
  EXPECT_EQ(measurement.Seconds(), (std::vector<double>{0.5, 1}));
  EXPECT_EQ(measurement.FlopsRatios(work), (std::vector<double>{0.5, 0.5}));
  EXPECT_EQ(measurement.BandwidthRatios(work), (std::vector<double>{0.8, 0}));
}

// The memory is the implementation's own and the workspace's.
TEST(Measure, FirstRunKnowsItsMemory) {
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
  GTEST_SKIP() << "memory has a shadow";
#endif
  const Backend& backend = CpuBackend();
  const Result<AttentionProblem> problem =
      Parse("fwd f32 h=1 d=128 q=2 k=20000");
  Result<Sample> sample = Sample::Make(*problem, 1, backend);
  const Result<Plan> plan = MakePlan(backend, *problem);
  const Result<FirstRun> first = RunOnce(backend, *plan, *sample);
  ASSERT_TRUE(first.ok()) << first.status().message();
  EXPECT_GT(first->seconds, 0);
  if (first->peak_bytes < 0) GTEST_SKIP() << "the system does not tell";
  const int64_t workspace = plan->workspace.bytes();
  EXPECT_GT(first->peak_bytes, workspace / 2);
  EXPECT_LT(first->peak_bytes, 2 * workspace + (16 << 20));
}

}  // namespace
}  // namespace flashacl::tool
