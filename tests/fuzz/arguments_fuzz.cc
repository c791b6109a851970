// SPDX-License-Identifier: Apache-2.0
// Bytes to the arguments of an operator call. Whatever they say: a status that
// is documented, a message with every failure, outputs of phase 1 untouched by
// a failure, and no access outside of what the tensors describe (each has
// memory of exactly its extent, so that a sanitizer sees the first byte).
#include <algorithm>
#include <cstdint>
#include <cstdlib>
#include <memory>
#include <vector>

#include "tests/fuzz/bytes.h"
#include "tests/testing/operator_call.h"

namespace flashacl::testing {
namespace {

void Require(bool condition) {
  if (!condition) std::abort();
}

void ChangeTensor(Bytes& bytes, TensorArgument& tensor) {
  constexpr aclDataType kTypes[] = {ACL_FLOAT16, ACL_BF16,  ACL_FLOAT,
                                    ACL_INT8,    ACL_UINT8, ACL_BOOL,
                                    ACL_INT32,   ACL_INT64, ACL_DOUBLE};
  const size_t axis = bytes.Below(std::max<size_t>(tensor.dims.size(), 1));
  switch (bytes.Below(8)) {
    case 0:
      tensor.present = !tensor.present;
      break;
    case 1:
      tensor.type = kTypes[bytes.Below(9)];
      break;
    case 2:
      if (!tensor.dims.empty()) tensor.dims[axis] = bytes.Number();
      break;
    case 3:
      tensor.dims.resize(bytes.Below(6), 2);
      break;
    case 4:
      for (const int64_t dim : tensor.dims) {
        (void)dim;
        tensor.strides.push_back(bytes.Number());
      }
      break;
    case 5: {  // a view with gaps, dense in its own order
      int64_t stride = 1;
      tensor.strides.assign(tensor.dims.size(), 1);
      for (size_t n = tensor.dims.size(); n-- > 0;) {
        tensor.strides[n] = stride;
        stride *= std::clamp<int64_t>(tensor.dims[n], 1, 64) + 1;
      }
      break;
    }
    case 6:
      tensor.offset = bytes.Number();
      break;
    default:
      tensor.format = static_cast<aclFormat>(bytes.Below(34));
  }
  tensor.strides.resize(tensor.strides.empty() ? 0 : tensor.dims.size(), 1);
}

void ChangeText(Bytes& bytes, std::optional<std::string>& text) {
  const char* const kTexts[] = {"TND", "BSND", "BNSD",          "BSH",
                                "NSD", "SH",   "BNSD_BSND",     "",
                                "tnd", "SBH",  "same_as_input", "BNSDX"};
  const size_t choice = bytes.Below(14);
  if (choice == 12) {
    text.reset();
  } else {
    text = choice == 13 ? std::string(100, 'x') : kTexts[choice];
  }
}

void Change(Bytes& bytes, OperatorCall& call) {
  const size_t kind = bytes.Below(8);
  if (kind < 4) {
    ChangeTensor(bytes, call.tensors[bytes.Below(call.tensors.size())]);
  } else if (kind == 4 && !call.arrays.empty()) {
    auto& array = call.arrays[bytes.Below(call.arrays.size())];
    if (bytes.OneIn(4)) {
      array.reset();
    } else {
      array.emplace(bytes.Below(4));
      for (int64_t& value : *array) value = bytes.Number();
    }
  } else if (kind == 5) {
    constexpr double kReals[] = {0, 1, -1, 0.5, 1e300, -0.0, 1.5, 1e-40};
    call.reals[bytes.Below(call.reals.size())] = kReals[bytes.Below(8)];
  } else if (kind == 6) {
    call.integers[bytes.Below(call.integers.size())] = bytes.Number();
  } else {
    ChangeText(bytes, call.texts[bytes.Below(call.texts.size())]);
  }
}

bool Documented(aclnnStatus status) {
  constexpr aclnnStatus kStatuses[] = {161001, 161002, 361001, 561000,
                                       561001, 561002, 561103};
  return std::ranges::count(kStatuses, status) > 0;
}

// Gives every tensor memory of its own. False if one is too large for a test.
bool GiveMemory(Bytes& bytes, OperatorCall& call,
                std::vector<std::unique_ptr<uint8_t[]>>& memory) {
  for (TensorArgument& tensor : call.tensors) {
    const int64_t extent = tensor.ExtentBytes();
    const bool empty = std::ranges::count(tensor.dims, 0) > 0;
    if (tensor.present && extent == 0 && !empty) return false;
    memory.push_back(std::make_unique<uint8_t[]>(static_cast<size_t>(extent)));
    uint8_t value = bytes.Next();
    for (int64_t n = 0; n < extent; ++n) {
      memory.back()[static_cast<size_t>(n)] = value;
      value = static_cast<uint8_t>(value * 5 + 1);
    }
    tensor.data = memory.back().get();
  }
  return true;
}

void Launch(const OperatorCall& call, uint64_t size, aclOpExecutor* executor) {
  const auto workspace = std::make_unique<uint8_t[]>(static_cast<size_t>(size));
  Require(call.Launch(workspace.get(), size, executor, nullptr) == 0);
  Require(aclrtSynchronizeStream(nullptr) == 0);
}

void RunOne(Bytes bytes) {
  constexpr uint64_t kLargestWorkspace = uint64_t{1} << 26;
  static const std::vector<OperatorCall> kCalls = AllOperatorCalls();
  OperatorCall call = kCalls[bytes.Below(kCalls.size())];
  for (size_t n = bytes.Below(6); n > 0; --n) Change(bytes, call);
  std::vector<std::unique_ptr<uint8_t[]>> memory;
  const bool runnable = GiveMemory(bytes, call, memory);

  uint64_t size = 12345;
  aclOpExecutor* executor = nullptr;
  const aclnnStatus status = call.Prepare(&size, &executor);
  if (status != 0) {
    Require(Documented(status));
    Require(aclGetRecentErrMsg() != nullptr);
    Require(size == 12345 && executor == nullptr);
    return;
  }
  Require(executor != nullptr);
  // What was planned with the dims of empty tensors may still be long.
  if (runnable && size <= kLargestWorkspace) {
    Launch(call, size, executor);
  } else {
    aclDestroyAclOpExecutor(executor);
  }
  aclGetRecentErrMsg();
}

}  // namespace
}  // namespace flashacl::testing

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  static const int device = aclrtSetDevice(0);
  (void)device;
  flashacl::testing::RunOne({data, size});
  return 0;
}
