// SPDX-License-Identifier: Apache-2.0
// aclrtMalloc, aclrtMallocHost and their relatives.
#include <algorithm>

#include "acl/acl_rt.h"
#include "acl/context.h"
#include "acl/error.h"
#include "acl/finding.h"
#include "acl/memory.h"
#include "acl/quarantine.h"
#include "acl/raw_enum.h"
#include "acl/stream.h"
#include "base/str.h"

namespace flashacl::acl {
namespace {

// Sizes of blocks are multiples of this, and as much again lies after them.
constexpr size_t kPaddingBytes = 32;

size_t Padded(size_t size, size_t slack) {
  const size_t up = (size + kPaddingBytes - 1) / kPaddingBytes * kPaddingBytes;
  // No wrap around: a size nobody has stays one nobody has.
  return up < size || up + slack < up ? SIZE_MAX : up + slack;
}

// Huge pages save translations where a block fills at least one of them; a
// policy we do not know decides by size.
bool WantsHugePages(int policy, size_t size) {
  constexpr size_t kSmall = size_t{1} << 20;
  switch (policy) {
    case ACL_MEM_MALLOC_HUGE_FIRST:
    case ACL_MEM_MALLOC_HUGE_FIRST_P2P:
      return size > kSmall;
    case ACL_MEM_MALLOC_HUGE_ONLY:
    case ACL_MEM_MALLOC_HUGE_ONLY_P2P:
    case ACL_MEM_MALLOC_HUGE1G_ONLY:
    case ACL_MEM_MALLOC_HUGE1G_ONLY_P2P:
      return true;
    case ACL_MEM_MALLOC_NORMAL_ONLY:
    case ACL_MEM_MALLOC_NORMAL_ONLY_P2P:
      return false;
    default:
      return size >= kHugePageBytes;
  }
}

aclError Allocate(std::string_view function, std::string_view parameter,
                  void** pointer, BlockRequest request) {
  if (pointer == nullptr) return FailNull(function, parameter);
  if (request.size == 0) {
    return FailValue(ACL_ERROR_INVALID_PARAM, function, "size", "0",
                     "more than 0");
  }
  const bool device = request.kind == BlockKind::kDevice;
  if (device) {
    const std::shared_ptr<Context> context = CurrentContext();
    if (context == nullptr) return RequireContext(function);
    request.device_id = context->device();
  }
  request.function = function;
  std::byte* const base = AllocateBlock(request);
  if (base == nullptr) {
    return Fail(
        ACL_ERROR_RT_MEMORY_ALLOCATION, Title::kRuntime,
        device ? Str("{} failed because {} bytes are not available; {} of {} "
                     "bytes of the device are free",
                     function, request.size, FreeDeviceBytes(), DeviceBytes())
               : Str("{} failed because {} bytes are not available", function,
                     request.size));
  }
  *pointer = base;
  return ACL_SUCCESS;
}

aclError AllocateDevice(std::string_view function, void** pointer, size_t size,
                        int policy) {
  const bool gigantic = policy == ACL_MEM_MALLOC_HUGE1G_ONLY ||
                        policy == ACL_MEM_MALLOC_HUGE1G_ONLY_P2P;
  return Allocate(function, "devPtr", pointer,
                  {.size = size,
                   .reserved = Padded(size, gigantic ? 0 : kPaddingBytes),
                   .kind = BlockKind::kDevice,
                   .huge = WantsHugePages(policy, size)});
}

aclError AllocateHost(std::string_view function, void** pointer, size_t size) {
  return Allocate(function, "hostPtr", pointer,
                  {.size = size,
                   .reserved = Padded(size, 0),
                   .kind = BlockKind::kHost,
                   .huge = size >= kHugePageBytes});
}

// Then it is no queued work that uses memory. A task lets go of what it used
// before it counts as done.
bool AllIdle() {
  return std::ranges::all_of(AllStreams(),
                             [](const auto& stream) { return stream->Idle(); });
}

std::string WhyNotFreed(FreeResult result, const void* pointer) {
  switch (result) {
    case FreeResult::kInterior: {
      Block block;
      if (!FindBlock(pointer, &block)) break;
      return Str("{} bytes inside of the block at {}",
                 static_cast<const std::byte*>(pointer) - block.base,
                 static_cast<const void*>(block.base));
    }
    case FreeResult::kKind:
      return "memory that another function has reserved";
    case FreeResult::kInUse:
      return AllIdle() ? "memory that a graph keeps; destroy the graph first"
                       : "memory that queued work still uses, or that a graph "
                         "keeps; synchronize, or destroy the graph, first";
    default:
      break;
  }
  FreedBlock freed;
  if (FindFreed(pointer, &freed)) return "in " + ToString(freed);
  return "no block, or one that was freed before";
}

// What was written around a block that goes, if strict mode can tell.
aclError FailDamaged(std::string_view function, std::string_view damage) {
  if (damage.empty()) return ACL_SUCCESS;
  CountFinding();
  return Fail(ACL_ERROR_RT_PARAM_INVALID, Title::kReason,
              Str("{}: {}", function, damage));
}

aclError Release(std::string_view function, std::string_view parameter,
                 void* pointer, BlockKind kind) {
  if (pointer == nullptr) return FailNull(function, parameter);
  const std::string damage = DamageOf(pointer);
  const FreeResult result = FreeBlock(pointer, kind, function);
  if (result == FreeResult::kFreed) return FailDamaged(function, damage);
  CountFinding();
  return Fail(
      ACL_ERROR_RT_PARAM_INVALID, Title::kReason,
      Str("{} failed because {} {} is {}", function, parameter,
          static_cast<const void*>(pointer), WhyNotFreed(result, pointer)));
}

// A failure of the queued work is reported here, and the memory freed all the
// same.
aclError ReleaseAfterWork(std::string_view function, std::string_view parameter,
                          void* pointer, BlockKind kind) {
  if (pointer == nullptr) return FailNull(function, parameter);
  const aclError worked = SynchronizeAll();
  const aclError freed = Release(function, parameter, pointer, kind);
  return freed != 0 ? freed : worked;
}

}  // namespace
}  // namespace flashacl::acl

