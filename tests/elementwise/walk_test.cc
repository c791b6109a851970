// SPDX-License-Identifier: Apache-2.0
// A walk comes by every element once, wherever it is cut, and in rows that are
// no shorter than they must be.
#include "elementwise/walk.h"

#include <gtest/gtest.h>

#include <set>
#include <vector>

#include "base/random.h"
#include "base/str.h"

namespace flashacl::elementwise {
namespace {

using Extents = std::vector<int64_t>;

// The places of all elements, by loops over the axes.
std::multiset<Places> AllPlaces(const Extents& extents,
                                const std::vector<Axes>& strides) {
  std::multiset<Places> all;
  int64_t count = 1;
  for (const int64_t extent : extents) count *= extent;
  for (int64_t n = 0; n < count; ++n) {
    Places places{};
    int64_t rest = n;
    for (size_t axis = extents.size(); axis-- > 0;) {
      const int64_t index = rest % extents[axis];
      rest /= extents[axis];
      for (size_t t = 0; t < strides.size(); ++t) {
        places[t] += index * strides[t][axis];
      }
    }
    all.insert(places);
  }
  return all;
}

std::multiset<Places> WalkedPlaces(const Walk& walk, int64_t chunk,
                                   int64_t* rows = nullptr) {
  std::multiset<Places> all;
  for (int64_t first = 0; first < walk.elements(); first += chunk) {
    const int64_t last = std::min(first + chunk, walk.elements());
    walk.ForRows({first, last}, [&](Places places, int64_t count) {
      if (rows != nullptr) ++*rows;
      for (int64_t n = 0; n < count; ++n) {
        all.insert(places);
        for (size_t t = 0; t < places.size(); ++t) {
          places[t] += walk.row_steps()[t];
        }
      }
    });
  }
  return all;
}

int64_t RowsOf(const Walk& walk) {
  int64_t rows = 0;
  WalkedPlaces(walk, walk.elements(), &rows);
  return rows;
}

// Places of unused operands do not matter.
std::multiset<Places> Cut(const std::multiset<Places>& all, size_t operands) {
  std::multiset<Places> cut;
  for (Places places : all) {
    for (size_t t = operands; t < places.size(); ++t) places[t] = 0;
    cut.insert(places);
  }
  return cut;
}

TEST(Walk, DenseTensorsAreOneRow) {
  const std::vector<Axes> dense(3, Axes{12, 4, 1});
  EXPECT_EQ(RowsOf(Walk(Extents{2, 3, 4}, dense)), 1);
  // Whatever the order of the axes, if it is the same.
  const std::vector<Axes> swapped(2, Axes{1, 8, 2});
  EXPECT_EQ(RowsOf(Walk(Extents{2, 3, 4}, swapped)), 1);
}

TEST(Walk, NoAxesAreOneElement) {
  const Walk walk(Extents{}, std::vector<Axes>(2));
  EXPECT_EQ(walk.elements(), 1);
  EXPECT_EQ(WalkedPlaces(walk, 1).size(), 1u);
  // Nothing steps, so dense loops may be taken.
  EXPECT_EQ(walk.row_steps()[0], 1);
}

TEST(Walk, RowsFollowWhatIsWritten) {
  const Walk walk(Extents{3, 4}, std::vector<Axes>{{4, 1}, {1, 3}});
  EXPECT_EQ(walk.row_steps()[1], 1);
  EXPECT_EQ(walk.row_steps()[0], 4);
}

TEST(Walk, ComesByEveryElementOnce) {
  Random random(1);
  for (int round = 0; round < 500; ++round) {
    Extents extents(static_cast<size_t>(random.Within(0, 8)));
    for (int64_t& extent : extents) extent = random.Within(1, 4);
    std::vector<Axes> strides(static_cast<size_t>(random.Within(2, 3)));
    for (Axes& axes : strides) {
      int64_t stride = 1;
      for (size_t axis = extents.size(); axis-- > 0;) {
        axes[axis] = random.OneIn(5) ? random.Within(0, 9) : stride;
        stride *= extents[axis];
      }
    }
    SCOPED_TRACE(Str("[{}]", Join(extents, ", ")));
    const Walk walk(extents, strides);
    const auto expected = AllPlaces(extents, strides);
    const int64_t chunk = random.Within(1, walk.elements());
    ASSERT_EQ(Cut(WalkedPlaces(walk, chunk), strides.size()), expected);
  }
}

}  // namespace
}  // namespace flashacl::elementwise
