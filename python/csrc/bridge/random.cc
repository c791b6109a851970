// SPDX-License-Identifier: Apache-2.0
#include "bridge/random.h"

#include <ATen/CPUGeneratorImpl.h>

#include <mutex>

#include "bridge/faces.h"
#include "torch_npu/csrc/aten/NPUGeneratorImpl.h"

namespace flashacl::bridge {
namespace {

// The step of offsets: what generators of this kind advance by at least.
constexpr uint64_t kStep = 4;

// The finaliser of SplitMix64: every bit of a seed reaches the 32 bits that the
// CPU's generator is seeded by.
uint64_t Mix(uint64_t x) {
  x += 0x9e3779b97f4a7c15ULL;
  x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9ULL;
  x = (x ^ (x >> 27)) * 0x94d049bb133111ebULL;
  return x ^ (x >> 31);
}

std::mutex guard_mutex;

void CopyState(const at::Generator& from, at::Generator& to) {
  const std::lock_guard<std::mutex> lock(to.mutex());
  to.set_state(from.get_state());
}

}  // namespace

at::Generator DrawGenerator(const std::optional<at::Generator>& npu,
                            c10::Device device) {
  at::Generator generator =
      npu.has_value() && npu->defined()
          ? *npu
          : at_npu::detail::getDefaultNPUGenerator(device.index());
  TORCH_CHECK(generator.device().type() == kNpu,
              "Expected a 'npu' device type for generator but found '",
              generator.device().type(), "'");
  const std::lock_guard<std::mutex> lock(generator.mutex());
  const uint64_t offset = generator.get_offset();
  generator.set_offset(offset + kStep);
  return at::detail::createCPUGenerator(
      Mix(generator.current_seed() ^ Mix(offset)));
}

DefaultGeneratorGuard::DefaultGeneratorGuard(const at::Generator& generator) {
  guard_mutex.lock();
  at::Generator cpu = at::detail::getDefaultCPUGenerator();
  {
    const std::lock_guard<std::mutex> lock(cpu.mutex());
    saved_ = cpu.clone();
  }
  CopyState(generator, cpu);
}

DefaultGeneratorGuard::~DefaultGeneratorGuard() {
  at::Generator cpu = at::detail::getDefaultCPUGenerator();
  CopyState(saved_, cpu);
  guard_mutex.unlock();
}

}  // namespace flashacl::bridge
