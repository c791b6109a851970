// SPDX-License-Identifier: Apache-2.0
#include "tools/flashacl/roofline.h"

#include <gtest/gtest.h>

#include <regex>

#include "problem/notation.h"

namespace flashacl::tool {
namespace {

size_t Count(const std::string& text, const std::string& what) {
  size_t count = 0;
  for (size_t at = text.find(what); at != text.npos;
       at = text.find(what, at + 1)) {
    ++count;
  }
  return count;
}

// The subset of XML that the pictures use: nested elements, quoted attributes,
// text without < and & but in entities.
void ExpectWellFormed(const std::string& text) {
  static const std::regex kPiece(
      R"re(<([a-z]+)((?: [A-Za-z0-9-]+="[^"<&]*")*)(/?)>)re"
      R"re(|</([a-z]+)>|(?:[^<>&]|&(?:amp|lt|gt);)+)re");
  std::vector<std::string> open;
  auto at = text.begin();
  while (at != text.end()) {
    std::smatch piece;
    ASSERT_TRUE(std::regex_search(at, text.end(), piece, kPiece,
                                  std::regex_constants::match_continuous))
        << std::string(at, std::min(text.end(), at + 80));
    if (piece[1].matched && piece[3].length() == 0) open.push_back(piece[1]);
    if (piece[4].matched) {
      ASSERT_FALSE(open.empty());
      EXPECT_EQ(open.back(), piece[4]);
      open.pop_back();
    }
    at = piece[0].second;
  }
  EXPECT_TRUE(open.empty());
}

Roofline Some() {
  return {"a \"caption\"",
          200e9,
          25e9,
          {{"prefill <a & b>", 400, 150e9}, {"decode", 4, 80e9}}};
}

TEST(Roofline, IsTheLowerOfBoth) {
  EXPECT_EQ(Some().Roof(1), 25e9);
  EXPECT_EQ(Some().Roof(8), 200e9);
  EXPECT_EQ(Some().Roof(1000), 200e9);
}

TEST(Roofline, SvgIsWellFormedAndHasEveryPoint) {
  const std::string svg = DrawSvg(Some());
  ExpectWellFormed(svg);
  EXPECT_EQ(Count(svg, "<circle"), 2u);
  EXPECT_NE(
      svg.find("1  prefill &lt;a &amp; b&gt;: 150.0 GFLOP/s, 0.75 of the"),
      std::string::npos)
      << svg;
  EXPECT_NE(svg.find("2  decode: 80.00 GFLOP/s, 0.80 of the roof"),
            std::string::npos);
  EXPECT_NE(svg.find("FMA peak 200.0 GFLOP/s"), std::string::npos);
  EXPECT_NE(svg.find("read bandwidth 25.0 GB/s"), std::string::npos);
  EXPECT_EQ(Count(svg, "nan"), 0u);
  EXPECT_EQ(Count(svg, "inf"), 0u);
}

// More and faster is farther right and higher up.
TEST(Roofline, PointsAreWhereTheyBelong) {
  const std::string svg = DrawSvg(Some());
  static const std::regex kCircle(R"re(cx="([0-9.]+)" cy="([0-9.]+)")re");
  std::smatch first, second;
  ASSERT_TRUE(std::regex_search(svg, first, kCircle));
  const std::string rest = first.suffix();
  ASSERT_TRUE(std::regex_search(rest, second, kCircle));
  EXPECT_GT(std::stod(first[1]), std::stod(second[1]));
  EXPECT_LT(std::stod(first[2]), std::stod(second[2]));
}

// Each number stands in its own dot, also where two are near each other.
TEST(Roofline, NumbersAreInTheirDots) {
  Roofline roofline = Some();
  roofline.points.push_back({"near", 4.1, 79e9});
  const std::string svg = DrawSvg(roofline);
  static const std::regex kDot(
      R"re(<circle cx="([0-9.]+)" cy="([0-9.]+)"[^\n]*\n)re"
      R"re(<text x="([0-9.]+)" y="([0-9.]+)" )re"
      R"re(text-anchor="middle"[^>]*>(\d)<)re");
  int number = 0;
  for (std::sregex_iterator dot(svg.begin(), svg.end(), kDot), end; dot != end;
       ++dot) {
    EXPECT_EQ((*dot)[1], (*dot)[3]);
    EXPECT_NEAR(std::stod((*dot)[2]), std::stod((*dot)[4]), 5);
    EXPECT_EQ(std::stoi((*dot)[5]), ++number);
  }
  EXPECT_EQ(number, 3);
}

// The legend is as wide as its longest line.
TEST(Roofline, CutsNoLabel) {
  Roofline roofline = Some();
  roofline.points[0].label = std::string(300, 'w');
  const std::string svg = DrawSvg(roofline);
  static const std::regex kWidth(R"re(width="(\d+)")re");
  std::smatch width;
  ASSERT_TRUE(std::regex_search(svg, width, kWidth));
  EXPECT_GT(std::stoi(width[1]), 300 * 6);
}

TEST(Roofline, LeavesOutWhatHasNoPlace) {
  Roofline roofline = Some();
  roofline.points.push_back({"nothing", 0, 0});
  const std::string svg = DrawSvg(roofline);
  ExpectWellFormed(svg);
  EXPECT_EQ(Count(svg, "<circle"), 2u);
  roofline.points.clear();
  ExpectWellFormed(DrawSvg(roofline));
}

TEST(Roofline, ComesFromTimings) {
  Timing timing;
  timing.workload = {"title", *Parse("fwd f32 h=1 d=4 q=2 k=3")};
  timing.implementation = "cpu/x";
  timing.threads = 3;
  timing.work.flops = 100;
  timing.work.bytes_read = 40;
  timing.work.bytes_written = 10;
  timing.measurement.repetitions = {{1, 400, 40}, {2, 500, 50}, {4, 600, 60}};
  const Roofline roofline = RooflineOf({timing});
  EXPECT_EQ(roofline.flops_roof, 500);
  EXPECT_EQ(roofline.bandwidth_roof, 50);
  ASSERT_EQ(roofline.points.size(), 1u);
  EXPECT_EQ(roofline.points[0].label, "title (cpu/x)");
  EXPECT_EQ(roofline.points[0].intensity, 2);
  EXPECT_EQ(roofline.points[0].flops, 50);
  EXPECT_NE(roofline.caption.find("3 threads"), std::string::npos);
}

}  // namespace
}  // namespace flashacl::tool
