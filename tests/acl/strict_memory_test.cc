// SPDX-License-Identifier: Apache-2.0
// What strict mode finds in memory, one kind to a test, as msSanitizer calls
// them: docs/strict.md is a table of these. Each is a process of its own, for
// the environment is read once.
#include <gtest/gtest.h>

#include <cmath>
#include <cstddef>
#include <cstdio>
#include <cstring>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "acl/call_site.h"
#include "acl/closed_memory.h"
#include "acl/device_memory_fault.h"
#include "acl/finding.h"
#include "acl/initcheck.h"
#include "acl/memcheck.h"
#include "acl/memory.h"
#include "acl/quarantine.h"
#include "acl/racecheck.h"
#include "acl/red_zone.h"
#include "aclnnop/aclnn_add.h"
#include "aclnnop/aclnn_mul.h"
#include "base/str.h"
#include "tests/testing/child.h"
#include "tests/testing/operator_call.h"
#include "tests/testing/runtime.h"

namespace flashacl::testing {
namespace {

constexpr aclnnStatus kRefused = 161002;
constexpr int kFound = 507015;
constexpr size_t kBytes = 256;

void* Malloc(size_t bytes) {
  void* data = nullptr;
  EXPECT_TRUE(Succeeds(aclrtMalloc(&data, bytes, ACL_MEM_MALLOC_NORMAL_ONLY)));
  return data;
}

void* Zeros(size_t bytes) {
  void* const data = Malloc(bytes);
  EXPECT_TRUE(Succeeds(aclrtMemset(data, bytes, 0, bytes)));
  return data;
}

// Writes `bytes`, `offset` from where a block begins, where the runtime does
// not see it, as a kernel that runs past its operand would.
void WriteUnseen(void* block, std::ptrdiff_t offset, size_t bytes) {
  const void* const used[] = {block};
  const acl::BlockUse open(used);
  std::memset(static_cast<char*>(block) + offset, 7, bytes);
}

// What is asked for, of 64 floats each: out = self + other.
struct Sum {
  void* self = Zeros(kBytes);
  void* other = Zeros(kBytes);
  void* out = Zeros(kBytes);
  aclrtStream stream = nullptr;

