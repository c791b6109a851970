// SPDX-License-Identifier: Apache-2.0
// The tensor arguments of one operator call, as phase 1 saw them: a table says
// what each may be, a snapshot what it was. Every operator checks and reads its
// tensors through here, so that messages, address updates, fuzzing and the
// documents agree.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "acl/tensor.h"
#include "base/status.h"

namespace flashacl::acl {

// A set of element types, one bit each.
using DTypeSet = uint32_t;
constexpr DTypeSet Bit(DType dtype) {
  return DTypeSet{1} << static_cast<int>(dtype);
}
inline constexpr DTypeSet kHalves = Bit(DType::kF16) | Bit(DType::kBf16);
inline constexpr DTypeSet kFloats = kHalves | Bit(DType::kF32);
inline constexpr DTypeSet kF32Only = Bit(DType::kF32);
inline constexpr DTypeSet kMaskBytes =
    Bit(DType::kBool) | Bit(DType::kU8) | Bit(DType::kI8);
inline constexpr DTypeSet kIndices = Bit(DType::kI32) | Bit(DType::kI64);
inline constexpr DTypeSet kAnyType = ~DTypeSet{0};

enum class Need : uint8_t {
  kRequired,    // null is 161001
  kOptional,    // null, rank 0 and no elements all mean absent
  kMayBeEmpty,  // null and no elements do; rank 0 is one element
  kIgnored,     // may be anything; never looked at
  kAbsent,      // other versions of the operator have it, this one does not
};

// One row of an operator's argument table.
struct Argument {
  std::string_view name;  // as the caller spells it
  Need need = Need::kOptional;
  DTypeSet dtypes = kAnyType;
  bool output = false;
  bool list = false;      // an aclTensorList
  bool in_place = false;  // an output that is an input, too

  bool input() const { return !output || in_place; }
};

// What the caller passed for one row; the one that does not apply is null.
struct Passed {
  const aclTensor* tensor = nullptr;
  const aclTensorList* list = nullptr;

  Passed(const aclTensor* handle) : tensor(handle) {}    // NOLINT: by design
  Passed(const aclTensorList* handle) : list(handle) {}  // NOLINT: by design
};

// A tensor argument, or a member of a list, in order of declaration.
struct Entry {
  int argument = 0;  // row of the table
  int member = 0;    // index in the list; 0 for a plain tensor
  const aclTensor* handle = nullptr;
  std::shared_ptr<const Tensor> tensor;  // null if the caller passed null

  const Tensor* operator->() const { return tensor.get(); }
};

// Whether the entry is another way to pass nothing, where its row allows that.
bool MeansAbsent(const Argument& row, const Entry& entry);

class Arguments {
 public:
  // Takes the snapshot. `passed` is what was passed for each row, in order, but
  // for those of kAbsent. kInvalidArgument if a handle is not of a live object.
  static Result<Arguments> Read(std::span<const Argument> table,
                                std::span<const Passed> passed);

  // kNullArgument if a required one is null.
  Status CheckPresent() const;

  // kInvalidArgument unless every present one has a type its row allows, a
  // plain (not a private) format, and strides and an offset that can be
  // followed.
  Status CheckTypes() const;

  // The tensor of a row that is no list; null when absent. An optional tensor
  // without elements counts as absent, a required one does not.
  const Tensor* at(int argument) const;
  bool has(int argument) const { return at(argument) != nullptr; }

  // Also a tensor that counts as absent; null only if nothing was passed.
  const Tensor* given(int argument) const {
    const std::span<const Entry> passed = list(argument);
    return passed.empty() ? nullptr : passed[0].tensor.get();
  }

  // As at(), for a row that is required and was checked.
  const Tensor& operator[](int argument) const { return *at(argument); }

  // The members of a row that is a list; of one that is none, its tensor.
  std::span<const Entry> list(int argument) const;

  std::span<const Argument> table() const { return table_; }
  std::span<const Entry> entries() const { return entries_; }
  std::string_view name(int argument) const { return table_[argument].name; }

 private:
  std::span<const Argument> table_;
  std::vector<Entry> entries_;  // a list's members one by one
  std::vector<int> first_;      // per row, its first entry; one more at the end
  std::vector<bool> passed_;    // per row, whether the caller passed anything
};

// kInvalidArgument unless each stride steps over all that shorter ones reach:
// elements of a result must not share memory. The whole must span less than
// 2^62 elements; CheckTypes() has seen to that.
Status CheckApart(std::string_view name, const Tensor& tensor);

// The values of a host array; empty if `array` is null or has none.
Result<std::vector<int64_t>> ReadArray(std::string_view name,
                                       const aclIntArray* array);

// What a message on an array's number above `most` ends in: whether it is two
// numbers of INT32, each up to `most`, that were read as one; else nothing.
std::string IfTwoOfInt32(int64_t number, int64_t most);

// The text up to its NUL, at most 64 characters; empty if null. A view of what
// the caller passed, or a copy.
std::string_view TextOf(const char* text) noexcept;
std::string ReadText(const char* text);

}  // namespace flashacl::acl
