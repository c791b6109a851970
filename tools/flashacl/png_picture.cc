// SPDX-License-Identifier: Apache-2.0
// Masks as PNG files.
#include <png.h>

#include <algorithm>
#include <array>
#include <vector>

#include "base/range.h"
#include "plan/cost.h"
#include "tools/flashacl/picture.h"

namespace flashacl::tool {
namespace {

using Color = std::array<uint8_t, 3>;
constexpr Color kSeen = {0x1f, 0x5a, 0xa6};
constexpr Color kUnseen = {0xec, 0xee, 0xf1};
constexpr Color kTileEdge = {0xe0, 0x7b, 0x1a};

constexpr int64_t kMaxPixels = 4096;   // of one side
constexpr int64_t kGoodPixels = 1024;  // cells grow until a side has these
constexpr int64_t kMaxPerScore = 24;
constexpr int64_t kGridFrom = 6;  // smaller cells have no grid between

// One axis: so many scores per pixel, or pixels per score.
struct Axis {
  int64_t scores = 0;
  int64_t tile = 0;
  int64_t scores_per_pixel = 1;
  int64_t pixels_per_score = 1;

  Axis(int64_t count, int64_t tile_size) : scores(count), tile(tile_size) {
    scores_per_pixel = CeilDiv(scores, kMaxPixels);
    pixels_per_score =
        std::clamp<int64_t>(kGoodPixels / scores, 1, kMaxPerScore);
  }

  int64_t pixels() const {
    return CeilDiv(scores, scores_per_pixel) * pixels_per_score;
  }
  Range At(int64_t pixel) const {
    const int64_t first = pixel / pixels_per_score * scores_per_pixel;
    return {first, std::min(first + scores_per_pixel, scores)};
  }
  bool InGrid(int64_t pixel) const {
    return pixels_per_score >= kGridFrom && pixel % pixels_per_score == 0;
  }
  // The first pixel of a tile that is not the first.
  bool AtTileEdge(int64_t pixel) const {
    if (tile == 0 || pixel == 0) return false;
    return At(pixel).first / tile != At(pixel - 1).first / tile;
  }
};

Color Mix(double share) {
  Color color;
  for (size_t n = 0; n < color.size(); ++n) {
    color[n] = static_cast<uint8_t>(kUnseen[n] +
                                    share * (kSeen[n] - kUnseen[n]) + 0.5);
  }
  return color;
}

Color ColorAt(const Picture& picture, const Axis& down, const Axis& right,
              int64_t y, int64_t x) {
  if (down.AtTileEdge(y) || right.AtTileEdge(x)) return kTileEdge;
  if (down.InGrid(y) || right.InGrid(x)) return {0xff, 0xff, 0xff};
  const Range rows = down.At(y);
  const Range cols = right.At(x);
  const auto area = static_cast<double>(rows.size() * cols.size());
  return Mix(VisiblePairs(picture.band, rows, cols) / area);
}

}  // namespace

Result<PngSize> DrawPng(const Picture& picture, const std::string& path) {
  if (picture.rows <= 0 || picture.columns <= 0) {
    return Invalid("--png: {} rows and {} columns leave nothing to draw",
                   picture.rows, picture.columns);
  }
  Axis down(picture.rows, picture.tile_rows);
  Axis right(picture.columns, picture.tile_cols);
  // Squares, unless the mask is so long that they would be dots.
  const int64_t longer = std::max(picture.rows, picture.columns);
  if (longer <= 16 * std::min(picture.rows, picture.columns)) {
    down.pixels_per_score = right.pixels_per_score =
        std::min(down.pixels_per_score, right.pixels_per_score);
  }
  const PngSize size{right.pixels(), down.pixels()};
  std::vector<uint8_t> pixels;
  pixels.reserve(static_cast<size_t>(3 * size.width * size.height));
  for (int64_t y = 0; y < size.height; ++y) {
    for (int64_t x = 0; x < size.width; ++x) {
      const Color color = ColorAt(picture, down, right, y, x);
      pixels.insert(pixels.end(), color.begin(), color.end());
    }
  }
  png_image image = {};
  image.version = PNG_IMAGE_VERSION;
  image.width = static_cast<png_uint_32>(size.width);
  image.height = static_cast<png_uint_32>(size.height);
  image.format = PNG_FORMAT_RGB;
  if (png_image_write_to_file(&image, path.c_str(), 0, pixels.data(), 0,
                              nullptr) == 0) {
    return RuntimeFailure("--png: cannot write {}: {}", path,
                          static_cast<const char*>(image.message));
  }
  return size;
}

}  // namespace flashacl::tool
