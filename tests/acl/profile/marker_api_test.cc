// SPDX-License-Identifier: Apache-2.0
// Marks, ranges, steps: every status, and what the timeline shows of them.
#include <gtest/gtest.h>

#include <cstring>
#include <string>
#include <thread>
#include <vector>

#include "acl/acl.h"
#include "acl/acl_prof.h"
#include "acl/profile/ranges.h"
#include "acl/profile/timeline.h"
#include "acl/profile/trace_json.h"
#include "tests/acl/profile/trace_reader.h"
#include "tests/testing/runtime.h"

namespace flashacl::acl {
namespace {

using ::flashacl::testing::FailsWith;
using ::flashacl::testing::Json;
using ::flashacl::testing::Message;
using ::flashacl::testing::ReadTrace;
using ::flashacl::testing::RuntimeTest;
using ::flashacl::testing::ScopedStream;
using ::flashacl::testing::Succeeds;
using ::flashacl::testing::TemporaryFolder;

void* const kForeign = reinterpret_cast<void*>(0x1234);

class Markers : public RuntimeTest {
 protected:
  void SetUp() override {
    RuntimeTest::SetUp();
    stamp_ = aclprofCreateStamp();
    ASSERT_NE(stamp_, nullptr);
    Say("text");
  }
  void TearDown() override {
    aclprofDestroyStamp(stamp_);
    RuntimeTest::TearDown();
  }

  void Say(const std::string& text) {
    EXPECT_TRUE(Succeeds(aclprofSetStampTraceMessage(
        stamp_, text.c_str(), static_cast<uint32_t>(text.size()))));
  }

  template <typename F>
  ReadTrace Trace(F&& body) {
    const int64_t begin_ns = profile::StartRecording();
    body();
    const std::string path = folder_ / "trace.json";
    EXPECT_TRUE(
        profile::WriteTrace(profile::StopRecording(begin_ns), path).ok());
    return ReadTrace(path);
  }

  int64_t RowOf(aclrtStream stream) {
    int32_t id = -1;
    EXPECT_EQ(aclrtStreamGetId(stream, &id), 0);
    return profile::RowOfStream(id);
  }

