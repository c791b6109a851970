// SPDX-License-Identifier: Apache-2.0
// Snapshots and uniform checks of tensor arguments.
#include "acl/arguments.h"

#include <cstring>
#include <utility>

#include "acl/array.h"
#include "base/check.h"
#include "base/str.h"

namespace flashacl::acl {
namespace {

// Formats that are plain strided memory, whatever their axes are called.
bool IsPlain(aclFormat format) {
  return format == ACL_FORMAT_ND || format == ACL_FORMAT_NCHW ||
         format == ACL_FORMAT_NHWC || format == ACL_FORMAT_NCL ||
         format == ACL_FORMAT_NCDHW || format == ACL_FORMAT_NDHWC ||
         format == ACL_FORMAT_NC || format == ACL_FORMAT_HWCN ||
         format == ACL_FORMAT_UNDEFINED;
}

std::string Expected(DTypeSet dtypes) {
  std::string names;
  for (const aclDataType type :
       {ACL_FLOAT16, ACL_BF16, ACL_FLOAT, ACL_DOUBLE, ACL_INT8, ACL_UINT8,
        ACL_BOOL, ACL_INT32, ACL_INT64, ACL_UINT64, ACL_INT4}) {
    Tensor of;
    of.acl_dtype = type;
    if ((dtypes & Bit(of.dtype())) == 0) continue;
    names += Str("{}{}", names.empty() ? "" : ", ", TypeText(type));
  }
  return names;
}

Result<Entry> ReadTensor(const Argument& row, const aclTensor* handle) {
  Entry entry;
  entry.handle = handle;
  if (handle == nullptr || row.need == Need::kIgnored) return entry;
  const std::shared_ptr<const Tensor> live = Find<Tensor>(handle);
  if (live == nullptr) {
    return Invalid(
        "{}: this is not a live aclTensor (destroyed, or never "
        "created){}",
        row.name, IfParents<Tensor>(handle));
  }
  // A copy: the caller may change or destroy the tensor after phase 1.
  const auto copy = std::make_shared<Tensor>(*live);
  if (copy->empty()) {
    // Where elements would be that are not there must not overflow a sum.
    copy->strides.fill(1);
    copy->offset = 0;
  }
  entry.tensor = copy;
  return entry;
}

// Kernels step forward only and count in int64_t.
Status CheckStrides(const Argument& row, const Tensor& tensor) {
  constexpr int64_t kMaxElements = int64_t{1} << 59;  // 2^62 bytes
  int64_t last = tensor.offset;
  bool within = last < kMaxElements;
  for (size_t axis = 0; axis < tensor.rank; ++axis) {
    const int64_t steps = tensor.dims[axis] - 1;
    const int64_t stride = tensor.strides[axis];
    if (stride < 0) {
      return Invalid("{}: stride {} of axis {}, expected at least 0", row.name,
                     stride, axis);
    }
    int64_t span;
    within = within && !__builtin_mul_overflow(steps, stride, &span) &&
             !__builtin_add_overflow(last, span, &last) && last < kMaxElements;
  }
  if (tensor.offset < 0) {
    return Invalid("{}: offset {}, expected at least 0", row.name,
                   tensor.offset);
  }
  if (within || tensor.empty()) return {};
  return Invalid(
      "{}: shape {} with its strides and offset {} spans more than "
      "2^59 elements",
      row.name, ShapeText(tensor), tensor.offset);
}

}  // namespace

bool MeansAbsent(const Argument& row, const Entry& entry) {
  if (entry.tensor == nullptr) return true;
  const Tensor& tensor = *entry.tensor;
  if (row.need == Need::kMayBeEmpty) return tensor.empty();
  return row.need == Need::kOptional && (tensor.rank == 0 || tensor.empty());
}

Status CheckApart(std::string_view name, const Tensor& tensor) {
  if (tensor.empty()) return {};
  for (size_t axis = 0; axis < tensor.rank; ++axis) {
    if (tensor.dims[axis] == 1) continue;
    const int64_t stride = tensor.strides[axis];
    int64_t span = 1;  // elements that axes with shorter strides lie in
    for (size_t other = 0; other < tensor.rank; ++other) {
      const bool shorter =
          std::pair(tensor.strides[other], other) < std::pair(stride, axis);
      if (shorter) span += (tensor.dims[other] - 1) * tensor.strides[other];
    }
    if (stride < span) {
      return Invalid(
          "{}: stride {} of axis {} in shape {}, expected at least {}: results "
          "that share memory cannot all be kept",
          name, stride, axis, ShapeText(tensor), span);
    }
  }
  return {};
}

Result<Arguments> Arguments::Read(std::span<const Argument> table,
                                  std::span<const Passed> passed) {
  Arguments arguments;
  arguments.table_ = table;
  arguments.entries_.reserve(table.size() + 1);
  arguments.first_.reserve(table.size() + 1);
  arguments.passed_.reserve(table.size());
  auto next = passed.begin();
  for (size_t row = 0; row < table.size(); ++row) {
    arguments.first_.push_back(static_cast<int>(arguments.entries_.size()));
    if (table[row].need == Need::kAbsent) {
      arguments.passed_.push_back(false);
      continue;
    }
    FLASHACL_DCHECK(next != passed.end());
    const Passed& given = *next++;
    std::span<const aclTensor* const> handles(&given.tensor, 1);
    std::shared_ptr<TensorList> list;
    if (table[row].list) {
      list = Find<TensorList>(given.list);
      if (list == nullptr && given.list != nullptr) {
        return Invalid("{}: this is not a live aclTensorList{}",
                       table[row].name, IfParents<TensorList>(given.list));
      }
      handles = {};
      if (list != nullptr) handles = list->members;
    }
    arguments.passed_.push_back(table[row].list ? given.list != nullptr
                                                : given.tensor != nullptr);
    for (size_t member = 0; member < handles.size(); ++member) {
      Result<Entry> entry = ReadTensor(table[row], handles[member]);
      if (!entry.ok()) return entry.status();
      entry->argument = static_cast<int>(row);
      entry->member = static_cast<int>(member);
      arguments.entries_.push_back(*std::move(entry));
    }
  }
  FLASHACL_DCHECK(next == passed.end());
  arguments.first_.push_back(static_cast<int>(arguments.entries_.size()));
  return arguments;
}

Status Arguments::CheckPresent() const {
  // Asked in any case: the next call's null has another reason.
  const std::string why = WhyNull();
  for (size_t row = 0; row < table_.size(); ++row) {
    if (table_[row].need == Need::kRequired && !passed_[row]) {
      return NullArgument("The {} cannot be nullptr{}.", table_[row].name, why);
    }
    if (table_[row].need != Need::kRequired || !table_[row].list) continue;
    for (const Entry& entry : list(static_cast<int>(row))) {
      if (entry.tensor == nullptr) {
        return NullArgument("The {}[{}] cannot be nullptr.", table_[row].name,
                            entry.member);
      }
    }
  }
  return {};
}

Status Arguments::CheckTypes() const {
  for (const Entry& entry : entries_) {
    const Argument& row = table_[static_cast<size_t>(entry.argument)];
    if (MeansAbsent(row, entry)) continue;
    const DType dtype = entry.tensor->dtype();
    const bool fits = row.dtypes == kAnyType ||
                      (dtype != DType::kNone && (row.dtypes & Bit(dtype)) != 0);
    if (!fits) {
      return Invalid("{}: data type {} ({}), expected {}", row.name,
                     TypeText(entry.tensor->acl_dtype),
                     static_cast<int>(entry.tensor->acl_dtype),
                     Expected(row.dtypes));
    }
    if (!IsPlain(entry.tensor->format)) {
      return Invalid("{}: private format {}, expected ND", row.name,
                     static_cast<int>(entry.tensor->format));
    }
    FLASHACL_RETURN_IF_ERROR(CheckStrides(row, *entry.tensor));
    if (row.output && row.dtypes != kAnyType) {
      FLASHACL_RETURN_IF_ERROR(CheckApart(row.name, *entry.tensor));
    }
  }
  return {};
}

const Tensor* Arguments::at(int argument) const {
  const Argument& row = table_[static_cast<size_t>(argument)];
  const size_t first = static_cast<size_t>(first_[argument]);
  if (row.list || row.need == Need::kIgnored || row.need == Need::kAbsent) {
    return nullptr;
  }
  const Entry& entry = entries_[first];
  return MeansAbsent(row, entry) ? nullptr : entry.tensor.get();
}

std::span<const Entry> Arguments::list(int argument) const {
  const size_t first = static_cast<size_t>(first_[argument]);
  const size_t last = static_cast<size_t>(first_[argument + 1]);
  return std::span(entries_).subspan(first, last - first);
}

Result<std::vector<int64_t>> ReadArray(std::string_view name,
                                       const aclIntArray* array) {
  if (array == nullptr) return std::vector<int64_t>{};
  const std::shared_ptr<IntArray> live = Find<IntArray>(array);
  if (live == nullptr) {
    return Invalid("{}: this is not a live aclIntArray{}", name,
                   IfParents<IntArray>(array));
  }
  return live->values;
}

std::string IfTwoOfInt32(int64_t number, int64_t most) {
  // As they lie in memory: the first is the lower half.
  const int64_t first = number & 0xFFFFFFFF;
  const int64_t second = number >> 32;
  if (second <= 0 || first > most || second > most) return {};
  return Str("; it is {} and {} as INT32, but an aclIntArray is made of INT64",
             first, second);
}

std::string_view TextOf(const char* text) noexcept {
  constexpr size_t kLongest = 64;
  if (text == nullptr) return {};
  return {text, strnlen(text, kLongest)};
}

std::string ReadText(const char* text) { return std::string(TextOf(text)); }

}  // namespace flashacl::acl
