// SPDX-License-Identifier: Apache-2.0
// Changes of tensors, arrays, numbers and texts.
#include "tests/fuzz/change.h"

#include <algorithm>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace flashacl::testing {
namespace {

constexpr aclDataType kTypes[] = {
    ACL_FLOAT16, ACL_BF16,  ACL_FLOAT,  ACL_INT8,   ACL_UINT8,       ACL_BOOL,
    ACL_INT32,   ACL_INT64, ACL_DOUBLE, ACL_UINT64, ACL_DT_UNDEFINED};

// The same shape with gaps between its rows, dense in its own order.
std::vector<int64_t> GappedStrides(const std::vector<int64_t>& dims) {
  std::vector<int64_t> strides(dims.size(), 1);
  int64_t stride = 1;
  for (size_t axis = dims.size(); axis-- > 0;) {
    strides[axis] = stride;
    stride *= std::clamp<int64_t>(dims[axis], 1, 64) + 1;
  }
  return strides;
}

void ChangeStrides(Bytes& bytes, TensorArgument& tensor) {
  switch (bytes.Below(4)) {
    case 0:
      tensor.strides.clear();
      break;
    case 1:
      tensor.strides = GappedStrides(tensor.dims);
      break;
    case 2:
      tensor.strides.resize(tensor.dims.size(), 1);
      if (!tensor.strides.empty()) {
        tensor.strides[bytes.Below(tensor.strides.size())] = bytes.Number();
      }
      break;
    default:
      tensor.strides.resize(tensor.dims.size());
      for (int64_t& stride : tensor.strides) stride = bytes.Number();
  }
}

// The axes in another order, and the memory as it was.
void SwapAxes(Bytes& bytes, TensorArgument& tensor) {
  if (tensor.dims.empty()) return;
  const size_t one = bytes.Below(tensor.dims.size());
  const size_t other = bytes.Below(tensor.dims.size());
  std::swap(tensor.dims[one], tensor.dims[other]);
  if (!tensor.strides.empty()) {
    std::swap(tensor.strides[one], tensor.strides[other]);
  }
}

void ChangeTensor(Bytes& bytes, TensorArgument& tensor) {
  switch (bytes.Below(9)) {
    case 0:
      tensor.present = !tensor.present;
      break;
    case 1:
      tensor.type = bytes.Pick(kTypes);
      break;
    case 2:
      if (!tensor.dims.empty()) {
        tensor.dims[bytes.Below(tensor.dims.size())] = bytes.Number();
      }
      break;
    case 3:
      tensor.dims.resize(bytes.Below(10), 2);
      break;
    case 4:
      ChangeStrides(bytes, tensor);
      break;
    case 5:
      SwapAxes(bytes, tensor);
      break;
    case 6:
      tensor.offset = bytes.Number();
      break;
    case 7:
      tensor.format = static_cast<aclFormat>(bytes.Below(34));
      break;
    default:
      tensor.members = bytes.Below(4);
  }
  if (!tensor.strides.empty()) tensor.strides.resize(tensor.dims.size(), 1);
}

// Whatever is as long as one axis gets another length: a number of heads, of
// channels or of sequences mostly.
void ChangeLength(Bytes& bytes, OperatorCall& call) {
  const TensorArgument& like = call.tensors[bytes.Below(call.tensors.size())];
  if (like.dims.empty()) return;
  const int64_t from = like.dims[bytes.Below(like.dims.size())];
  const int64_t to = bytes.Number();
  for (TensorArgument& tensor : call.tensors) {
    std::ranges::replace(tensor.dims, from, to);
  }
  std::ranges::replace(call.integers, from, to);
}

// Every tensor of one type gets another.
void ChangeType(Bytes& bytes, OperatorCall& call) {
  const aclDataType from = call.tensors[bytes.Below(call.tensors.size())].type;
  const aclDataType to = bytes.Pick(kTypes);
  for (TensorArgument& tensor : call.tensors) {
    if (tensor.type == from) tensor.type = to;
  }
}

void ChangeArray(Bytes& bytes, std::optional<std::vector<int64_t>>& array) {
  const size_t kind = bytes.Below(4);
  if (kind == 0 && array.has_value() && !array->empty()) {
    (*array)[bytes.Below(array->size())] = bytes.Number();
  } else if (kind == 1) {
    array.reset();
  } else if (kind == 2) {
    array.emplace(bytes.Below(4));
    for (int64_t& value : *array) value = bytes.Number();
  } else {
    if (!array.has_value()) array.emplace();
    array->resize(bytes.Below(6), bytes.Number());
  }
}

void ChangeText(Bytes& bytes, std::optional<std::string>& text) {
  constexpr const char* kTexts[] = {
      "TND",           "BSND", "BNSD",     "BSH",  "NSD",     "SH",
      "BNSD_BSND",     "NTD",  "SBH",      "",     "PA_BSND", "tnd",
      "same_as_input", "TND ", "BNSDBSND", "BNSDX"};
  const size_t choice = bytes.Below(18);
  if (choice == 16) {
    text.reset();
  } else {
    text = choice == 17 ? std::string(100, 'x') : kTexts[choice];
  }
}

void ChangeScalar(Bytes& bytes, ScalarArgument& scalar) {
  constexpr aclDataType kScalarTypes[] = {ACL_FLOAT, ACL_INT64, ACL_BOOL,
                                          ACL_DOUBLE, ACL_UINT64};
  scalar.present = !bytes.OneIn(8);
  scalar.type = bytes.Pick(kScalarTypes);
  scalar.value = static_cast<double>(bytes.Below(3));
}

}  // namespace

// An operator that has nothing of the kind stays as it is.
void Change(Bytes& bytes, OperatorCall& call) {
  const size_t kind = bytes.Below(12);
  if (kind == 3 && !call.scalars.empty()) {
    ChangeScalar(bytes, call.scalars[bytes.Below(call.scalars.size())]);
  } else if (kind < 4) {
    ChangeTensor(bytes, call.tensors[bytes.Below(call.tensors.size())]);
  } else if (kind == 4) {
    ChangeLength(bytes, call);
  } else if (kind == 5) {
    ChangeType(bytes, call);
  } else if (kind < 8 && !call.arrays.empty()) {
    ChangeArray(bytes, call.arrays[bytes.Below(call.arrays.size())]);
  } else if (kind == 8 && !call.reals.empty()) {
    constexpr double kReals[] = {0, 1, -1, 0.5, 1e300, -0.0, 1.5, 1e-40};
    call.reals[bytes.Below(call.reals.size())] = bytes.Pick(kReals);
  } else if (kind < 11 && !call.integers.empty()) {
    call.integers[bytes.Below(call.integers.size())] = bytes.Number();
  } else if (!call.texts.empty()) {
    ChangeText(bytes, call.texts[bytes.Below(call.texts.size())]);
  }
}

}  // namespace flashacl::testing
