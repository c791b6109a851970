// SPDX-License-Identifier: Apache-2.0
// A recorded call is the problem that its operator makes of it, with the bytes
// that it had: its results are right, and wrong for another problem. Whoever
// records is a child of replay_test.cc.
#include "replay/recorded_attention.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <filesystem>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/number.h"
#include "base/str.h"
#include "tests/testing/child.h"
#include "tests/testing/runtime.h"
#include "verify/answer/answer.h"
#include "verify/check/tensor_check.h"

namespace flashacl::replay {
namespace {

using record::Call;

// These problems are too small to wait for other threads.
class Alone final : public Workers {
 public:
  void ForEach(int64_t count, FunctionRef<void(int64_t)> body) override {
    for (int64_t n = 0; n < count; ++n) body(n);
  }
  int count() const override { return 1; }
};

Result<TensorCheck> Check(const RecordedAttention& attention) {
  BoundInputs inputs;
  inputs.tensors = {attention.problem, attention.bindings, attention.memory};
  Alone workers;
  return CheckTensors(inputs, {{"recorded", inputs.tensors}}, {}, workers);
}

class RecordedAttentionTest : public testing::RuntimeTest {
 protected:
  void SetUp() override {
    RuntimeTest::SetUp();
    top_ = ::testing::TempDir() + "recordedXXXXXX";
    ASSERT_NE(mkdtemp(top_.data()), nullptr);
  }
  void TearDown() override {
    std::filesystem::remove_all(top_);
    RuntimeTest::TearDown();
  }

  // What a child of replay_test.cc records.
  void Record(const std::string& child, const std::string& filter = "") {
    const std::string path = top_ + "/record";
    const testing::ChildResult ran = testing::RunChild(
        "ReplayChild.DISABLED_" + child, {{"FLASHACL_RECORD", path + filter}});
    ASSERT_TRUE(ran.ok()) << ran.output;
    Result<record::Reader> reader = record::Reader::Open(path);
    ASSERT_TRUE(reader.ok()) << reader.status().message();
    reader_.emplace(std::move(*reader));
    for (const std::string& name : reader_->Calls()) {
      const Result<Call> call = reader_->ReadCall(name);
      ASSERT_TRUE(call.ok()) << call.status().message();
      calls_.push_back(*call);
    }
  }

  const Call* Find(std::string_view operation) const {
    for (const Call& call : calls_) {
      if (call.operation == operation) return &call;
    }
    ADD_FAILURE() << operation << ": was not recorded";
    return nullptr;
  }

