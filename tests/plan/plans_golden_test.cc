// SPDX-License-Identifier: Apache-2.0
// How ~60 problems are planned on a device that does not exist, as text: a
// change of plan shows up in review as a change of tests/golden/plans.txt.
// Run with FLASHACL_UPDATE_GOLDENS=1 to write the file anew.
#include <gtest/gtest.h>

#include <cstdlib>
#include <fstream>
#include <iterator>
#include <regex>
#include <sstream>

#include "backends.h"
#include "base/str.h"
#include "cpu/pair_dots.h"
#include "plan/cost.h"
#include "plan/plan.h"
#include "problem/notation.h"

namespace flashacl {
namespace {

constexpr char kPath[] = FLASHACL_SOURCE_DIR "/tests/golden/plans.txt";
constexpr char kIndent[] = "    ";

Backend MadeUpBackend() {
  DeviceInfo device{"made up", {"avx2"}, 32 << 10, 1 << 20, 16 << 20, 4};
  return {"made up", device, CpuBackend().implementations};
}

// What Describe() says, shorter: "64 of 1024 x 144 in 1 split".
std::string Tiles(const Plan& plan) {
  const std::pair<const char*, const char*> shorter[] = {
      {"none: .*", "none"},
      {" rows, (\\d+) keys a step", " x $1"},
      {"; cut when it runs", ""},
      {" of at most ", " of "},
      {"; none split", " in 1 split"},
      {"; rows split into up to (\\d+) splits", " in $1 splits"}};
  std::string text = plan.prepared->Describe();
  for (const auto& [from, to] : shorter) {
    text = std::regex_replace(text, std::regex(from), to);
  }
  return text;
}

// What is worth a line in a review.
std::string Describe(const Backend& backend, const std::string& line) {
  const Result<AttentionProblem> problem = Parse(line);
  if (!problem.ok()) return "parse: " + problem.status().message();
  const Result<Plan> plan = MakePlan(backend, *problem);
  if (!plan.ok()) return "plan: " + plan.status().message();
  const Cost work = CountCost(*problem);
  return Str(
      "{}; tiles {}; workspace {}; {}{:.4g} FLOP, {:.4g} bytes, {:.1f} % "
      "skipped",
      plan->implementation->name, Tiles(*plan), plan->workspace.bytes(),
      work.upper_bound ? "at most " : "", work.flops,
      work.bytes_read + work.bytes_written, 100 * work.skipped());
}

std::string ReadFile() {
  std::ifstream file(kPath);
  return {std::istreambuf_iterator<char>(file), {}};
}

// The golden text with every description as it is today. The made up device has
// no matrix registers, whatever runs the test.
std::string Redescribed(const std::string& golden) {
  cpu::SetPairDotsForTest(cpu::PairDots::kNone);
  const Backend backend = MadeUpBackend();
  std::istringstream lines(golden);
  std::string text;
  std::string line;
  while (std::getline(lines, line)) {
    if (line.starts_with(kIndent)) continue;
    text += line + "\n";
    if (line.empty() || line.starts_with("#")) continue;
    text += kIndent + Describe(backend, line) + "\n";
  }
  cpu::SetPairDotsForTest({});
  return text;
}

TEST(Plans, AreAsReviewed) {
  const std::string golden = ReadFile();
  ASSERT_FALSE(golden.empty()) << kPath;
  const std::string today = Redescribed(golden);
  if (std::getenv("FLASHACL_UPDATE_GOLDENS") != nullptr) {
    std::ofstream(kPath) << today;
    GTEST_SKIP() << "wrote " << kPath;
  }
  EXPECT_EQ(today, golden)
      << "if the change is meant: FLASHACL_UPDATE_GOLDENS=1 and run again";
}

TEST(Plans, AreOfProblemsInCanonicalNotation) {
  std::istringstream lines(ReadFile());
  std::string line;
  int problems = 0;
  while (std::getline(lines, line)) {
    if (line.empty() || line.starts_with("#")) continue;
    if (line.starts_with(kIndent)) continue;
    const Result<AttentionProblem> problem = Parse(line);
    ASSERT_TRUE(problem.ok()) << line << ": " << problem.status().message();
    EXPECT_EQ(ToString(*problem), line);
    ++problems;
  }
  EXPECT_GE(problems, 60);
}

TEST(Plans, DoNotDependOnTheNumberOfWorkers) {
  const std::string golden = ReadFile();
  SetWorkerCount(7);
  const std::string seven = Redescribed(golden);
  SetWorkerCount(1);
  EXPECT_EQ(Redescribed(golden), seven);
  SetWorkerCount(0);
}

}  // namespace
}  // namespace flashacl
