// SPDX-License-Identifier: Apache-2.0
// Runs where only failures are recorded; tests/replay has all others.
#include "acl/call_recorder.h"

#include <gtest/gtest.h>

#include <array>
#include <cstring>
#include <filesystem>

#include "acl/acl.h"
#include "acl/call_writer.h"
#include "acl/stream.h"
#include "record/directory.h"
#include "tests/testing/runtime.h"
#include "tests/testing/temp_path.h"

namespace flashacl::acl {
namespace {

TEST(CallRecorder, IsOffUnlessAsked) {
  EXPECT_FALSE(RecordsCalls());
  EXPECT_EQ(CurrentRecording(), nullptr);
}

// Runs of an operator that reads one tensor and changes another, where only
// failures are recorded.
class RecordOfFailures : public testing::RuntimeTest {
 protected:
  using Bytes = std::array<uint8_t, 4>;

  static constexpr Argument kArguments[] = {
      {"other"}, {"selfRef", Need::kOptional, kAnyType, true, false, true}};
  static constexpr Operator kOperator{"Own", kArguments};

  void SetUp() override {
    RuntimeTest::SetUp();
    path_ = testing::TempPath("failures");
    RecordingSetting setting;
    setting.directory = path_;
    setting.only_failed = true;
    recording_ = std::make_shared<Recording>(setting, "the test");
    StartRecording(recording_);
    auto planned = std::make_shared<PlannedCall>();
    planned->number = 1;
    planned->operation = planned->function = "Own";
    for (const char* const name : {"other", "selfRef"}) {
      PassedValue& one = planned->parameters.emplace_back();
      one.name = name;
      Tensor tensor;
      tensor.acl_dtype = ACL_UINT8;
      tensor.rank = 1;
      tensor.dims[0] = sizeof(Bytes);
      tensor.strides[0] = 1;
      one.value = tensor;
    }
    executor_.op = &kOperator;
    executor_.record = std::move(planned);
  }
  void TearDown() override {
    EndRecording();
    std::filesystem::remove_all(path_);
    RuntimeTest::TearDown();
  }

  void SetAddresses(uint8_t* other, uint8_t* self) {
    for (const bool output : {false, true}) {
      Address& address = executor_.addresses.emplace_back();
      address.argument = output ? 1 : 0;
      address.input = true;
      address.output = output;
      address.data = reinterpret_cast<std::byte*>(output ? self : other);
      address.extent_bytes = sizeof(Bytes);
    }
  }

  // The run writes `to` and ends with `code`.
  void Run(uint8_t* self, const Bytes& to, int32_t code) {
    const testing::ScopedStream handle;
    aclError error = ACL_SUCCESS;
    const std::shared_ptr<Stream> stream = FindStream(handle, "Own", &error);
    ASSERT_NE(stream, nullptr);
    const auto record =
        std::make_shared<RunRecord>(recording_, executor_, GivenWorkspace());
    ASSERT_EQ(stream->Push(
                  [&]() -> aclError {
                    record->Before();
                    std::memcpy(self, to.data(), to.size());
                    record->After({code, "why"}, 3, 1.5);
                    return ACL_SUCCESS;
                  },
                  "Own", TaskKind::kOperator),
              ACL_SUCCESS);
    ASSERT_EQ(aclrtSynchronizeStream(handle), ACL_SUCCESS);
    FinishWriting();
  }

  // What the only record has of a tensor, before the run or after it.
  Bytes Recorded(const char* name, bool before) {
    Bytes bytes{};
    const Result<record::Reader> reader = record::Reader::Open(path_);
    EXPECT_TRUE(reader.ok() && reader->Calls().size() == 1);
    if (!reader.ok() || reader->Calls().size() != 1) return bytes;
    Result<record::Call> call = reader->ReadCall(reader->Calls()[0]);
    EXPECT_TRUE(call.ok() && call->launch->message == "why");
    if (!call.ok()) return bytes;
    record::ForTensors(
        *call, [&](const std::string& of, const record::Tensor& tensor) {
          if (of != name) return;
          const auto& contents = before ? tensor.before : tensor.after;
          ASSERT_TRUE(contents.has_value());
          const auto read = reader->ReadTensor(tensor, *contents);
          ASSERT_TRUE(read.ok()) << read.status().message();
          ASSERT_EQ(read->size(), bytes.size());
          std::memcpy(bytes.data(), read->data(), bytes.size());
        });
    return bytes;
  }

  std::string path_;
  std::shared_ptr<const Recording> recording_;
  Executor executor_;
};

TEST_F(RecordOfFailures, HaveWhatTheFailedRunChanged) {
  Bytes other{1, 2, 3, 4}, self{5, 6, 7, 8};
  SetAddresses(other.data(), self.data());
  Run(self.data(), {9, 9, 9, 9}, 0);
  EXPECT_FALSE(std::filesystem::exists(path_ + "/calls/00000001.json"));
  self = {5, 6, 7, 8};
  Run(self.data(), {9, 0, 9, 0}, 507015);
  EXPECT_EQ(Recorded("other", true), (Bytes{1, 2, 3, 4}));
  EXPECT_EQ(Recorded("selfRef", true), (Bytes{5, 6, 7, 8}));
  EXPECT_EQ(Recorded("selfRef", false), (Bytes{9, 0, 9, 0}));
}

TEST_F(RecordOfFailures, HaveAnInputThatAnOutputLiesOver) {
  std::array<uint8_t, 7> memory{1, 2, 3, 4, 5, 6, 7};
  SetAddresses(memory.data(), &memory[3]);
  Run(&memory[3], {9, 9, 9, 9}, 507015);
  EXPECT_EQ(Recorded("other", true), (Bytes{1, 2, 3, 4}));
}

TEST_F(RecordOfFailures, WaitForOneUnlessBytesMayBeGoneByThen) {
  std::array<uint8_t, 8> memory{};
  const auto waits = [&](int64_t self, bool in_place) {
    executor_.addresses.clear();
    SetAddresses(memory.data(), &memory[static_cast<size_t>(self)]);
    executor_.addresses[1].input = in_place;
    return RunRecord(recording_, executor_, GivenWorkspace()).WaitsForFailure();
  };
  EXPECT_TRUE(waits(4, false));
  EXPECT_FALSE(waits(4, true));
  EXPECT_FALSE(waits(3, false));
  RecordingSetting all;
  executor_.addresses.clear();
  EXPECT_FALSE(RunRecord(std::make_shared<Recording>(all, "the test"),
                         executor_, GivenWorkspace())
                   .WaitsForFailure());
}

}  // namespace
}  // namespace flashacl::acl
