// SPDX-License-Identifier: Apache-2.0
#include "acl/share/shared_object.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cerrno>
#include <memory>
#include <string>
#include <vector>

#include "tests/testing/fork.h"
#include "tests/testing/shared_files.h"

namespace flashacl::acl {
namespace {

using ::flashacl::testing::Forked;
using ::flashacl::testing::ForkedAndKilled;
using ::flashacl::testing::SharedFiles;

ShareOpening Open(uint64_t number, std::shared_ptr<SharedObject>* object,
                  ShareKind kind = ShareKind::kNotify) {
  return SharedObject::Open(number, kind, object);
}

ShareOpening Try(uint64_t number, ShareKind kind = ShareKind::kNotify) {
  std::shared_ptr<SharedObject> object;
  return Open(number, &object, kind);
}

TEST(SharedObject, NamesAreSixteenDigits) {
  EXPECT_EQ(ShareName(0x1a2b), "flashacl-0000000000001a2b");
  uint64_t number = 0;
  EXPECT_TRUE(ParseShareName("flashacl-0000000000001a2b", &number));
  EXPECT_EQ(number, 0x1a2bu);
  for (const char* wrong :
       {"", "flashacl-", "flashacl-000000000001a2b", "x0000000000001a2b",
        "flashacl-0000000000001a2b0", "flashacl-000000000000xa2b",
        "flashacl--000000000001a2b"}) {
    EXPECT_FALSE(ParseShareName(wrong, &number)) << wrong;
  }
}

TEST(SharedObject, WordsAreTheSameForAllUntilTheNameIsGone) {
  auto made = SharedObject::Create(ShareKind::kNotify);
  ASSERT_NE(made, nullptr);
  const uint64_t number = made->number();
  EXPECT_EQ(SharedFiles().count(ShareName(number)), 1u);
  EXPECT_EQ(SharedObject::FindOwn(number), made);
  struct stat facts {};
  ASSERT_EQ(stat(("/dev/shm/" + ShareName(number)).c_str(), &facts), 0);
  EXPECT_EQ(facts.st_mode & 0777, 0600u);

  std::shared_ptr<SharedObject> opened;
  ASSERT_EQ(Open(number, &opened), ShareOpening::kOpened);
  EXPECT_EQ(made->words<int>(), 0);
  made->words<int>() = 7;
  EXPECT_EQ(opened->words<int>(), 7);
  EXPECT_EQ(Try(number, ShareKind::kEvent), ShareOpening::kUnknown);
  EXPECT_EQ(Try(number + 1), ShareOpening::kUnknown);

  opened->Unlink();  // it is not this one's
  EXPECT_EQ(Try(number), ShareOpening::kOpened);
  made->Unlink();
  EXPECT_EQ(Try(number), ShareOpening::kUnknown);
  EXPECT_EQ(SharedFiles().count(ShareName(number)), 0u);
  EXPECT_EQ(SharedObject::FindOwn(number), nullptr);
  opened->words<int>() = 8;
  EXPECT_EQ(made->words<int>(), 8);
}

TEST(SharedObject, ChildrenNeedToBeListed) {
  const auto made = SharedObject::Create(ShareKind::kNotify);
  ASSERT_NE(made, nullptr);
  const uint64_t number = made->number();
  EXPECT_TRUE(
      Forked([&] { EXPECT_EQ(Try(number), ShareOpening::kNotListed); }));
  int ends[2];
  ASSERT_EQ(pipe(ends), 0);
  const pid_t child = testing::Fork();
  if (child == 0) {
    char go = 0;
    const bool told = read(ends[0], &go, 1) == 1;
    _exit(told && Try(number) == ShareOpening::kOpened ? 0 : 1);
  }
  const std::vector<int32_t> pids = {child};
  for (size_t n = 0; n <= kShareListed; ++n) {
    EXPECT_TRUE(made->Allow(pids));  // once is enough
  }
  EXPECT_EQ(write(ends[1], "x", 1), 1);
  int status = -1;
  waitpid(child, &status, 0);
  EXPECT_EQ(status, 0);
  close(ends[0]);
  close(ends[1]);
  std::vector<int32_t> many;
  for (int32_t pid = 1; pid <= 65; ++pid) many.push_back(pid);
  EXPECT_FALSE(made->Allow(many));
  made->AllowAll();
  EXPECT_TRUE(Forked([&] { EXPECT_EQ(Try(number), ShareOpening::kOpened); }));
}

// A child that ends leaves its parent's names.
TEST(SharedObject, AForkedChildUnlinksNothingOfItsParent) {
  auto made = SharedObject::Create(ShareKind::kNotify);
  const uint64_t number = made->number();
  EXPECT_TRUE(Forked([&] {
    EXPECT_EQ(SharedObject::FindOwn(number), nullptr);
    made->Unlink();
    made = nullptr;
  }));
  EXPECT_EQ(Try(number), ShareOpening::kOpened);
}

TEST(SharedObject, LeftoversOfTheDeadAreRemovedAndNoOthers) {
  const auto own = SharedObject::Create(ShareKind::kNotify);
  const pid_t dead = ForkedAndKilled(
      [] { static auto left = SharedObject::Create(ShareKind::kNotify); });
  EXPECT_LE(SharedFiles(dead).size(), 1u);  // 0: another program was faster
  RemoveShareLeftovers();
  EXPECT_EQ(SharedFiles(dead).size(), 0u);
  EXPECT_EQ(SharedFiles().count(ShareName(own->number())), 1u);
  EXPECT_EQ(Try(own->number()), ShareOpening::kOpened);
}

// One that is only begun has no owner yet: it stays while it is young.
TEST(SharedObject, WhatIsNotMadeYetStays) {
  const std::string path = "/dev/shm/" + ShareName(0x77);
  const int file = open(path.c_str(), O_CREAT | O_RDWR, 0600);
  ASSERT_GE(file, 0);
  close(file);
  RemoveShareLeftovers();
  EXPECT_EQ(Try(0x77), ShareOpening::kUnknown);
  EXPECT_EQ(unlink(path.c_str()), 0);
}

TEST(SharedObject, AnOwnerThatWasKilledSharesNothing) {
  int ends[2];
  ASSERT_EQ(pipe(ends), 0);
  ForkedAndKilled([&] {
    static auto left = SharedObject::Create(ShareKind::kNotify);
    left->AllowAll();
    const uint64_t number = left->number();
    EXPECT_EQ(write(ends[1], &number, sizeof number), ssize_t{sizeof number});
  });
  uint64_t number = 0;
  ASSERT_EQ(read(ends[0], &number, sizeof number), ssize_t{sizeof number});
  close(ends[0]);
  close(ends[1]);
  EXPECT_EQ(Try(number), ShareOpening::kUnknown);
  RemoveShareLeftovers();
}

// A number of another namespace is not that of the process that has it here.
TEST(SharedObject, ProcessesOfOtherNamespacesAreNotTakenForOnesOfThis) {
  const int file = memfd_create("test", MFD_CLOEXEC);
  ASSERT_EQ(ftruncate(file, 4096), 0);
  const auto made =
      SharedObject::Create(ShareKind::kMemory, {file, 0, 0, 4096, 4096});
  ASSERT_NE(made, nullptr);
  const int opened = made->OpenFile();
  EXPECT_GE(opened, 0);
  close(opened);
  made->page().owner.space += 1;
  EXPECT_EQ(made->OpenFile(), -1);
  const int32_t self = getpid();
  EXPECT_TRUE(made->Allow({&self, 1}));
  EXPECT_EQ(Try(made->number(), ShareKind::kMemory), ShareOpening::kNotListed);
  made->AllowAll();
  EXPECT_EQ(Try(made->number(), ShareKind::kMemory), ShareOpening::kOpened);
  made->page().owner.space -= 1;
  close(file);
}

// qemu-user hands over no locks of the dead.
bool SystemFreesLocksOfTheDead() {
  void* head = nullptr;
  size_t size = 0;
  return syscall(SYS_get_robust_list, 0, &head, &size) == 0 || errno != ENOSYS;
}

TEST(SharedObject, IsAbandonedWhenAllOthersDied) {
  if (!SystemFreesLocksOfTheDead()) {
    GTEST_SKIP() << "this system frees no locks of the dead";
  }
  const auto made = SharedObject::Create(ShareKind::kNotify);
  made->AllowAll();
  EXPECT_FALSE(made->IsAbandoned());
  EXPECT_TRUE(Forked([&] { Try(made->number()); }));  // and ended its use
  EXPECT_FALSE(made->IsAbandoned());
  ForkedAndKilled([&] {
    static std::shared_ptr<SharedObject> kept;
    EXPECT_EQ(Open(made->number(), &kept), ShareOpening::kOpened);
    // Killed with the lock held, which the next one gets none the less.
    static const ShareLock lock(kept->page());
  });
  EXPECT_TRUE(made->IsAbandoned());
}

TEST(SharedObject, HasRoomForSoManyUses) {
  const auto made = SharedObject::Create(ShareKind::kNotify);
  std::vector<std::shared_ptr<SharedObject>> opened(kShareUsers);
  for (size_t n = 1; n < kShareUsers; ++n) {
    ASSERT_EQ(Open(made->number(), &opened[n]), ShareOpening::kOpened);
  }
  EXPECT_EQ(Try(made->number()), ShareOpening::kFull);
  opened.pop_back();
  EXPECT_EQ(Try(made->number()), ShareOpening::kOpened);
}

TEST(SharedObject, HasRoomForSoManyUsesOfTheLiving) {
  const auto made = SharedObject::Create(ShareKind::kNotify);
  made->AllowAll();
  ForkedAndKilled([&] {
    static std::shared_ptr<SharedObject> kept[kShareUsers];
    for (size_t n = 1; n < kShareUsers; ++n) {
      EXPECT_EQ(Open(made->number(), &kept[n]), ShareOpening::kOpened);
    }
    EXPECT_EQ(Open(made->number(), &kept[0]), ShareOpening::kFull);
  });
  EXPECT_EQ(Try(made->number()), ShareOpening::kOpened);
}

}  // namespace
}  // namespace flashacl::acl
