// SPDX-License-Identifier: Apache-2.0
// What is refused while graphs are built by hand.
#include <gtest/gtest.h>

#include <functional>
#include <thread>
#include <vector>

#include "acl/stream.h"
#include "tests/acl/graph/build_fixture.h"

namespace flashacl::testing {
namespace {

using BuildApi = BuildTest;

TEST_F(BuildApi, NullsAndOthersAreRefused) {
  EXPECT_TRUE(FailsWith(100000, aclmdlRIBuildBegin(nullptr, 0), "modelRI"));
  aclmdlRI graph = nullptr;
  EXPECT_TRUE(FailsWith(107000, aclmdlRIBuildBegin(&graph, 1), "flag"));
  EXPECT_EQ(graph, nullptr);
  const aclrtStream stream = Persistent();
  const std::vector<std::function<aclError(aclmdlRI)>> calls = {
      [&](aclmdlRI g) { return aclmdlRIBindStream(g, stream, kHead); },
      [&](aclmdlRI g) { return aclmdlRIUnbindStream(g, stream); },
      [&](aclmdlRI g) { return aclmdlRIEndTask(g, stream); },
      [&](aclmdlRI g) { return aclmdlRIBuildEnd(g, nullptr); },
  };
  ScopedStream other;
  Begin(other);
  const aclmdlRI captured = End(other);
  const aclmdlRI gone = NewGraph();
  Destroy(gone);
  for (size_t i = 0; i < calls.size(); ++i) {
    EXPECT_TRUE(FailsWith(100000, calls[i](nullptr), "modelRI")) << i;
    EXPECT_TRUE(FailsWith(107000, calls[i](stream), "graph")) << i;
    EXPECT_TRUE(FailsWith(107000, calls[i](gone), "destroyed")) << i;
    EXPECT_TRUE(FailsWith(207000, calls[i](captured), "captured")) << i;
  }
  Destroy(captured);
}

TEST_F(BuildApi, BeginNeedsAContext) {
  EXPECT_TRUE(Succeeds(aclrtResetDeviceForce(0)));
  aclmdlRI graph = nullptr;
  EXPECT_TRUE(FailsWith(107002, aclmdlRIBuildBegin(&graph, 0)));
  EXPECT_TRUE(Succeeds(aclrtSetDevice(0)));
}

TEST_F(BuildApi, StreamsThatCannotBeBound) {
  const aclmdlRI graph = NewGraph();
  const aclmdlRI other = NewGraph();
  const aclrtStream stream = Bound(graph);
  ScopedStream plain, captured;
  const auto bind = [&](aclrtStream s) {
    return aclmdlRIBindStream(graph, s, kHead);
  };
  EXPECT_TRUE(FailsWith(107005, bind(nullptr), "default stream"));
  EXPECT_TRUE(FailsWith(107005, bind(stream), "is bound"));
  EXPECT_TRUE(FailsWith(107005, aclmdlRIBindStream(other, stream, kDefault)));
  EXPECT_TRUE(FailsWith(107000, bind(plain), "ACL_STREAM_PERSISTENT"));
  EXPECT_TRUE(FailsWith(107000, bind(graph), "stream"));
  EXPECT_TRUE(
      FailsWith(107000, aclmdlRIBindStream(other, Persistent(), 1), "flag"));
  Begin(captured);
  EXPECT_TRUE(FailsWith(107027, bind(captured)));
  EXPECT_TRUE(FailsWith(107027, aclmdlRIEndTask(graph, captured)));
  Destroy(End(captured));

  aclrtContext here = nullptr, context = nullptr;
  EXPECT_TRUE(Succeeds(aclrtGetCurrentContext(&here)));
  EXPECT_TRUE(Succeeds(aclrtCreateContext(&context, 0)));
  aclrtStream foreign = nullptr;
  EXPECT_TRUE(Succeeds(
      aclrtCreateStreamWithConfig(&foreign, 0, ACL_STREAM_PERSISTENT)));
  EXPECT_TRUE(FailsWith(107003, bind(foreign), "contexts"));
  EXPECT_TRUE(Succeeds(aclrtDestroyContext(context)));
  EXPECT_TRUE(Succeeds(aclrtSetCurrentContext(here)));
  Destroy(graph);
  Destroy(other);
}

TEST_F(BuildApi, ABoundStreamIsTheGraphs) {
  const aclmdlRI graph = NewGraph();
  const aclrtStream stream = Bound(graph);
  EXPECT_TRUE(FailsWith(107005, aclrtDestroyStream(stream), "is bound"));
  EXPECT_TRUE(FailsWith(107005, aclrtDestroyStreamForce(stream)));
  EXPECT_TRUE(FailsWith(107005, aclrtStreamAbort(stream)));
  EXPECT_TRUE(FailsWith(107005, aclrtStreamStop(stream)));
  // Host memory that is not pinned would be read at each replay.
  std::vector<char> host(64);
  EXPECT_TRUE(FailsWith(107000,
                        aclrtMemcpyAsync(Number<uint32_t>(0), 64, host.data(),
                                         64, ACL_MEMCPY_HOST_TO_DEVICE, stream),
                        "pinned"));
  // Nothing else records it, and graphs run no graphs.
  EXPECT_TRUE(FailsWith(
      507000, aclmdlRICaptureBegin(stream, ACL_MODEL_RI_CAPTURE_MODE_RELAXED)));
  EXPECT_EQ(StatusOf(stream), ACL_MODEL_RI_CAPTURE_STATUS_NONE);
  EXPECT_TRUE(FailsWith(107029, aclmdlRICaptureEnd(stream, &failed_)));
  EXPECT_TRUE(FailsWith(107029, aclmdlRICaptureTaskGrpBegin(stream)));
  EXPECT_TRUE(FailsWith(107033, aclmdlRICaptureTaskUpdateEnd(stream)));
  EXPECT_TRUE(FailsWith(107000, aclmdlRIExecuteAsync(graph, stream), "bound"));
  aclmdlRICondHandle handle = nullptr;
  EXPECT_TRUE(FailsWith(
      207000, aclmdlRICondHandleCreate(
                  graph, 0, ACL_MODEL_RI_COND_HANDLE_ASSIGN_DEFAULT, &handle)));
  Destroy(graph);
}

TEST_F(BuildApi, UpdatesAreNotForPersistentStreams) {
  ScopedStream stream;
  TinyCall call(1);
  Begin(stream);
  aclrtTaskGrp group = nullptr;
  EXPECT_TRUE(Succeeds(aclmdlRICaptureTaskGrpBegin(stream)));
  EXPECT_TRUE(Succeeds(Launch(call, stream)));
  EXPECT_TRUE(Succeeds(aclmdlRICaptureTaskGrpEnd(stream, &group)));
  const aclmdlRI captured = End(stream);
  const aclmdlRI graph = NewGraph();
  EXPECT_TRUE(
      FailsWith(107005, aclmdlRICaptureTaskUpdateBegin(Bound(graph), group)));
  EXPECT_TRUE(
      FailsWith(107005, aclmdlRICaptureTaskUpdateBegin(Persistent(), group)));
  Destroy(graph);
  Destroy(captured);
}

TEST_F(BuildApi, APersistentStreamTakesTasksOnlyWhileItIsBound) {
  ScopedStream stream;
  ScopedEvent event;
  const aclrtStream persistent = Persistent();
  EXPECT_TRUE(FailsWith(107005,
                        aclrtLaunchHostFunc(
                            persistent, [](void*) {}, nullptr),
                        "ACL_STREAM_PERSISTENT"));
  EXPECT_TRUE(FailsWith(107005, aclrtRecordEvent(event, persistent)));
  EXPECT_TRUE(Succeeds(aclrtSynchronizeStream(persistent)));
  EXPECT_TRUE(Succeeds(aclrtSynchronizeDevice()));
  // It joins no capture either.
  Begin(stream);
  EXPECT_TRUE(Succeeds(aclrtRecordEvent(event, stream)));
  EXPECT_TRUE(FailsWith(507000, aclrtStreamWaitEvent(persistent, event)));
  EXPECT_TRUE(FailsWith(507903, aclmdlRICaptureEnd(stream, &failed_)));
}

TEST_F(BuildApi, TheEndComesOnceOnABoundStream) {
  const aclmdlRI graph = NewGraph();
  const aclrtStream stream = Bound(graph);
  EXPECT_TRUE(FailsWith(100000, aclmdlRIEndTask(graph, nullptr), "stream"));
  EXPECT_TRUE(FailsWith(107005, aclmdlRIEndTask(graph, Persistent())));
  EXPECT_TRUE(Succeeds(aclmdlRIEndTask(graph, stream)));
  EXPECT_TRUE(FailsWith(107000, aclmdlRIEndTask(graph, stream), "already"));
  EXPECT_TRUE(FailsWith(100000, aclmdlRIBuildEnd(graph, &failed_), "reserve"));
  EXPECT_TRUE(Succeeds(aclmdlRIBuildEnd(graph, nullptr)));
  EXPECT_TRUE(FailsWith(107000, aclmdlRIBuildEnd(graph, nullptr), "complete"));
  EXPECT_TRUE(FailsWith(107000, aclmdlRIEndTask(graph, stream), "complete"));
  EXPECT_TRUE(FailsWith(107000, aclmdlRIBindStream(graph, Persistent(), kHead),
                        "complete"));
  // Its streams take nothing more.
  ScopedEvent event;
  EXPECT_TRUE(FailsWith(107005,
                        aclrtLaunchHostFunc(
                            stream, [](void*) {}, nullptr),
                        "complete"));
  EXPECT_TRUE(FailsWith(107005, aclrtRecordEvent(event, stream)));
  EXPECT_TRUE(FailsWith(107005, aclrtStreamWaitEvent(stream, event)));
  EXPECT_TRUE(FailsWith(107005, aclrtResetEvent(event, stream)));
  EXPECT_TRUE(FailsWith(107005, aclrtActiveStream(stream, stream)));
  Destroy(graph);
}

TEST_F(BuildApi, OnlyCompleteGraphsAreReplayed) {
  ScopedStream other;
  const auto expect = [&](aclmdlRI graph, const char* why) {
    EXPECT_TRUE(FailsWith(507011, aclmdlRIExecuteAsync(graph, other), why));
    EXPECT_TRUE(FailsWith(507011, aclmdlRIExecute(graph, -1), why));
    EXPECT_TRUE(FailsWith(507011, aclmdlRIDebugJsonPrint(graph, "x", 0), why));
    EXPECT_TRUE(FailsWith(507011, aclmdlRIDebugPrint(graph), why));
    EXPECT_TRUE(Succeeds(aclmdlRIAbort(graph)));
  };
  const aclmdlRI graph = NewGraph();
  const aclrtStream stream = Bound(graph);
  expect(graph, "aclmdlRIBuildEnd");
  EXPECT_TRUE(Succeeds(aclmdlRIBuildEnd(graph, nullptr)));
  expect(graph, "aclmdlRIEndTask");
  Destroy(graph);
  const aclmdlRI next = NewGraph();
  EXPECT_TRUE(Succeeds(aclmdlRIBindStream(next, stream, kHead)));
  Finish(next, stream);
  EXPECT_TRUE(Succeeds(aclmdlRIExecute(next, -1)));
  EXPECT_TRUE(Succeeds(aclmdlRIUnbindStream(next, stream)));
  expect(next, "unbound");
  Destroy(next);
}

TEST_F(BuildApi, BuildEndSaysWhatIsMissing) {
  const aclmdlRI graph = NewGraph();
  EXPECT_TRUE(FailsWith(107000, aclmdlRIBuildEnd(graph, nullptr),
                        "ACL_MODEL_STREAM_FLAG_HEAD"));
  const aclrtStream other = Bound(graph, kDefault);
  EXPECT_TRUE(FailsWith(107000, aclmdlRIBuildEnd(graph, nullptr)));
  const aclrtStream stream = Bound(graph);
  EXPECT_TRUE(Succeeds(aclrtActiveStream(other, stream)));
  const auto labels = Labels(2);
  Set(labels[0], stream);
  Switch(stream, Number<uint32_t>(0), labels);
  EXPECT_TRUE(FailsWith(107000, aclmdlRIBuildEnd(graph, nullptr), "label 1"));
  Set(labels[1], stream);  // can be mended
  EXPECT_TRUE(Succeeds(aclmdlRIUnbindStream(graph, other)));
  EXPECT_TRUE(FailsWith(107000, aclmdlRIBuildEnd(graph, nullptr), "unbound"));
  Destroy(graph);
}

TEST_F(BuildApi, UnbindIsForStreamsOfTheGraphAndWaitsForReplays) {
  const aclmdlRI graph = NewGraph();
  const aclmdlRI other = NewGraph();
  const aclrtStream stream = Bound(graph);
  EXPECT_TRUE(FailsWith(100000, aclmdlRIUnbindStream(graph, nullptr)));
  EXPECT_TRUE(FailsWith(107005, aclmdlRIUnbindStream(other, stream)));
  std::atomic<bool> done{false};
  Do(stream, [&] {
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
    done = true;
  });
  Finish(graph, stream);
  ScopedStream on;
  EXPECT_TRUE(Succeeds(aclmdlRIExecuteAsync(graph, on)));
  EXPECT_TRUE(Succeeds(aclmdlRIUnbindStream(graph, stream)));
  EXPECT_TRUE(done);
  EXPECT_TRUE(FailsWith(107005, aclmdlRIUnbindStream(graph, stream)));
  Destroy(graph);
  Destroy(other);
}

}  // namespace
}  // namespace flashacl::testing
