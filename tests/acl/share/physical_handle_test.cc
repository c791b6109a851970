// SPDX-License-Identifier: Apache-2.0
// Physical memory in several processes.
#include <gtest/gtest.h>

#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <string>

#include "acl/acl.h"
#include "acl/memory.h"
#include "acl/physical_memory.h"
#include "tests/testing/child.h"
#include "tests/testing/runtime.h"
#include "tests/testing/shared_files.h"

namespace flashacl::acl {
namespace {

using ::flashacl::testing::FailsWith;
using ::flashacl::testing::Forked;
using ::flashacl::testing::RunChild;
using ::flashacl::testing::RuntimeTest;
using ::flashacl::testing::SharedFiles;
using ::flashacl::testing::Succeeds;

constexpr size_t kBytes = kHugePageBytes;

// Memory at an address of its own.
class Mapped {
 public:
  explicit Mapped(aclrtDrvMemHandle handle) {
    EXPECT_TRUE(Succeeds(aclrtReserveMemAddress(&at_, kBytes, 0, nullptr, 0)));
    EXPECT_TRUE(Succeeds(aclrtMapMem(at_, kBytes, 0, handle, 0)));
    aclrtMemAccessDesc access{};
    access.flags = ACL_RT_MEM_ACCESS_FLAGS_READWRITE;
    EXPECT_TRUE(Succeeds(aclrtMemSetAccess(at_, kBytes, &access, 1)));
  }
  ~Mapped() {
    EXPECT_TRUE(Succeeds(aclrtUnmapMem(at_)));
    EXPECT_TRUE(Succeeds(aclrtReleaseMemAddress(at_)));
  }
  Mapped(const Mapped&) = delete;
  Mapped& operator=(const Mapped&) = delete;

  void Write(const char* text) {
    EXPECT_TRUE(Succeeds(aclrtMemcpy(at_, 16, text, std::strlen(text) + 1,
                                     ACL_MEMCPY_HOST_TO_DEVICE)));
  }
  std::string Read() const {
    char text[16] = "";
    EXPECT_TRUE(
        Succeeds(aclrtMemcpy(text, 16, at_, 16, ACL_MEMCPY_DEVICE_TO_HOST)));
    return text;
  }
  uint32_t Device() const {
    aclrtPtrAttributes attributes{};
    EXPECT_TRUE(Succeeds(aclrtPointerGetAttributes(at_, &attributes)));
    return attributes.location.id;
  }

 private:
  void* at_ = nullptr;
};

class PhysicalHandle : public RuntimeTest {
 protected:
  void SetUp() override {
    RuntimeTest::SetUp();
    aclrtPhysicalMemProp prop = {};
    prop.location.type = ACL_MEM_LOCATION_TYPE_DEVICE;
    ASSERT_TRUE(Succeeds(aclrtMallocPhysical(&memory_, kBytes, &prop, 0)));
  }
  void TearDown() override {
    if (memory_ != nullptr) {
      EXPECT_TRUE(Succeeds(aclrtFreePhysical(memory_)));
    }
    RuntimeTest::TearDown();
  }

  uint64_t Export(uint64_t flags) {
    uint64_t number = 0;
    EXPECT_TRUE(Succeeds(aclrtMemExportToShareableHandle(
        memory_, ACL_MEM_HANDLE_TYPE_NONE, flags, &number)));
    return number;
  }

