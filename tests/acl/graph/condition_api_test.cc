// SPDX-License-Identifier: Apache-2.0
// Graphs that a value chooses.
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "acl/acl.h"
#include "acl/graph/condition.h"
#include "acl/memory.h"
#include "acl/stream.h"
#include "tests/acl/graph/fixture.h"

namespace flashacl::testing {
namespace {

class ConditionTest : public GraphTest {
 protected:
  // A graph with one conditional task, whose children say "0", "1", ... and
  // then count the cell down.
  aclmdlRI Capture(aclmdlRICondTaskType type, uint32_t size, uint32_t start,
                   int flag) {
    ScopedStream stream, side;
    Begin(stream);
    aclmdlRI graph = nullptr;
    EXPECT_TRUE(Succeeds(aclmdlRICaptureGetInfo(stream, nullptr, &graph)));
    EXPECT_TRUE(Succeeds(aclmdlRICondHandleCreate(
        graph, start, static_cast<aclmdlRICondHandleFlag>(flag), &handle_)));
    EXPECT_TRUE(Succeeds(aclmdlRICondHandleGetCondPtr(handle_, &cell_)));
    Say(stream, "<");
    std::vector<aclmdlRI> children(size);
    EXPECT_TRUE(Succeeds(aclmdlRIAddCondTask(
        {handle_, type, size, children.data()}, stream, 0)));
    Say(stream, ">");
    for (uint32_t i = 0; i < size; ++i) {
      EXPECT_TRUE(Succeeds(aclmdlRICaptureToModelRIBegin(
          side, children[i], ACL_MODEL_RI_CAPTURE_MODE_RELAXED)));
      Say(side, std::to_string(i));
      EXPECT_TRUE(Succeeds(aclrtLaunchHostFunc(
          side, [](void* cell) { --*static_cast<uint64_t*>(cell); }, cell_)));
      EXPECT_TRUE(Succeeds(aclmdlRICaptureEnd(side, nullptr)));
    }
    child_ = children[0];
    return End(stream);
  }
  std::string Run(aclmdlRI graph) {
    EXPECT_TRUE(Succeeds(aclmdlRIExecute(graph, -1)));
    return Log();
  }

