// SPDX-License-Identifier: Apache-2.0
// Device memory for the calls of operator_call.h, and what to put there.
#pragma once

#include <gtest/gtest.h>

#include <cstdint>
#include <vector>

#include "acl/acl.h"
#include "base/random.h"
#include "tests/testing/operator_call.h"
#include "tests/testing/runtime.h"

namespace flashacl::testing {

// From aclrtMalloc.
class DeviceBytes {
 public:
  explicit DeviceBytes(size_t bytes) {
    EXPECT_TRUE(
        Succeeds(aclrtMalloc(&data_, bytes + 1, ACL_MEM_MALLOC_NORMAL_ONLY)));
  }
  ~DeviceBytes() { EXPECT_TRUE(Succeeds(aclrtFree(data_))); }
  DeviceBytes(const DeviceBytes&) = delete;
  DeviceBytes& operator=(const DeviceBytes&) = delete;

  void* data() const { return data_; }

  void Upload(const std::vector<uint8_t>& from) {
    if (from.empty()) return;
    EXPECT_TRUE(Succeeds(aclrtMemcpy(data_, from.size(), from.data(),
                                     from.size(), ACL_MEMCPY_HOST_TO_DEVICE)));
  }
  std::vector<uint8_t> Download(size_t bytes) const {
    std::vector<uint8_t> to(bytes);
    if (bytes == 0) return to;
    EXPECT_TRUE(Succeeds(aclrtMemcpy(to.data(), bytes, data_, bytes,
                                     ACL_MEMCPY_DEVICE_TO_HOST)));
    return to;
  }

 private:
  void* data_ = nullptr;
};

// Numbers of either sign around 1, small integers, bits.
inline std::vector<uint8_t> Contents(const TensorArgument& tensor,
                                     Random& random) {
  std::vector<uint8_t> bytes(static_cast<size_t>(tensor.ExtentBytes()));
  const size_t size = aclDataTypeSize(tensor.type);
  for (size_t n = 0; n < bytes.size(); ++n) {
    const bool last = n % size == size - 1;
    const bool before_last = n % size + 2 == size;
    const auto any = static_cast<uint8_t>(random.Within(0, 255));
    switch (tensor.type) {
      case ACL_FLOAT16:
        bytes[n] = last ? (any & 0x83) | 0x38 : any;
        break;
      case ACL_BF16:
      case ACL_FLOAT:
        bytes[n] = last ? (any & 0x80) | 0x3F : before_last ? any & 0xBF : any;
        break;
      default:
        bytes[n] = n % size == 0 ? any & 3 : 0;
    }
  }
  return bytes;
}

}  // namespace flashacl::testing
