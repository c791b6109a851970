// SPDX-License-Identifier: Apache-2.0
// Pixels with rectangles and small text on them, as a PNG file.
#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "base/status.h"

namespace flashacl::tool {

using Color = std::array<uint8_t, 3>;

// What all pictures draw with.
inline constexpr Color kPaper = {0xff, 0xff, 0xff};
inline constexpr Color kInk = {0x30, 0x34, 0x3a};
inline constexpr Color kSeen = {0x1f, 0x5a, 0xa6};
inline constexpr Color kUnseen = {0xec, 0xee, 0xf1};

class Canvas {
 public:
  Canvas(int64_t width, int64_t height, Color color);

  int64_t width() const { return width_; }
  int64_t height() const { return height_; }

  // What is outside of the canvas is not drawn.
  void Set(int64_t x, int64_t y, Color color);
  void Fill(int64_t x, int64_t y, int64_t width, int64_t height, Color color);

  // One line of lower-case letters, digits and some signs; others are blank.
  void Write(int64_t x, int64_t y, std::string_view text, Color color);
  static int64_t TextWidth(std::string_view text);
  static constexpr int64_t kTextHeight = 14;

  // "-" is stdout.
  Status WritePng(const std::string& path) const;

 private:
  int64_t width_, height_;
  std::vector<uint8_t> pixels_;
};

}  // namespace flashacl::tool
