// SPDX-License-Identifier: Apache-2.0
// Tables of calls that are refused, each a change of one that is fine. What all
// operators refuse alike - nulls, types that a parameter never has, private
// formats - is in tests/golden/errors.txt, of every version.
#pragma once

#include <gtest/gtest.h>

#include <functional>
#include <optional>
#include <string>
#include <type_traits>
#include <vector>

#include "tests/testing/call.h"
#include "tests/testing/training_call.h"

namespace flashacl::testing {

inline constexpr aclnnStatus kNull = 161001;
inline constexpr aclnnStatus kInvalid = 161002;
inline constexpr aclnnStatus kDeep = 561103;  // contradictions, forward

template <typename Call>
using Change = std::function<void(Call&)>;

// What the call answers once it is changed. Of training, it has the table's
// sizes unless it says others.
template <typename Call>
struct Refusal {
  aclnnStatus status;
  std::string words;
  Change<Call> change;
  std::optional<TrainingSizes> sizes = std::nullopt;
};

// Makes each changed call and expects it to be refused; refusals leave nothing
// that a call without a change would notice.
template <typename Call>
void ExpectRefusals(const typename Call::Case& good,
                    const std::vector<Refusal<Call>>& refusals) {
  for (const Refusal<Call>& refusal : refusals) {
    SCOPED_TRACE(refusal.words);
    Call call(good);
    refusal.change(call);
    call.ExpectFailure(refusal.status, refusal.words);
  }
  EXPECT_TRUE(Call(good).Run());
}

template <typename Call>
bool Runs(const Call& call) {
  TrainingFixture made(call);
  if (made.t.softmaxSum != nullptr) made.t.softmaxSum->FillWith(1);
  return made.Run();
}

// Calls body(call) with the changed call of each version that has what it asks
// for; there must be one.
template <typename Call>
void ForVersions(const std::string& name, const TrainingSizes& sizes,
                 const Change<Call>& change,
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

// ExpectRefusals of every version for training.
template <typename Call>
void ExpectRefused(const std::vector<Refusal<Call>>& refusals,
                   const TrainingSizes& sizes = {}) {
  for (const Refusal<Call>& refusal : refusals) {
    ForVersions<Call>(refusal.words, refusal.sizes.value_or(sizes),
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
                   const Change<Call>& change) {
  ForVersions<Call>(name, sizes, change, [](const Call& call) {
    TrainingFixture(call).ExpectPlanned();
  });
}

// Changes. Of fixtures, whose tensors there are:
template <typename Call>
Change<Call> Formed(DeviceTensor* Call::*member, Form form) {
  return [=](Call& c) { c.caller.Replace(c.*member, form); };
}
template <typename Call>
Change<Call> Without(DeviceTensor* Call::*member) {
  return [=](Call& c) { c.*member = nullptr; };
}
template <typename Call>
Change<Call> Typed(DeviceTensor* Call::*member, aclDataType type) {
  return [=](Call& c) {
    c.caller.Replace(c.*member,
                     {.type = type, .dims = (c.*member)->form().dims});
  };
}
template <typename Call>
Change<Call> Shaped(DeviceTensor* Call::*member, std::vector<int64_t> dims) {
  return [=](Call& c) {
    const DeviceTensor* tensor = c.*member;
    const Form form{tensor == nullptr ? ACL_FLOAT16 : tensor->form().type,
                    dims};
    c.caller.Replace(c.*member, form);
  };
}
// Of calls that are data yet:
template <typename Call>
Change<Call> Formed(std::optional<Form> Call::*member, Form form) {
  return [=](Call& c) { c.*member = form; };
}
template <typename Call, typename T>
Change<Call> Without(std::optional<T> Call::*member) {
  return [=](Call& c) { (c.*member).reset(); };
}
template <typename Call>
Change<Call> Typed(std::optional<Form> Call::*member, aclDataType type) {
  return [=](Call& c) { (c.*member)->type = type; };
}
template <typename Call>
Change<Call> Shaped(std::optional<Form> Call::*member,
                    std::vector<int64_t> dims) {
  return [=](Call& c) { (c.*member)->dims = dims; };
}
// Of both:
template <typename Call, typename T>
Change<Call> Set(T Call::*member, std::type_identity_t<T> value) {
  return [=](Call& c) { c.*member = value; };
}
template <typename Call>
Change<Call> Set(char* Call::*member, const char* text) {
  return [=](Call& c) { c.*member = const_cast<char*>(text); };
}
template <typename Call, typename... Rest>
Change<Call> All(Change<Call> first, Rest... rest) {
  return [=](Call& c) {
    first(c);
    (rest(c), ...);
  };
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
