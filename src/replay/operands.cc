// SPDX-License-Identifier: Apache-2.0
#include "replay/operands.h"

#include <algorithm>
#include <utility>

#include "acl/acl.h"
#include "base/str.h"

namespace flashacl::replay {
namespace {

// What a program passed that was no handle.
const void* NoHandle() { return reinterpret_cast<const void*>(uintptr_t{16}); }

// A view of a large buffer need not begin so far into one here.
constexpr int64_t kMaxOffsetBytes = int64_t{64} << 20;
constexpr size_t kSomeBytes = 64;  // of tensors that nobody looks at

int64_t OffsetBytes(const record::Tensor& tensor) {
  const record::ElementType* const type = record::FindElementType(tensor.type);
  int64_t bits = 0;
  if (type == nullptr || tensor.offset < 0 ||
      __builtin_mul_overflow(tensor.offset, int64_t{type->bits}, &bits)) {
    return -1;
  }
  return bits / 8;
}

Status NoMemory(size_t bytes) {
  return RuntimeFailure("no device memory of {} bytes", bytes);
}

}  // namespace

DeviceBlock::DeviceBlock(size_t bytes) {
  void* data = nullptr;
  if (aclrtMalloc(&data, bytes, ACL_MEM_MALLOC_NORMAL_ONLY) == 0) {
    data_ = static_cast<std::byte*>(data);
  }
}

DeviceBlock::~DeviceBlock() {
  if (data_ != nullptr) aclrtFree(data_);
}

Result<std::unique_ptr<Operands>> Operands::Make(const record::Reader& reader,
                                                 const record::Call& call) {
  std::unique_ptr<Operands> made(new Operands);
  for (const record::Parameter& parameter : call.parameters) {
    const Result<Given> value = made->Value(reader, parameter);
    if (!value.ok()) return value.status();
    made->values_.push_back(*value);
  }
  return made;
}

Operands::~Operands() {
  for (const aclTensorList* const list : lists_) aclDestroyTensorList(list);
  for (const aclTensor* const tensor : handles_) aclDestroyTensor(tensor);
  for (const aclIntArray* const array : arrays_) aclDestroyIntArray(array);
  for (const aclScalar* const scalar : scalars_) aclDestroyScalar(scalar);
}

Status Operands::Upload() const {
  for (const Operand& one : tensors_) {
    if (aclrtMemcpy(one.first, one.before.size(), one.before.data(),
                    one.before.size(), ACL_MEMCPY_HOST_TO_DEVICE) != 0) {
      return RuntimeFailure("{}: cannot be copied to the device", one.name);
    }
  }
  return {};
}

Result<const aclTensor*> Operands::NewTensor(const record::Reader& reader,
                                             const std::string& name,
                                             const record::Tensor& tensor) {
  std::byte* data = nullptr;
  int64_t offset = tensor.offset;
  if (tensor.bytes > 0) {
    if (!tensor.before.has_value()) {
      return Invalid("{}: its bytes were not recorded", name);
    }
    Result<std::vector<std::byte>> bytes =
        reader.ReadTensor(tensor, *tensor.before);
    if (!bytes.ok()) {
      return Invalid("{}: {}", name, bytes.status().message());
    }
    int64_t skipped = OffsetBytes(tensor);
    if (skipped < 0 || skipped > kMaxOffsetBytes) offset = skipped = 0;
    const size_t size = static_cast<size_t>(skipped) + bytes->size();
    blocks_.push_back(std::make_unique<DeviceBlock>(size));
    data = blocks_.back()->data();
    if (data == nullptr) return NoMemory(size);
    tensors_.push_back({name, &tensor, std::move(*bytes), data + skipped});
  } else if (tensor.has_data) {
    blocks_.push_back(std::make_unique<DeviceBlock>(kSomeBytes));
    data = blocks_.back()->data();
  }
  const aclTensor* const handle = aclCreateTensor(
      tensor.shape.data(), tensor.shape.size(),
      static_cast<aclDataType>(tensor.type_number), tensor.strides.data(),
      offset, static_cast<aclFormat>(tensor.format), tensor.storage.data(),
      tensor.storage.size(), data);
  if (handle == nullptr) return Invalid("{}: no tensor can be so", name);
  return handle;
}

Result<Given> Operands::Value(const record::Reader& reader,
                              const record::Parameter& parameter) {
  const record::Value& value = parameter.value;
  if (std::holds_alternative<record::NoObject>(value)) {
    return Given(NoHandle());
  }
  if (const auto* const tensor = std::get_if<record::Tensor>(&value)) {
    const auto made = NewTensor(reader, parameter.name, *tensor);
    if (!made.ok()) return made.status();
    handles_.push_back(*made);
    return Given(static_cast<const void*>(*made));
  }
  using List = std::vector<record::TensorOrNot>;
  if (const auto* const list = std::get_if<List>(&value)) {
    std::vector<const aclTensor*> members;
    for (const record::TensorOrNot& one : *list) {
      members.push_back(nullptr);
      if (!one.has_value()) continue;
      const auto made = NewTensor(
          reader, Str("{}[{}]", parameter.name, members.size() - 1), *one);
      if (!made.ok()) return made.status();
      members.back() = *made;
    }
    lists_.push_back(aclCreateTensorList(members.data(), members.size()));
    return Given(static_cast<const void*>(lists_.back()));
  }
  if (const auto* const numbers = std::get_if<std::vector<int64_t>>(&value)) {
    arrays_.push_back(aclCreateIntArray(numbers->data(), numbers->size()));
    return Given(static_cast<const void*>(arrays_.back()));
  }
  if (const auto* const scalar = std::get_if<record::Scalar>(&value)) {
    // As many bytes as any type has, and no fewer than are read.
    std::vector<uint8_t> bytes = scalar->bytes;
    bytes.resize(std::max<size_t>(bytes.size(), 16));
    scalars_.push_back(aclCreateScalar(
        bytes.data(), static_cast<aclDataType>(scalar->type_number)));
    return Given(static_cast<const void*>(scalars_.back()));
  }
  if (const auto* const text = std::get_if<std::string>(&value)) {
    texts_.push_back(std::make_unique<std::string>(*text));
    return Given(static_cast<const void*>(texts_.back()->c_str()));
  }
  if (const auto* const real = std::get_if<double>(&value)) return Given(*real);
  if (const auto* const number = std::get_if<int64_t>(&value)) {
    return Given(*number);
  }
  if (const auto* const truth = std::get_if<bool>(&value)) {
    return Given(int64_t{*truth ? 1 : 0});
  }
  return Given(static_cast<const void*>(nullptr));
}

}  // namespace flashacl::replay
