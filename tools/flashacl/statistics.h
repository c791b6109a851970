// SPDX-License-Identifier: Apache-2.0
// What is said of several measurements of one thing. Medians and quartiles,
// not means: on a shared machine the worst values say most about the others.
#pragma once

#include <vector>

namespace flashacl::tool {

// Values at 0, 1/4, 1/2, 3/4 and 1 of the way from the least to the greatest,
// between neighbours in proportion; all 0 of no values.
struct Summary {
  double least = 0;
  double low = 0;  // a quarter is below
  double median = 0;
  double high = 0;  // a quarter is above
  double greatest = 0;

  // The middle half lies within the median and this share of it, on average
  // of both sides; 0 if the median is.
  double spread() const { return median == 0 ? 0 : (high - low) / 2 / median; }
};

Summary Summarise(std::vector<double> values);

}  // namespace flashacl::tool
