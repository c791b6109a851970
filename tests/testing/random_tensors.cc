// SPDX-License-Identifier: Apache-2.0
#include "tests/testing/random_tensors.h"

#include <algorithm>
#include <utility>

#include "tests/testing/fenced.h"
#include "tests/testing/random.h"

namespace flashacl::testing {

ElementTensor* RandomTensors::New(Form form, bool repeats) {
  if (random_.OneIn(2)) form = AnyStrides(random_, std::move(form), repeats);
  return NewAsIs(std::move(form));
}

ElementTensor* RandomTensors::NewAsIs(Form form) {
  const auto side =
      random_.OneIn(2) ? FencedBytes::Side::kStart : FencedBytes::Side::kEnd;
  tensors_.push_back(std::make_unique<ElementTensor>(std::move(form), side));
  return tensors_.back().get();
}

std::string RandomTensors::ToString() const {
  std::string text;
  for (const auto& tensor : tensors_) {
    const Form& form = tensor->form();
    text +=
        Str("\n  {} [{}] strides [{}] offset {}", static_cast<int>(form.type),
            Join(form.dims, ", "), Join(form.strides, ", "), form.offset);
  }
  return text;
}

void RandomTensors::BeforeCall() {
  before_.clear();
  for (const auto& tensor : tensors_) before_.push_back(tensor->Image());
}

void RandomTensors::ExpectOnlyWritten(
    std::span<const ElementTensor* const> results) {
  for (const ElementTensor* const result : results) {
    const auto of = std::ranges::find(
        tensors_, result, [](const auto& tensor) { return tensor.get(); });
    ASSERT_NE(of, tensors_.end());
    auto& image = before_[static_cast<size_t>(of - tensors_.begin())];
    const auto bytes = static_cast<size_t>(BytesOfType(result->form().type));
    for (int64_t n = 0; n < result->count(); ++n) {
      const std::byte* const at = result->at(n);
      std::copy_n(at, bytes, image.begin() + (at - result->data()));
    }
  }
  for (size_t t = 0; t < tensors_.size(); ++t) {
    EXPECT_TRUE(tensors_[t]->Image() == before_[t]) << "tensor " << t;
  }
}

void ExpectWithin(const ElementTensor& of, int64_t n, double expected,
                  double slack) {
  const aclDataType type = of.form().type;
  const auto rounded = [&](double value) {
    return ConvertElement(RealElement(value), type).real;
  };
  const double got = of.Get(n).real;
  ASSERT_GE(got, rounded(expected - slack)) << "element " << n;
  ASSERT_LE(got, rounded(expected + slack)) << "element " << n;
}

}  // namespace flashacl::testing
