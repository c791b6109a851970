// SPDX-License-Identifier: Apache-2.0
// Blocks of aclrtMalloc in several processes.
#include <gtest/gtest.h>

#include <atomic>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string>

#include "acl/acl.h"
#include "acl/memory.h"
#include "tests/testing/child.h"
#include "tests/testing/fork.h"
#include "tests/testing/runtime.h"
#include "tests/testing/shared_files.h"

namespace flashacl::acl {
namespace {

using ::flashacl::testing::FailsWith;
using ::flashacl::testing::Forked;
using ::flashacl::testing::ForkedAndKilled;
using ::flashacl::testing::RunChild;
using ::flashacl::testing::RuntimeTest;
using ::flashacl::testing::ScopedStream;
using ::flashacl::testing::SharedFiles;
using ::flashacl::testing::Succeeds;

constexpr size_t kBytes = size_t{3} << 20;
constexpr uint64_t kForAll = ACL_RT_IPC_MEM_EXPORT_FLAG_DISABLE_PID_VALIDATION;

struct Key {
  char text[65] = "";
};

// Each in the context of device 0, which a forked child does not have yet.
void Write(void* at, const char* text) {
  EXPECT_TRUE(Succeeds(aclrtSetDevice(0)));
  EXPECT_TRUE(Succeeds(aclrtMemcpy(at, 16, text, std::strlen(text) + 1,
                                   ACL_MEMCPY_HOST_TO_DEVICE)));
}

std::string Read(const void* at) {
  char text[17] = "";
  EXPECT_TRUE(Succeeds(aclrtSetDevice(0)));
  EXPECT_TRUE(
      Succeeds(aclrtMemcpy(text, 16, at, 16, ACL_MEMCPY_DEVICE_TO_HOST)));
  return text;
}

class MemoryKey : public RuntimeTest {
 protected:
  void SetUp() override {
    RuntimeTest::SetUp();
    ASSERT_TRUE(
        Succeeds(aclrtMalloc(&block_, kBytes, ACL_MEM_MALLOC_HUGE_FIRST)));
  }
  void TearDown() override {
    if (block_ != nullptr) {
      EXPECT_TRUE(Succeeds(aclrtFree(block_)));
    }
    RuntimeTest::TearDown();
  }

  Key Export(uint64_t flags = kForAll) {
    Key key;
    EXPECT_TRUE(Succeeds(aclrtIpcMemGetExportKey(block_, kBytes, key.text,
                                                 sizeof key.text, flags)));
    return key;
  }

