// SPDX-License-Identifier: Apache-2.0
// Addresses and memory apart: ranges of addresses, physical memory (an
// anonymous file), and mappings of that at those. Addresses where no memory is
// mapped read as zeros rather than fault, for kernels load whole vectors at the
// end of a mapping.
#include <sys/mman.h>
#include <unistd.h>

#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <string_view>

#include "acl/acl_rt.h"
#include "acl/device.h"
#include "acl/error.h"
#include "acl/handle.h"
#include "acl/memory.h"
#include "acl/physical_memory.h"
#include "acl/raw_enum.h"
#include "base/fork.h"
#include "base/once.h"
#include "base/str.h"

namespace flashacl::acl {
namespace {

constexpr size_t kGranularity = kHugePageBytes;
constexpr aclError kInvalid = ACL_ERROR_RT_PARAM_INVALID;

// A range of addresses. Unmapped when released and no work uses it.
struct Reservation {
  std::byte* base = nullptr;
  size_t size = 0;
  size_t mapped = 0;  // `size` and readable slack

  Reservation() = default;
  Reservation(const Reservation&) = delete;
  Reservation& operator=(const Reservation&) = delete;
  ~Reservation() {
    if (base != nullptr) munmap(base, mapped);
  }
};

struct Mapping {
  size_t size;
  std::shared_ptr<PhysicalMemory> memory;
  std::shared_ptr<Reservation> reservation;
};

struct Space {
  ProcessMutex mutex;
  std::map<const std::byte*, std::shared_ptr<Reservation>> reservations;
  std::map<const std::byte*, Mapping> mappings;
};

Space& TheSpace() {
  static constinit MadeOnce<Space> space;  // programs unmap from exit handlers
  return *space;
}

// Puts plain zeros at an address, nullptr anywhere, over whatever is there.
std::byte* MapZeros(std::byte* at, size_t bytes) {
  const int fixed = at == nullptr ? 0 : MAP_FIXED;
  void* const got =
      mmap(at, bytes, PROT_READ | PROT_WRITE,
           MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | fixed, -1, 0);
  return got == MAP_FAILED ? nullptr : static_cast<std::byte*>(got);
}

size_t RoundUpTo(size_t bytes, size_t unit) {
  return (bytes + unit - 1) / unit * unit;
}

// Aligned addresses; base stays null if there are none.
std::shared_ptr<Reservation> MakeReservation(size_t size, size_t alignment) {
  auto made = std::make_shared<Reservation>();
  const size_t slack = static_cast<size_t>(sysconf(_SC_PAGESIZE));
  const size_t all = size + slack + alignment;
  std::byte* const start = MapZeros(nullptr, all);
  if (start == nullptr) return made;
  const size_t skip =
      (alignment - reinterpret_cast<uintptr_t>(start) % alignment) % alignment;
  if (skip > 0) munmap(start, skip);
  made->base = start + skip;
  made->size = size;
  made->mapped = size + slack;
  const size_t rest = all - skip - made->mapped;
  if (rest > 0) munmap(made->base + made->mapped, rest);
  return made;
}

aclError FailSize(std::string_view function, size_t size) {
  return FailValue(ACL_ERROR_INVALID_PARAM, function, "size",
                   std::to_string(size), "more than 0");
}

aclError ReserveAddress(void** pointer, size_t size, size_t alignment) {
  constexpr std::string_view kFunction = "aclrtReserveMemAddress";
  constexpr size_t kMax = size_t{1} << 46;
  if (pointer == nullptr) return FailNull(kFunction, "virPtr");
  if (size == 0) return FailSize(kFunction, size);
  if ((alignment & (alignment - 1)) != 0 || alignment > kMax) {
    return FailValue(kInvalid, kFunction, "alignment",
                     std::to_string(alignment), "0 or a power of two");
  }
  std::shared_ptr<Reservation> made;
  if (size <= kMax) {
    made = MakeReservation(RoundUpTo(size, kGranularity),
                           std::max(alignment, kGranularity));
  }
  if (made == nullptr || made->base == nullptr) {
    return Fail(ACL_ERROR_RT_MEMORY_ALLOCATION, Title::kRuntime,
                Str("{} failed because no range of {} addresses is free",
                    kFunction, size));
  }
  std::byte* const base = made->base;
  Space& space = TheSpace();
  std::lock_guard lock(space.mutex);
  space.reservations.emplace(base, std::move(made));
  *pointer = base;
  return ACL_SUCCESS;
}

aclError ReleaseAddress(void* pointer) {
  constexpr std::string_view kFunction = "aclrtReleaseMemAddress";
  if (pointer == nullptr) return FailNull(kFunction, "virPtr");
  Space& space = TheSpace();
  std::lock_guard lock(space.mutex);
  const auto found =
      space.reservations.find(static_cast<const std::byte*>(pointer));
  if (found == space.reservations.end()) {
    return FailValue(kInvalid, kFunction, "virPtr", Str("{}", pointer),
                     "what aclrtReserveMemAddress returned");
  }
  const auto inside = space.mappings.lower_bound(found->first);
  if (inside != space.mappings.end() &&
      inside->first < found->first + found->second->size) {
    return Fail(kInvalid, Title::kCallSequence,
                Str("{} failed because memory is still mapped at {}", kFunction,
                    static_cast<const void*>(inside->first)));
  }
  space.reservations.erase(found);
  return ACL_SUCCESS;
}

aclError CheckProperties(std::string_view function,
                         const aclrtPhysicalMemProp* prop) {
  if (prop == nullptr) return FailNull(function, "prop");
  const int type = Raw(prop->location.type);
  if (type == ACL_MEM_LOCATION_TYPE_DEVICE) {
    return RequireDevice(function, prop->location.id);
  }
  if (type == ACL_MEM_LOCATION_TYPE_HOST ||
      type == ACL_MEM_LOCATION_TYPE_HOST_NUMA) {
    return ACL_SUCCESS;
  }
  return FailValue(kInvalid, function, "prop->location.type",
                   std::to_string(type),
                   "0 (host), 1 (device) or 4 (host NUMA node)");
}

aclError MallocPhysical(aclrtDrvMemHandle* handle, size_t size,
                        const aclrtPhysicalMemProp* prop, uint64_t flags) {
  constexpr std::string_view kFunction = "aclrtMallocPhysical";
  if (handle == nullptr) return FailNull(kFunction, "handle");
  const aclError error = CheckProperties(kFunction, prop);
  if (error != 0) return error;
  if (size == 0) return FailSize(kFunction, size);
  if (size % kGranularity != 0) {
    return FailValue(kInvalid, kFunction, "size", std::to_string(size),
                     "a multiple of the granularity, 2097152");
  }
  if (flags != 0) {
    return FailValue(kInvalid, kFunction, "flags", std::to_string(flags), "0");
  }
  auto memory = std::make_shared<PhysicalMemory>();
  memory->device_id = Raw(prop->location.type) == ACL_MEM_LOCATION_TYPE_DEVICE
                          ? static_cast<int32_t>(prop->location.id)
                          : 0;
  if (TakeDeviceBytes(size)) {
    memory->size = memory->taken = size;
    memory->file = memfd_create("flashacl", MFD_CLOEXEC);
  }
  if (memory->file < 0 ||
      ftruncate(memory->file, static_cast<off_t>(size)) != 0) {
    return Fail(ACL_ERROR_RT_MEMORY_ALLOCATION, Title::kRuntime,
                Str("{} failed because {} bytes are not available; {} bytes "
                    "of the device are free",
                    kFunction, size, FreeDeviceBytes()));
  }
  void* const made = NewHandle(std::move(memory));
  if (made == nullptr) {
    return Fail(
        ACL_ERROR_RT_RESOURCE_ALLOC_FAIL, Title::kRuntime,
        "aclrtMallocPhysical failed because there are no handles left.");
  }
  *handle = made;
  return ACL_SUCCESS;
}

aclError FreePhysical(aclrtDrvMemHandle handle) {
  constexpr std::string_view kFunction = "aclrtFreePhysical";
  if (handle == nullptr) return FailNull(kFunction, "handle");
  if (Take<PhysicalMemory>(handle) != nullptr) return ACL_SUCCESS;
  return FailValue(kInvalid, kFunction, "handle", Str("{}", handle),
                   "live physical memory");
}

struct MapRequest {
  std::byte* base;
  size_t size;
  size_t offset;
  aclrtDrvMemHandle handle;
  uint64_t flags;
};

aclError CheckMap(const MapRequest& request,
                  std::shared_ptr<PhysicalMemory>* memory) {
  constexpr std::string_view kFunction = "aclrtMapMem";
  if (request.base == nullptr) return FailNull(kFunction, "virPtr");
  if (request.handle == nullptr) return FailNull(kFunction, "handle");
  if (request.size == 0) return FailSize(kFunction, request.size);
  if (request.offset != 0) {
    return FailValue(kInvalid, kFunction, "offset",
                     std::to_string(request.offset), "0");
  }
  if (request.flags != 0) {
    return FailValue(kInvalid, kFunction, "flags",
                     std::to_string(request.flags), "0");
  }
  *memory = Find<PhysicalMemory>(request.handle);
  if (*memory == nullptr) {
    return FailValue(kInvalid, kFunction, "handle", Str("{}", request.handle),
                     "live physical memory");
  }
  if (request.size > (*memory)->size || request.size % kGranularity != 0) {
    return FailValue(kInvalid, kFunction, "size", std::to_string(request.size),
                     Str("a multiple of {} up to {}, the size of the memory",
                         kGranularity, (*memory)->size));
  }
  if (reinterpret_cast<uintptr_t>(request.base) % kGranularity != 0) {
    return FailValue(kInvalid, kFunction, "virPtr",
                     Str("{}", static_cast<void*>(request.base)),
                     "a multiple of the granularity, 2097152");
  }
  return ACL_SUCCESS;
}

// The reservation that holds the whole range, if no mapping is in it yet. Under
// the mutex.
std::shared_ptr<Reservation> RoomFor(Space& space, const MapRequest& request) {
  auto found = space.reservations.upper_bound(request.base);
  if (found == space.reservations.begin()) return nullptr;
  const std::shared_ptr<Reservation>& reservation = (--found)->second;
  const size_t offset = static_cast<size_t>(request.base - reservation->base);
  if (offset > reservation->size || request.size > reservation->size - offset) {
    return nullptr;
  }
  auto next = space.mappings.lower_bound(request.base);
  if (next != space.mappings.end() &&
      next->first < request.base + request.size) {
    return nullptr;
  }
  if (next != space.mappings.begin()) {
    --next;
    if (next->first + next->second.size > request.base) return nullptr;
  }
  return reservation;
}

aclError MapMemory(const MapRequest& request) {
  constexpr std::string_view kFunction = "aclrtMapMem";
  std::shared_ptr<PhysicalMemory> memory;
  const aclError error = CheckMap(request, &memory);
  if (error != 0) return error;
  Space& space = TheSpace();
  std::lock_guard lock(space.mutex);
  std::shared_ptr<Reservation> reservation = RoomFor(space, request);
  if (reservation == nullptr) {
    return FailValue(kInvalid, kFunction, "virPtr",
                     Str("{}", static_cast<void*>(request.base)),
                     "reserved addresses that nothing is mapped to");
  }
  struct Unfinished {
    Space& space;
    std::map<const std::byte*, Mapping>::iterator mapping;
    std::byte* mapped = nullptr;
    bool done = false;
    ~Unfinished() {
      if (done) return;
      if (mapped != nullptr) MapZeros(mapped, mapping->second.size);
      space.mappings.erase(mapping);
    }
  } unfinished{space, space.mappings
                          .emplace(request.base,
                                   Mapping{request.size, memory, reservation})
                          .first};
  void* const got = mmap(request.base, request.size, PROT_READ | PROT_WRITE,
                         MAP_SHARED | MAP_FIXED, memory->file, 0);
  if (got == MAP_FAILED) {
    return Fail(ACL_ERROR_RT_MEMORY_ALLOCATION, Title::kRuntime,
                Str("{} failed because the system refuses the mapping of {} "
                    "bytes",
                    kFunction, request.size));
  }
  unfinished.mapped = request.base;
  AddMapped(request.base,
            {.size = request.size,
             .reserved = request.size,
             .kind = BlockKind::kMapped,
             .huge = true,
             .device_id = memory->device_id},
            reservation);
  unfinished.done = true;
  return ACL_SUCCESS;
}

aclError UnmapMemory(void* pointer) {
  constexpr std::string_view kFunction = "aclrtUnmapMem";
  if (pointer == nullptr) return FailNull(kFunction, "virPtr");
  Space& space = TheSpace();
  std::lock_guard lock(space.mutex);
  const auto found =
      space.mappings.find(static_cast<const std::byte*>(pointer));
  if (found == space.mappings.end()) {
    return FailValue(kInvalid, kFunction, "virPtr", Str("{}", pointer),
                     "where aclrtMapMem has mapped memory");
  }
  size_t size = 0;
  RemoveMapped(pointer, BlockKind::kMapped, &size);
  MapZeros(static_cast<std::byte*>(pointer), found->second.size);
  space.mappings.erase(found);
  return ACL_SUCCESS;
}

aclError GetGranularity(const aclrtPhysicalMemProp* prop, int option,
                        size_t* granularity) {
  constexpr std::string_view kFunction = "aclrtMemGetAllocationGranularity";
  if (granularity == nullptr) return FailNull(kFunction, "granularity");
  const aclError error = CheckProperties(kFunction, prop);
  if (error != 0) return error;
  if (option != ACL_RT_MEM_ALLOC_GRANULARITY_MINIMUM &&
      option != ACL_RT_MEM_ALLOC_GRANULARITY_RECOMMENDED) {
    return FailValue(kInvalid, kFunction, "option", std::to_string(option),
                     "0 or 1");
  }
  *granularity = kGranularity;
  return ACL_SUCCESS;
}

// Everyone may always read and write here, so access is only checked.
aclError SetAccess(void* pointer, size_t size, const aclrtMemAccessDesc* desc,
                   size_t count) {
  constexpr std::string_view kFunction = "aclrtMemSetAccess";
  if (pointer == nullptr) return FailNull(kFunction, "virPtr");
  if (desc == nullptr) return FailNull(kFunction, "desc");
  if (size == 0) return FailSize(kFunction, size);
  if (count == 0) {
    return FailValue(ACL_ERROR_INVALID_PARAM, kFunction, "count", "0",
                     "more than 0");
  }
  Block block;
  if (!FindBlock(pointer, &block) || block.kind != BlockKind::kMapped ||
      size > static_cast<size_t>(block.base + block.reserved -
                                 static_cast<std::byte*>(pointer))) {
    return FailValue(kInvalid, kFunction, "virPtr", Str("{}", pointer),
                     "a range of mapped memory");
  }
  return ACL_SUCCESS;
}

}  // namespace
}  // namespace flashacl::acl

