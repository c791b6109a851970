// SPDX-License-Identifier: Apache-2.0
// Whatever allocation, thread or file operation fails while a program uses the
// runtime: the call says so, or does what it should; all it made can be
// destroyed; the program then runs as if nothing had been.
#include "tests/testing/runtime.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <cstdio>
#include <string>
#include <vector>

#include "acl/acl.h"
#include "base/str.h"
#include "tests/faults/injector.h"
#include "tests/faults/programs.h"
#include "tests/faults/watchdog.h"

namespace flashacl::testing {
namespace {

struct Case {
  const char* name;
  Program program;
};

const Case kCases[] = {
    {"Contexts", Contexts},
    {"CopiesAndFills", CopiesAndFills},
    {"StreamsAndEvents", StreamsAndEvents},
    {"Graphs", Graphs},
    {"BuiltGraphs", BuiltGraphs},
    {"Callbacks", Callbacks},
    {"Notifies", Notifies},
    {"ValuesAndReductions", ValuesAndReductions},
    {"Aborting", Aborting},
    {"MappedMemory", MappedMemory},
    {"Sharing", Sharing},
    {"Descriptions", Descriptions},
    {"SingleOperators", SingleOperators},
    {"Settings", Settings},
    {"Profiles", Profiles},
};

// Whether some call failed on purpose.
bool RunWithFault(Program program, Fault fault, int64_t n, bool lasting) {
  Made made;
  Calls calls;
  int64_t failed = 0;
  {
    const Injected injected(fault, n, lasting);
    program(calls, made);
    failed = injected.failed();
  }
  EXPECT_EQ(calls.silent(), 0) << "a status without a message";
  EXPECT_TRUE(failed > 0 || calls.failed() == 0);
  made.Destroy();
  aclGetRecentErrMsg();
  Made again;
  Calls next;
  program(next, again);
  EXPECT_EQ(next.failed(), 0) << "the next run";
  again.Destroy();
  return failed > 0;
}

void TryAllFaults(const Case& tried, Fault fault) {
  for (const bool lasting : {false, true}) {
    for (int64_t n = 1;; ++n) {
      const std::string what =
          Str("{}: fault {} of kind {}{}", tried.name, n,
              static_cast<int>(fault), lasting ? ", and all after it" : "");
      SCOPED_TRACE(what);
      const Watched watched(what);
      if (!RunWithFault(tried.program, fault, n, lasting)) break;
      if (::testing::Test::HasFailure()) return;
    }
  }
}

class Runtime : public RuntimeTest,
                public ::testing::WithParamInterface<Case> {};

TEST_P(Runtime, SaysSoOrWorksWhateverAllocationFails) {
  EXPECT_FALSE(Leaks([] { TryAllFaults(GetParam(), Fault::kAllocation); }));
  RecordProperty("faults", std::to_string(InjectedFaults()));
}

// Only what is shared lies in files.
TEST(Sharing, SaysSoOrWorksWhateverFileOperationFails) {
  ASSERT_TRUE(Succeeds(aclrtSetDevice(0)));
  EXPECT_FALSE(Leaks([] { TryAllFaults({"Sharing", Sharing}, Fault::kFile); }));
  EXPECT_TRUE(Succeeds(aclrtResetDeviceForce(0)));
}

TEST_P(Runtime, SaysSoOrWorksWhateverThreadCannotBeStarted) {
  EXPECT_FALSE(Leaks([] { TryAllFaults(GetParam(), Fault::kThread); }));
}

INSTANTIATE_TEST_SUITE_P(Every, Runtime, ::testing::ValuesIn(kCases),
                         [](const auto& info) {
                           return std::string(info.param.name);
                         });

// A graph that lacks what a call could not add does not come about.
TEST_F(RuntimeTest, EndsACaptureThatLacksATask) {
  ScopedStream stream;
  void* device = nullptr;
  ASSERT_TRUE(Succeeds(aclrtMalloc(&device, 64, ACL_MEM_MALLOC_HUGE_FIRST)));
  int invalid = 0;
  int64_t failed = 1;
  for (int64_t n = 1; failed > 0; ++n) {
    SCOPED_TRACE(n);
    ASSERT_TRUE(Succeeds(
        aclmdlRICaptureBegin(stream, ACL_MODEL_RI_CAPTURE_MODE_RELAXED)));
    aclError added = 0;
    {
      const Injected injected(Fault::kAllocation, n, false);
      added = aclrtMemsetAsync(device, 64, 0, 64, stream);
      failed = injected.failed();
    }
    EXPECT_TRUE(failed > 0 || Succeeds(added));
    auto status = ACL_MODEL_RI_CAPTURE_STATUS_NONE;
    EXPECT_TRUE(Succeeds(aclmdlRICaptureGetInfo(stream, &status, nullptr)));
    aclmdlRI graph = nullptr;
    const aclError ended = aclmdlRICaptureEnd(stream, &graph);
    if (status == ACL_MODEL_RI_CAPTURE_STATUS_INVALIDATED) {
      EXPECT_TRUE(FailsWith(507903, ended));
      EXPECT_NE(added, 0);
      ++invalid;
    } else {
      EXPECT_TRUE(Succeeds(ended));
      EXPECT_TRUE(Succeeds(aclmdlRIDestroy(graph)));
    }
  }
  EXPECT_GT(invalid, 0);
  EXPECT_TRUE(Succeeds(aclrtFree(device)));
}

// Whatever file operation fails, the profile has ended, and the next one is
// whole.
TEST_F(RuntimeTest, SaysThatAProfileCannotBeWritten) {
  for (int64_t n = 1;; ++n) {
    SCOPED_TRACE(n);
    if (!RunWithFault(Profiles, Fault::kFile, n, true)) break;
    ASSERT_FALSE(HasFailure());
  }
}

// aclInit with a file that says something, which cannot be read.
TEST(Init, SaysSoOrWorksWhateverFails) {
  const std::string path = ::testing::TempDir() + "faults.json";
  std::FILE* file = std::fopen(path.c_str(), "w");
  std::fputs(
      R"({"dump": {"dump_scene": "lite_exception"}, "err_msg_mode": "1"})",
      file);
  std::fclose(file);
  for (const Fault fault : {Fault::kAllocation, Fault::kFile}) {
    for (int64_t n = 1;; ++n) {
      SCOPED_TRACE(Str("fault {} of kind {}", n, static_cast<int>(fault)));
      Calls calls;
      int64_t failed = 0;
      bool initialised = false;
      {
        const Injected injected(fault, n, false);
        initialised = calls.Ok(aclInit(path.c_str()));
        if (initialised) calls.Ok(aclFinalize());
        failed = injected.failed();
      }
      EXPECT_EQ(calls.silent(), 0);
      EXPECT_TRUE(failed > 0 || initialised);
      (void)aclFinalize();
      aclGetRecentErrMsg();
      EXPECT_TRUE(Succeeds(aclInit(path.c_str())));
      EXPECT_TRUE(Succeeds(aclFinalize()));
      if (failed == 0 || HasFailure()) break;
    }
  }
  unlink(path.c_str());
}

}  // namespace
}  // namespace flashacl::testing
