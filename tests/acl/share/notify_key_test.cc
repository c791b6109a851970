// SPDX-License-Identifier: Apache-2.0
// Notifies in several processes.
#include <gtest/gtest.h>

#include <chrono>
#include <cstdlib>
#include <string>
#include <thread>

#include "acl/acl.h"
#include "acl/latch.h"
#include "tests/testing/child.h"
#include "tests/testing/fork.h"
#include "tests/testing/runtime.h"
#include "tests/testing/shared_files.h"

namespace flashacl::acl {
namespace {

using ::flashacl::testing::FailsWith;
using ::flashacl::testing::Forked;
using ::flashacl::testing::RunChild;
using ::flashacl::testing::RuntimeTest;
using ::flashacl::testing::ScopedStream;
using ::flashacl::testing::SharedFiles;
using ::flashacl::testing::Succeeds;

constexpr const char* kVariable = "FLASHACL_TEST_NOTIFY";
constexpr uint64_t kForAll = ACL_RT_NOTIFY_EXPORT_FLAG_DISABLE_PID_VALIDATION;

class NotifyKey : public RuntimeTest {
 protected:
  void SetUp() override {
    RuntimeTest::SetUp();
    ASSERT_TRUE(Succeeds(aclrtCreateNotify(&notify_, 0)));
  }
  void TearDown() override {
    EXPECT_TRUE(Succeeds(aclrtDestroyNotify(notify_)));
    RuntimeTest::TearDown();
  }

  std::string Export(uint64_t flags = kForAll) {
    char key[65] = "";
    EXPECT_TRUE(
        Succeeds(aclrtNotifyGetExportKey(notify_, key, sizeof key, flags)));
    return key;
  }

