// SPDX-License-Identifier: Apache-2.0
// Bytes to a sequence of runtime calls on handles that may be live, stale, null
// or of another kind. Law: no crash, no hang, and a message with every failure.
#include <array>
#include <cstdint>
#include <cstdlib>

#include "acl/acl.h"
#include "aclnn/acl_meta.h"
#include "tests/fuzz/bytes.h"

namespace flashacl::testing {
namespace {

// A few handles of every kind, so that calls meet again.
struct World {
  std::array<aclrtContext, 3> contexts{};
  std::array<aclrtStream, 4> streams{};
  std::array<aclrtEvent, 4> events{};
  std::array<void*, 4> blocks{};
  std::array<void*, 2> hosts{};
  std::array<aclTensor*, 3> tensors{};
  std::array<aclIntArray*, 2> arrays{};
};

void Nothing(void* /*user*/) {}

template <typename T, size_t kCount>
T& Pick(Bytes& bytes, std::array<T, kCount>& of) {
  return of[bytes.Below(kCount)];
}

size_t Size(Bytes& bytes) {
  constexpr size_t kSizes[] = {0, 1, 31, 64, 4096, size_t{3} << 20};
  return kSizes[bytes.Below(6)];
}

int DeviceAndContext(Bytes& bytes, World& world) {
  switch (bytes.Below(7)) {
    case 0:
      return aclrtSetDevice(static_cast<int32_t>(bytes.Number()));
    case 1:
      return aclrtSetDevice(0);
    case 2:
      return aclrtResetDevice(0);
    case 3:
      return aclrtCreateContext(&Pick(bytes, world.contexts), 0);
    case 4:
      return aclrtDestroyContext(Pick(bytes, world.contexts));
    case 5:
      return aclrtSetCurrentContext(Pick(bytes, world.contexts));
    default:
      return aclrtSynchronizeDevice();
  }
}

int StreamCalls(Bytes& bytes, World& world) {
  aclrtStreamStatus status;
  switch (bytes.Below(8)) {
    case 0:
      return aclrtCreateStream(&Pick(bytes, world.streams));
    case 1:
      return aclrtCreateStreamWithConfig(&Pick(bytes, world.streams), 0,
                                         bytes.Next());
    case 2:
      return aclrtDestroyStream(Pick(bytes, world.streams));
    case 3:
      return aclrtDestroyStreamForce(Pick(bytes, world.streams));
    case 4:
      return aclrtSynchronizeStreamWithTimeout(Pick(bytes, world.streams), 50);
    case 5:
      return aclrtStreamQuery(Pick(bytes, world.streams), &status);
    case 6:
      return aclrtLaunchHostFunc(Pick(bytes, world.streams), Nothing, nullptr);
    default:
      return aclrtStreamAbort(Pick(bytes, world.streams));
  }
}

int EventCalls(Bytes& bytes, World& world) {
  float ms = 0;
  aclrtEventRecordedStatus status;
  switch (bytes.Below(8)) {
    case 0:
      return aclrtCreateEvent(&Pick(bytes, world.events));
    case 1:
      return aclrtCreateEventExWithFlag(&Pick(bytes, world.events),
                                        ACL_EVENT_SYNC);
    case 2:
      return aclrtDestroyEvent(Pick(bytes, world.events));
    case 3:
      return aclrtRecordEvent(Pick(bytes, world.events),
                              Pick(bytes, world.streams));
    case 4:
      return aclrtStreamWaitEvent(Pick(bytes, world.streams),
                                  Pick(bytes, world.events));
    case 5:
      return aclrtQueryEventStatus(Pick(bytes, world.events), &status);
    case 6:
      return aclrtSynchronizeEventWithTimeout(Pick(bytes, world.events), 50);
    default:
      return aclrtEventElapsedTime(&ms, Pick(bytes, world.events),
                                   Pick(bytes, world.events));
  }
}

// A pointer into memory that was freed cannot be told from a pointer to the
// host's, so only what is in a block is copied.
int CopyOut(const void* block, size_t size) {
  static std::array<char, size_t{3} << 20> host;
  aclrtPtrAttributes attributes = {};
  const bool in_block =
      aclrtPointerGetAttributes(block, &attributes) == 0 &&
      attributes.location.type == ACL_MEM_LOCATION_TYPE_DEVICE;
  if (!in_block) return 0;
  return aclrtMemcpy(host.data(), host.size(), block, size,
                     ACL_MEMCPY_DEVICE_TO_HOST);
}

int MemoryCalls(Bytes& bytes, World& world) {
  const size_t size = Size(bytes);
  aclrtPtrAttributes attributes;
  switch (bytes.Below(8)) {
    case 0:
      return aclrtMalloc(&Pick(bytes, world.blocks), size,
                         ACL_MEM_MALLOC_HUGE_FIRST);
    case 1:
      return aclrtFree(Pick(bytes, world.blocks));
    case 2:
      return aclrtMallocHost(&Pick(bytes, world.hosts), size);
    case 3:
      return aclrtFreeHost(Pick(bytes, world.hosts));
    case 4:
      return CopyOut(Pick(bytes, world.blocks), size);
    case 5:
      return aclrtPointerGetAttributes(Pick(bytes, world.blocks), &attributes);
    case 6:
      return aclrtMemset(nullptr, size, 0, size);
    default:
      return aclrtMemcpy(nullptr, size, Pick(bytes, world.blocks), size,
                         static_cast<aclrtMemcpyKind>(bytes.Below(8)));
  }
}

int ObjectCalls(Bytes& bytes, World& world) {
  const int64_t dims[] = {2, 3};
  int64_t offset = 0;
  uint64_t size = 0;
  switch (bytes.Below(6)) {
    case 0:
      Pick(bytes, world.tensors) =
          aclCreateTensor(dims, bytes.Below(3), ACL_FLOAT, nullptr, 0,
                          ACL_FORMAT_ND, dims, 2, nullptr);
      return 0;
    case 1:
      return aclDestroyTensor(Pick(bytes, world.tensors));
    case 2:
      return aclGetViewOffset(Pick(bytes, world.tensors), &offset);
    case 3:
      Pick(bytes, world.arrays) = aclCreateIntArray(dims, 2);
      return 0;
    case 4:
      return aclDestroyIntArray(Pick(bytes, world.arrays));
    default:
      // A tensor's handle where an array's is wanted.
      return aclGetIntArraySize(
          reinterpret_cast<aclIntArray*>(Pick(bytes, world.tensors)), &size);
  }
}

int Call(Bytes& bytes, World& world) {
  switch (bytes.Below(6)) {
    case 0:
      return DeviceAndContext(bytes, world);
    case 1:
      return StreamCalls(bytes, world);
    case 2:
      return EventCalls(bytes, world);
    case 3:
      return MemoryCalls(bytes, world);
    case 4:
      return ObjectCalls(bytes, world);
    default:
      return bytes.OneIn(8) ? aclFinalize() : aclInit(nullptr);
  }
}

// Leaves no live object behind, so that inputs do not depend on each other.
void TearDown(World& world) {
  for (const aclTensor* tensor : world.tensors) aclDestroyTensor(tensor);
  for (const aclIntArray* array : world.arrays) aclDestroyIntArray(array);
  for (const aclrtEvent event : world.events) aclrtDestroyEvent(event);
  for (const aclrtStream stream : world.streams) {
    aclrtDestroyStreamForce(stream);
  }
  for (const aclrtContext context : world.contexts) {
    aclrtDestroyContext(context);
  }
  for (void* const block : world.blocks) aclrtFree(block);
  for (void* const host : world.hosts) aclrtFreeHost(host);
  while (aclrtResetDevice(0) == 0) {
  }
  aclGetRecentErrMsg();
}

}  // namespace
}  // namespace flashacl::testing

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using flashacl::testing::Bytes;
  using flashacl::testing::World;
  Bytes bytes(data, size);
  World world;
  aclGetRecentErrMsg();
  for (int n = 0; n < 64 && !bytes.empty(); ++n) {
    const int status = flashacl::testing::Call(bytes, world);
    const bool said = aclGetRecentErrMsg() != nullptr;
    if (status != 0 && !said) std::abort();
  }
  flashacl::testing::TearDown(world);
  return 0;
}
