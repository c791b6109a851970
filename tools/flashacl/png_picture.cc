// SPDX-License-Identifier: Apache-2.0
// Masks as PNG files.
#include <algorithm>
#include <string_view>
#include <vector>

#include "base/range.h"
#include "base/str.h"
#include "plan/cost.h"
#include "tools/flashacl/canvas.h"
#include "tools/flashacl/picture.h"

namespace flashacl::tool {
namespace {

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
  if (down.InGrid(y) || right.InGrid(x)) return kPaper;
  const Range rows = down.At(y);
  const Range cols = right.At(x);
  const auto area = static_cast<double>(rows.size() * cols.size());
  return Mix(VisiblePairs(picture.band, rows, cols) / area);
}

// Around the scores, in pixels.
constexpr int64_t kTop = 64;     // the columns' name and numbers
constexpr int64_t kMargin = 16;  // where nothing is said
constexpr int64_t kGap = 6;
constexpr int64_t kTick = 5;
constexpr int64_t kLegend = 2 * kMargin + Canvas::kTextHeight;
constexpr std::string_view kRows = "row i";
constexpr std::string_view kColumns = "column j";

// Where an axis says its numbers: so that `room` pixels are between them.
std::vector<int64_t> TicksOf(const Axis& axis, int64_t room) {
  int64_t step = 1;
  for (int64_t n = 0; step * axis.pixels() < room * axis.scores; ++n) {
    step = n % 3 == 1 ? step / 2 * 5 : step * 2;  // 1, 2, 5, 10, 20, 50
  }
  std::vector<int64_t> ticks;
  for (int64_t tick = 0; tick < axis.scores; tick += step) {
    ticks.push_back(tick);
  }
  return ticks;
}

// The middle of a score's pixels.
int64_t MiddleOf(const Axis& axis, int64_t score) {
  return score / axis.scores_per_pixel * axis.pixels_per_score +
         axis.pixels_per_score / 2;
}

struct LegendEntry {
  Color color;
  std::string_view text;
};

std::vector<LegendEntry> LegendOf(const Picture& picture, const Axis& down,
                                  const Axis& right) {
  std::vector<LegendEntry> entries = {{kSeen, "seen"}, {kUnseen, "hidden"}};
  if (down.scores_per_pixel * right.scores_per_pixel > 1) {
    entries.push_back({Mix(0.5), "some seen"});
  }
  if (picture.tile_rows > 0) entries.push_back({kTileEdge, "edge of tiles"});
  return entries;
}

constexpr int64_t kSwatch = Canvas::kTextHeight;

int64_t WidthOf(const LegendEntry& entry) {
  return kSwatch + kGap + Canvas::TextWidth(entry.text) + 2 * kMargin;
}

void DrawAxes(Canvas& canvas, int64_t left, const Axis& down,
              const Axis& right) {
  canvas.Write(left + kMargin, kMargin, kColumns, kInk);
  constexpr int64_t kRoomForDigits = 96;
  for (const int64_t tick : TicksOf(right, kRoomForDigits)) {
    const int64_t x = left + MiddleOf(right, tick);
    canvas.Fill(x, kTop - kTick, 1, kTick, kInk);
    canvas.Write(x, kTop - kTick - kGap - Canvas::kTextHeight, Str("{}", tick),
                 kInk);
  }
  canvas.Write(kMargin / 2, kMargin, kRows, kInk);
  for (const int64_t tick : TicksOf(down, 3 * Canvas::kTextHeight)) {
    const int64_t y = kTop + MiddleOf(down, tick);
    const std::string number = Str("{}", tick);
    canvas.Fill(left - kTick, y, kTick, 1, kInk);
    canvas.Write(left - kTick - kGap - Canvas::TextWidth(number),
                 y - Canvas::kTextHeight / 2, number, kInk);
  }
}

void DrawLegend(Canvas& canvas, int64_t left,
                const std::vector<LegendEntry>& entries) {
  int64_t x = left;
  const int64_t y = canvas.height() - kMargin - kSwatch;
  for (const LegendEntry& entry : entries) {
    canvas.Fill(x, y, kSwatch, kSwatch, entry.color);
    canvas.Write(x + kSwatch + kGap, y, entry.text, kInk);
    x += WidthOf(entry);
  }
}

Canvas Draw(const Picture& picture, const Axis& down, const Axis& right) {
  const int64_t digits = Canvas::TextWidth(Str("{}", picture.rows - 1));
  const int64_t left =
      std::max(digits + kTick + 2 * kGap, Canvas::TextWidth(kRows) + kMargin);
  const std::vector<LegendEntry> legend = LegendOf(picture, down, right);
  int64_t width = std::max(right.pixels(), Canvas::TextWidth(kColumns));
  int64_t legend_width = 0;
  for (const LegendEntry& entry : legend) legend_width += WidthOf(entry);
  width = std::max(width, legend_width);
  // The last number of the columns begins at its column.
  const int64_t last = Canvas::TextWidth(Str("{}", picture.columns - 1));
  Canvas canvas(left + width + std::max(kMargin, last),
                kTop + down.pixels() + kLegend, kPaper);
  for (int64_t y = 0; y < down.pixels(); ++y) {
    for (int64_t x = 0; x < right.pixels(); ++x) {
      canvas.Set(left + x, kTop + y, ColorAt(picture, down, right, y, x));
    }
  }
  DrawAxes(canvas, left, down, right);
  DrawLegend(canvas, left, legend);
  return canvas;
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
  const Canvas canvas = Draw(picture, down, right);
  FLASHACL_RETURN_IF_ERROR(canvas.WritePng(path));
  return PngSize{canvas.width(), canvas.height()};
}

}  // namespace flashacl::tool