  aclmdlRICondHandle handle_ = nullptr;
  uint64_t* cell_ = nullptr;
  aclmdlRI child_ = nullptr;
};

TEST_F(ConditionTest, IfRunsOneOfTwo) {
  const size_t free_bytes = acl::FreeDeviceBytes();
  const aclmdlRI graph = Capture(ACL_MODEL_RI_COND_TYPE_IF, 2, 0, 0);
  EXPECT_EQ(Run(graph), "<1>");
  *cell_ = 7;
  EXPECT_EQ(Run(graph), "<0>");
  Destroy(graph);
  const aclmdlRI alone = Capture(ACL_MODEL_RI_COND_TYPE_IF, 1, 0, 0);
  EXPECT_EQ(Run(alone), "<>");
  *cell_ = 1;
  EXPECT_EQ(Run(alone), "<0>");
  Destroy(alone);
  EXPECT_EQ(acl::FreeDeviceBytes(), free_bytes);  // the cells are gone
}

TEST_F(ConditionTest, WhileRunsUntilZero) {
  const aclmdlRI graph = Capture(ACL_MODEL_RI_COND_TYPE_WHILE, 1, 3, 1);
  EXPECT_EQ(Run(graph), "<000>");
  EXPECT_EQ(*cell_, 0u);
  EXPECT_EQ(Run(graph), "<000>");  // each replay starts with 3
  Destroy(graph);
  const aclmdlRI unset = Capture(ACL_MODEL_RI_COND_TYPE_WHILE, 1, 3, 0);
  EXPECT_EQ(Run(unset), "<>");  // nobody set it
  *cell_ = 2;
  EXPECT_EQ(Run(unset), "<00>");
  Destroy(unset);
}

TEST_F(ConditionTest, SwitchRunsTheOneThatIsNamed) {
  const aclmdlRI graph = Capture(ACL_MODEL_RI_COND_TYPE_SWITCH, 3, 0, 0);
  for (uint64_t i = 0; i < 5; ++i) {
    *cell_ = i;
    EXPECT_EQ(Run(graph), i < 3 ? "<" + std::to_string(i) + ">" : "<>");
  }
  Destroy(graph);
}

TEST_F(ConditionTest, AChildRunsWithItsParentOnly) {
  const aclmdlRI graph = Capture(ACL_MODEL_RI_COND_TYPE_IF, 1, 0, 0);
  EXPECT_TRUE(FailsWith(207000, aclmdlRIExecuteAsync(child_, nullptr)));
  EXPECT_TRUE(FailsWith(207000, aclmdlRIExecute(child_, -1)));
  EXPECT_TRUE(FailsWith(207000, aclmdlRIAbort(child_)));
  EXPECT_TRUE(FailsWith(207000, aclmdlRIDestroy(child_)));
  ScopedStream stream;
  EXPECT_TRUE(FailsWith(
      107026, aclmdlRICaptureToModelRIBegin(
                  stream, child_, ACL_MODEL_RI_CAPTURE_MODE_RELAXED)));
  EXPECT_TRUE(
      FailsWith(107000, aclmdlRICaptureToModelRIBegin(
                            stream, graph, ACL_MODEL_RI_CAPTURE_MODE_RELAXED)));
  // The cell is not the program's to free: replays go on reading it.
  const size_t free_bytes = acl::FreeDeviceBytes();
  EXPECT_TRUE(Succeeds(aclrtFree(cell_)));
  EXPECT_EQ(acl::FreeDeviceBytes(), free_bytes);
  EXPECT_EQ(Run(graph), "<>");
  Destroy(graph);
  EXPECT_GT(acl::FreeDeviceBytes(), free_bytes);
  EXPECT_TRUE(FailsWith(107000, aclmdlRICondHandleGetCondPtr(handle_, &cell_)));
  EXPECT_TRUE(FailsWith(107000, aclmdlRIGetName(child_, 0, nullptr)));
}

TEST_F(ConditionTest, AStreamThatStopsOnFailureEndsALoop) {
  ScopedStream stream;
  EXPECT_TRUE(Succeeds(aclrtSetStreamFailureMode(stream, ACL_STOP_ON_FAILURE)));
  const aclmdlRI graph = Capture(ACL_MODEL_RI_COND_TYPE_WHILE, 1, 3, 1);
  EXPECT_TRUE(Succeeds(acl::Enqueue(
      stream, [] { return 507015; }, "test")));
  EXPECT_TRUE(Succeeds(aclmdlRIExecuteAsync(graph, stream)));
  EXPECT_EQ(aclrtSynchronizeStreamWithTimeout(stream, 10000), 507015);
  EXPECT_EQ(Log(), "<>");
  EXPECT_TRUE(Succeeds(aclrtStreamAbort(stream)));
  Destroy(graph);
}

// A loop that nothing else would end for a long time.
TEST_F(ConditionTest, AnAbortEndsALoop) {
  ScopedStream stream;
  const aclmdlRI graph = Capture(ACL_MODEL_RI_COND_TYPE_WHILE, 1, 1u << 31, 1);
  for (int by = 0; by < 3; ++by) {
    EXPECT_TRUE(Succeeds(aclmdlRIExecuteAsync(graph, stream)));
    std::string log;
    while (log.size() < 3) log += Log();
    switch (by) {
      case 0:
        EXPECT_TRUE(Succeeds(aclmdlRIAbort(graph)));
        EXPECT_TRUE(FailsWith(507023, aclrtSynchronizeStream(stream)));
        break;
      case 1:
        EXPECT_TRUE(Succeeds(aclrtStreamAbort(stream)));
        EXPECT_TRUE(Succeeds(aclrtSynchronizeStream(stream)));
        break;
      default:
        EXPECT_TRUE(Succeeds(aclrtDeviceTaskAbort(0, 0)));
        EXPECT_TRUE(FailsWith(107022, aclrtSynchronizeStream(stream)));
        EXPECT_TRUE(Succeeds(aclrtSetDevice(0)));
    }
    log += Log();
    EXPECT_TRUE(log.starts_with("<00")) << log.substr(0, 9);
    EXPECT_NE(log.back(), '>') << by;
  }
  Destroy(graph);
}

// A child with branches of its own, which wait for each other, and with a group
// whose launch is replaced.
TEST_F(ConditionTest, AChildHasBranchesAndGroups) {
  ScopedStream stream, side, joined, updates;
  ScopedEvent fork, join, external{ScopedEvent::External()};
  TinyCall first(1), second(1);
  first.SetValue(1.0f);
  second.SetValue(2.0f);
  Begin(stream);
  aclmdlRI graph = nullptr;
  aclmdlRI child = nullptr;
  aclrtTaskGrp group = nullptr;
  EXPECT_TRUE(Succeeds(aclmdlRICaptureGetInfo(stream, nullptr, &graph)));
  EXPECT_TRUE(Succeeds(aclmdlRICondHandleCreate(
      graph, 3, ACL_MODEL_RI_COND_HANDLE_ASSIGN_DEFAULT, &handle_)));
  EXPECT_TRUE(Succeeds(aclmdlRICondHandleGetCondPtr(handle_, &cell_)));
  EXPECT_TRUE(Succeeds(aclmdlRIAddCondTask(
      {handle_, ACL_MODEL_RI_COND_TYPE_WHILE, 1, &child}, stream, 0)));
  EXPECT_TRUE(Succeeds(aclmdlRICaptureToModelRIBegin(
      side, child, ACL_MODEL_RI_CAPTURE_MODE_RELAXED)));
  Follow(joined, side, fork);
  EXPECT_TRUE(Succeeds(aclrtStreamWaitEvent(side, external)));
  EXPECT_TRUE(Succeeds(aclrtResetEvent(external, side)));
  Say(side, "b");
  Say(joined, "a");
  EXPECT_TRUE(Succeeds(aclrtRecordEvent(external, joined)));
  Follow(side, joined, join);
  EXPECT_TRUE(Succeeds(aclmdlRICaptureTaskGrpBegin(side)));
  EXPECT_TRUE(Succeeds(Launch(first, side)));
  EXPECT_TRUE(Succeeds(aclmdlRICaptureTaskGrpEnd(side, &group)));
  EXPECT_TRUE(Succeeds(aclrtLaunchHostFunc(
      side, [](void* cell) { --*static_cast<uint64_t*>(cell); }, cell_)));
  EXPECT_TRUE(Succeeds(aclmdlRICaptureEnd(side, nullptr)));
  EXPECT_EQ(End(stream), graph);

  EXPECT_EQ(Run(graph), "ababab");
  EXPECT_EQ(first.out_data[0], 1.0f);
  first.out_data[0] = 0.0f;
  EXPECT_TRUE(Succeeds(aclmdlRICaptureTaskUpdateBegin(updates, group)));
  EXPECT_TRUE(Succeeds(Launch(second, updates)));
  EXPECT_TRUE(Succeeds(aclmdlRICaptureTaskUpdateEnd(updates)));
  EXPECT_TRUE(Succeeds(aclrtSynchronizeStream(updates)));
  EXPECT_EQ(Run(graph), "ababab");
  EXPECT_EQ(first.out_data[0], 0.0f);
  EXPECT_EQ(second.out_data[0], 2.0f);
  Destroy(graph);
  EXPECT_TRUE(
      FailsWith(107000, aclmdlRICaptureTaskUpdateBegin(updates, group)));
}

TEST_F(ConditionTest, AChildIsNotCapturedAfterItsParent) {
  ScopedStream stream, side;
  Begin(stream);
  aclmdlRI graph = nullptr;
  aclmdlRI child = nullptr;
  EXPECT_TRUE(Succeeds(aclmdlRICaptureGetInfo(stream, nullptr, &graph)));
  EXPECT_TRUE(Succeeds(aclmdlRICondHandleCreate(
      graph, 1, ACL_MODEL_RI_COND_HANDLE_ASSIGN_DEFAULT, &handle_)));
  EXPECT_TRUE(Succeeds(aclmdlRIAddCondTask(
      {handle_, ACL_MODEL_RI_COND_TYPE_IF, 1, &child}, stream, 0)));
  EXPECT_TRUE(FailsWith(207000, aclmdlRIDestroy(child)));
  EXPECT_EQ(End(stream), graph);
  EXPECT_TRUE(
      FailsWith(107000, aclmdlRICaptureToModelRIBegin(
                            side, child, ACL_MODEL_RI_CAPTURE_MODE_RELAXED)));
  EXPECT_EQ(Run(graph), "");  // a child without tasks
  Destroy(graph);
}

TEST_F(ConditionTest, AnOpenOrFailedChildEndsTheParent) {
  ScopedStream stream, side, joined;
  ScopedEvent fork;
  for (const bool open : {true, false}) {
    Begin(stream);
    aclmdlRI graph = nullptr;
    EXPECT_TRUE(Succeeds(aclmdlRICaptureGetInfo(stream, nullptr, &graph)));
    EXPECT_TRUE(Succeeds(aclmdlRICondHandleCreate(
        graph, 0, static_cast<aclmdlRICondHandleFlag>(0), &handle_)));
    aclmdlRI child = nullptr;
    EXPECT_TRUE(Succeeds(aclmdlRIAddCondTask(
        {handle_, ACL_MODEL_RI_COND_TYPE_IF, 1, &child}, stream, 0)));
    EXPECT_TRUE(Succeeds(aclmdlRICaptureToModelRIBegin(
        side, child, ACL_MODEL_RI_CAPTURE_MODE_RELAXED)));
    if (!open) {
      Follow(joined, side, fork);
      EXPECT_TRUE(FailsWith(107025, aclmdlRICaptureEnd(side, &failed_)));
    }
    EXPECT_TRUE(FailsWith(open ? 107045 : 507903,
                          aclmdlRICaptureEnd(stream, &failed_)));
    EXPECT_EQ(StatusOf(side), ACL_MODEL_RI_CAPTURE_STATUS_NONE);
    // Nothing of it is left.
    EXPECT_TRUE(FailsWith(107000, aclmdlRISetName(child, ""), "destroyed"));
    EXPECT_TRUE(
        FailsWith(107000, aclmdlRICondHandleGetCondPtr(handle_, &cell_)));
  }
}

TEST_F(ConditionTest, AnOpenGrandchildEndsTheRoot) {
  ScopedStream stream, side;
  constexpr auto kIf = ACL_MODEL_RI_COND_TYPE_IF;
  constexpr auto kRelaxed = ACL_MODEL_RI_CAPTURE_MODE_RELAXED;
  Begin(stream);
  aclmdlRI graph = nullptr;
  EXPECT_TRUE(Succeeds(aclmdlRICaptureGetInfo(stream, nullptr, &graph)));
  aclmdlRI children[2] = {};
  for (int depth = 0; depth < 2; ++depth) {
    const aclrtStream at = depth == 0 ? stream : side;
    EXPECT_TRUE(Succeeds(aclmdlRICondHandleCreate(
        graph, 0, static_cast<aclmdlRICondHandleFlag>(0), &handle_)));
    EXPECT_TRUE(Succeeds(
        aclmdlRIAddCondTask({handle_, kIf, 1, &children[depth]}, at, 0)));
    if (depth > 0) {
      EXPECT_TRUE(Succeeds(aclmdlRICaptureEnd(side, nullptr)));
    }
    EXPECT_TRUE(Succeeds(
        aclmdlRICaptureToModelRIBegin(side, children[depth], kRelaxed)));
  }
  EXPECT_TRUE(FailsWith(107045, aclmdlRICaptureEnd(stream, &failed_)));
  EXPECT_EQ(StatusOf(side), ACL_MODEL_RI_CAPTURE_STATUS_NONE);
}

TEST_F(ConditionTest, ATaskThatIsRefusedLeavesItsHandleFree) {
  ScopedStream stream;
  Begin(stream);
  aclmdlRI graph = nullptr;
  aclmdlRI child = nullptr;
  aclrtTaskGrp group = nullptr;
  EXPECT_TRUE(Succeeds(aclmdlRICaptureGetInfo(stream, nullptr, &graph)));
  EXPECT_TRUE(Succeeds(aclmdlRICondHandleCreate(
      graph, 0, static_cast<aclmdlRICondHandleFlag>(0), &handle_)));
  const auto add = [&] {
    return aclmdlRIAddCondTask({handle_, ACL_MODEL_RI_COND_TYPE_IF, 1, &child},
                               stream, 0);
  };
  EXPECT_TRUE(Succeeds(aclmdlRICaptureTaskGrpBegin(stream)));
  EXPECT_TRUE(FailsWith(507009, add(), "group"));
  EXPECT_TRUE(FailsWith(507009, aclmdlRICaptureTaskGrpEnd(stream, &group)));
  EXPECT_EQ(child, nullptr);
  EXPECT_TRUE(Succeeds(add()));
  Destroy(End(stream));
}

TEST_F(ConditionTest, ParametersAreChecked) {
  ScopedStream stream, other;
  aclmdlRI graph = nullptr;
  aclmdlRI of_other = nullptr;
  aclmdlRI child = nullptr;
  aclmdlRICondHandle foreign = nullptr;
  const auto none = static_cast<aclmdlRICondHandleFlag>(0);
  Begin(stream);
  Begin(other);
  EXPECT_TRUE(Succeeds(aclmdlRICaptureGetInfo(stream, nullptr, &graph)));
  EXPECT_TRUE(Succeeds(aclmdlRICaptureGetInfo(other, nullptr, &of_other)));
  EXPECT_TRUE(Succeeds(aclmdlRICondHandleCreate(of_other, 0, none, &foreign)));
  EXPECT_TRUE(Succeeds(aclmdlRICondHandleCreate(graph, 0, none, &handle_)));
  EXPECT_TRUE(FailsWith(
      107000, aclmdlRICondHandleCreate(
                  graph, 0, static_cast<aclmdlRICondHandleFlag>(2), &handle_)));
  EXPECT_TRUE(
      FailsWith(100000, aclmdlRICondHandleCreate(graph, 0, none, nullptr)));
  EXPECT_TRUE(
      FailsWith(100000, aclmdlRICondHandleCreate(nullptr, 0, none, &handle_)));
  EXPECT_TRUE(FailsWith(100000, aclmdlRICondHandleGetCondPtr(nullptr, &cell_)));
  const auto add = [&](aclmdlRICondHandle handle, int type, uint32_t size,
                       aclmdlRI* array, uint32_t flags) {
    return aclmdlRIAddCondTask(
        {handle, static_cast<aclmdlRICondTaskType>(type), size, array}, stream,
        flags);
  };
  EXPECT_TRUE(FailsWith(107000, add(handle_, 0, 1, &child, 1), "flags"));
  EXPECT_TRUE(FailsWith(107000, add(handle_, 3, 1, &child, 0), "type"));
  EXPECT_TRUE(FailsWith(107000, add(nullptr, 0, 1, &child, 0), "handle"));
  EXPECT_TRUE(FailsWith(107000, add(handle_, 0, 1, nullptr, 0), "Array"));
  EXPECT_TRUE(FailsWith(107000, add(handle_, 0, 3, &child, 0), "size"));
  EXPECT_TRUE(FailsWith(107000, add(handle_, 1, 2, &child, 0), "size"));
  EXPECT_TRUE(FailsWith(107000, add(handle_, 2, 0, &child, 0), "size"));
  EXPECT_TRUE(FailsWith(107000, add(foreign, 0, 1, &child, 0), "same graph"));
  EXPECT_TRUE(Succeeds(add(handle_, 0, 1, &child, 0)));
  EXPECT_TRUE(FailsWith(107000, add(handle_, 0, 1, &child, 0), "no task"));
  ScopedStream plain;
  EXPECT_TRUE(FailsWith(
      107029, aclmdlRIAddCondTask(
                  {foreign, ACL_MODEL_RI_COND_TYPE_IF, 1, &child}, plain, 0)));
  Destroy(End(other));
  EXPECT_TRUE(
      FailsWith(107000, aclmdlRICondHandleCreate(of_other, 0, none, &foreign)));
  EXPECT_EQ(End(stream), graph);
  EXPECT_TRUE(FailsWith(107000,
                        aclmdlRICondHandleCreate(graph, 0, none, &foreign),
                        "not being captured"));
  Destroy(graph);
}

}  // namespace
}  // namespace flashacl::testing
