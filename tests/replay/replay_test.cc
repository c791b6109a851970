// SPDX-License-Identifier: Apache-2.0
// What a process records under FLASHACL_RECORD, another one runs again with the
// same bits. Whoever records is a child, as the environment is read once.
#include "replay/replay.h"

#include <gtest/gtest.h>
#include <signal.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "replay/entry_point.h"
#include "replay/operands.h"
#include "tests/testing/child.h"
#include "tests/testing/device_bytes.h"
#include "tests/testing/operator_call.h"
#include "tests/testing/runtime.h"

namespace flashacl::replay {
namespace {

using record::Call;
using testing::AllOperatorCalls;
using testing::ChildResult;
using testing::DeviceBytes;
using testing::OperatorCall;
using testing::RuntimeTest;
using testing::ScopedStream;
using testing::Succeeds;
using testing::TensorArgument;

constexpr size_t kForward = 0;
constexpr int kSteps = 4;

OperatorCall DecodeCall() {
  std::vector<OperatorCall> calls = AllOperatorCalls();
  return *std::ranges::find_if(calls, [](const OperatorCall& call) {
    return std::string_view(call.name) == "aclnnIncreFlashAttentionV4";
  });
}

// A call with memory of its own, full of numbers.
class CallInMemory {
 public:
  explicit CallInMemory(OperatorCall of) : call(std::move(of)) {
    Random random(1);
    for (TensorArgument& tensor : call.tensors) {
      const std::vector<uint8_t> contents = Contents(tensor, random);
      memory_.push_back(std::make_unique<DeviceBytes>(contents.size()));
      memory_.back()->Upload(contents);
      tensor.data = memory_.back()->data();
    }
  }

  void Run() {
    uint64_t size = 0;
    aclOpExecutor* executor = nullptr;
    ASSERT_TRUE(Succeeds(call.Prepare(&size, &executor))) << call.name;
    const DeviceBytes workspace(size);
    ASSERT_TRUE(
        Succeeds(call.Launch(workspace.data(), size, executor, stream_)));
    ASSERT_TRUE(Succeeds(aclrtSynchronizeStream(stream_)));
  }

  DeviceBytes& memory(size_t tensor) { return *memory_[tensor]; }

  OperatorCall call;

 private:
  std::vector<std::unique_ptr<DeviceBytes>> memory_;
  ScopedStream stream_;
};

class ReplayChild : public RuntimeTest {};

class ReplayTest : public RuntimeTest {
 protected:
  void SetUp() override {
    RuntimeTest::SetUp();
    std::string name = ::testing::TempDir() + "replayXXXXXX";
    ASSERT_NE(mkdtemp(name.data()), nullptr);
    path_ = name + "/record";
    top_ = name;
  }
  void TearDown() override {
    std::filesystem::remove_all(top_);
    RuntimeTest::TearDown();
  }

  ChildResult Record(const std::string& test, const std::string& filter = "") {
    const std::string setting = filter.empty() ? path_ : path_ + ":" + filter;
    return testing::RunChild("ReplayChild.DISABLED_" + test,
                             {{"FLASHACL_RECORD", setting}});
  }

  std::vector<Call> Calls() const {
    std::vector<Call> calls;
    const Result<record::Reader> reader = record::Reader::Open(path_);
    EXPECT_TRUE(reader.ok()) << reader.status().message();
    if (!reader.ok()) return calls;
    for (const std::string& name : reader->Calls()) {
      Result<Call> call = reader->ReadCall(name);
      EXPECT_TRUE(call.ok()) << call.status().message();
      if (call.ok()) calls.push_back(std::move(*call));
    }
    return calls;
  }

  // How many calls there are, all of them with the same bits.
  size_t ReplayAll() const {
    const Result<record::Reader> reader = record::Reader::Open(path_);
    EXPECT_TRUE(reader.ok());
    size_t count = 0;
    for (const Call& call : Calls()) {
      SCOPED_TRACE(call.function);
      const Result<Outcome> outcome = Replay(*reader, call, {.repeat = 2});
      EXPECT_TRUE(outcome.ok()) << outcome.status().message();
      if (!outcome.ok()) continue;
      EXPECT_EQ(outcome->kind, Outcome::Kind::kSame);
      for (const auto& remark : outcome->remarks) ADD_FAILURE() << remark;
      ++count;
    }
    return count;
  }