  void* block_ = nullptr;
};

TEST_F(MemoryKey, EachWrongArgumentIsToldApart) {
  char key[65] = "";
  void* at = nullptr;
  int32_t pid = 1;
  char* const inside = static_cast<char*>(block_) + 64;
  const auto get = [&](void* from, size_t size, size_t length,
                       uint64_t flags = 0) {
    return aclrtIpcMemGetExportKey(from, size, key, length, flags);
  };
  EXPECT_TRUE(FailsWith(100000, get(nullptr, 1, 65), "devPtr"));
  EXPECT_TRUE(FailsWith(
      100000, aclrtIpcMemGetExportKey(block_, 1, nullptr, 65, 0), "key"));
  EXPECT_TRUE(FailsWith(107000, get(block_, 0, 65), "size"));
  EXPECT_TRUE(FailsWith(107000, get(block_, 2 * kBytes, 65), "3145"));
  EXPECT_TRUE(FailsWith(107000, get(block_, kBytes, 0), "len"));
  EXPECT_TRUE(FailsWith(107000, get(block_, kBytes, 64), "65"));
  EXPECT_TRUE(FailsWith(107000, get(block_, kBytes, 65, 2), "flags"));
  EXPECT_TRUE(FailsWith(107000, get(inside, 1, 65), "start of its block"));
  EXPECT_TRUE(FailsWith(107000, get(&pid, 1, 65), "aclrtMalloc"));

  EXPECT_TRUE(FailsWith(100000, aclrtIpcMemSetImportPid(nullptr, &pid, 1)));
  EXPECT_TRUE(FailsWith(100000, aclrtIpcMemSetImportPid(key, nullptr, 1)));
  EXPECT_TRUE(FailsWith(107000, aclrtIpcMemSetImportPid(key, &pid, 0)));
  EXPECT_TRUE(
      FailsWith(107000, aclrtIpcMemSetImportPid("some", &pid, 1), "some"));
  EXPECT_TRUE(FailsWith(100000, aclrtIpcMemImportByKey(nullptr, key, 0)));
  EXPECT_TRUE(FailsWith(100000, aclrtIpcMemImportByKey(&at, nullptr, 0)));
  EXPECT_TRUE(FailsWith(107000, aclrtIpcMemImportByKey(&at, key, 2), "flags"));
  EXPECT_TRUE(FailsWith(507899, aclrtIpcMemImportByKey(&at, "", 0), "key"));
  EXPECT_TRUE(FailsWith(
      507899, aclrtIpcMemImportByKey(&at, "flashacl-0123456789abcdef", 0),
      "exported and not closed"));
  EXPECT_TRUE(FailsWith(100000, aclrtIpcMemClose(nullptr)));
  EXPECT_TRUE(FailsWith(107000, aclrtIpcMemClose("nothing"), "nothing"));
  EXPECT_EQ(at, nullptr);
}

TEST_F(MemoryKey, SmallBlocksAreRefusedWithTheReason) {
  for (const size_t bytes : {size_t{1}, kOwnPagesBytes - 1}) {
    void* small = nullptr;
    ASSERT_TRUE(
        Succeeds(aclrtMalloc(&small, bytes, ACL_MEM_MALLOC_HUGE_FIRST)));
    char key[65] = "";
    EXPECT_TRUE(FailsWith(207000, aclrtIpcMemGetExportKey(small, 1, key, 65, 0),
                          "65536 bytes and more"));
    EXPECT_TRUE(Succeeds(aclrtFree(small)));
  }
}

// Whatever its size: neither the block nor its neighbours change.
TEST_F(MemoryKey, ExportingMovesNothing) {
  for (const size_t bytes :
       {kOwnPagesBytes, kOwnPagesBytes + 1, size_t{1} << 20, 2 * kBytes}) {
    void* blocks[3];
    for (void*& block : blocks) {
      ASSERT_TRUE(
          Succeeds(aclrtMalloc(&block, bytes, ACL_MEM_MALLOC_HUGE_FIRST)));
      Write(block, "before");
      Write(static_cast<char*>(block) + bytes - 16, "at the end");
    }
    char key[65] = "";
    ASSERT_TRUE(
        Succeeds(aclrtIpcMemGetExportKey(blocks[1], bytes, key, 65, kForAll)));
    EXPECT_TRUE(Forked([&] {
      void* at = nullptr;
      ASSERT_TRUE(Succeeds(aclrtIpcMemImportByKey(&at, key, 0)));
      EXPECT_EQ(Read(at), "before");
      EXPECT_EQ(Read(static_cast<char*>(at) + bytes - 16), "at the end");
      Write(at, "after");
      EXPECT_EQ(Read(blocks[1]), "after");
      EXPECT_TRUE(Succeeds(aclrtIpcMemClose(key)));
    }));
    EXPECT_EQ(Read(blocks[0]), "before");
    EXPECT_EQ(Read(blocks[1]), "after");
    EXPECT_EQ(Read(blocks[2]), "before");
    for (void* block : blocks) EXPECT_TRUE(Succeeds(aclrtFree(block)));
    EXPECT_TRUE(FailsWith(107000, aclrtIpcMemClose(key)));
  }
}

TEST_F(MemoryKey, TheKeyStaysUntilItIsClosed) {
  const Key one = Export();
  EXPECT_EQ(std::string(Export().text), one.text);
  EXPECT_TRUE(Succeeds(aclrtIpcMemClose(one.text)));
  EXPECT_TRUE(FailsWith(107000, aclrtIpcMemClose(one.text)));
  void* at = nullptr;
  EXPECT_TRUE(FailsWith(507899, aclrtIpcMemImportByKey(&at, one.text, 0)));
  const Key other = Export();
  EXPECT_NE(std::string(other.text), one.text);
  // Freed with its key open.
  EXPECT_TRUE(Succeeds(aclrtFree(block_)));
  block_ = nullptr;
  EXPECT_TRUE(FailsWith(507899, aclrtIpcMemImportByKey(&at, other.text, 0)));
  EXPECT_EQ(SharedFiles().count(other.text), 0u);
}

TEST_F(MemoryKey, TheExporterImportsItsOwnAddress) {
  const Key key = Export(0);
  void* at = nullptr;
  EXPECT_TRUE(Succeeds(aclrtIpcMemImportByKey(&at, key.text, 1)));
  EXPECT_EQ(at, block_);
  EXPECT_TRUE(Succeeds(aclrtIpcMemClose(key.text)));
  EXPECT_TRUE(Succeeds(aclrtIpcMemImportByKey(&at, key.text, 0)));
  EXPECT_TRUE(Succeeds(aclrtIpcMemClose(key.text)));
  EXPECT_TRUE(Succeeds(aclrtIpcMemClose(key.text)));
  EXPECT_TRUE(FailsWith(107000, aclrtIpcMemClose(key.text)));
}

// Work that is queued when a block is exported for the first time is not lost.
TEST_F(MemoryKey, ExportWaitsForTheWorkThatUsesTheBlock) {
  ScopedStream stream;
  EXPECT_TRUE(Succeeds(aclrtLaunchHostFunc(
      stream, [](void*) { usleep(50000); }, nullptr)));
  EXPECT_TRUE(Succeeds(aclrtMemsetAsync(block_, kBytes, 'q', 8, stream)));
  const Key key = Export();
  EXPECT_TRUE(Forked([&] {
    void* at = nullptr;
    ASSERT_TRUE(Succeeds(aclrtIpcMemImportByKey(&at, key.text, 0)));
    EXPECT_EQ(Read(at).substr(0, 8), "qqqqqqqq");
  }));
  EXPECT_TRUE(Succeeds(aclrtSynchronizeStream(stream)));
}

// Queues itself again and again, so that its stream is never idle.
struct Unending {
  aclrtStream stream;
  std::atomic<bool> over{false};

