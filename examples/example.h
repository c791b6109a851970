// SPDX-License-Identifier: Apache-2.0
// What the examples share: checked calls, device tensors, 16-bit numbers,
// timing, and the one line each prints. C++11, like most code written for CANN.
#pragma once

#include <stdint.h>

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <random>
#include <string>
#include <vector>

#include "acl/acl.h"
#include "aclnn/acl_meta.h"

namespace example {

inline void Check(int status, const char* what) {
  if (status == 0) return;
  const char* message = aclGetRecentErrMsg();
  std::fprintf(stderr, "%s failed with %d: %s\n", what, status,
               message == nullptr ? "no message" : message);
  std::exit(1);
}

#define EXAMPLE_CHECK(call) example::Check((call), #call)

inline float FromBf16(uint16_t bits) {
  const uint32_t wide = static_cast<uint32_t>(bits) << 16;
  float value;
  std::memcpy(&value, &wide, sizeof(value));
  return value;
}

inline uint16_t ToBf16(float value) {
  uint32_t bits;
  std::memcpy(&bits, &value, sizeof(bits));
  return static_cast<uint16_t>((bits + 0x7FFF + ((bits >> 16) & 1)) >> 16);
}

// A tensor of the host: dims, and its elements as numbers of type T.
template <typename T>
struct Host {
  std::vector<int64_t> dims;
  std::vector<T> values;

  explicit Host(const std::vector<int64_t>& shape) : dims(shape) {
    size_t count = 1;
    for (size_t n = 0; n < dims.size(); ++n)
      count *= static_cast<size_t>(dims[n]);
    values.resize(count);
  }

  // The element at (a, b, c, d); missing trailing indices are 0.
  T& At(int64_t a, int64_t b = 0, int64_t c = 0, int64_t d = 0) {
    const int64_t index[] = {a, b, c, d};
    int64_t offset = 0;
    for (size_t n = 0; n < dims.size(); ++n)
      offset = offset * dims[n] + index[n];
    return values[static_cast<size_t>(offset)];
  }
};

// bfloat16 numbers of a normal distribution.
inline Host<uint16_t> RandomBf16(const std::vector<int64_t>& dims,
                                 std::mt19937& random) {
  Host<uint16_t> host(dims);
  std::normal_distribution<float> normal(0.0f, 1.0f);
  for (size_t n = 0; n < host.values.size(); ++n) {
    host.values[n] = ToBf16(normal(random));
  }
  return host;
}

// A tensor in device memory, and the aclTensor that describes it.
class Device {
 public:
  template <typename T>
  Device(const Host<T>& host, aclDataType type)
      : bytes_(host.values.size() * sizeof(T)) {
    EXAMPLE_CHECK(aclrtMalloc(&memory_, bytes_, ACL_MEM_MALLOC_HUGE_FIRST));
    EXAMPLE_CHECK(aclrtMemcpy(memory_, bytes_, host.values.data(), bytes_,
                              ACL_MEMCPY_HOST_TO_DEVICE));
    tensor_ = aclCreateTensor(host.dims.data(), host.dims.size(), type, nullptr,
                              0, ACL_FORMAT_ND, host.dims.data(),
                              host.dims.size(), memory_);
  }
  ~Device() {
    aclDestroyTensor(tensor_);
    aclrtFree(memory_);
  }

  aclTensor* tensor() const { return tensor_; }
  void* memory() const { return memory_; }

  template <typename T>
  void CopyTo(Host<T>& host) const {
    EXAMPLE_CHECK(aclrtMemcpy(host.values.data(), bytes_, memory_, bytes_,
                              ACL_MEMCPY_DEVICE_TO_HOST));
  }

 private:
  Device(const Device&);
  Device& operator=(const Device&);

  size_t bytes_;
  void* memory_ = nullptr;
  aclTensor* tensor_ = nullptr;
};

// A device with a stream, for the length of the program.
class Session {
 public:
  Session() {
    EXAMPLE_CHECK(aclInit(nullptr));
    EXAMPLE_CHECK(aclrtSetDevice(0));
    EXAMPLE_CHECK(aclrtCreateStream(&stream_));
    EXAMPLE_CHECK(aclrtCreateEvent(&start_));
    EXAMPLE_CHECK(aclrtCreateEvent(&end_));
  }
  ~Session() {
    aclrtDestroyEvent(start_);
    aclrtDestroyEvent(end_);
    aclrtDestroyStream(stream_);
    aclrtResetDevice(0);
    aclFinalize();
  }

  // Runs the second phase with its workspace; returns its milliseconds.
  typedef aclnnStatus (*Phase2)(void*, uint64_t, aclOpExecutor*, aclrtStream);
  float Run(Phase2 launch, uint64_t workspace_size, aclOpExecutor* executor) {
    void* workspace = nullptr;
    if (workspace_size > 0) {
      EXAMPLE_CHECK(
          aclrtMalloc(&workspace, workspace_size, ACL_MEM_MALLOC_HUGE_FIRST));
    }
    EXAMPLE_CHECK(aclrtRecordEvent(start_, stream_));
    EXAMPLE_CHECK(launch(workspace, workspace_size, executor, stream_));
    EXAMPLE_CHECK(aclrtRecordEvent(end_, stream_));
    EXAMPLE_CHECK(aclrtSynchronizeStream(stream_));
    float milliseconds = 0;
    EXAMPLE_CHECK(aclrtEventElapsedTime(&milliseconds, start_, end_));
    if (workspace != nullptr) aclrtFree(workspace);
    return milliseconds;
  }

 private:
  aclrtStream stream_ = nullptr;
  aclrtEvent start_ = nullptr;
  aclrtEvent end_ = nullptr;
};

// Whether an error is greater than the worst so far. A NaN is worse than any
// number, and stays the worst.
inline bool IsWorse(double error, double worst) {
  return !std::isnan(worst) && !(error <= worst);
}

// The greatest difference from the truth, in units of the greatest truth.
class Error {
 public:
  void Add(double got, double truth) {
    const double difference = std::fabs(got - truth);
    if (IsWorse(difference, difference_)) difference_ = difference;
    largest_ = std::max(largest_, std::fabs(truth));
  }
  double relative() const { return difference_ / largest_; }

 private:
  double difference_ = 0;
  double largest_ = 1e-30;
};

// Prints the line run.sh reads and returns what main returns.
inline int Report(const char* name, const Error& error, double allowed,
                  float milliseconds) {
  const bool good = error.relative() <= allowed;
  std::printf("%s status=%s error=%.1e ms=%.1f\n", name, good ? "ok" : "WRONG",
              error.relative(), static_cast<double>(milliseconds));
  return good ? 0 : 1;
}

}  // namespace example