  size_t FilesOfTensors() const {
    const std::filesystem::directory_iterator all(path_ + "/tensors");
    return static_cast<size_t>(std::distance(begin(all), end(all)));
  }

  std::string top_, path_;
};

// Children, each started by the test of its name.

TEST_F(ReplayChild, DISABLED_EveryOperator) {
  for (const OperatorCall& call : AllOperatorCalls()) CallInMemory(call).Run();
}

TEST_F(ReplayChild, DISABLED_OtherTypes) {
  for (const OperatorCall& call : testing::OperatorCallsOfOtherTypes()) {
    CallInMemory(call).Run();
  }
}

TEST_F(ReplayChild, DISABLED_DecodeLoop) {
  CallInMemory made(DecodeCall());
  for (int step = 0; step < kSteps; ++step) {
    made.memory(0).Upload({static_cast<uint8_t>(step)});
    made.Run();
  }
}

TEST_F(ReplayChild, DISABLED_Killed) {
  CallInMemory made(AllOperatorCalls()[kForward]);
  for (int step = 0; step < kSteps; ++step) {
    made.memory(0).Upload({static_cast<uint8_t>(step)});
    made.Run();
  }
  kill(getpid(), SIGKILL);
}

TEST_F(ReplayChild, DISABLED_Failures) {
  CallInMemory made(AllOperatorCalls()[kForward]);
  uint64_t size = 0;
  aclOpExecutor* executor = nullptr;
  OperatorCall wrong = made.call;
  wrong.tensors[1].present = false;
  EXPECT_NE(wrong.Prepare(&size, &executor), 0);
  ASSERT_TRUE(Succeeds(made.call.Prepare(&size, &executor)));
  EXPECT_NE(made.call.Launch(nullptr, 0, executor, nullptr), 0);
  made.Run();
}

TEST_F(ReplayChild, DISABLED_Views) {
  OperatorCall call = AllOperatorCalls()[kForward];
  TensorArgument& query = call.tensors[0];
  const int64_t row = query.dims[1] * query.dims[2];
  query.strides = {row + 8, query.dims[2], 1};
  query.offset = 16;
  CallInMemory(call).Run();
}

TEST_F(ReplayChild, DISABLED_Nan) {
  CallInMemory made(AllOperatorCalls()[kForward]);
  made.Run();
  const auto bytes = static_cast<size_t>(made.call.tensors[0].ExtentBytes());
  made.memory(0).Upload(std::vector<uint8_t>(bytes, 0xFF));  // NaN, all of it
  made.Run();
}

TEST_F(ReplayTest, EveryOperatorHasTheSameBitsElsewhere) {
  const ChildResult child = Record("EveryOperator");
  ASSERT_TRUE(child.ok()) << child.output;
  std::filesystem::copy(path_, top_ + "/elsewhere",
                        std::filesystem::copy_options::recursive);
  std::filesystem::remove_all(path_);
  path_ = top_ + "/elsewhere";
  EXPECT_EQ(ReplayAll(), AllOperatorCalls().size());
}

TEST_F(ReplayTest, TypesThatAttentionDoesNotHaveKeepTheirBytes) {
  ASSERT_TRUE(Record("OtherTypes").ok());
  EXPECT_EQ(ReplayAll(), testing::OperatorCallsOfOtherTypes().size());
  for (Call& call : Calls()) {
    SCOPED_TRACE(call.function);
    record::ForTensors(call, [](const std::string& name, const auto& tensor) {
      if (!tensor.has_data) return;
      EXPECT_GT(tensor.bytes, 0) << name << " of " << tensor.type;
      EXPECT_TRUE(tensor.before.has_value() && tensor.before->kept) << name;
    });
  }
}

// A record may lie: a run that needs more than the memory it has is refused.
TEST_F(ReplayTest, ARunStaysInsideOfItsMemory) {
  ASSERT_TRUE(Record("OtherTypes").ok());
  const Result<record::Reader> reader = record::Reader::Open(path_);
  ASSERT_TRUE(reader.ok()) << reader.status().message();
  // What replay gives a tensor without bytes, and what a block has more.
  constexpr int64_t kMostRoom = 64 + 32;
  int refused = 0;
  for (Call& call : Calls()) {
    int64_t most = 0;
    record::ForTensors(call, [&](const std::string&, record::Tensor& tensor) {
      if (tensor.type == "INT32") return;  // where rows of pages are
      most = std::max(most, tensor.bytes);
      tensor.bytes = 0;
      tensor.before.reset();
      tensor.after.reset();
    });
    const Result<Outcome> outcome = Replay(*reader, call, {});
    ASSERT_TRUE(outcome.ok()) << outcome.status().message();
    if (most <= kMostRoom) continue;
    EXPECT_EQ(outcome->kind, Outcome::Kind::kDifferent);
    ASSERT_FALSE(outcome->remarks.empty());
    EXPECT_NE(outcome->remarks[0].find(": needs "), std::string::npos)
        << outcome->remarks[0];
    ++refused;
  }
  EXPECT_EQ(refused, 8);  // pages, and complex numbers
}

TEST_F(ReplayTest, ADecodeLoopKeepsItsCacheOnce) {
  const ChildResult child = Record("DecodeLoop");
  ASSERT_TRUE(child.ok()) << child.output;
  EXPECT_EQ(ReplayAll(), size_t{kSteps});
  // A query and an answer per step, and all else once.
  const size_t tensors = DecodeCall().tensors.size();
  EXPECT_LE(FilesOfTensors(), tensors + 2 * kSteps);
}

TEST_F(ReplayTest, AKilledProcessLosesAtMostOneCall) {
  const ChildResult child = Record("Killed");
  ASSERT_EQ(child.signal, SIGKILL) << child.output;
  EXPECT_GE(ReplayAll(), size_t{kSteps - 1});
}

TEST_F(ReplayTest, FailuresAreRecorded) {
  const ChildResult child = Record("Failures", "failed");
  ASSERT_TRUE(child.ok()) << child.output;
  const std::vector<Call> calls = Calls();
  ASSERT_EQ(calls.size(), 2u);
  EXPECT_EQ(calls[0].plan.status, 161001);
  EXPECT_NE(calls[0].plan.message.find("key"), std::string::npos);
  ASSERT_TRUE(calls[1].launch.has_value());
  EXPECT_NE(calls[1].launch->status, 0);
  EXPECT_FALSE(calls[1].has_workspace);
  EXPECT_NE(calls[1].launch->message.find("workspace"), std::string::npos);
  const Result<record::Reader> reader = record::Reader::Open(path_);
  const Result<Outcome> again = Replay(*reader, calls[0], {});
  ASSERT_TRUE(again.ok()) << again.status().message();
  EXPECT_EQ(again->kind, Outcome::Kind::kSame);
  const Result<Outcome> refused = Replay(*reader, calls[1], {});
  ASSERT_TRUE(refused.ok());
  EXPECT_EQ(refused->kind, Outcome::Kind::kSkipped);
}

TEST_F(ReplayTest, ViewsKeepTheirStrides) {
  const ChildResult child = Record("Views");
  ASSERT_TRUE(child.ok()) << child.output;
  EXPECT_EQ(ReplayAll(), 1u);
  const std::vector<Call> calls = Calls();
  ASSERT_EQ(calls.size(), 1u);
  const auto& query = std::get<record::Tensor>(calls[0].parameters[0].value);
  EXPECT_EQ(query.offset, 16);
  EXPECT_EQ(query.strides[0], query.shape[1] * query.shape[2] + 8);
  EXPECT_TRUE(query.input);
}

TEST_F(ReplayTest, FiltersAreHeeded) {
  ASSERT_TRUE(Record("Nan", "nan").ok());
  ASSERT_EQ(Calls().size(), 1u);
  EXPECT_GT(record::BadNumbers(Calls()[0]), 0);
  EXPECT_EQ(Calls()[0].number, 2);
  std::filesystem::remove_all(path_);
  ASSERT_TRUE(Record("DecodeLoop", "calls=2-4,every=2").ok());
  EXPECT_EQ(ReplayAll(), 2u);
  std::filesystem::remove_all(path_);
  ASSERT_TRUE(Record("DecodeLoop", "op=*Grad").ok());
  EXPECT_FALSE(std::filesystem::exists(path_));
  const ChildResult full = Record("DecodeLoop", "size=100");
  EXPECT_TRUE(full.ok());
  EXPECT_NE(full.output.find("recording ends: the record is full"),
            std::string::npos);
}

TEST_F(ReplayTest, StatisticsNeedNoBytes) {
  ASSERT_TRUE(Record("DecodeLoop", "stats").ok());
  EXPECT_EQ(FilesOfTensors(), 0u);
  const std::vector<Call> calls = Calls();
  ASSERT_EQ(calls.size(), size_t{kSteps});
  const auto& query = std::get<record::Tensor>(calls[0].parameters[0].value);
  ASSERT_TRUE(query.before.has_value());
  EXPECT_GT(query.before->statistics.count, 0);
  const Result<record::Reader> reader = record::Reader::Open(path_);
  const Result<Outcome> outcome = Replay(*reader, calls[0], {});
  ASSERT_TRUE(outcome.ok());
  EXPECT_EQ(outcome->kind, Outcome::Kind::kSkipped);
}

TEST_F(ReplayTest, RefusesWhatNoFunctionTakes) {
  ASSERT_TRUE(Record("Views").ok());
  const Result<record::Reader> reader = record::Reader::Open(path_);
  std::vector<Call> calls = Calls();
  ASSERT_EQ(calls.size(), 1u);
  Call changed = calls[0];
  changed.parameters.pop_back();
  EXPECT_FALSE(Replay(*reader, changed, {}).ok());
  changed = calls[0];
  changed.function = "system";
  EXPECT_FALSE(FindEntryPoint(changed).ok());
  changed = calls[0];
  std::get<record::Tensor>(changed.parameters[0].value).before->digest =
      std::string(32, '0');
  EXPECT_FALSE(Operands::Make(*reader, changed).ok());
  EXPECT_FALSE(UseImplementation("cpu/none").ok());
}

// What was written is compared, not only what was answered.
TEST_F(ReplayTest, NamesWhatDiffers) {
  ASSERT_TRUE(Record("Views").ok());
  const Result<record::Reader> reader = record::Reader::Open(path_);
  std::vector<Call> calls = Calls();
  ASSERT_EQ(calls.size(), 1u);
  for (record::Parameter& parameter : calls[0].parameters) {
    auto* const tensor = std::get_if<record::Tensor>(&parameter.value);
    if (tensor != nullptr && tensor->output) tensor->after = tensor->before;
  }
  const Result<Outcome> outcome = Replay(*reader, calls[0], {});
  ASSERT_TRUE(outcome.ok()) << outcome.status().message();
  EXPECT_EQ(outcome->kind, Outcome::Kind::kDifferent);
  ASSERT_FALSE(outcome->remarks.empty());
  EXPECT_NE(outcome->remarks.back().find("attentionOut"), std::string::npos);
  EXPECT_NE(outcome->remarks.back().find("by at most"), std::string::npos);
}

// Elements that nothing here subtracts differ, and nobody says by how much.
TEST_F(ReplayTest, CountsWhatDiffersOfTypesWithoutNumbers) {
  ASSERT_TRUE(Record("OtherTypes").ok());
  const Result<record::Reader> reader = record::Reader::Open(path_);
  ASSERT_TRUE(reader.ok()) << reader.status().message();
  int without = 0;
  for (Call& call : Calls()) {
    SCOPED_TRACE(call.function);
    record::ForTensors(call, [](const std::string&, record::Tensor& tensor) {
      if (tensor.output) tensor.after = tensor.before;
    });
    const Result<Outcome> outcome = Replay(*reader, call, {});
    ASSERT_TRUE(outcome.ok()) << outcome.status().message();
    if (outcome->kind == Outcome::Kind::kSame) continue;  // copied onto itself
    const std::string& remark = outcome->remarks.back();
    EXPECT_NE(remark.find("elements differ"), std::string::npos) << remark;
    EXPECT_EQ(remark.find("by at most"), std::string::npos) << remark;
    ++without;
  }
  EXPECT_GE(without, 6);
}

}  // namespace
}  // namespace flashacl::replay
