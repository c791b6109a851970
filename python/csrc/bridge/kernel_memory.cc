// SPDX-License-Identifier: Apache-2.0
#include "bridge/kernel_memory.h"

#include <acl/acl_rt.h>  // FlashACL's: an older adapter's lacks names
#include <c10/core/CPUAllocator.h>

#include <atomic>
#include <memory>
#include <utility>

#include "bridge/faces.h"
#include "bridge/queue.h"

namespace flashacl::bridge {
namespace {

thread_local bool inside = false;

// How the adapter's allocator gives memory back, which tells its blocks.
c10::DeleterFnPtr DeviceDeleter() {
  // Found late, as that starts the device, and without the guard of a static: a
  // fork amid that would leave it locked in the child.
  static std::atomic<c10::DeleterFnPtr> found{nullptr};
  c10::DeleterFnPtr deleter = found.load(std::memory_order_relaxed);
  if (deleter == nullptr) {
    deleter = c10::GetAllocator(kNpu)->allocate(1).get_deleter();
    found.store(deleter, std::memory_order_relaxed);
  }
  return deleter;
}

c10::Allocator* cpu_allocator = nullptr;

// oneDNN keeps bare addresses, of memory that was made inside a guard or not.
void ReleaseBare(void* address) {
  aclrtPtrAttributes attributes = {};
  const bool device =
      aclrtPointerGetAttributes(address, &attributes) == ACL_SUCCESS &&
      attributes.location.type == ACL_MEM_LOCATION_TYPE_DEVICE;
  (device ? DeviceDeleter() : cpu_allocator->raw_deleter())(address);
}

class Redirected : public c10::Allocator {
 public:
  c10::DataPtr allocate(size_t bytes) override {
    if (!inside) return cpu_allocator->allocate(bytes);
    c10::DataPtr data = c10::GetAllocator(kNpu)->allocate(bytes);
    data.unsafe_set_device(c10::kCPU);
    return data;
  }

  c10::DeleterFnPtr raw_deleter() const override { return &ReleaseBare; }

  void copy_data(void* to, const void* from, size_t bytes) const override {
    default_copy_data(to, from, bytes);
  }
};

struct Foreign {
  c10::DataPtr data;
  c10::DeviceIndex device;
};

void ReleaseForeign(void* pointer) {
  const std::unique_ptr<Foreign> foreign(static_cast<Foreign*>(pointer));
  WaitForDevice(foreign->device);
}

}  // namespace

void InstallKernelMemory() {
  cpu_allocator = c10::GetCPUAllocator();
  static auto& allocator = *new Redirected;
  // Above PyTorch's own, which has priority 0.
  c10::SetCPUAllocator(&allocator, /*priority=*/1);
}

KernelMemoryGuard::KernelMemoryGuard() : before_(inside) { inside = true; }

KernelMemoryGuard::~KernelMemoryGuard() { inside = before_; }

c10::DataPtr AsDeviceMemory(c10::DataPtr data, c10::Device device) {
  if (data.get() == nullptr || data.get_deleter() == DeviceDeleter()) {
    data.unsafe_set_device(device);
    return data;
  }
  void* address = data.get();
  auto* foreign = new Foreign{std::move(data), device.index()};
  return {address, foreign, &ReleaseForeign, device};
}

}  // namespace flashacl::bridge