namespace acl = flashacl::acl;

extern "C" {

aclError aclrtMalloc(void** devPtr, size_t size, aclrtMemMallocPolicy policy) {
  return acl::GuardRuntime([&] {
    return acl::AllocateDevice("aclrtMalloc", devPtr, size, acl::Raw(policy));
  });
}

aclError aclrtMallocAlign32(void** devPtr, size_t size,
                            aclrtMemMallocPolicy policy) {
  return acl::GuardRuntime([&] {
    return acl::Allocate("aclrtMallocAlign32", "devPtr", devPtr,
                         {.size = size,
                          .reserved = acl::Padded(size, 0),
                          .kind = acl::BlockKind::kDevice,
                          .huge = acl::WantsHugePages(acl::Raw(policy), size)});
  });
}

aclError aclrtMallocCached(void** devPtr, size_t size,
                           aclrtMemMallocPolicy policy) {
  return acl::GuardRuntime([&] {
    return acl::AllocateDevice("aclrtMallocCached", devPtr, size,
                               acl::Raw(policy));
  });
}

aclError aclrtMallocWithCfg(void** devPtr, size_t size,
                            aclrtMemMallocPolicy policy, aclrtMallocConfig*) {
  return acl::GuardRuntime([&] {
    return acl::AllocateDevice("aclrtMallocWithCfg", devPtr, size,
                               acl::Raw(policy));
  });
}

aclError aclrtMallocForTaskScheduler(void** devPtr, size_t size,
                                     aclrtMemMallocPolicy policy,
                                     aclrtMallocConfig*) {
  return acl::GuardRuntime([&] {
    return acl::AllocateDevice("aclrtMallocForTaskScheduler", devPtr, size,
                               acl::Raw(policy));
  });
}

aclError aclrtFree(void* devPtr) {
  return acl::GuardRuntime([&] {
    return acl::Release("aclrtFree", "devPtr", devPtr, acl::BlockKind::kDevice);
  });
}

aclError aclrtFreeWithDevSync(void* devPtr) {
  return acl::GuardRuntime([&] {
    return acl::ReleaseAfterWork("aclrtFreeWithDevSync", "devPtr", devPtr,
                                 acl::BlockKind::kDevice);
  });
}

aclError aclrtMallocHost(void** hostPtr, size_t size) {
  return acl::GuardRuntime(
      [&] { return acl::AllocateHost("aclrtMallocHost", hostPtr, size); });
}

aclError aclrtMallocHostWithCfg(void** ptr, uint64_t size, aclrtMallocConfig*) {
  return acl::GuardRuntime(
      [&] { return acl::AllocateHost("aclrtMallocHostWithCfg", ptr, size); });
}

aclError aclrtFreeHost(void* hostPtr) {
  return acl::GuardRuntime([&] {
    return acl::Release("aclrtFreeHost", "hostPtr", hostPtr,
                        acl::BlockKind::kHost);
  });
}

aclError aclrtFreeHostWithDevSync(void* hostPtr) {
  return acl::GuardRuntime([&] {
    return acl::ReleaseAfterWork("aclrtFreeHostWithDevSync", "hostPtr", hostPtr,
                                 acl::BlockKind::kHost);
  });
}

}  // extern "C"