  aclrtNotify notify_ = nullptr;
};

TEST_F(NotifyKey, EachWrongArgumentIsToldApart) {
  char key[65] = "";
  int32_t pid = 1;
  aclrtNotify other = nullptr;
  EXPECT_TRUE(FailsWith(100000, aclrtNotifyGetExportKey(nullptr, key, 65, 0)));
  EXPECT_TRUE(
      FailsWith(100000, aclrtNotifyGetExportKey(notify_, nullptr, 65, 0)));
  EXPECT_TRUE(
      FailsWith(107000, aclrtNotifyGetExportKey(notify_, key, 64, 0), "len"));
  EXPECT_TRUE(FailsWith(107000, aclrtNotifyGetExportKey(notify_, key, 65, 1),
                        "0 or 2"));
  EXPECT_TRUE(FailsWith(107000, aclrtNotifyGetExportKey(&pid, key, 65, 0)));
  EXPECT_TRUE(FailsWith(100000, aclrtNotifySetImportPid(nullptr, &pid, 1)));
  EXPECT_TRUE(FailsWith(100000, aclrtNotifySetImportPid(notify_, nullptr, 1)));
  EXPECT_TRUE(FailsWith(107000, aclrtNotifySetImportPid(notify_, &pid, 0)));
  EXPECT_TRUE(FailsWith(107000, aclrtNotifySetImportPid(notify_, &pid, 1),
                        "has exported"));
  EXPECT_TRUE(FailsWith(100000, aclrtNotifyImportByKey(nullptr, key, 0)));
  EXPECT_TRUE(FailsWith(100000, aclrtNotifyImportByKey(&other, nullptr, 0)));
  EXPECT_TRUE(FailsWith(107000, aclrtNotifyImportByKey(&other, key, 4)));
  EXPECT_TRUE(FailsWith(507899, aclrtNotifyImportByKey(&other, "none", 0)));
  EXPECT_EQ(other, nullptr);
}

TEST_F(NotifyKey, TheFlagLivesUntilTheLastIsGone) {
  ScopedStream stream;
  EXPECT_TRUE(Succeeds(aclrtRecordNotify(notify_, stream)));
  EXPECT_TRUE(Succeeds(aclrtSynchronizeStream(stream)));
  const std::string key = Export(0);  // with the flag up
  EXPECT_EQ(Export(0), key);
  EXPECT_EQ(SharedFiles().count(key), 1u);
  aclrtNotify other = nullptr;
  ASSERT_TRUE(Succeeds(aclrtNotifyImportByKey(&other, key.c_str(), 3)));
  EXPECT_NE(other, notify_);
  EXPECT_TRUE(Succeeds(aclrtWaitAndResetNotify(other, stream, 0)));
  EXPECT_TRUE(Succeeds(aclrtSynchronizeStream(stream)));
  EXPECT_TRUE(Succeeds(aclrtWaitAndResetNotify(notify_, stream, 1)));
  EXPECT_TRUE(FailsWith(107019, aclrtSynchronizeStream(stream), "in vain"));
  EXPECT_TRUE(Succeeds(aclrtDestroyNotify(notify_)));
  EXPECT_EQ(SharedFiles().count(key), 0u);
  EXPECT_TRUE(
      FailsWith(507899, aclrtNotifyImportByKey(&notify_, key.c_str(), 0)));
  EXPECT_TRUE(Succeeds(aclrtRecordNotify(other, stream)));
  EXPECT_TRUE(Succeeds(aclrtWaitAndResetNotify(other, stream, 0)));
  EXPECT_TRUE(Succeeds(aclrtSynchronizeStream(stream)));
  notify_ = other;
}

// Whatever work is queued that still uses it.
TEST_F(NotifyKey, NobodyImportsOneThatIsDestroyed) {
  ScopedStream stream;
  const std::string key = Export();
  EXPECT_TRUE(Succeeds(aclrtWaitAndResetNotify(notify_, stream, 0)));
  EXPECT_TRUE(Succeeds(aclrtDestroyNotify(notify_)));
  EXPECT_EQ(SharedFiles().count(key), 0u);
  EXPECT_TRUE(Succeeds(aclrtStreamAbort(stream)));
  EXPECT_TRUE(Succeeds(aclrtCreateNotify(&notify_, 0)));
}

TEST_F(NotifyKey, OthersAreRefusedUnlessTheyAreListed) {
  const std::string key = Export(0);
  const auto tries = [&] {
    aclrtNotify other = nullptr;
    EXPECT_TRUE(Succeeds(aclrtSetDevice(0)));
    return aclrtNotifyImportByKey(&other, key.c_str(), 0);
  };
  EXPECT_TRUE(Forked(
      [&] { EXPECT_TRUE(FailsWith(507899, tries(), "list of processes")); }));
  int32_t pid = 1;
  EXPECT_TRUE(Succeeds(aclrtNotifySetImportPid(notify_, &pid, 1)));
  Export(kForAll);
  EXPECT_TRUE(Forked([&] { EXPECT_TRUE(Succeeds(tries())); }));
}

// What is shared ends with aclFinalize; the notify itself does not.
TEST_F(NotifyKey, AfterFinalizeSaysWhyItIsNotShared) {
  ASSERT_TRUE(Succeeds(aclInit(nullptr)));
  const std::string key = Export(0);
  aclrtNotify imported = nullptr;
  ASSERT_TRUE(Succeeds(aclrtNotifyImportByKey(&imported, key.c_str(), 0)));
  EXPECT_TRUE(Succeeds(aclFinalize()));
  ASSERT_TRUE(Succeeds(aclInit(nullptr)));
  char again[65] = "";
  int32_t pid = getpid();
  aclrtNotify other = nullptr;
  EXPECT_TRUE(FailsWith(107000,
                        aclrtNotifyGetExportKey(notify_, again, 65, kForAll),
                        "aclFinalize"));
  EXPECT_TRUE(FailsWith(107000, aclrtNotifySetImportPid(notify_, &pid, 1),
                        "aclFinalize"));
  EXPECT_TRUE(FailsWith(507899, aclrtNotifyImportByKey(&other, key.c_str(), 0),
                        "aclFinalize"));
  // Who has it keeps it.
  ScopedStream stream;
  EXPECT_TRUE(Succeeds(aclrtRecordNotify(imported, stream)));
  EXPECT_TRUE(Succeeds(aclrtWaitAndResetNotify(notify_, stream, 0)));
  EXPECT_TRUE(Succeeds(aclrtSynchronizeStream(stream)));
  EXPECT_TRUE(Succeeds(aclrtDestroyNotify(imported)));
  EXPECT_TRUE(Succeeds(aclFinalize()));
}

// Who may import is for the exporter to say.
TEST_F(NotifyKey, AnImporterOpensItToNobody) {
  const std::string key = Export(0);
  int ends[2];
  ASSERT_EQ(pipe(ends), 0);
  const pid_t child = testing::Fork();
  if (child == 0) {
    char go = 0;
    aclrtNotify other = nullptr;
    char same[65] = "";
    int32_t pid = 1;
    EXPECT_EQ(read(ends[0], &go, 1), 1);
    EXPECT_TRUE(Succeeds(aclrtSetDevice(0)));
    EXPECT_TRUE(Succeeds(aclrtNotifyImportByKey(&other, key.c_str(), 0)));
    EXPECT_TRUE(Succeeds(aclrtNotifyGetExportKey(other, same, 65, kForAll)));
    EXPECT_EQ(same, key);
    EXPECT_TRUE(FailsWith(107000, aclrtNotifySetImportPid(other, &pid, 1),
                          "has exported"));
    _exit(HasFailure() ? 1 : 0);
  }
  int32_t pid = child;
  EXPECT_TRUE(Succeeds(aclrtNotifySetImportPid(notify_, &pid, 1)));
  EXPECT_EQ(write(ends[1], "x", 1), 1);
  int status = -1;
  waitpid(child, &status, 0);
  EXPECT_EQ(status, 0);
  close(ends[0]);
  close(ends[1]);
  EXPECT_TRUE(Forked([&] {
    aclrtNotify other = nullptr;
    EXPECT_TRUE(Succeeds(aclrtSetDevice(0)));
    EXPECT_TRUE(FailsWith(507899,
                          aclrtNotifyImportByKey(&other, key.c_str(), 0),
                          "list of processes"));
  }));
}

// As in samples: the importer records, the exporter waits, by a wait that was
// queued before the notify was exported.
TEST_F(NotifyKey, AnotherProgramRecords) {
  ScopedStream stream;
  EXPECT_TRUE(Succeeds(aclrtWaitAndResetNotify(notify_, stream, 0)));
  const auto child =
      RunChild("NotifyKeyChild.DISABLED_Records", {{kVariable, Export()}});
  EXPECT_TRUE(child.ok()) << child.output;
  EXPECT_TRUE(Succeeds(aclrtSynchronizeStream(stream)));
}

aclrtNotify ImportInChild() {
  aclrtNotify notify = nullptr;
  EXPECT_TRUE(Succeeds(aclrtSetDevice(0)));
  EXPECT_TRUE(
      Succeeds(aclrtNotifyImportByKey(&notify, std::getenv(kVariable), 0)));
  return notify;
}

// A child, which NotifyKey.AnotherProgramRecords starts.
TEST(NotifyKeyChild, DISABLED_Records) {
  const aclrtNotify notify = ImportInChild();
  {
    ScopedStream stream;
    EXPECT_TRUE(Succeeds(aclrtRecordNotify(notify, stream)));
    EXPECT_TRUE(Succeeds(aclrtSynchronizeStream(stream)));
  }
  EXPECT_TRUE(Succeeds(aclrtDestroyNotify(notify)));
}

TEST_F(NotifyKey, AWaitForAKilledProcessEnds) {
  ScopedStream stream;
  EXPECT_TRUE(Succeeds(aclrtWaitAndResetNotify(notify_, stream, 0)));
  const auto child =
      RunChild("NotifyKeyChild.DISABLED_IsKilled", {{kVariable, Export()}});
  const auto end = Clock::now();
  EXPECT_EQ(child.signal, SIGKILL) << child.output;
  EXPECT_TRUE(FailsWith(507022, aclrtSynchronizeStream(stream), "died"));
  EXPECT_LT(Clock::now() - end, std::chrono::seconds(1));
  // One that is alive is reason enough to wait.
  aclrtNotify other = nullptr;
  EXPECT_TRUE(Succeeds(aclrtNotifyImportByKey(&other, Export().c_str(), 0)));
  EXPECT_TRUE(Succeeds(aclrtRecordNotify(other, stream)));
  EXPECT_TRUE(Succeeds(aclrtWaitAndResetNotify(notify_, stream, 0)));
  EXPECT_TRUE(Succeeds(aclrtSynchronizeStream(stream)));
  EXPECT_TRUE(Succeeds(aclrtDestroyNotify(other)));
}

// The process that waits may be the one that records.
TEST_F(NotifyKey, ADeadProcessThatIsNotNeededIsNoError) {
  ScopedStream stream, other;
  const auto child =
      RunChild("NotifyKeyChild.DISABLED_IsKilled", {{kVariable, Export()}});
  EXPECT_EQ(child.signal, SIGKILL) << child.output;
  // The second record comes later than anybody looks.
  for (const int64_t ms : {50, 1000}) {
    EXPECT_TRUE(Succeeds(aclrtWaitAndResetNotify(notify_, stream, 0)));
    std::this_thread::sleep_for(std::chrono::milliseconds(ms));
    EXPECT_TRUE(Succeeds(aclrtRecordNotify(notify_, other)));
    EXPECT_TRUE(Succeeds(aclrtSynchronizeStream(stream)));
  }
  EXPECT_TRUE(Succeeds(aclrtSynchronizeStream(other)));
}

// A child, which tests of killed processes start.
TEST(NotifyKeyChild, DISABLED_IsKilled) {
  ImportInChild();
  std::this_thread::sleep_for(std::chrono::milliseconds(200));
  kill(getpid(), SIGKILL);
}

}  // namespace
}  // namespace flashacl::acl