  aclrtDrvMemHandle memory_ = nullptr;
};

TEST_F(PhysicalHandle, EachWrongArgumentIsToldApart) {
  uint64_t number = 0;
  aclrtDrvMemHandle handle = nullptr;
  int32_t pid = 1;
  const auto get = [&](aclrtDrvMemHandle from, aclrtMemHandleType type,
                       uint64_t flags) {
    return aclrtMemExportToShareableHandle(from, type, flags, &number);
  };
  constexpr auto kNone = ACL_MEM_HANDLE_TYPE_NONE;
  EXPECT_TRUE(FailsWith(100000, get(nullptr, kNone, 0), "handle"));
  EXPECT_TRUE(FailsWith(
      100000, aclrtMemExportToShareableHandle(memory_, kNone, 0, nullptr)));
  EXPECT_TRUE(FailsWith(100000, get(memory_, ACL_MEM_HANDLE_TYPE_POSIX, 0),
                        "handleType"));
  EXPECT_TRUE(FailsWith(107000, get(memory_, kNone, 2), "flags"));
  EXPECT_TRUE(FailsWith(107000, get(&pid, kNone, 0), "physical memory"));
  EXPECT_TRUE(
      FailsWith(100000, aclrtMemSetPidToShareableHandle(7, nullptr, 1)));
  EXPECT_TRUE(FailsWith(100000, aclrtMemSetPidToShareableHandle(7, &pid, 0)));
  EXPECT_TRUE(FailsWith(107000, aclrtMemSetPidToShareableHandle(7, &pid, 1),
                        "this process"));
  const auto notify = SharedObject::Create(ShareKind::kNotify);
  EXPECT_TRUE(FailsWith(
      107000, aclrtMemSetPidToShareableHandle(notify->number(), &pid, 1),
      "memory"));
  EXPECT_TRUE(
      FailsWith(100000, aclrtMemImportFromShareableHandle(7, 0, nullptr)));
  EXPECT_TRUE(
      FailsWith(107001, aclrtMemImportFromShareableHandle(7, 99, &handle)));
  EXPECT_TRUE(FailsWith(507899,
                        aclrtMemImportFromShareableHandle(7, 0, &handle),
                        "shareableHandle"));
  EXPECT_EQ(number, 0u);
  EXPECT_EQ(handle, nullptr);
}

// Memory stays as long as one handle or mapping of it does.
TEST_F(PhysicalHandle, IsTheSameMemoryUntilTheLastIsGone) {
  const uint64_t number = Export(0);
  EXPECT_EQ(Export(0), number);
  aclrtDrvMemHandle other = nullptr;
  ASSERT_TRUE(Succeeds(aclrtMemImportFromShareableHandle(number, 0, &other)));
  EXPECT_NE(other, memory_);
  {
    Mapped one(memory_);
    Mapped two(other);
    one.Write("hello");
    EXPECT_EQ(two.Read(), "hello");
  }
  EXPECT_TRUE(Succeeds(aclrtFreePhysical(memory_)));
  memory_ = nullptr;
  EXPECT_EQ(Mapped(other).Read(), "hello");
  EXPECT_TRUE(Succeeds(aclrtFreePhysical(other)));
  EXPECT_TRUE(
      FailsWith(507899, aclrtMemImportFromShareableHandle(number, 0, &other)));
}

TEST_F(PhysicalHandle, AnotherProgramReadsAndWrites) {
  const auto before = SharedFiles();
  const uint64_t number = Export(ACL_RT_VMM_EXPORT_FLAG_DISABLE_PID_VALIDATION);
  Mapped mine(memory_);
  mine.Write("from here");
  const auto child = RunChild("PhysicalHandleChild.DISABLED_ReadsAndWrites",
                              {{"FLASHACL_TEST_KEY", std::to_string(number)},
                               {"FLASHACL_DEVICES", "2"}});
  EXPECT_TRUE(child.ok()) << child.output;
  EXPECT_EQ(mine.Read(), "from there");
  EXPECT_EQ(SharedFiles().size(), before.size() + 1);
}

// A child, which PhysicalHandle.AnotherProgramReadsAndWrites starts.
TEST(PhysicalHandleChild, DISABLED_ReadsAndWrites) {
  const uint64_t number =
      std::strtoull(std::getenv("FLASHACL_TEST_KEY"), nullptr, 10);
  ASSERT_TRUE(Succeeds(aclrtSetDevice(0)));
  size_t free_before = 0, free_after = 0, total = 0;
  EXPECT_TRUE(Succeeds(aclrtGetMemInfo(ACL_HBM_MEM, &free_before, &total)));
  aclrtDrvMemHandle handle = nullptr;
  // As memory of a device that its exporter does not have.
  ASSERT_TRUE(Succeeds(aclrtMemImportFromShareableHandle(number, 1, &handle)));
  {
    Mapped here(handle);
    EXPECT_EQ(here.Device(), 1u);
    EXPECT_EQ(here.Read(), "from here");
    here.Write("from there");
    EXPECT_TRUE(Succeeds(aclrtFreePhysical(handle)));
    EXPECT_EQ(here.Read(), "from there");
  }
  // Its exporter took it from the device.
  EXPECT_TRUE(Succeeds(aclrtGetMemInfo(ACL_HBM_MEM, &free_after, &total)));
  EXPECT_EQ(free_after, free_before);
}

TEST_F(PhysicalHandle, OthersAreRefusedUntilTheyAreListed) {
  const uint64_t number = Export(0);
  const auto tries = [&] {
    aclrtDrvMemHandle handle = nullptr;
    return aclrtMemImportFromShareableHandle(number, 0, &handle);
  };
  EXPECT_TRUE(Forked(
      [&] { EXPECT_TRUE(FailsWith(507899, tries(), "list of processes")); }));
  EXPECT_TRUE(Forked([&] {
    // Handles are the parent's, and lists are the exporter's.
    uint64_t again = 0;
    EXPECT_TRUE(FailsWith(107000,
                          aclrtMemExportToShareableHandle(
                              memory_, ACL_MEM_HANDLE_TYPE_NONE, 0, &again),
                          "in the child"));
    int32_t pid = getpid();
    EXPECT_TRUE(
        FailsWith(107000, aclrtMemSetPidToShareableHandle(number, &pid, 1)));
  }));
  Export(ACL_RT_VMM_EXPORT_FLAG_DISABLE_PID_VALIDATION);
  EXPECT_TRUE(Forked([&] { EXPECT_TRUE(Succeeds(tries())); }));
}

}  // namespace
}  // namespace flashacl::acl
