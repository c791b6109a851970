// SPDX-License-Identifier: Apache-2.0
// What every backend must be.
#include "backends.h"

#include <gtest/gtest.h>

#include <set>
#include <string_view>

#include "plan/implementation.h"

namespace flashacl {
namespace {

TEST(Backends, TheCpuIsAmongThemAndStaysTheSame) {
  EXPECT_EQ(CpuBackend().name, "cpu");
  EXPECT_EQ(&CpuBackend(), &CpuBackend());
  bool found = false;
  for (const Backend& backend : AllBackends()) {
    found = found || &backend == &CpuBackend();
  }
  EXPECT_TRUE(found);
}

TEST(Backends, EachHasMemoryAndQueuesAndEndsWithTheReference) {
  for (const Backend& backend : AllBackends()) {
    ASSERT_NE(backend.memory, nullptr);
    ASSERT_NE(backend.queue, nullptr);
    EXPECT_GE(WorkersOf(*backend.queue), 1);
    EXPECT_GE(WorkersOf(*backend.make_queue()), 1);
    ASSERT_FALSE(backend.implementations.empty());
    EXPECT_TRUE(backend.implementations.back().name.starts_with("reference/"));
  }
}

TEST(Backends, ImplementationsHaveNamesOfTheirOwnAndAllFunctions) {
  for (const Backend& backend : AllBackends()) {
    std::set<std::string_view> names;
    for (const Implementation& row : backend.implementations) {
      EXPECT_TRUE(names.insert(row.name).second) << row.name;
      EXPECT_NE(row.supports, nullptr);
      EXPECT_NE(row.prepare, nullptr);
    }
  }
}

TEST(Backends, WorkerCountCanBeSet) {
  SetWorkerCount(3);
  EXPECT_EQ(WorkersOf(*CpuBackend().queue), 3);
  SetWorkerCount(0);
  EXPECT_GE(WorkersOf(*CpuBackend().queue), 1);
}

}  // namespace
}  // namespace flashacl
