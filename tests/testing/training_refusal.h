// SPDX-License-Identifier: Apache-2.0
// Tables of calls that are refused, or planned, in every version that there is.
#pragma once

#include <gtest/gtest.h>

#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "tests/testing/call.h"
#include "tests/testing/training_call.h"

namespace flashacl::testing {

inline constexpr aclnnStatus kNull = 161001;
inline constexpr aclnnStatus kInvalid = 161002;
inline constexpr aclnnStatus kDeep = 561103;  // contradictions, forward

// One change of a valid call, and the answer. The call has the table's sizes
// unless it says others.
template <typename Call>
struct Refusal {
  std::string name;
  aclnnStatus status;
  std::string words;
  std::function<void(Call&)> change;
  std::optional<TrainingSizes> sizes = std::nullopt;
};

template <typename Call>
bool Runs(const Call& call) {
  TrainingFixture made(call);
  if (made.t.softmaxSum != nullptr) made.t.softmaxSum->FillWith(1);
  return made.Run();
}

// Calls body(version) for each that has what the changed call asks for; there
// must be one.
template <typename Call>
void ForVersions(const std::string& name, const TrainingSizes& sizes,
                 const std::function<void(Call&)>& change,
                 const std::function<void(const Call&)>& body) {
  int versions = 0;
  for (int v = 1; v <= VersionsOf(sizes.packed()); ++v) {
    SCOPED_TRACE(name + ", version " + std::to_string(v));
    Call call(sizes, v);
    change(call);
    if (!call.Fits()) continue;
    ++versions;
    body(call);
  }
  EXPECT_GT(versions, 0) << name;
}

// Makes each changed call and expects it to be refused, then the same call
// without the change and expects it to run.
template <typename Call>
void ExpectRefused(const std::vector<Refusal<Call>>& refusals,
                   const TrainingSizes& sizes = {}) {
  for (const Refusal<Call>& refusal : refusals) {
    ForVersions<Call>(refusal.name, refusal.sizes.value_or(sizes),
                      refusal.change, [&](const Call& call) {
                        TrainingFixture(call).ExpectFailure(refusal.status,
                                                            refusal.words);
                        EXPECT_TRUE(Runs(Call(sizes, call.version)));
                      });
  }
}

// Phase 1 alone: for shapes too large to compute in a test.
template <typename Call>
void ExpectPlanned(const std::string& name, const TrainingSizes& sizes,
                   const std::function<void(Call&)>& change) {
  ForVersions<Call>(name, sizes, change, [](const Call& call) {
    TrainingFixture(call).ExpectPlanned();
  });
}

// Any shape, without memory of its own.
inline Form WithoutMemory(aclDataType type, std::vector<int64_t> dims) {
  return {type, dims, std::vector<int64_t>(dims.size(), 0)};
}

// One channel of one head: long sequences in little memory.
inline TrainingSizes Thin(std::vector<int64_t> rows,
                          std::vector<int64_t> columns) {
  return {.rows = std::move(rows),
          .columns = std::move(columns),
          .heads = 1,
          .dim = 1,
          .v_dim = 1};
}

}  // namespace flashacl::testing
