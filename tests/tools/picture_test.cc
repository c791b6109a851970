// SPDX-License-Identifier: Apache-2.0
// What PNG pictures show, read back.
#include "tools/flashacl/picture.h"

#include <gtest/gtest.h>
#include <png.h>

#include <array>
#include <cstdlib>
#include <filesystem>
#include <vector>

#include "tools/flashacl/canvas.h"

namespace flashacl::tool {
namespace {

struct Pixels {
  int64_t width = 0, height = 0;
  std::vector<uint8_t> bytes;

  Color At(int64_t x, int64_t y) const {
    const size_t at = static_cast<size_t>(3 * (y * width + x));
    return {bytes[at], bytes[at + 1], bytes[at + 2]};
  }
};

Pixels Drawn(const Picture& picture) {
  const std::string path =
      (std::filesystem::temp_directory_path() /
       ("flashacl_picture_" + std::to_string(getpid()) + ".png"))
          .string();
  const Result<PngSize> size = DrawPng(picture, path);
  EXPECT_TRUE(size.ok());
  png_image image = {};
  image.version = PNG_IMAGE_VERSION;
  EXPECT_NE(png_image_begin_read_from_file(&image, path.c_str()), 0);
  image.format = PNG_FORMAT_RGB;
  Pixels pixels{image.width, image.height, {}};
  pixels.bytes.resize(PNG_IMAGE_SIZE(image));
  EXPECT_NE(
      png_image_finish_read(&image, nullptr, pixels.bytes.data(), 0, nullptr),
      0);
  std::filesystem::remove(path);
  EXPECT_EQ(size->width, pixels.width);
  EXPECT_EQ(size->height, pixels.height);
  return pixels;
}

constexpr Color kSeen = {0x1f, 0x5a, 0xa6};
constexpr Color kPaper = {0xff, 0xff, 0xff};

int64_t CountOf(const Pixels& pixels, Color color) {
  int64_t count = 0;
  for (int64_t y = 0; y < pixels.height; ++y) {
    for (int64_t x = 0; x < pixels.width; ++x) {
      count += pixels.At(x, y) == color ? 1 : 0;
    }
  }
  return count;
}

// Twice as many scores seen are twice as many pixels, beside the legend's.
TEST(PngPicture, ShowsWhoSeesWhom) {
  Picture none{.band = {}, .rows = 64, .columns = 64};
  none.band.lower = 100;
  Picture diagonal = none;
  diagonal.band.lower = diagonal.band.upper = 0;
  Picture two = diagonal;
  two.band.lower = -1;
  const int64_t legend = CountOf(Drawn(none), kSeen);
  EXPECT_GT(legend, 0);
  const int64_t one = CountOf(Drawn(diagonal), kSeen) - legend;
  EXPECT_GT(one, 0);
  EXPECT_EQ((CountOf(Drawn(two), kSeen) - legend) * 64, one * 127);
}

// Left of and above the scores there is something to read, and nothing is cut
// off at the edges.
TEST(PngPicture, HasAxesAndMargins) {
  for (const auto& [rows, columns] : std::vector<std::array<int64_t, 2>>{
           {1, 1}, {8, 12}, {3, 5000}, {5000, 3}, {2048, 2048}}) {
    const Pixels pixels = Drawn({.band = {}, .rows = rows, .columns = columns});
    int64_t above = 0, left = 0;
    for (int64_t x = 0; x < pixels.width; ++x) {
      for (int64_t y = 0; y < 60; ++y) above += pixels.At(x, y) != kPaper;
      EXPECT_EQ(pixels.At(x, 0), kPaper) << rows << " x " << columns;
      EXPECT_EQ(pixels.At(x, pixels.height - 1), kPaper);
    }
    for (int64_t y = 0; y < pixels.height; ++y) {
      for (int64_t x = 0; x < 30; ++x) left += pixels.At(x, y) != kPaper;
      EXPECT_EQ(pixels.At(0, y), kPaper) << rows << " x " << columns;
      EXPECT_EQ(pixels.At(pixels.width - 1, y), kPaper);
    }
    EXPECT_GT(above, 100) << rows << " x " << columns;
    EXPECT_GT(left, 10) << rows << " x " << columns;
  }
}

TEST(Canvas, WritesLettersOnce) {
  Canvas blank(100, 20, kPaper);
  EXPECT_EQ(Canvas::TextWidth("row 12"), 6 * Canvas::TextWidth("r"));
  // Outside is nowhere.
  blank.Fill(-10, -10, 5, 5, kSeen);
  blank.Fill(98, 18, 50, 50, kSeen);
  blank.Write(90, -5, "9999", kSeen);
  EXPECT_FALSE(blank.WritePng("/no/such/folder/a.png").ok());
}

}  // namespace
}  // namespace flashacl::tool