namespace acl = flashacl::acl;

extern "C" {

aclError aclrtReserveMemAddress(void** virPtr, size_t size, size_t alignment,
                                void*, uint64_t) {
  return acl::GuardRuntime(
      [&] { return acl::ReserveAddress(virPtr, size, alignment); });
}

aclError aclrtReleaseMemAddress(void* virPtr) {
  return acl::GuardRuntime([&] { return acl::ReleaseAddress(virPtr); });
}

aclError aclrtMallocPhysical(aclrtDrvMemHandle* handle, size_t size,
                             const aclrtPhysicalMemProp* prop, uint64_t flags) {
  return acl::GuardRuntime(
      [&] { return acl::MallocPhysical(handle, size, prop, flags); });
}

aclError aclrtFreePhysical(aclrtDrvMemHandle handle) {
  return acl::GuardRuntime([&] { return acl::FreePhysical(handle); });
}

aclError aclrtMapMem(void* virPtr, size_t size, size_t offset,
                     aclrtDrvMemHandle handle, uint64_t flags) {
  return acl::GuardRuntime([&] {
    return acl::MapMemory(
        {static_cast<std::byte*>(virPtr), size, offset, handle, flags});
  });
}

aclError aclrtUnmapMem(void* virPtr) {
  return acl::GuardRuntime([&] { return acl::UnmapMemory(virPtr); });
}

aclError aclrtMemGetAllocationGranularity(aclrtPhysicalMemProp* prop,
                                          aclrtMemGranularityOptions option,
                                          size_t* granularity) {
  return acl::GuardRuntime(
      [&] { return acl::GetGranularity(prop, acl::Raw(option), granularity); });
}

aclError aclrtMemSetAccess(void* virPtr, size_t size, aclrtMemAccessDesc* desc,
                           size_t count) {
  return acl::GuardRuntime(
      [&] { return acl::SetAccess(virPtr, size, desc, count); });
}

}  // extern "C"