  aclOpExecutor* Plan() const {
    const auto tensor = [](void* data) {
      const int64_t dims[] = {64};
      return aclCreateTensor(dims, 1, ACL_FLOAT, nullptr, 0, ACL_FORMAT_ND,
                             dims, 1, data);
    };
    aclTensor* const tensors[] = {tensor(self), tensor(other), tensor(out)};
    float one = 1;
    aclScalar* const alpha = aclCreateScalar(&one, ACL_FLOAT);
    uint64_t size = 0;
    aclOpExecutor* executor = nullptr;
    EXPECT_TRUE(Succeeds(aclnnAddGetWorkspaceSize(
        tensors[0], tensors[1], alpha, tensors[2], &size, &executor)));
    EXPECT_EQ(size, 0u);
    for (aclTensor* one_of : tensors) aclDestroyTensor(one_of);
    aclDestroyScalar(alpha);
    return executor;
  }
  aclnnStatus Run() const { return aclnnAdd(nullptr, 0, Plan(), stream); }
};

int Synchronize() { return aclrtSynchronizeDevice(); }

// A test that runs in a child under FLASHACL_STRICT=1 and succeeds there.
#define STRICT_TEST(name)                                                   \
  TEST(StrictMemoryChild, DISABLED_##name) {                                \
    ASSERT_TRUE(Succeeds(aclrtSetDevice(0)));                               \
    StrictMemory##name();                                                   \
  }                                                                         \
  TEST(StrictMemory, name) {                                                \
    const ChildResult child = RunChild("StrictMemoryChild.DISABLED_" #name, \
                                       {{"FLASHACL_STRICT", "1"}});         \
    EXPECT_TRUE(child.ok()) << child.output;                                \
  }

void StrictMemoryNewBlocksAreNan() {
  float number = 0;
  void* const data = Malloc(kBytes);
  EXPECT_TRUE(
      Succeeds(aclrtMemcpy(&number, 4, data, 4, ACL_MEMCPY_DEVICE_TO_HOST)));
  EXPECT_TRUE(std::isnan(number));
  EXPECT_TRUE(Succeeds(aclrtFree(data)));
}
STRICT_TEST(NewBlocksAreNan)

void StrictMemoryOutOfBoundsByOneByte() {
  Sum sum;
  sum.out = Malloc(kBytes - 1);
  EXPECT_TRUE(FailsWith(kRefused, sum.Run(),
                        Str("out: needs 256 bytes at {}, its block of 255 "
                            "bytes ends before",
                            sum.out)));
}
STRICT_TEST(OutOfBoundsByOneByte)

void StrictMemoryHostMemoryIsNoOperand() {
  std::vector<float> host(64);
  Sum sum;
  sum.self = host.data();
  EXPECT_TRUE(FailsWith(kRefused, sum.Run(), "self: needs 256 bytes at "));
  void* pinned = nullptr;
  ASSERT_TRUE(Succeeds(aclrtMallocHost(&pinned, kBytes)));
  sum.self = pinned;
  EXPECT_TRUE(FailsWith(kRefused, sum.Run(), "memory of aclrtMallocHost"));
  void* mapped = nullptr;
  ASSERT_TRUE(Succeeds(aclrtHostRegister(host.data(), kBytes,
                                         ACL_HOST_REGISTER_MAPPED, &mapped)));
  sum.self = mapped;
  EXPECT_TRUE(Succeeds(sum.Run()));
  EXPECT_TRUE(Succeeds(Synchronize()));
  sum.self = host.data() + 1;
  EXPECT_TRUE(FailsWith(kRefused, sum.Run(), "not registered"));
}
STRICT_TEST(HostMemoryIsNoOperand)

void StrictMemoryUseAfterFreeIsNamed() {
  Sum sum;
  EXPECT_TRUE(Succeeds(aclrtFree(sum.other)));
  EXPECT_TRUE(FailsWith(
      kRefused, sum.Run(),
      Str("other: needs 256 bytes at {0}, in the block of 256 bytes at {0} "
          "that aclrtFree",
          sum.other)));
  EXPECT_TRUE(
      FailsWith(107000, aclrtFree(sum.other), "in the block of 256 bytes"));
  // Its memory is nobody else's yet.
  EXPECT_NE(Malloc(kBytes), sum.other);
  acl::FreedBlock freed;
  ASSERT_TRUE(acl::FindFreed(sum.other, &freed));
  EXPECT_EQ(freed.block.size, kBytes);
  EXPECT_EQ(freed.freed.function, "aclrtFree");
  EXPECT_EQ(freed.block.made.function, "aclrtMalloc");
  EXPECT_FALSE(acl::FindFreed(sum.self, &freed));
}
STRICT_TEST(UseAfterFreeIsNamed)

void StrictMemoryWritesAroundABlockAreFoundAtFree() {
  auto* const data = static_cast<char*>(Zeros(kBytes));
  WriteUnseen(data, kBytes, 3);
  EXPECT_TRUE(
      FailsWith(107000, aclrtFree(data), "around the block of 256 bytes at "));
  auto* const other = static_cast<char*>(Zeros(kBytes));
  WriteUnseen(other, -8, 8);
  EXPECT_TRUE(FailsWith(107000, aclrtFree(other), "8 bytes before it begins"));
}
STRICT_TEST(WritesAroundABlockAreFoundAtFree)

void StrictMemoryWritesAroundABlockAreFoundAtSynchronize() {
  auto* const data = static_cast<char*>(Zeros(kBytes));
  EXPECT_TRUE(Succeeds(Synchronize()));
  ScopedStream stream;
  WriteUnseen(data, kBytes, 1);
  EXPECT_TRUE(
      FailsWith(kFound, aclrtSynchronizeStream(stream), "1 byte from "));
  EXPECT_TRUE(Succeeds(aclrtSynchronizeStream(stream)));  // told once
  EXPECT_TRUE(Succeeds(aclrtFree(data)));
}
STRICT_TEST(WritesAroundABlockAreFoundAtSynchronize)

void StrictMemoryOutputsLieApart() {
  Sum sum;
  sum.out = static_cast<char*>(sum.self) + 4;
  sum.self = Zeros(2 * kBytes);
  sum.out = static_cast<char*>(sum.self) + 4;
  EXPECT_TRUE(FailsWith(kRefused, sum.Run(), "overlap those of self"));
  sum.out = sum.self;  // element by element
  EXPECT_TRUE(Succeeds(sum.Run()));
  EXPECT_TRUE(Succeeds(Synchronize()));
}
STRICT_TEST(OutputsLieApart)

// Of the first operator the result lies where its query is.
void StrictMemoryAttentionIsNotInPlace() {
  OperatorCall call = AllOperatorCalls()[0];
  for (TensorArgument& tensor : call.tensors) {
    tensor.data = Zeros(static_cast<size_t>(tensor.ExtentBytes()) + 1);
  }
  call.tensors.back().data = call.tensors[0].data;
  uint64_t size = 0;
  aclOpExecutor* plan = nullptr;
  EXPECT_TRUE(Succeeds(call.Prepare(&size, &plan)));
  const auto status = call.Launch(Zeros(size + 1), size, plan, nullptr);
  EXPECT_TRUE(FailsWith(kRefused, status, "overlap those of query"));
}
STRICT_TEST(AttentionIsNotInPlace)

void StrictMemoryExecutorsAreOfTheirOperator() {
  const Sum sum;
  EXPECT_TRUE(FailsWith(kRefused, aclnnMul(nullptr, 0, sum.Plan(), nullptr),
                        "aclnnMul: the executor is one of aclnnAdd"));
}
STRICT_TEST(ExecutorsAreOfTheirOperator)

void StrictMemoryStreamsRace() {
  Sum first;
  Sum second;
  ScopedStream one, other;
  first.stream = one;
  second.stream = other;
  second.self = first.out;
  EXPECT_TRUE(Succeeds(first.Run()));
  EXPECT_TRUE(Succeeds(second.Run()));
  const std::string message = [&] {
    const int a = aclrtSynchronizeStream(one);
    const std::string said = Message();
    const int b = aclrtSynchronizeStream(other);
    EXPECT_TRUE(a == kFound || b == kFound);
    return said + Message();
  }();
  EXPECT_NE(message.find("race: aclnnAdd (task "), std::string::npos)
      << message;
  EXPECT_NE(message.find("reads self"), std::string::npos) << message;
  EXPECT_NE(message.find("writes out"), std::string::npos) << message;
}
STRICT_TEST(StreamsRace)

void StrictMemoryEventsAndWaitsOrder() {
  Sum first;
  Sum second;
  ScopedStream one, other;
  first.stream = one;
  second.stream = other;
  second.self = first.out;
  aclrtEvent event = nullptr;
  ASSERT_TRUE(Succeeds(aclrtCreateEvent(&event)));
  EXPECT_TRUE(Succeeds(first.Run()));
  EXPECT_TRUE(Succeeds(aclrtRecordEvent(event, one)));
  EXPECT_TRUE(Succeeds(aclrtStreamWaitEvent(other, event)));
  EXPECT_TRUE(Succeeds(second.Run()));
  EXPECT_TRUE(Succeeds(aclrtSynchronizeStream(other)));
  EXPECT_TRUE(Succeeds(first.Run()));  // what it overwrites was read
  EXPECT_TRUE(Succeeds(aclrtSynchronizeStream(one)));
  EXPECT_TRUE(Succeeds(second.Run()));
  EXPECT_TRUE(Succeeds(aclrtRecordEvent(event, other)));
  EXPECT_TRUE(Succeeds(aclrtSynchronizeEvent(event)));
  float number = 0;
  EXPECT_TRUE(Succeeds(
      aclrtMemcpy(&number, 4, second.out, 4, ACL_MEMCPY_DEVICE_TO_HOST)));
  EXPECT_TRUE(Succeeds(aclrtDestroyEvent(event)));
}
STRICT_TEST(EventsAndWaitsOrder)

void StrictMemoryCopiesOfTheProgramRace() {
  Sum sum;
  const ScopedStream stream;
  sum.stream = stream;
  EXPECT_TRUE(Succeeds(sum.Run()));
  float number = 0;
  const int copied =
      aclrtMemcpy(&number, 4, sum.out, 4, ACL_MEMCPY_DEVICE_TO_HOST);
  const int ran = aclrtSynchronizeStream(stream);
  EXPECT_TRUE((copied == kFound) != (ran == kFound));  // whoever came second
  EXPECT_NE(Message().find("aclrtMemcpy of the program"), std::string::npos);
}
STRICT_TEST(CopiesOfTheProgramRace)

TEST(StrictMemory, SaysOfWhatNobodyHasWritten) {
  const ChildResult child = RunChild("StrictMemoryChild.DISABLED_Uninitialised",
                                     {{"FLASHACL_STRICT", "1"}});
  EXPECT_TRUE(child.ok()) << child.output;
  const std::string words = "aclnnAdd: self has 256 bytes at ";
  const size_t first = child.output.find(words);
  EXPECT_NE(first, std::string::npos) << child.output;
  EXPECT_EQ(child.output.find(words, first + 1), std::string::npos)
      << "told twice: " << child.output;
  EXPECT_EQ(child.output.find("aclnnAdd: other"), std::string::npos);
  EXPECT_NE(child.output.find("that are read before anybody wrote them"),
            std::string::npos);
}

// A child, which StrictMemory.SaysOfWhatNobodyHasWritten starts.
TEST(StrictMemoryChild, DISABLED_Uninitialised) {
  ASSERT_TRUE(Succeeds(aclrtSetDevice(0)));
  Sum sum;
  sum.self = Malloc(kBytes);
  EXPECT_TRUE(Succeeds(aclrtMemset(sum.self, kBytes, 0, kBytes - 4)));
  EXPECT_TRUE(Succeeds(sum.Run()));
  EXPECT_TRUE(Succeeds(sum.Run()));
  EXPECT_TRUE(Succeeds(Synchronize()));
}

// What is read and written in part is told of by its first byte that is not.
void StrictMemoryBytesAreWrittenOneByOne() {
  auto* const data = static_cast<std::byte*>(Malloc(kBytes));
  for (const size_t at : {0, 3, 2, 1, 60}) {
    acl::NoteWritten(acl::ViewOf(data + at, 1));
  }
  const void* const used[] = {data};
  const acl::BlockUse open(used);  // as work that reads it would
  const auto heard = [&](size_t first, size_t bytes) {
    ::testing::internal::CaptureStderr();
    const acl::Access access{"x", acl::ViewOf(data + first, bytes), true};
    acl::CheckInitialised("op", {&access, 1});
    return ::testing::internal::GetCapturedStderr();
  };
  EXPECT_EQ(heard(0, 4), "");
  EXPECT_EQ(heard(60, 1), "");
  EXPECT_NE(heard(1, 4).find("byte 4 of the block of 256 bytes"),
            std::string::npos);
  EXPECT_EQ(heard(1, 4), "");  // once
  EXPECT_NE(heard(59, 2).find("byte 59 of"), std::string::npos);
  WriteUnseen(data, 100, 4);
  EXPECT_EQ(heard(100, 4), "");  // it holds something else than a new block
  acl::ForgetWritten(data, kBytes);
  EXPECT_NE(heard(0, 1), "");
}
STRICT_TEST(BytesAreWrittenOneByOne)

// What the host writes there is not seen: only what nobody can have written is
// told.
TEST(StrictMemory, FrameworksWriteUnseen) {
  const ChildResult child =
      RunChild("StrictMemoryChild.DISABLED_Framework",
               {{"FLASHACL_STRICT", "1"}, {"FLASHACL_HOST_ACCESS", "1"}});
  EXPECT_TRUE(child.ok()) << child.output;
}
TEST(StrictMemoryChild, DISABLED_Framework) {
  ASSERT_TRUE(Succeeds(aclrtSetDevice(0)));
  auto* const data = static_cast<std::byte*>(Malloc(kBytes));
  const auto heard = [&] {
    ::testing::internal::CaptureStderr();
    const acl::Access access{"x", acl::ViewOf(data, kBytes), true};
    acl::CheckInitialised("op", {&access, 1});
    return ::testing::internal::GetCapturedStderr();
  };
  data[200] = std::byte{1};  // others are -1, say
  EXPECT_EQ(heard(), "");
  data[200] = std::byte{0xFF};
  acl::NoteWritten(acl::ViewOf(data + 17, 1));
  EXPECT_EQ(heard(), "");
  acl::ForgetWritten(data, kBytes);
  EXPECT_NE(heard().find("byte 0 of the block of 256 bytes"),
            std::string::npos);
}

// A child, which StrictMemory.ExplainsFaults starts.
TEST(StrictMemoryChild, DISABLED_Fault) {
  ASSERT_TRUE(Succeeds(aclrtSetDevice(0)));
  auto* const data = static_cast<volatile char*>(Zeros(kBytes));
  EXPECT_TRUE(Succeeds(aclrtFree(const_cast<char*>(data))));
  data[17] = 1;
}

TEST(StrictMemory, ExplainsFaults) {
  const ChildResult child =
      RunChild("StrictMemoryChild.DISABLED_Fault", {{"FLASHACL_STRICT", "1"}});
  EXPECT_FALSE(child.ok());
  EXPECT_NE(child.output.find("17 bytes into the block of 256 bytes"),
            std::string::npos)
      << child.output;
}

// Children, which StrictMemory.ClosesDeviceMemoryToTheHost starts.
TEST(StrictMemoryChild, DISABLED_HostReads) {
  ASSERT_TRUE(Succeeds(aclrtSetDevice(0)));
  Sum sum;
  EXPECT_TRUE(Succeeds(sum.Run()));
  EXPECT_TRUE(Succeeds(Synchronize()));
  const char value = static_cast<const volatile char*>(sum.out)[17];
  std::printf("read %d\n", value);
}
TEST(StrictMemoryChild, DISABLED_HostWritesPastTheEnd) {
  ASSERT_TRUE(Succeeds(aclrtSetDevice(0)));
  static_cast<volatile char*>(Malloc(kBytes))[kBytes + 3] = 1;
}
TEST(StrictMemoryChild, DISABLED_HostCallbackWrites) {
  ASSERT_TRUE(Succeeds(aclrtSetDevice(0)));
  EXPECT_TRUE(Succeeds(aclrtLaunchHostFunc(
      nullptr, [](void* at) { *static_cast<volatile char*>(at) = 1; },
      Zeros(kBytes))));
  (void)Synchronize();
}

TEST(StrictMemory, ClosesDeviceMemoryToTheHost) {
  const std::pair<const char*, const char*> cases[] = {
      {"HostReads", ": 17 bytes into the block of 256 bytes at "},
      {"HostWritesPastTheEnd", ": 3 bytes after the end of the block of 256 "},
      {"HostCallbackWrites", ": 0 bytes into the block of 256 bytes at "}};
  for (const auto& [test, words] : cases) {
    SCOPED_TRACE(test);
    const std::string name = std::string("StrictMemoryChild.DISABLED_") + test;
    const ChildResult child = RunChild(name, {{"FLASHACL_STRICT", "1"}});
    EXPECT_FALSE(child.ok());  // by the signal, or as a sanitizer ends it
    EXPECT_NE(child.output.find("the host touches device memory"),
              std::string::npos)
        << child.output;
    EXPECT_NE(child.output.find(words), std::string::npos) << child.output;
    EXPECT_NE(child.output.find("that aclrtMalloc"), std::string::npos);
    // Programs whose own operators run there, and without strict mode.
    EXPECT_TRUE(RunChild(name, {{"FLASHACL_STRICT", "1"},
                                {"FLASHACL_HOST_ACCESS", "1"}})
                    .exit_code != -1);
    EXPECT_TRUE(RunChild(name, {}).ok());
  }
}

// Whatever uses a block at once opens it for all of them, and nobody closes it
// too early.
void StrictMemoryWorkOnManyStreamsFindsItOpen() {
  Sum sum;
  std::vector<std::thread> threads;
  for (int n = 0; n < 4; ++n) {
    threads.emplace_back([&] {
      ASSERT_TRUE(Succeeds(aclrtSetDevice(0)));
      ScopedStream stream;
      Sum own;
      own.stream = stream;
      own.self = sum.self;  // read by all
      own.other = sum.other;
      for (int run = 0; run < 8; ++run) {
        EXPECT_TRUE(Succeeds(own.Run()));
        float number = 1;
        EXPECT_TRUE(Succeeds(
            aclrtMemcpy(&number, 4, sum.self, 4, ACL_MEMCPY_DEVICE_TO_HOST)));
        EXPECT_EQ(number, 0);
      }
      EXPECT_TRUE(Succeeds(aclrtSynchronizeStream(stream)));
    });
  }
  for (std::thread& thread : threads) thread.join();
}
STRICT_TEST(WorkOnManyStreamsFindsItOpen)

// A child, which StrictMemory.EndsWithAnExitCode starts.
TEST(StrictMemoryChild, DISABLED_Finding) {
  ASSERT_TRUE(Succeeds(aclrtSetDevice(0)));
  Sum sum;
  sum.out = Malloc(kBytes / 2);
  (void)sum.Run();
}
TEST(StrictMemoryChild, DISABLED_NoFinding) {
  ASSERT_TRUE(Succeeds(aclrtSetDevice(0)));
  EXPECT_TRUE(Succeeds(Sum().Run()));
  EXPECT_TRUE(Succeeds(Synchronize()));
  EXPECT_NE(aclrtFree(nullptr), 0);  // an error, and no finding
}
TEST(StrictMemoryChild, DISABLED_Damage) {
  ASSERT_TRUE(Succeeds(aclrtSetDevice(0)));
  WriteUnseen(Malloc(kBytes), kBytes, 1);
}
TEST(StrictMemoryChild, DISABLED_Leak) {
  ASSERT_TRUE(Succeeds(aclInit(nullptr)));
  ASSERT_TRUE(Succeeds(aclrtSetDevice(0)));
  (void)Malloc(kBytes);
  EXPECT_TRUE(Succeeds(aclFinalize()));
}

TEST(StrictMemory, EndsWithAnExitCode) {
  const auto end = [](const std::string& test, const char* strict) {
    return RunChild("StrictMemoryChild.DISABLED_" + test,
                    {{"FLASHACL_STRICT", strict}});
  };
  const ChildResult found = end("Finding", "exit");
  EXPECT_EQ(found.exit_code, acl::kExitCode) << found.output;
  EXPECT_NE(found.output.find("FlashACL: 1 finding of strict mode"),
            std::string::npos)
      << found.output;
  EXPECT_EQ(end("NoFinding", "exit").exit_code, 0);
  EXPECT_EQ(end("Finding", "1").exit_code, 0);
  const ChildResult damage = end("Damage", "exit");
  EXPECT_EQ(damage.exit_code, acl::kExitCode) << damage.output;
  EXPECT_NE(damage.output.find("at exit: around the block of 256 bytes"),
            std::string::npos)
      << damage.output;
  const ChildResult leak = end("Leak", "exit");
  EXPECT_EQ(leak.exit_code, acl::kExitCode) << leak.output;
  EXPECT_NE(leak.output.find("256 bytes at "), std::string::npos)
      << leak.output;
  EXPECT_NE(leak.output.find("aclrtMalloc"), std::string::npos) << leak.output;
}

}  // namespace
}  // namespace flashacl::testing
