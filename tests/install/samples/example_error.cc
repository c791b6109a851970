// SPDX-License-Identifier: Apache-2.0
// What the examples judge their results by: of errors one after the other the
// greatest counts, and a NaN, wherever it comes.
#include <cmath>
#include <cstdio>

#include "../../../examples/example.h"

int main() {
  const double nan = std::nan("");
  const double got[4][3] = {{1, 1.5, 1}, {nan, 1, 1}, {1, nan, 1}, {1, 1, nan}};
  for (const auto& three : got) {
    example::Error error;
    for (double one : three) error.Add(one, 1);
    std::printf("%.1f %d ", error.relative(), error.relative() <= 0.6 ? 1 : 0);
  }
  std::puts("");
  return 0;
}
