// SPDX-License-Identifier: Apache-2.0
// Labels, lists of them and jumps: what is refused.
#include <gtest/gtest.h>

#include <vector>

#include "tests/acl/graph/build_fixture.h"

namespace flashacl::testing {
namespace {

class LabelApi : public BuildTest {
 protected:
  void SetUp() override {
    BuildTest::SetUp();
    graph_ = NewGraph();
    stream_ = Bound(graph_);
    index_ = Number<uint32_t>(0);
    labels_ = Labels(2);
    list_ = List(labels_);
  }
  void TearDown() override {
    if (graph_ != nullptr) Destroy(graph_);
    BuildTest::TearDown();
  }
  aclError SwitchTo(void* index, uint32_t count, aclrtLabelList list,
                    aclrtStream stream) {
    return aclrtSwitchLabelByIndex(index, count, list, stream);
  }
  aclError SwitchStream(aclrtStream to, aclrtStream stream, int condition = 0,
                        int type = 0) {
    return aclrtSwitchStream(index_, static_cast<aclrtCondition>(condition),
                             index_, static_cast<aclrtCompareDataType>(type),
                             to, nullptr, stream);
  }

  aclmdlRI graph_ = nullptr;
  aclrtStream stream_ = nullptr;
  uint32_t* index_ = nullptr;
  std::vector<aclrtLabel> labels_;
  aclrtLabelList list_ = nullptr;
};

TEST_F(LabelApi, NullsAndOthersAreRefused) {
  EXPECT_TRUE(FailsWith(100000, aclrtCreateLabel(nullptr), "label"));
  EXPECT_TRUE(FailsWith(100000, aclrtDestroyLabel(nullptr), "label"));
  EXPECT_TRUE(FailsWith(107000, aclrtDestroyLabel(stream_), "label"));
  EXPECT_TRUE(FailsWith(100000, aclrtDestroyLabelList(nullptr), "labelList"));
  EXPECT_TRUE(FailsWith(107000, aclrtDestroyLabelList(stream_), "labels"));
  EXPECT_TRUE(FailsWith(100000, aclrtSetLabel(nullptr, stream_), "label"));
  EXPECT_TRUE(FailsWith(100000, aclrtSetLabel(labels_[0], nullptr), "stream"));
  EXPECT_TRUE(FailsWith(107000, aclrtSetLabel(stream_, stream_), "label"));
  EXPECT_TRUE(FailsWith(107000, aclrtSetLabel(labels_[0], graph_), "stream"));
  aclrtLabel gone = nullptr;
  EXPECT_TRUE(Succeeds(aclrtCreateLabel(&gone)));
  EXPECT_TRUE(Succeeds(aclrtDestroyLabel(gone)));
  EXPECT_TRUE(FailsWith(107000, aclrtDestroyLabel(gone), "destroyed"));
  EXPECT_TRUE(FailsWith(107000, aclrtSetLabel(gone, stream_), "destroyed"));
  aclrtLabelList list = nullptr;
  EXPECT_TRUE(
      FailsWith(107000, aclrtCreateLabelList(&gone, 1, &list), "labels[0]"));
  EXPECT_EQ(list, nullptr);
}

TEST_F(LabelApi, NeedsAContext) {
  EXPECT_TRUE(Succeeds(aclrtSetDevice(0)));
  std::thread([] {
    aclrtLabel label = nullptr;
    EXPECT_TRUE(FailsWith(107002, aclrtCreateLabel(&label)));
    EXPECT_EQ(label, nullptr);
  }).join();
  EXPECT_TRUE(Succeeds(aclrtResetDevice(0)));
}

TEST_F(LabelApi, BelongsToItsContext) {
  aclrtContext here = nullptr, context = nullptr;
  EXPECT_TRUE(Succeeds(aclrtGetCurrentContext(&here)));
  EXPECT_TRUE(Succeeds(aclrtCreateContext(&context, 0)));
  EXPECT_TRUE(FailsWith(507031, aclrtDestroyLabel(labels_[0]), "context"));
  aclrtLabel label = nullptr;
  EXPECT_TRUE(Succeeds(aclrtCreateLabel(&label)));
  EXPECT_TRUE(FailsWith(507031, aclrtSetLabel(label, stream_), "context"));
  EXPECT_TRUE(Succeeds(aclrtDestroyLabel(label)));
  EXPECT_TRUE(Succeeds(aclrtDestroyContext(context)));
  EXPECT_TRUE(Succeeds(aclrtSetCurrentContext(here)));
}

TEST_F(LabelApi, APlaceIsOne) {
  Set(labels_[0], stream_);
  EXPECT_TRUE(FailsWith(107000, aclrtSetLabel(labels_[0], stream_), "not set"));
  EXPECT_TRUE(FailsWith(
      107000, aclrtSetLabel(labels_[0], Bound(graph_, kDefault)), "not set"));
}

TEST_F(LabelApi, ListsHaveOneTo65535Labels) {
  aclrtLabelList list = nullptr;
  EXPECT_TRUE(FailsWith(100000, aclrtCreateLabelList(nullptr, 1, &list)));
  EXPECT_TRUE(
      FailsWith(100000, aclrtCreateLabelList(labels_.data(), 2, nullptr)));
  EXPECT_TRUE(FailsWith(107000, aclrtCreateLabelList(labels_.data(), 0, &list),
                        "65535"));
  EXPECT_TRUE(
      FailsWith(107000, aclrtCreateLabelList(labels_.data(), 65536, &list)));
  std::vector<aclrtLabel> some = {labels_[0], nullptr};
  EXPECT_TRUE(FailsWith(100000, aclrtCreateLabelList(some.data(), 2, &list),
                        "labels[1]"));
  some.assign(65535, labels_[0]);
  EXPECT_TRUE(Succeeds(aclrtCreateLabelList(some.data(), some.size(), &list)));
  EXPECT_TRUE(Succeeds(aclrtDestroyLabelList(list)));
}

TEST_F(LabelApi, AProcessHas65535) {
  std::vector<aclrtLabel> all;
  aclrtLabel label = nullptr;
  while (all.size() < 70000 && aclrtCreateLabel(&label) == 0) {
    all.push_back(label);
  }
  EXPECT_EQ(all.size() + labels_.size(), 65535u);
  EXPECT_TRUE(FailsWith(207005, aclrtCreateLabel(&label), "left"));
  // One that is destroyed counts no more, whatever list knows it.
  List({all.back()});
  EXPECT_TRUE(Succeeds(aclrtDestroyLabel(all.back())));
  EXPECT_TRUE(Succeeds(aclrtCreateLabel(&all.back())));
  for (aclrtLabel one : all) EXPECT_TRUE(Succeeds(aclrtDestroyLabel(one)));
}

TEST_F(LabelApi, SwitchesNeedDeviceMemoryAndABoundStream) {
  ScopedStream plain;
  uint32_t host = 0;
  EXPECT_TRUE(FailsWith(100000, SwitchTo(nullptr, 2, list_, stream_), "ptr"));
  EXPECT_TRUE(
      FailsWith(100000, SwitchTo(index_, 2, nullptr, stream_), "labelList"));
  EXPECT_TRUE(FailsWith(100000, SwitchTo(index_, 2, list_, nullptr), "stream"));
  EXPECT_TRUE(FailsWith(107000, SwitchTo(index_, 2, graph_, stream_), "list"));
  EXPECT_TRUE(FailsWith(107005, SwitchTo(index_, 2, list_, plain)));
  EXPECT_TRUE(FailsWith(107005, SwitchTo(index_, 2, list_, Persistent())));
  EXPECT_TRUE(
      FailsWith(107000, SwitchTo(index_, 0, list_, stream_), "maxValue"));
  EXPECT_TRUE(FailsWith(107000, SwitchTo(index_, 3, list_, stream_), "1 to 2"));
  EXPECT_TRUE(FailsWith(107000, SwitchTo(&host, 2, list_, stream_), "ptr"));
  void* const odd = reinterpret_cast<char*>(index_) + 2;
  EXPECT_TRUE(FailsWith(107000, SwitchTo(odd, 2, list_, stream_), "multiple"));
}

TEST_F(LabelApi, SwitchStreamChecksAll) {
  ScopedStream plain;
  const aclrtStream other = Bound(graph_, kDefault);
  const auto compare = [&](void* left, void* right, aclrtStream no) {
    return aclrtSwitchStream(left, ACL_RT_EQUAL, right, ACL_RT_SWITCH_INT64,
                             other, no, stream_);
  };
  int64_t host = 0;
  void* const odd = index_ + 1;
  EXPECT_TRUE(FailsWith(100000, compare(nullptr, index_, nullptr), "left"));
  EXPECT_TRUE(FailsWith(100000, compare(index_, nullptr, nullptr), "right"));
  EXPECT_TRUE(FailsWith(100000, compare(index_, index_, other), "falseStream"));
  EXPECT_TRUE(FailsWith(107000, compare(&host, index_, nullptr), "leftValue"));
  EXPECT_TRUE(FailsWith(107000, compare(index_, odd, nullptr), "rightValue"));
  EXPECT_TRUE(FailsWith(100000, SwitchStream(nullptr, stream_), "trueStream"));
  EXPECT_TRUE(FailsWith(100000, SwitchStream(other, nullptr), "stream"));
  for (const int wrong : {-1, 6}) {
    EXPECT_TRUE(
        FailsWith(107000, SwitchStream(other, stream_, wrong), "condition"));
  }
  for (const int wrong : {-1, 2}) {
    EXPECT_TRUE(
        FailsWith(107000, SwitchStream(other, stream_, 0, wrong), "dataType"));
  }
  EXPECT_TRUE(FailsWith(107005, SwitchStream(plain, stream_), "trueStream"));
  EXPECT_TRUE(FailsWith(107005, SwitchStream(other, plain), "stream"));
  const aclmdlRI second = NewGraph();
  EXPECT_TRUE(
      FailsWith(107005, SwitchStream(Bound(second), stream_), "different"));
  Destroy(second);
}

TEST_F(LabelApi, ActiveStreamChecksBoth) {
  ScopedStream plain;
  EXPECT_TRUE(FailsWith(100000, aclrtActiveStream(nullptr, stream_)));
  EXPECT_TRUE(FailsWith(100000, aclrtActiveStream(stream_, nullptr)));
  EXPECT_TRUE(FailsWith(107005, aclrtActiveStream(plain, stream_)));
  EXPECT_TRUE(FailsWith(107005, aclrtActiveStream(stream_, plain)));
  const aclmdlRI second = NewGraph();
  EXPECT_TRUE(FailsWith(107005, aclrtActiveStream(Bound(second), stream_)));
  Destroy(second);
}

TEST_F(LabelApi, CapturedStreamsHaveNone) {
  ScopedStream captured, side;
  Begin(captured);
  EXPECT_TRUE(FailsWith(107027, aclrtSetLabel(labels_[0], captured)));
  EXPECT_TRUE(FailsWith(107027, SwitchTo(index_, 2, list_, captured)));
  EXPECT_TRUE(FailsWith(107027, SwitchStream(captured, stream_)));
  EXPECT_TRUE(FailsWith(107027, aclrtActiveStream(captured, stream_)));
  // Nor those of a condition's graph.
  aclmdlRI parent = nullptr, child = nullptr;
  aclmdlRICondHandle handle = nullptr;
  EXPECT_TRUE(Succeeds(aclmdlRICaptureGetInfo(captured, nullptr, &parent)));
  EXPECT_TRUE(Succeeds(aclmdlRICondHandleCreate(
      parent, 0, ACL_MODEL_RI_COND_HANDLE_ASSIGN_DEFAULT, &handle)));
  EXPECT_TRUE(Succeeds(aclmdlRIAddCondTask(
      {handle, ACL_MODEL_RI_COND_TYPE_IF, 1, &child}, captured, 0)));
  EXPECT_TRUE(Succeeds(aclmdlRICaptureToModelRIBegin(
      side, child, ACL_MODEL_RI_CAPTURE_MODE_RELAXED)));
  EXPECT_TRUE(FailsWith(207000, aclrtSetLabel(labels_[0], side)));
  EXPECT_TRUE(Succeeds(aclmdlRICaptureEnd(side, nullptr)));
  Destroy(End(captured));
}

}  // namespace
}  // namespace flashacl::testing
