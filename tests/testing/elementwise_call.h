// SPDX-License-Identifier: Apache-2.0
// Calls of operators that are no attention over tensors of any type and
// strides, whose memory ends at a page that nobody may touch.
#pragma once

#include <gtest/gtest.h>

#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "acl/acl.h"
#include "aclnn/acl_meta.h"
#include "base/random.h"
#include "tests/testing/call.h"
#include "tests/testing/element.h"
#include "tests/testing/entry_points.h"
#include "tests/testing/fenced.h"
#include "tests/testing/operator_call.h"
#include "tests/testing/runtime.h"

namespace flashacl::testing {

// All bytes are 0xFF at first.
class ElementTensor {
 public:
  explicit ElementTensor(Form form,
                         FencedBytes::Side side = FencedBytes::Side::kEnd);
  ElementTensor(aclDataType type, std::vector<int64_t> dims,
                std::initializer_list<double> values = {});
  ~ElementTensor() { aclDestroyTensor(handle_); }
  ElementTensor(const ElementTensor&) = delete;
  ElementTensor& operator=(const ElementTensor&) = delete;

  const Form& form() const { return form_; }
  aclTensor* handle() const { return handle_; }
  // Another one of the same tensor, which the caller destroys.
  aclTensor* NewHandle() const;
  std::byte* data() const { return memory_.data(); }
  int64_t count() const;

  // Element n in order of the shape.
  std::byte* at(int64_t n) const;
  // The element that broadcasting puts at place n of `shape`.
  std::byte* at(int64_t n, const std::vector<int64_t>& shape) const;
  Element Get(int64_t n) const { return ReadElement(form_.type, at(n)); }
  void Set(int64_t n, double value);
  std::vector<double> Values() const;

  // Every bit at random, with numbers among them that rounding cares for.
  void Fill(Random& random);

  std::vector<std::byte> Image() const {
    return {memory_.span().begin(), memory_.span().end()};
  }

 private:
  Form form_;
  FencedBytes memory_;
  aclTensor* handle_ = nullptr;
};

// The members of a list of tensors; null: a null pointer.
struct TensorsOfList {
  std::vector<const ElementTensor*> members;
};

// What is passed for a tensor, or for a list.
struct GivenTensor {
  GivenTensor(const ElementTensor* tensor) : one(tensor) {}  // NOLINT
  GivenTensor(TensorsOfList tensors)                         // NOLINT
      : list(std::move(tensors)) {}

  const ElementTensor* one = nullptr;  // null: a null pointer
  std::optional<TensorsOfList> list = {};
};

// One call, on the default stream.
struct ElementwiseCall {
  std::string_view name;
  std::vector<GivenTensor> tensors = {};
  std::vector<ScalarArgument> scalars = {};
  std::vector<int64_t> integers = {};
  std::vector<double> reals = {};
  std::vector<std::optional<std::vector<int64_t>>> arrays = {};
  std::vector<std::optional<std::string>> texts = {};
  bool takes_workspace = false;  // else it must need none

  aclnnStatus Prepare(uint64_t* size, aclOpExecutor** executor) const;
  // Both phases, until the stream is done.
  ::testing::AssertionResult Run() const;
  ::testing::AssertionResult IsRefused(aclnnStatus status,
                                       const std::string& words) const;
};

// The same shape with gaps between its elements, axes in any order in memory;
// if `repeats`, some axes with stride 0.
Form AnyStrides(Random& random, Form form, bool repeats);

}  // namespace flashacl::testing