  void* stamp_ = nullptr;
  TemporaryFolder folder_;
};

TEST_F(Markers, SayWhatIsWrong) {
  uint32_t id = 0;
  for (void* wrong : {static_cast<void*>(nullptr), kForeign}) {
    EXPECT_TRUE(
        FailsWith(100000, aclprofSetStampTraceMessage(wrong, "x", 1), "stamp"));
    EXPECT_TRUE(FailsWith(100000, aclprofMark(wrong), "stamp"));
    EXPECT_TRUE(FailsWith(100000, aclprofPush(wrong), "stamp"));
    EXPECT_TRUE(FailsWith(100000, aclprofRangeStart(wrong, &id), "stamp"));
    EXPECT_TRUE(
        FailsWith(100000,
                  aclprofGetStepTimestamp(static_cast<aclprofStepInfo*>(wrong),
                                          ACL_STEP_START, nullptr),
                  "stepInfo"));
  }
  EXPECT_TRUE(FailsWith(100000, aclprofSetStampTraceMessage(stamp_, nullptr, 1),
                        "msg"));
  EXPECT_TRUE(FailsWith(100000, aclprofRangeStart(stamp_, nullptr), "rangeId"));
  const std::string longest(127, 'x');
  EXPECT_TRUE(FailsWith(100000, aclprofMarkEx(nullptr, 1, nullptr), "msg"));
  EXPECT_TRUE(FailsWith(100000, aclprofMarkEx("x", 0, nullptr), "msgLen"));
  EXPECT_TRUE(
      FailsWith(100000, aclprofMarkEx(longest.c_str(), 128, nullptr), "127"));
  EXPECT_TRUE(FailsWith(107000, aclprofMarkEx("x", 1, kForeign), "stream"));
  EXPECT_TRUE(Succeeds(aclprofMarkEx(longest.c_str(), 127, nullptr)));
  EXPECT_TRUE(FailsWith(100000, aclprofRangePushEx(nullptr), "attributes"));
}

// Whether or not anybody records.
TEST_F(Markers, AnswerWithZero) {
  uint32_t first = 0;
  uint32_t second = 0;
  EXPECT_EQ(aclprofMark(stamp_), 0);
  EXPECT_EQ(aclprofPush(stamp_), 0);
  EXPECT_EQ(aclprofPop(), 0);
  EXPECT_EQ(aclprofPop(), 0);
  EXPECT_EQ(aclprofRangePop(), 0);
  EXPECT_EQ(aclprofRangeStart(stamp_, &first), 0);
  EXPECT_EQ(aclprofRangeStart(stamp_, &second), 0);
  EXPECT_GE(first, 1u);
  EXPECT_EQ(second, first + 1);
  EXPECT_EQ(aclprofRangeStop(first), 0);
  EXPECT_EQ(aclprofRangeStop(first), 0);
  EXPECT_EQ(aclprofRangeStop(0), 0);
  EXPECT_EQ(aclprofRangeStop(second), 0);
  aclprofDestroyStamp(nullptr);
  aclprofDestroyStepInfo(nullptr);
  EXPECT_EQ(aclGetRecentErrMsg(), nullptr);
  aclprofDestroyStamp(kForeign);
  EXPECT_NE(Message(), "");
}

TEST_F(Markers, AreMomentsAndRangesOfTheirThread) {
  const ReadTrace trace = Trace([&] {
    EXPECT_EQ(aclprofMark(stamp_), 0);
    Say("outer");
    EXPECT_EQ(aclprofPush(stamp_), 0);
    Say("inner");
    EXPECT_EQ(aclprofPush(stamp_), 0);
    EXPECT_TRUE(Succeeds(aclrtSynchronizeDevice()));
    EXPECT_EQ(aclprofPop(), 0);
    EXPECT_EQ(aclprofPop(), 0);
    EXPECT_EQ(aclprofPop(), 0);
  });
  EXPECT_EQ(trace.With("i", "name", "text").size(), 1u);
  ASSERT_EQ(trace.Named("outer").size(), 1u);
  ASSERT_EQ(trace.Named("inner").size(), 1u);
  const Json outer = trace.Named("outer")[0];
  const Json inner = trace.Named("inner")[0];
  EXPECT_EQ(outer["cat"], "range");
  EXPECT_LE(ReadTrace::Begin(outer), ReadTrace::Begin(inner));
  EXPECT_GE(ReadTrace::End(outer), ReadTrace::End(inner));
  const Json call = trace.Named("aclrtSynchronizeDevice").at(0);
  EXPECT_LE(ReadTrace::Begin(inner), ReadTrace::Begin(call));
}

TEST_F(Markers, RangesEndOnAnyThread) {
  const ReadTrace trace = Trace([&] {
    uint32_t id = 0;
    EXPECT_EQ(aclprofRangeStart(stamp_, &id), 0);
    std::thread([id] { EXPECT_EQ(aclprofRangeStop(id), 0); }).join();
  });
  const auto begins = trace.With("b", "name", "text");
  const auto ends = trace.With("e", "name", "text");
  ASSERT_EQ(begins.size(), 1u);
  ASSERT_EQ(ends.size(), 1u);
  EXPECT_EQ(begins[0]["id"], ends[0]["id"]);
  EXPECT_LE(ReadTrace::Begin(begins[0]), ReadTrace::Begin(ends[0]));
}

TEST_F(Markers, MarkStreams) {
  const ScopedStream stream;
  const ReadTrace trace = Trace([&] {
    EXPECT_TRUE(Succeeds(aclprofMarkEx("one two", 3, stream)));
    EXPECT_TRUE(Succeeds(aclrtSynchronizeStream(stream)));
  });
  const auto marks = trace.With("i", "name", "one");
  ASSERT_EQ(marks.size(), 1u);
  EXPECT_EQ(marks[0]["tid"], RowOf(stream));
  EXPECT_TRUE(ReadTrace::OfStream(marks[0]));
}

TEST_F(Markers, StepsBeginAndEndOnStreams) {
  const ScopedStream stream;
  aclprofStepInfo* step = aclprofCreateStepInfo();
  ASSERT_NE(step, nullptr);
  const auto tag = [&](int value, aclrtStream at) {
    return aclprofGetStepTimestamp(step, static_cast<aclprofStepTag>(value),
                                   at);
  };
  EXPECT_TRUE(FailsWith(100000, tag(2, stream), "tag"));
  EXPECT_TRUE(FailsWith(100000, tag(-1, stream), "tag"));
  EXPECT_TRUE(FailsWith(107000, tag(ACL_STEP_START, kForeign), "stream"));
  const ReadTrace trace = Trace([&] {
    EXPECT_TRUE(Succeeds(tag(ACL_STEP_START, stream)));
    EXPECT_TRUE(FailsWith(100000, tag(ACL_STEP_START, stream), "before"));
    EXPECT_TRUE(Succeeds(tag(ACL_STEP_END, stream)));
    EXPECT_TRUE(FailsWith(100000, tag(ACL_STEP_END, stream), "before"));
    EXPECT_TRUE(Succeeds(aclrtSynchronizeStream(stream)));
  });
  const auto begins = trace.With("b", "name", "step");
  ASSERT_EQ(begins.size(), 1u);
  EXPECT_EQ(begins[0]["tid"], RowOf(stream));
  EXPECT_EQ(trace.With("e", "name", "step").size(), 1u);
  aclprofDestroyStepInfo(step);
  EXPECT_TRUE(FailsWith(100000, tag(ACL_STEP_START, stream), "stepInfo"));
}

// It began before anybody recorded.
TEST_F(Markers, AStepWithoutABeginIsNotShown) {
  const ScopedStream stream;
  aclprofStepInfo* step = aclprofCreateStepInfo();
  EXPECT_TRUE(Succeeds(aclprofGetStepTimestamp(step, ACL_STEP_START, stream)));
  const ReadTrace trace = Trace([&] {
    EXPECT_TRUE(Succeeds(aclprofGetStepTimestamp(step, ACL_STEP_END, stream)));
    EXPECT_TRUE(Succeeds(aclrtSynchronizeStream(stream)));
  });
  EXPECT_TRUE(trace.With("b", "name", "step").empty());
  aclprofDestroyStepInfo(step);
}

TEST_F(Markers, NumbersStandForTexts) {
  const uint64_t add = aclprofStr2Id("aclnnAdd");
  EXPECT_NE(add, 0u);
  EXPECT_EQ(aclprofStr2Id("aclnnAdd"), add);
  EXPECT_NE(aclprofStr2Id("aclnnSub"), add);
  EXPECT_NE(aclprofStr2Id(""), 0u);
  EXPECT_EQ(aclprofStr2Id(nullptr), 0u);
  aclprofTensor tensors[2] = {{0, 0, 0, 2, {2, 3}}, {1, 0, 0, 99, {7}}};
  aclprofTensorInfo info{};
  info.opNameId = add;
  info.opTypeId = aclprofStr2Id("Add");
  info.tensorNum = 2;
  info.tensors = tensors;
  aclprofEventAttributes attributes{
      1, sizeof(aclprofEventAttributes), 0, {&info}};
  EXPECT_EQ(aclprofRangePushEx(&attributes), 0);
  EXPECT_EQ(aclprofRangePop(), 0);
  const ReadTrace trace = Trace([&] {
    EXPECT_EQ(aclprofRangePushEx(&attributes), 0);
    EXPECT_EQ(aclprofRangePop(), 0);
    attributes.messageType = 5;
    EXPECT_EQ(aclprofRangePushEx(&attributes), 0);
    EXPECT_EQ(aclprofRangePop(), 0);
    attributes = {1, sizeof(aclprofEventAttributes), 0, {nullptr}};
    EXPECT_EQ(aclprofRangePushEx(&attributes), 0);
    EXPECT_EQ(aclprofRangePop(), 0);
    info.opNameId = 0xABC;
    info.tensors = nullptr;
    attributes.message.tensorInfo = &info;
    EXPECT_EQ(aclprofRangePushEx(&attributes), 0);
    EXPECT_EQ(aclprofRangePop(), 0);
  });
  const auto ranges = trace.Named("aclnnAdd");
  ASSERT_EQ(ranges.size(), 1u);
  EXPECT_EQ(ranges[0]["args"]["detail"], "Add [2, 3] [7, 0, 0, 0, 0, 0, 0, 0]");
  EXPECT_EQ(trace.Named("range").size(), 2u);
  EXPECT_EQ(trace.Named("0xabc").size(), 1u);
}

TEST(OpenRanges, CountsFromOneAndOnFromOne) {
  static auto& ranges = *new profile::OpenRanges(3);
  auto range = std::make_shared<profile::OpenRange>();
  EXPECT_EQ(ranges.Add(range), 1u);
  EXPECT_EQ(ranges.Add(nullptr), 2u);
  EXPECT_EQ(ranges.Add(range), 3u);
  EXPECT_EQ(ranges.Take(1), range);
  EXPECT_EQ(ranges.Take(1), nullptr);
  EXPECT_EQ(ranges.Take(2), nullptr);
  EXPECT_EQ(ranges.Add(nullptr), 1u);
  EXPECT_EQ(ranges.Take(3), range);
}

}  // namespace
}  // namespace flashacl::acl
