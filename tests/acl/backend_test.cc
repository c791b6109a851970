// SPDX-License-Identifier: Apache-2.0
// Whatever the backend, the runtime reaches its memory through it alone:
// planning, launching, copies and fills work where the host cannot touch what
// aclrtMalloc returns.
#include "acl/backend.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <algorithm>
#include <memory>
#include <string>
#include <vector>

#include "backends.h"
#include "base/random.h"
#include "plan/implementation.h"
#include "tests/testing/child.h"
#include "tests/testing/device_bytes.h"
#include "tests/testing/locked_backend.h"
#include "tests/testing/operator_call.h"
#include "tests/testing/runtime.h"

namespace flashacl::testing {
namespace {

// The runtime's devices are of this backend for the length of a scope, and
// device 0 is open.
class ScopedBackend {
 public:
  explicit ScopedBackend(const Backend& backend) {
    Message();
    acl::UseBackend(&backend);
    EXPECT_TRUE(Succeeds(aclrtSetDevice(0)));
  }
  ~ScopedBackend() {
    EXPECT_TRUE(Succeeds(aclrtResetDeviceForce(0)));
    acl::UseBackend(nullptr);
  }
  ScopedBackend(const ScopedBackend&) = delete;
  ScopedBackend& operator=(const ScopedBackend&) = delete;
};

// Whether the host may read there, which the system says without a signal.
bool HostReads(const void* at) {
  int ends[2];
  EXPECT_EQ(pipe(ends), 0);
  const bool read = write(ends[1], at, 1) == 1;
  close(ends[0]);
  close(ends[1]);
  return read;
}

// What messages say after the process and the time.
std::string Said() {
  const std::string message = Message();
  return message.substr(std::min(message.find('('), message.size()));
}

struct Outcome {
  int planned = 0, launched = 0, synchronized = 0;
  std::string message;
  std::vector<std::vector<uint8_t>> tensors;

  bool operator==(const Outcome&) const = default;
};

// Both phases on a stream, and all tensors afterwards.
Outcome RunOn(const Backend& backend, OperatorCall call) {
  const ScopedBackend scope(backend);
  const ScopedStream stream;
  Random random(1);
  std::vector<std::unique_ptr<DeviceBytes>> memory;
  for (TensorArgument& tensor : call.tensors) {
    const std::vector<uint8_t> contents = Contents(tensor, random);
    memory.push_back(std::make_unique<DeviceBytes>(contents.size()));
    memory.back()->Upload(contents);
    tensor.data = memory.back()->data();
  }
  Outcome outcome;
  uint64_t size = 0;
  aclOpExecutor* executor = nullptr;
  outcome.planned = call.Prepare(&size, &executor);
  if (outcome.planned != 0) {
    outcome.message = Said();
    return outcome;
  }
  const DeviceBytes workspace(size);
  outcome.launched = call.Launch(workspace.data(), size, executor, stream);
  outcome.synchronized = aclrtSynchronizeStream(stream);
  outcome.message = Said();
  for (size_t n = 0; n < memory.size(); ++n) {
    outcome.tensors.push_back(memory[n]->Download(
        static_cast<size_t>(call.tensors[n].ExtentBytes())));
  }
  return outcome;
}

void ExpectSameOutcomes(const Backend& one, const Backend& other, bool works) {
  for (const OperatorCall& call : AllOperatorCalls()) {
    SCOPED_TRACE(call.name);
    const Outcome expected = RunOn(one, call);
    const Outcome got = RunOn(other, call);
    EXPECT_EQ(got.planned, expected.planned);
    EXPECT_EQ(got.synchronized, expected.synchronized);
    EXPECT_EQ(got.message, expected.message);
    EXPECT_TRUE(got == expected);
    EXPECT_TRUE(!works || expected.message.empty()) << expected.message;
  }
}

TEST(Backend, OfTheRuntimeIsTheCpuByDefault) {
  EXPECT_EQ(&acl::TheBackend(), &CpuBackend());
}

TEST(Backend, RunsEveryOperatorInMemoryTheHostCannotTouch) {
  ExpectSameOutcomes(CpuBackend(), LockedBackend(), /*works=*/true);
}

TEST(Backend, RunsEveryOperatorOnAQueueThatIsDoneLater) {
  Backend reference = CpuBackend();
  reference.implementations = reference.implementations.last(1);
  ExpectSameOutcomes(reference, LateBackend(), /*works=*/true);
}

// A child, which Backend.ChecksContentsInMemoryTheHostCannotTouch starts: what
// strict mode finds in contents is the same.
TEST(BackendChild, DISABLED_Strict) {
  ExpectSameOutcomes(CpuBackend(), LockedBackend(), /*works=*/false);
}

TEST(Backend, ChecksContentsInMemoryTheHostCannotTouch) {
  const ChildResult child =
      RunChild("BackendChild.DISABLED_Strict", {{"FLASHACL_STRICT", "1"}});
  EXPECT_TRUE(child.ok()) << child.output;
}

// Copies and fills, now and on a stream.
TEST(Backend, CopiesAndFillsMemoryTheHostCannotTouch) {
  const ScopedBackend scope(LockedBackend());
  const ScopedStream stream;
  constexpr size_t kBytes = 4096;
  const DeviceBytes one(kBytes);
  const DeviceBytes other(kBytes);
  EXPECT_FALSE(HostReads(one.data()));
  EXPECT_TRUE(Succeeds(aclrtMemset(one.data(), kBytes, 5, kBytes)));
  EXPECT_TRUE(
      Succeeds(aclrtMemcpyAsync(other.data(), kBytes, one.data(), kBytes,
                                ACL_MEMCPY_DEVICE_TO_DEVICE, stream)));
  EXPECT_TRUE(Succeeds(aclrtMemsetAsync(one.data(), kBytes, 6, 8, stream)));
  EXPECT_TRUE(
      Succeeds(aclrtMemsetD32Async(one.data(), kBytes, 0x07070707, 1, stream)));
  std::vector<uint8_t> rows(16);
  EXPECT_TRUE(Succeeds(aclrtMemcpy2dAsync(rows.data(), 8, one.data(), 16, 8, 2,
                                          ACL_MEMCPY_DEVICE_TO_HOST, stream)));
  EXPECT_TRUE(Succeeds(aclrtSynchronizeStream(stream)));
  EXPECT_EQ(rows, (std::vector<uint8_t>{7, 7, 7, 7, 6, 6, 6, 6,  //
                                        5, 5, 5, 5, 5, 5, 5, 5}));
  EXPECT_EQ(other.Download(kBytes), std::vector<uint8_t>(kBytes, 5));
  EXPECT_FALSE(HostReads(other.data()));
}

// Pinned memory is the host's.
TEST(Backend, LeavesPinnedMemoryToTheHost) {
  const ScopedBackend scope(LockedBackend());
  void* pinned = nullptr;
  ASSERT_TRUE(Succeeds(aclrtMallocHost(&pinned, 64)));
  EXPECT_TRUE(HostReads(pinned));
  EXPECT_TRUE(Succeeds(aclrtFreeHost(pinned)));
}

}  // namespace
}  // namespace flashacl::testing