  static void Run(void* user) {
    auto& self = *static_cast<Unending*>(user);
    usleep(100);
    if (self.over) return;
    EXPECT_TRUE(Succeeds(aclrtLaunchHostFunc(self.stream, &Run, user)));
  }
};

// A graph keeps its blocks, and is no work; what else goes on is not waited for
// for ever.
TEST_F(MemoryKey, ExportOfWhatAGraphKeepsWaitsForQueuedWorkAlone) {
  ScopedStream stream, busy;
  ASSERT_TRUE(Succeeds(
      aclmdlRICaptureBegin(stream, ACL_MODEL_RI_CAPTURE_MODE_RELAXED)));
  EXPECT_TRUE(Succeeds(aclrtMemsetAsync(block_, kBytes, 'g', 8, stream)));
  aclmdlRI graph = nullptr;
  ASSERT_TRUE(Succeeds(aclmdlRICaptureEnd(stream, &graph)));
  Unending unending{busy};
  Unending::Run(&unending);
  EXPECT_TRUE(Succeeds(aclrtLaunchHostFunc(
      stream, [](void*) { usleep(50000); }, nullptr)));
  EXPECT_TRUE(Succeeds(aclmdlRIExecuteAsync(graph, stream)));
  const Key key = Export();
  EXPECT_EQ(Read(block_).substr(0, 8), "gggggggg");
  unending.over = true;
  EXPECT_TRUE(Succeeds(aclrtSynchronizeStream(busy)));
  EXPECT_TRUE(Succeeds(aclrtIpcMemClose(key.text)));
  EXPECT_TRUE(Succeeds(aclmdlRIDestroy(graph)));
}

// In a program of its own, with streams.
TEST_F(MemoryKey, AnotherProgramReadsAndWrites) {
  Write(block_, "from here");
  const Key key = Export();
  const auto child = RunChild("MemoryKeyChild.DISABLED_ReadsAndWrites",
                              {{"FLASHACL_TEST_KEY", key.text}});
  EXPECT_TRUE(child.ok()) << child.output;
  EXPECT_EQ(Read(block_), "from there");
}

// A child, which MemoryKey.AnotherProgramReadsAndWrites starts.
TEST(MemoryKeyChild, DISABLED_ReadsAndWrites) {
  const char* const key = std::getenv("FLASHACL_TEST_KEY");
  ASSERT_TRUE(Succeeds(aclInit(nullptr)));
  ASSERT_TRUE(Succeeds(aclrtSetDevice(0)));
  void* at = nullptr;
  void* again = nullptr;
  ASSERT_TRUE(Succeeds(aclrtIpcMemImportByKey(&at, key, 0)));
  ASSERT_TRUE(Succeeds(aclrtIpcMemImportByKey(&again, key, 0)));
  EXPECT_EQ(at, again);
  EXPECT_EQ(Read(at), "from here");
  aclrtPtrAttributes attributes{};
  EXPECT_TRUE(Succeeds(aclrtPointerGetAttributes(at, &attributes)));
  EXPECT_EQ(attributes.location.type, ACL_MEM_LOCATION_TYPE_DEVICE);
  char own[65] = "";
  EXPECT_TRUE(FailsWith(107000, aclrtIpcMemGetExportKey(at, 1, own, 65, 0),
                        "exported by its owner"));
  int32_t pid = getpid();
  EXPECT_TRUE(FailsWith(107000, aclrtIpcMemSetImportPid(key, &pid, 1),
                        "this process has exported"));
  EXPECT_TRUE(FailsWith(107000, aclrtFree(at), "another function"));
  ScopedStream stream;
  EXPECT_TRUE(Succeeds(aclrtMemsetAsync(at, 8, 'x', 8, stream)));
  EXPECT_TRUE(Succeeds(aclrtSynchronizeStream(stream)));
  Write(at, "from there");
  EXPECT_TRUE(Succeeds(aclrtIpcMemClose(key)));
  EXPECT_EQ(Read(at), "from there");
  EXPECT_TRUE(Succeeds(aclrtIpcMemClose(key)));
  EXPECT_TRUE(FailsWith(107000, aclrtIpcMemClose(key)));
  Block block;
  EXPECT_FALSE(FindBlock(at, &block));
  EXPECT_TRUE(Succeeds(aclFinalize()));
}

TEST_F(MemoryKey, OthersAreRefusedUntilTheyAreListed) {
  const Key key = Export(0);
  const auto tries = [&](int expected) {
    void* at = nullptr;
    const aclError got = aclrtIpcMemImportByKey(&at, key.text, 0);
    if (expected == 0) {
      EXPECT_TRUE(Succeeds(got));
    } else {
      EXPECT_TRUE(FailsWith(expected, got, "list of processes"));
    }
  };
  EXPECT_TRUE(Forked([&] { tries(507899); }));
  int ends[2];
  ASSERT_EQ(pipe(ends), 0);
  const pid_t child = testing::Fork();
  if (child == 0) {
    char go = 0;
    EXPECT_EQ(read(ends[0], &go, 1), 1);
    tries(0);
    _exit(HasFailure() ? 1 : 0);
  }
  int32_t pids[] = {child, -1};
  EXPECT_TRUE(
      FailsWith(107000, aclrtIpcMemSetImportPid(key.text, pids, 2), "-1"));
  pids[1] = 0;
  EXPECT_TRUE(
      FailsWith(107000, aclrtIpcMemSetImportPid(key.text, pids, 2), "pid"));
  EXPECT_TRUE(Succeeds(aclrtIpcMemSetImportPid(key.text, pids, 1)));
  EXPECT_EQ(write(ends[1], "x", 1), 1);
  int status = -1;
  waitpid(child, &status, 0);
  EXPECT_EQ(status, 0);
  close(ends[0]);
  close(ends[1]);
  int32_t many[65];
  for (int32_t& pid : many) pid = static_cast<int32_t>(&pid - many) + 1;
  EXPECT_TRUE(FailsWith(207005, aclrtIpcMemSetImportPid(key.text, many, 65)));
}

// What an importer holds stays; nobody else gets it.
TEST_F(MemoryKey, AKilledExporterIsNotWaitedFor) {
  int ends[2];
  int back[2];
  ASSERT_EQ(pipe(ends), 0);
  ASSERT_EQ(pipe(back), 0);
  const pid_t child = testing::Fork();
  if (child == 0) {
    void* block = nullptr;
    Key key;
    aclrtSetDevice(0);
    aclrtMalloc(&block, kBytes, ACL_MEM_MALLOC_HUGE_FIRST);
    Write(block, "its");
    aclrtIpcMemGetExportKey(block, kBytes, key.text, 65, kForAll);
    char go = 0;
    if (write(ends[1], key.text, 65) == 65 && read(back[0], &go, 1) == 1) {
      kill(getpid(), SIGKILL);
    }
    _exit(1);
  }
  Key key;
  ASSERT_EQ(read(ends[0], key.text, 65), 65);
  void* at = nullptr;
  ASSERT_TRUE(Succeeds(aclrtIpcMemImportByKey(&at, key.text, 0)));
  EXPECT_EQ(write(back[1], "x", 1), 1);
  waitpid(child, nullptr, 0);
  EXPECT_EQ(Read(at), "its");
  EXPECT_TRUE(Succeeds(aclrtIpcMemClose(key.text)));
  EXPECT_TRUE(FailsWith(507899, aclrtIpcMemImportByKey(&at, key.text, 0)));
  Export();  // removes what the dead one left
  EXPECT_EQ(SharedFiles(child).size(), 0u);
  for (const int end : {ends[0], ends[1], back[0], back[1]}) close(end);
}

TEST_F(MemoryKey, AHundredTimesLeaveNothing) {
  Export();
  const auto before = SharedFiles();
  EXPECT_TRUE(Succeeds(aclrtFree(block_)));
  for (int n = 0; n < 100; ++n) {
    ASSERT_TRUE(
        Succeeds(aclrtMalloc(&block_, kBytes, ACL_MEM_MALLOC_HUGE_FIRST)));
    const Key key = Export();
    const auto use = [&] {
      void* at = nullptr;
      EXPECT_TRUE(Succeeds(aclrtIpcMemImportByKey(&at, key.text, 0)));
      Write(at, "x");
      if (n % 2 == 0) {
        EXPECT_TRUE(Succeeds(aclrtIpcMemClose(key.text)));
      }
    };
    if (n % 10 == 0) {
      ForkedAndKilled(use);
    } else {
      ASSERT_TRUE(Forked(use));
    }
    EXPECT_EQ(Read(block_), "x");
    if (n % 3 == 0) {
      EXPECT_TRUE(Succeeds(aclrtIpcMemClose(key.text)));
    }
    ASSERT_TRUE(Succeeds(aclrtFree(block_)));
  }
  block_ = nullptr;
  EXPECT_LT(SharedFiles().size(), before.size());
}

// aclFinalize and the end of a program take the names away.
TEST(MemoryKeyEnd, FinaliseAndExitUnlink) {
  const auto child = RunChild("MemoryKeyChild.DISABLED_Ends", {});
  EXPECT_TRUE(child.ok()) << child.output;
  const size_t at = child.output.find("last key: ");
  ASSERT_NE(at, std::string::npos) << child.output;
  const std::string key = child.output.substr(at + 10, 25);
  EXPECT_NE(access(("/dev/shm/" + key).c_str(), F_OK), 0) << key;
}

// A child, which MemoryKeyEnd.FinaliseAndExitUnlink starts.
TEST(MemoryKeyChild, DISABLED_Ends) {
  const auto before = SharedFiles().size();
  void* block = nullptr;
  Key one, other;
  ASSERT_TRUE(Succeeds(aclInit(nullptr)));
  ASSERT_TRUE(Succeeds(aclrtSetDevice(0)));
  ASSERT_TRUE(Succeeds(aclrtMalloc(&block, kBytes, ACL_MEM_MALLOC_HUGE_ONLY)));
  EXPECT_TRUE(
      Succeeds(aclrtIpcMemGetExportKey(block, kBytes, one.text, 65, 0)));
  EXPECT_EQ(SharedFiles().size(), before + 1);
  EXPECT_TRUE(Succeeds(aclFinalize()));
  EXPECT_EQ(SharedFiles().size(), before);
  ASSERT_TRUE(Succeeds(aclInit(nullptr)));
  EXPECT_TRUE(
      Succeeds(aclrtIpcMemGetExportKey(block, kBytes, other.text, 65, 0)));
  EXPECT_STRNE(one.text, other.text);
  EXPECT_EQ(SharedFiles().size(), before + 1);
  std::printf("last key: %s\n", other.text);
  std::exit(HasFailure() ? 1 : 0);
}

}  // namespace
}  // namespace flashacl::acl
