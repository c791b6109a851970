// SPDX-License-Identifier: Apache-2.0
// The tensors of a random call, dense or of any strides, which begin or end at
// a page that nobody may touch; and whether a call left alone what it should.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "base/random.h"
#include "base/str.h"
#include "tests/testing/elementwise_call.h"

namespace flashacl::testing {

class RandomTensors {
 public:
  explicit RandomTensors(Random& random) : random_(random) {}

  // Lives as long as this does. `repeats`: some strides may be 0.
  ElementTensor* New(Form form, bool repeats);

  // Of these strides.
  ElementTensor* NewAsIs(Form form);

  const ElementTensor& operator[](size_t n) const { return *tensors_[n]; }

  // Type, shape, strides and offset, a line each.
  std::string ToString() const;

  // Remembers all bytes.
  void BeforeCall();

  // Since then nothing was written but elements of `results`.
  void ExpectOnlyWritten(std::span<const ElementTensor* const> results);

 private:
  Random& random_;
  std::vector<std::unique_ptr<ElementTensor>> tensors_;
  std::vector<std::vector<std::byte>> before_;
};

// Element n is a number within `slack` of the expected one, rounded.
void ExpectWithin(const ElementTensor& of, int64_t n, double expected,
                  double slack);

// Checks the calls of seeds 1 to `count`, until one fails.
template <typename RandomCall>
void CheckRandomCalls(uint64_t count) {
  for (uint64_t seed = 1; seed <= count; ++seed) {
    RandomCall call(seed);
    SCOPED_TRACE(Str("seed {}: {}", seed, call.ToString()));
    call.Check();
    if (::testing::Test::HasFailure()) return;
  }
}

}  // namespace flashacl::testing
