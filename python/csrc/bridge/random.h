// SPDX-License-Identifier: Apache-2.0
// Random numbers of CPU kernels for npu tensors, which the state of the
// device's generator determines.
#pragma once

#include <ATen/core/Generator.h>
#include <c10/core/Device.h>

#include <cstdint>
#include <optional>

namespace flashacl::bridge {

// A CPU generator for one call, seeded from the seed and the offset of `npu`,
// or of the device's default generator; the offset advances by 4. A generator
// of another device is refused as PyTorch does.
at::Generator DrawGenerator(const std::optional<at::Generator>& npu,
                            c10::Device device);

// While it lives, PyTorch's default CPU generator has the state of another: for
// kernels that take no generator. One lives at a time.
class DefaultGeneratorGuard {
 public:
  explicit DefaultGeneratorGuard(const at::Generator& generator);
  ~DefaultGeneratorGuard();
  DefaultGeneratorGuard(const DefaultGeneratorGuard&) = delete;
  DefaultGeneratorGuard& operator=(const DefaultGeneratorGuard&) = delete;

 private:
  at::Generator saved_;
};

}  // namespace flashacl::bridge
