// SPDX-License-Identifier: Apache-2.0
#include "tests/testing/elementwise_call.h"

#include <algorithm>
#include <cmath>
#include <numeric>

namespace flashacl::testing {
namespace {

Form WithStrides(Form form) {
  if (!form.strides.empty()) return form;
  int64_t stride = 1;
  form.strides.resize(form.dims.size());
  for (size_t axis = form.dims.size(); axis-- > 0;) {
    form.strides[axis] = stride;
    stride *= form.dims[axis];
  }
  return form;
}

int64_t Product(const std::vector<int64_t>& dims) {
  return std::accumulate(dims.begin(), dims.end(), int64_t{1},
                         std::multiplies<>());
}

int64_t Extent(const Form& form) {
  if (Product(form.dims) == 0) return 0;
  int64_t last = form.offset;
  for (size_t axis = 0; axis < form.dims.size(); ++axis) {
    last += (form.dims[axis] - 1) * form.strides[axis];
  }
  return (last + 1) * BytesOfType(form.type);
}

const aclTensorList* NewList(const TensorsOfList& of) {
  std::vector<const aclTensor*> members;
  for (const ElementTensor* one : of.members) {
    members.push_back(one == nullptr ? nullptr : one->NewHandle());
  }
  return aclCreateTensorList(members.data(), members.size());
}

}  // namespace

ElementTensor::ElementTensor(Form form, FencedBytes::Side side)
    : form_(WithStrides(std::move(form))), memory_(Extent(form_), side) {
  handle_ = NewHandle();
}

ElementTensor::ElementTensor(aclDataType type, std::vector<int64_t> dims,
                             std::initializer_list<double> values)
    : ElementTensor(Form{type, std::move(dims)}) {
  int64_t n = 0;
  for (const double value : values) Set(n++, value);
}

aclTensor* ElementTensor::NewHandle() const {
  return aclCreateTensor(form_.dims.data(), form_.dims.size(), form_.type,
                         form_.strides.data(), form_.offset, form_.format,
                         form_.dims.data(), form_.dims.size(),
                         count() == 0 ? nullptr : memory_.data());
}

int64_t ElementTensor::count() const { return Product(form_.dims); }

std::byte* ElementTensor::at(int64_t n) const { return at(n, form_.dims); }

std::byte* ElementTensor::at(int64_t n,
                             const std::vector<int64_t>& shape) const {
  int64_t place = form_.offset;
  for (size_t axis = shape.size(); axis-- > 0;) {
    const int64_t index = n % shape[axis];
    n /= shape[axis];
    const size_t missing = shape.size() - form_.dims.size();
    if (axis < missing || form_.dims[axis - missing] == 1) continue;
    place += index * form_.strides[axis - missing];
  }
  return memory_.data() + place * BytesOfType(form_.type);
}

void ElementTensor::Set(int64_t n, double value) {
  const Element element = value == std::floor(value) && std::fabs(value) < 1e18
                              ? WholeElement(static_cast<Whole>(value))
                              : RealElement(value);
  // Minus zero is a real number.
  const bool real = std::signbit(value) || !element.whole;
  WriteElement(form_.type, at(n),
               ConvertElement(real ? RealElement(value) : element, form_.type));
}

std::vector<double> ElementTensor::Values() const {
  std::vector<double> values;
  for (int64_t n = 0; n < count(); ++n) {
    const Element element = Get(n);
    values.push_back(element.whole ? static_cast<double>(element.integer)
                                   : element.real);
  }
  return values;
}

void ElementTensor::Fill(Random& random) {
  for (int64_t n = 0; n < count(); ++n) {
    if (random.OneIn(3)) {
      for (int64_t b = 0; b < BytesOfType(form_.type); ++b) {
        at(n)[b] = static_cast<std::byte>(random.Within(0, 255));
      }
      continue;
    }
    constexpr double kNumbers[] = {0,    -0.0,  1,      -1,     0.5,     2.5,
                                   -2.5, 100,   127,    128,    255,     256,
                                   2049, 65519, 65520,  0x1p31, -0x1p31, 3e10,
                                   1e-7, 1e-40, 0x1p63, -0x1p63};
    const size_t last = std::size(kNumbers) - 1;
    Set(n, kNumbers[random.Within(0, static_cast<int64_t>(last))] +
               (random.OneIn(2) ? 0.0 : random.Fraction()));
  }
}

aclnnStatus ElementwiseCall::Prepare(uint64_t* size,
                                     aclOpExecutor** executor) const {
  Parameters parameters;
  std::vector<const aclTensorList*> lists;
  for (const GivenTensor& given : tensors) {
    if (given.list) {
      lists.push_back(NewList(*given.list));
      parameters.tensors.emplace_back(lists.back());
      continue;
    }
    const aclTensor* const handle =
        given.one == nullptr ? nullptr : given.one->handle();
    parameters.tensors.emplace_back(handle);
  }
  for (const ScalarArgument& of : scalars) {
    parameters.scalars.push_back(NewScalar(of));
  }
  for (const auto& array : arrays) {
    parameters.arrays.push_back(
        array ? aclCreateIntArray(array->data(), array->size()) : nullptr);
  }
  std::vector<std::optional<std::string>> own = texts;
  for (auto& text : own) {
    parameters.texts.push_back(text ? text->data() : nullptr);
  }
  parameters.integers = integers;
  parameters.reals = reals;
  const aclnnStatus status =
      EntryPointsOf(name).phase_one(parameters, size, executor);
  for (const aclScalar* scalar : parameters.scalars) aclDestroyScalar(scalar);
  for (const aclIntArray* array : parameters.arrays) aclDestroyIntArray(array);
  for (const aclTensorList* list : lists) aclDestroyTensorList(list);
  return status;
}

::testing::AssertionResult ElementwiseCall::Run() const {
  uint64_t size = 1;
  aclOpExecutor* executor = nullptr;
  if (const auto planned = Succeeds(Prepare(&size, &executor)); !planned) {
    return planned;
  }
  if (size != 0 && !takes_workspace) {
    return ::testing::AssertionFailure() << "workspace " << size;
  }
  const FencedBytes workspace(static_cast<int64_t>(size));
  const aclnnStatus launched = EntryPointsOf(name).phase_two(
      size == 0 ? nullptr : workspace.data(), size, executor, nullptr);
  if (launched != 0) return Succeeds(launched);
  return Succeeds(aclrtSynchronizeStream(nullptr));
}

::testing::AssertionResult ElementwiseCall::IsRefused(
    aclnnStatus status, const std::string& words) const {
  uint64_t size = 7;
  aclOpExecutor* executor = nullptr;
  const aclnnStatus answer = Prepare(&size, &executor);
  if (size != 7 || executor != nullptr) {
    return ::testing::AssertionFailure() << "something was written";
  }
  return FailsWith(status, answer, words);
}

Form AnyStrides(Random& random, Form form, bool repeats) {
  std::vector<size_t> order(form.dims.size());
  std::iota(order.begin(), order.end(), size_t{0});
  for (size_t n = order.size(); n > 1; --n) {
    std::swap(order[n - 1], order[static_cast<size_t>(random.Within(
                                0, static_cast<int64_t>(n) - 1))]);
  }
  form.strides.assign(form.dims.size(), 1);
  int64_t stride = random.Within(1, 2);
  for (const size_t axis : order) {
    form.strides[axis] = repeats && random.OneIn(4) ? 0 : stride;
    stride = stride * std::max<int64_t>(form.dims[axis], 1) +
             (random.OneIn(3) ? random.Within(0, 2) : 0);
  }
  form.offset = random.OneIn(2) ? random.Within(0, 3) : 0;
  return form;
}

}  // namespace flashacl::testing
