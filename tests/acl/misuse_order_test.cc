// SPDX-License-Identifier: Apache-2.0
// What programs do wrong with streams, events, contexts, graphs, files,
// threads and processes. Memory: misuse_test.cc.
#include <gtest/gtest.h>

#include <atomic>
#include <fstream>
#include <latch>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "acl/acl.h"
#include "tests/acl/forked_child.h"
#include "tests/testing/child.h"
#include "tests/testing/fork.h"
#include "tests/testing/misuse.h"
#include "tests/testing/runtime.h"
#include "tests/testing/temp_path.h"

namespace flashacl::testing {
namespace {

constexpr auto kNormal = ACL_MEM_MALLOC_NORMAL_ONLY;
using MisusedOrder = RuntimeTest;

TEST_F(MisusedOrder, Streams) {
  ExpectRefusals({
      {"aclrtCreateStream(nullptr)",
       [](Scene&) { return aclrtCreateStream(nullptr); },
       100000,
       {"aclrtCreateStream", "stream", "NULL"}},
      {"aclrtDestroyStream twice",
       [](Scene& s) {
         const aclrtStream gone = std::exchange(s.stream, nullptr);
         EXPECT_TRUE(Succeeds(aclrtDestroyStream(gone)));
         s.Says("{}", gone);
         return aclrtDestroyStream(gone);
       },
       107000,
       {"aclrtDestroyStream", "stream", "not destroyed"}},
      {"aclrtDestroyStream with pending work, which is waited for",
       [](Scene& s) {
         for (int n = 0; n < 20; ++n) EXPECT_EQ(AddOn(s, s.stream), 0);
         return aclrtDestroyStream(std::exchange(s.stream, nullptr));
       },
       0,
       {}},
      {"aclrtSynchronizeStream of a destroyed one",
       [](Scene& s) {
         const aclrtStream gone = std::exchange(s.stream, nullptr);
         EXPECT_TRUE(Succeeds(aclrtDestroyStream(gone)));
         return aclrtSynchronizeStream(gone);
       },
       107000,
       {"aclrtSynchronizeStream", "stream", "not destroyed"}},
      {"aclrtSynchronizeStream of an event",
       [](Scene& s) {
         aclrtEvent event = nullptr;
         EXPECT_TRUE(Succeeds(aclrtCreateEvent(&event)));
         const int status = s.Keep(aclrtSynchronizeStream(event));
         EXPECT_TRUE(Succeeds(aclrtDestroyEvent(event)));
         return status;
       },
       107000,
       {"aclrtSynchronizeStream", "Expected value: a stream"}},
      {"aclrtSynchronizeStreamWithTimeout of -5 ms",
       [](Scene& s) { return aclrtSynchronizeStreamWithTimeout(s.stream, -5); },
       107000,
       {"aclrtSynchronizeStreamWithTimeout", "timeout", "-5"}},
  });
}

TEST_F(MisusedOrder, Events) {
  ExpectRefusals({
      {"aclrtRecordEvent(nullptr)",
       [](Scene& s) { return aclrtRecordEvent(nullptr, s.stream); },
       100000,
       {"aclrtRecordEvent", "event", "NULL"}},
      {"aclrtRecordEvent of a destroyed one",
       [](Scene& s) {
         aclrtEvent event = nullptr;
         EXPECT_TRUE(Succeeds(aclrtCreateEvent(&event)));
         EXPECT_TRUE(Succeeds(aclrtDestroyEvent(event)));
         s.Says("{}", event);
         return aclrtRecordEvent(event, s.stream);
       },
       107000,
       {"aclrtRecordEvent", "event", "not destroyed"}},
      {"aclrtDestroyEvent twice",
       [](Scene&) {
         aclrtEvent event = nullptr;
         EXPECT_TRUE(Succeeds(aclrtCreateEvent(&event)));
         EXPECT_TRUE(Succeeds(aclrtDestroyEvent(event)));
         return aclrtDestroyEvent(event);
       },
       107000,
       {"aclrtDestroyEvent", "event", "not destroyed"}},
      {"aclrtStreamWaitEvent of a destroyed event",
       [](Scene& s) {
         aclrtEvent event = nullptr;
         EXPECT_TRUE(Succeeds(aclrtCreateEvent(&event)));
         EXPECT_TRUE(Succeeds(aclrtDestroyEvent(event)));
         return aclrtStreamWaitEvent(s.stream, event);
       },
       107000,
       {"aclrtStreamWaitEvent", "event", "not destroyed"}},
      {"aclrtEventElapsedTime of events that nobody recorded",
       [](Scene& s) {
         aclrtEvent from = nullptr;
         aclrtEvent to = nullptr;
         EXPECT_TRUE(Succeeds(aclrtCreateEvent(&from)));
         EXPECT_TRUE(Succeeds(aclrtCreateEvent(&to)));
         float ms = 0;
         const int status = s.Keep(aclrtEventElapsedTime(&ms, from, to));
         aclrtDestroyEvent(from);
         aclrtDestroyEvent(to);
         return status;
       },
       507000,
       {"aclrtEventElapsedTime", "startEvent", "recorded"}},
  });
}

TEST_F(MisusedOrder, CallbacksAndNotifies) {
  ExpectRefusals({
      {"aclrtLaunchCallback without a subscriber",
       [](Scene& s) {
         return aclrtLaunchCallback([](void*) {}, nullptr,
                                    ACL_CALLBACK_NO_BLOCK, s.stream);
       },
       107015,
       {"aclrtLaunchCallback", "aclrtSubscribeReport"}},
      {"aclrtProcessReport of a thread that is not subscribed",
       [](Scene&) { return aclrtProcessReport(1); },
       107012,
       {"aclrtProcessReport", "subscribed"}},
      {"aclrtDestroyNotify twice",
       [](Scene&) {
         aclrtNotify notify = nullptr;
         EXPECT_TRUE(Succeeds(aclrtCreateNotify(&notify, 0)));
         EXPECT_TRUE(Succeeds(aclrtDestroyNotify(notify)));
         return aclrtDestroyNotify(notify);
       },
       107000,
       {"aclrtDestroyNotify", "notify", "not destroyed"}},
  });
}

TEST_F(MisusedOrder, DevicesAndContexts) {
  ExpectRefusals({
      {"aclrtSetDevice(99)",
       [](Scene&) { return aclrtSetDevice(99); },
       107001,
       {"aclrtSetDevice", "deviceId", "99"}},
      {"aclrtSetDevice(-1)",
       [](Scene&) { return aclrtSetDevice(-1); },
       107001,
       {"aclrtSetDevice", "deviceId", "-1"}},
      {"aclrtResetDevice of a device that nobody set",
       [](Scene&) { return aclrtResetDevice(7); },
       107001,
       {"aclrtResetDevice", "deviceId", "7"}},
      {"aclrtDestroyContext twice",
       [](Scene&) {
         aclrtContext now = nullptr;
         EXPECT_TRUE(Succeeds(aclrtGetCurrentContext(&now)));
         aclrtContext context = nullptr;
         EXPECT_TRUE(Succeeds(aclrtCreateContext(&context, 0)));
         EXPECT_TRUE(Succeeds(aclrtDestroyContext(context)));
         EXPECT_TRUE(Succeeds(aclrtSetCurrentContext(now)));
         return aclrtDestroyContext(context);
       },
       107000,
       {"aclrtDestroyContext", "context", "not destroyed"}},
      {"aclrtSetCurrentContext of a destroyed one",
       [](Scene&) {
         aclrtContext now = nullptr;
         EXPECT_TRUE(Succeeds(aclrtGetCurrentContext(&now)));
         aclrtContext context = nullptr;
         EXPECT_TRUE(Succeeds(aclrtCreateContext(&context, 0)));
         EXPECT_TRUE(Succeeds(aclrtDestroyContext(context)));
         EXPECT_TRUE(Succeeds(aclrtSetCurrentContext(now)));
         return aclrtSetCurrentContext(context);
       },
       107000,
       {"aclrtSetCurrentContext", "context", "not destroyed"}},
      {"an operator on a thread without a context",
       [](Scene& s) {
         int status = 0;
         std::thread([&] { status = s.Keep(AddOn(s, nullptr)); }).join();
         return status;
       },
       361001,
       {"aclnnAdd", "aclrtSetDevice"}},
  });
}

TEST_F(MisusedOrder, GraphsAndMaps) {
  ExpectRefusals({
      {"aclmdlRICaptureEnd without a begin",
       [](Scene& s) {
         aclmdlRI graph = nullptr;
         return aclmdlRICaptureEnd(s.stream, &graph);
       },
       107029,
       {"aclmdlRICaptureEnd", "captur"}},
      {"aclrtSynchronizeStream of a stream that is captured",
       [](Scene& s) {
         EXPECT_TRUE(Succeeds(aclmdlRICaptureBegin(
             s.stream, ACL_MODEL_RI_CAPTURE_MODE_RELAXED)));
         const int status = s.Keep(aclrtSynchronizeStream(s.stream));
         aclmdlRI graph = nullptr;
         aclmdlRICaptureEnd(s.stream, &graph);
         aclmdlRIDestroy(graph);
         return status;
       },
       107027,
       {"aclrtSynchronizeStream", "captur"}},
      {"aclmdlRIExecuteAsync of a destroyed graph",
       [](Scene& s) {
         aclmdlRI graph = nullptr;
         EXPECT_TRUE(Succeeds(aclmdlRICaptureBegin(
             s.stream, ACL_MODEL_RI_CAPTURE_MODE_RELAXED)));
         EXPECT_TRUE(Succeeds(AddOn(s, s.stream)));
         EXPECT_TRUE(Succeeds(aclmdlRICaptureEnd(s.stream, &graph)));
         EXPECT_TRUE(Succeeds(aclmdlRIDestroy(graph)));
         s.Says("{}", graph);
         return aclmdlRIExecuteAsync(graph, s.stream);
       },
       107000,
       {"aclmdlRIExecuteAsync", "modelRI", "not destroyed"}},
      {"aclrtReleaseMemAddress of what nobody reserved",
       [](Scene& s) { return aclrtReleaseMemAddress(s.a); },
       107000,
       {"aclrtReleaseMemAddress", "virPtr"}},
      {"aclrtMallocPhysical of half a granule",
       [](Scene&) {
         aclrtPhysicalMemProp prop = {};
         prop.handleType = ACL_MEM_HANDLE_TYPE_NONE;
         prop.allocationType = ACL_MEM_ALLOCATION_TYPE_PINNED;
         prop.memAttr = ACL_HBM_MEM_HUGE;
         prop.location.type = ACL_MEM_LOCATION_TYPE_DEVICE;
         aclrtDrvMemHandle handle = nullptr;
         return aclrtMallocPhysical(&handle, (size_t{1} << 20) + 1, &prop, 0);
       },
       107000,
       {"aclrtMallocPhysical", "size", "1048577", "multiple"}},
  });
}

// The same object, by 64 threads at once: one of them destroys it, all others
// are told.
template <typename F>
int DestroyBy64(F&& destroy) {
  std::atomic<int> destroyed{0};
  std::atomic<int> told{0};
  std::latch start(64);
  std::vector<std::thread> threads;
  for (int n = 0; n < 64; ++n) {
    threads.emplace_back([&] {
      EXPECT_TRUE(Succeeds(aclrtSetDevice(0)));
      start.arrive_and_wait();
      if (destroy() == 0) {
        ++destroyed;
      } else {
        told += Message().empty() ? 0 : 1;
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(destroyed, 1);
  EXPECT_EQ(told, 63);
  return destroy();
}

TEST_F(MisusedOrder, ManyThreads) {
  ExpectRefusals({
      {"aclrtDestroyEvent of one event by 64 threads",
       [](Scene&) {
         aclrtEvent event = nullptr;
         EXPECT_TRUE(Succeeds(aclrtCreateEvent(&event)));
         return DestroyBy64([&] { return aclrtDestroyEvent(event); });
       },
       107000,
       {"aclrtDestroyEvent", "not destroyed"}},
      {"aclrtFree of one block by 64 threads",
       [](Scene&) {
         void* p = nullptr;
         EXPECT_TRUE(Succeeds(aclrtMalloc(&p, 64, kNormal)));
         return DestroyBy64([&] { return aclrtFree(p); });
       },
       107000,
       {"aclrtFree", "freed before"}},
      {"aclrtDestroyStream of one stream by 64 threads",
       [](Scene& s) {
         const aclrtStream gone = std::exchange(s.stream, nullptr);
         return DestroyBy64([&] { return aclrtDestroyStream(gone); });
       },
       107000,
       {"aclrtDestroyStream", "not destroyed"}},
      {"aclrtDestroyNotify of one notify by 64 threads",
       [](Scene&) {
         aclrtNotify notify = nullptr;
         EXPECT_TRUE(Succeeds(aclrtCreateNotify(&notify, 0)));
         return DestroyBy64([&] { return aclrtDestroyNotify(notify); });
       },
       107000,
       {"aclrtDestroyNotify", "notify", "not destroyed"}},
  });
}

TEST_F(MisusedOrder, ManyThreadsAndGraphs) {
  ExpectRefusals({
      {"aclmdlRIDestroy of one graph by 64 threads",
       [](Scene& s) {
         aclmdlRI graph = nullptr;
         EXPECT_TRUE(Succeeds(aclmdlRICaptureBegin(
             s.stream, ACL_MODEL_RI_CAPTURE_MODE_RELAXED)));
         EXPECT_TRUE(Succeeds(aclmdlRICaptureEnd(s.stream, &graph)));
         return DestroyBy64([&] { return aclmdlRIDestroy(graph); });
       },
       107000,
       {"aclmdlRIDestroy", "modelRI", "not destroyed"}},
      {"aclrtDestroyLabel of one label by 64 threads",
       [](Scene&) {
         aclrtLabel label = nullptr;
         EXPECT_TRUE(Succeeds(aclrtCreateLabel(&label)));
         return DestroyBy64([&] { return aclrtDestroyLabel(label); });
       },
       107000,
       {"aclrtDestroyLabel", "label", "not destroyed"}},
      {"aclrtDestroyLabelList of one list by 64 threads",
       [](Scene&) {
         aclrtLabel label = nullptr;
         EXPECT_TRUE(Succeeds(aclrtCreateLabel(&label)));
         aclrtLabelList list = nullptr;
         EXPECT_TRUE(Succeeds(aclrtCreateLabelList(&label, 1, &list)));
         return DestroyBy64([&] { return aclrtDestroyLabelList(list); });
       },
       107000,
       {"aclrtDestroyLabelList", "labelList", "not destroyed"}},
      {"aclrtDestroyContext of one context by 64 threads",
       [](Scene&) {
         aclrtContext context = nullptr;
         EXPECT_TRUE(Succeeds(aclrtCreateContext(&context, 0)));
         EXPECT_TRUE(Succeeds(aclrtSetDevice(0)));
         return DestroyBy64([&] { return aclrtDestroyContext(context); });
       },
       107000,
       {"aclrtDestroyContext", "context", "not destroyed"}},
  });
}

// Files of aclInit and of dumps: each is a process of its own, as it
// initialises.
TEST(MisusedChild, DISABLED_Files) {
  ASSERT_TRUE(Succeeds(aclrtSetDevice(0)));
  const std::string path = TempPath("misuse.json");
  const auto with = [&](const char* text) {
    std::ofstream(path) << text;
    return path.c_str();
  };
  ExpectRefusals({
      {"aclInit of a file that is not there",
       [](Scene&) { return aclInit("/nowhere/acl.json"); },
       100003,
       {"aclInit", "/nowhere/acl.json", "cannot be read"}},
      {"aclInit of what is no JSON",
       [&](Scene&) { return aclInit(with("{\"dump\": ")); },
       100006,
       {"aclInit", "misuse.json", "not a JSON object"}},
      {"aclInit of a dump without a directory",
       [&](Scene&) { return aclInit(with(R"({"dump":{"dump_mode":"all"}})")); },
       100009,
       {"aclInit", "dump.dump_path is missing", "expected a directory"}},
      {"aclInit of a dump to a directory that cannot be made",
       [&](Scene&) {
         return aclInit(with(R"({"dump":{"dump_path":"/nowhere/to/go"}})"));
       },
       100009,
       {"dump.dump_path", "/nowhere", "expected a directory"}},
      {"aclInit of a dump of everything",
       [&](Scene&) {
         return aclInit(with(R"({"dump":{"dump_path":".","dump_mode":"al"}})"));
       },
       100009,
       {"dump.dump_mode is \"al\"", "\"output\", \"input\" or \"all\"",
        "did you mean all?"}},
  });
}

TEST(MisusedChild, DISABLED_Initialising) {
  ASSERT_TRUE(Succeeds(aclrtSetDevice(0)));
  ExpectRefusals({
      {"aclmdlInitDump before aclInit",
       [](Scene&) { return aclmdlInitDump(); },
       100001,
       {"aclmdlInitDump", "aclInit was not called"}},
      {"aclmdlSetDump before aclmdlInitDump",
       [](Scene&) { return aclmdlSetDump("acl.json"); },
       100045,
       {"aclmdlSetDump", "aclmdlInitDump was not called"}},
      {"aclopStopDumpArgs of what was not started",
       [](Scene&) { return aclopStopDumpArgs(ACL_OP_DUMP_OP_AICORE_ARGS); },
       100045,
       {"aclopStopDumpArgs", "aclopStartDumpArgs was not called"}},
      {"aclopStartDumpArgs of type 2",
       [](Scene&) { return aclopStartDumpArgs(2, "."); },
       100000,
       {"aclopStartDumpArgs", "dumpType", "2", "1 (ACL_OP_DUMP"}},
      {"aclInit twice",
       [](Scene&) {
         EXPECT_TRUE(Succeeds(aclInit(nullptr)));
         return aclInit(nullptr);
       },
       100002,
       {"aclInit was called before"}},
      {"aclFinalize twice",
       [](Scene&) {
         EXPECT_TRUE(Succeeds(aclFinalize()));
         EXPECT_TRUE(Succeeds(aclrtSetDevice(0)));
         return aclFinalize();
       },
       100037,
       {"aclFinalize", "already finalized"}},
  });
}

TEST(MisusedFiles, AreExplained) {
  for (const char* test : {"Files", "Initialising"}) {
    const ChildResult child =
        RunChild(std::string("MisusedChild.DISABLED_") + test, {});
    EXPECT_TRUE(child.ok()) << child.output;
  }
}

// A forked child has its parent's handles, and none of its streams.
TEST(MisusedChild, DISABLED_Fork) {
  ASSERT_TRUE(Succeeds(aclrtSetDevice(0)));
  ScopedStream stream;
  void* block = nullptr;
  ASSERT_TRUE(Succeeds(aclrtMalloc(&block, 64, kNormal)));
  aclTensor* const tensor = Floats(block, {16});
  const pid_t child = Fork();
  if (child == 0) {
    EXPECT_TRUE(Succeeds(aclrtSetDevice(0)));
    ExpectRefusals({
        {"aclrtSynchronizeStream of the parent's stream",
         [&](Scene&) { return aclrtSynchronizeStream(stream); },
         107000,
         {"aclrtSynchronizeStream", "stream", "in the child"}},
        {"aclrtDestroyStream of the parent's stream",
         [&](Scene&) { return aclrtDestroyStream(stream); },
         107000,
         {"aclrtDestroyStream", "stream", "in the child"}},
        {"an operator of the parent's tensor",
         [&](Scene&) {
           uint64_t size = 0;
           aclOpExecutor* executor = nullptr;
           float one = 1;
           aclScalar* const alpha = aclCreateScalar(&one, ACL_FLOAT);
           return aclnnAddGetWorkspaceSize(tensor, tensor, alpha, tensor, &size,
                                           &executor);
         },
         161002,
         {"self", "in the child"}},
    });
    EndChild();
  }
  ExpectEndsWell(child);
  EXPECT_TRUE(Succeeds(aclDestroyTensor(tensor)));
  EXPECT_TRUE(Succeeds(aclrtFree(block)));
  NextCallWorks();
}

TEST(MisusedAfterFork, IsExplained) {
#if defined(__SANITIZE_THREAD__)
  GTEST_SKIP() << "a sanitizer's allocator";
#endif
  const ChildResult child = RunChild("MisusedChild.DISABLED_Fork", {});
  EXPECT_TRUE(child.ok()) << child.output;
}

}  // namespace
}  // namespace flashacl::testing