  std::string top_;
  std::optional<record::Reader> reader_;
  std::vector<Call> calls_;
};

TEST_F(RecordedAttentionTest, EveryOperatorIsRightOrSaysWhyNot) {
  Record("EveryOperator");
  std::map<std::string, int> checked;
  std::map<Slot, int> judged;
  for (const Call& call : calls_) {
    SCOPED_TRACE(call.operation + ": " + call.problem);
    const Result<RecordedAttention> attention = ReadAttention(*reader_, call);
    if (!attention.ok()) {
      EXPECT_EQ(attention.status().code(), Code::kUnsupported);
      EXPECT_NE(attention.status().message().find("no attention"),
                std::string::npos)
          << attention.status().message();
      continue;
    }
    EXPECT_FALSE(attention->results.empty());
    EXPECT_TRUE(attention->problem.lengths.known());
    const Result<TensorCheck> check = Check(*attention);
    ASSERT_TRUE(check.ok()) << check.status().message();
    EXPECT_TRUE(check->right()) << Describe(*check);
    EXPECT_GT(check->rows, 0);
    ++checked[call.operation];
    for (const RecordedResult& one : attention->results) ++judged[one.slot];
  }
  for (const Slot slot : {Slot::kRowMax, Slot::kRowSum, Slot::kLse,
                          Slot::kGradBias, Slot::kGradSink}) {
    EXPECT_GT(judged[slot], 0) << Name(slot);
  }
  for (const char* operation :
       {"aclnnFlashAttentionScore", "aclnnFlashAttentionVarLenScore",
        "aclnnFlashAttentionUnpaddingScoreGrad", "aclnnPromptFlashAttention",
        "aclnnIncreFlashAttention", "aclnnSparseFlashAttention",
        "aclnnSparseFlashAttentionGrad", "aclnnFusedInferAttentionScore"}) {
    EXPECT_GT(checked[operation], 0) << operation;
  }
}

// The scale that the record says is the one that results are judged by.
TEST_F(RecordedAttentionTest, ParametersAreTheRecords) {
  Record("EveryOperator", ":op=aclnnFlashAttentionScore");
  ASSERT_EQ(calls_.size(), 1u);
  Call changed = calls_[0];
  for (record::Parameter& parameter : changed.parameters) {
    if (parameter.name.find("scale") == std::string::npos) continue;
    double& scale = std::get<double>(parameter.value);
    scale = std::sqrt(scale);
  }
  const Result<RecordedAttention> attention = ReadAttention(*reader_, changed);
  ASSERT_TRUE(attention.ok()) << attention.status().message();
  const Result<TensorCheck> check = Check(*attention);
  ASSERT_TRUE(check.ok()) << check.status().message();
  EXPECT_FALSE(check->right());
  ASSERT_FALSE(check->results[0].suspicions.empty()) << Describe(*check);
  EXPECT_EQ(check->results[0].suspicions[0].cause, "scale squared")
      << Describe(*check);
}

// Lengths that a tensor says are known once the call has run.
TEST_F(RecordedAttentionTest, LengthsOfTheDeviceAreThoseOfTheRun) {
  Record("EveryOperator", ":op=aclnnSparseFlashAttention");
  ASSERT_EQ(calls_.size(), 1u);
  const Result<RecordedAttention> attention =
      ReadAttention(*reader_, calls_[0]);
  ASSERT_TRUE(attention.ok()) << attention.status().message();
  EXPECT_TRUE(attention->problem.lengths.known());
  EXPECT_FALSE(attention->problem.has(Slot::kKeyLengths));
  EXPECT_FALSE(attention->problem.has(Slot::kQueryLengths));
}

TEST_F(RecordedAttentionTest, ViewsAreReadByTheirStrides) {
  Record("Views");
  ASSERT_EQ(calls_.size(), 1u);
  const Result<RecordedAttention> attention =
      ReadAttention(*reader_, calls_[0]);
  ASSERT_TRUE(attention.ok()) << attention.status().message();
  const Result<TensorCheck> check = Check(*attention);
  ASSERT_TRUE(check.ok()) << check.status().message();
  EXPECT_TRUE(check->right()) << Describe(*check);
  std::vector<std::string> names;
  for (const RecordedResult& one : attention->results) {
    names.push_back(one.name);
  }
  EXPECT_EQ(names, (std::vector<std::string>{"attentionOutOut", "softmaxMaxOut",
                                             "softmaxSumOut"}));
  EXPECT_TRUE(attention->others.empty());
}

// Somebody's number, off by so much that no rounding explains it.
void Break(DType dtype, std::byte* at) {
  const double was = ReadNumber(dtype, at);
  const double share = dtype == DType::kF32 ? 0x1p-8 : 0x1p-2;
  double now = was + (std::fabs(was) + 1) * share;
  if (dtype == DType::kI8) now = was > 0 ? was - 8 : was + 8;
  // What rows store that see no key.
  if (!std::isfinite(was) || std::fabs(was) > 1e30) now = 0.25;
  WriteNumber(dtype, at, now);
}

// One number of every result of every operator in turn: the report names the
// result and the row, and nothing else is wrong.
TEST_F(RecordedAttentionTest, NamesTheRowThatIsBroken) {
  Record("EveryOperator");
  std::map<Slot, int> broken;
  for (const Call& call : calls_) {
    SCOPED_TRACE(call.operation + ": " + call.problem);
    const Result<RecordedAttention> attention = ReadAttention(*reader_, call);
    if (!attention.ok()) continue;
    const AttentionProblem& problem = attention->problem;
    if (problem.direction == Direction::kBackward) continue;
    const TensorSet set{problem, attention->bindings, attention->memory};
    const Results results(set);
    const auto& sequences = problem.lengths.sequences;
    const auto last = std::ranges::find_if(
        sequences.rbegin(), sequences.rend(),
        [](const Sequence& one) { return one.rows() > 0; });
    const int64_t sequence = std::distance(last, sequences.rend()) - 1;
    const int64_t row = last->rows() - 1;
    for (const RecordedResult& one : attention->results) {
      const Part part{one.slot, sequence, problem.heads - 1, 1, {row}, {}, {}};
      const DType dtype = problem[one.slot].dtype;
      std::byte* const at =
          set.bindings[one.slot] + results.Offset(part, 0) * SizeOf(dtype);
      const std::vector<std::byte> before(at, at + SizeOf(dtype));
      Break(dtype, at);
      const Result<TensorCheck> check = Check(*attention);
      ASSERT_TRUE(check.ok()) << check.status().message();
      EXPECT_EQ(check->results[0].judgement.wrong_rows, 1) << Describe(*check);
      const std::string where =
          Str("{} sequence {} head {} row {} ", Name(one.slot), sequence,
              problem.heads - 1, row);
      EXPECT_NE(Describe(*check).find(where), std::string::npos)
          << where << "\n"
          << Describe(*check);
      std::ranges::copy(before, at);
      ++broken[one.slot];
    }
  }
  for (const Slot slot :
       {Slot::kOut, Slot::kRowMax, Slot::kRowSum, Slot::kLse}) {
    EXPECT_GT(broken[slot], 0) << Name(slot);
  }
}

// What cannot be checked says why.
TEST_F(RecordedAttentionTest, RefusesWhatHasNoResult) {
  Record("Failures");
  const auto refusal = [&](const Call& call) {
    const Result<RecordedAttention> attention = ReadAttention(*reader_, call);
    return attention.ok() ? std::string() : attention.status().message();
  };
  ASSERT_EQ(calls_.size(), 3u);
  EXPECT_NE(refusal(calls_[0]).find("the call failed"), std::string::npos);
  EXPECT_NE(refusal(calls_[1]).find("workspace"), std::string::npos);
  Call call = calls_[2];
  EXPECT_EQ(refusal(call), "");
  call.launch.reset();
  EXPECT_NE(refusal(call).find("never run"), std::string::npos);
  call = calls_[2];
  record::ForTensors(call, [](const std::string&, record::Tensor& tensor) {
    tensor.after.reset();
  });
  EXPECT_EQ(refusal(call),
            "attentionOutOut: its bytes after the run were not recorded");
  record::ForTensors(call, [](const std::string&, record::Tensor& tensor) {
    tensor.before.reset();
  });
  EXPECT_NE(refusal(call).find("were not recorded"), std::string::npos);
  call = calls_[2];
  call.function = "system";
  EXPECT_NE(refusal(call).find("no such function"), std::string::npos);
}

}  // namespace
}  // namespace flashacl::replay
