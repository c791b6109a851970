// SPDX-License-Identifier: Apache-2.0
// Pictures of who sees whom: what Band::Row and Band::Classify answer.
#pragma once

#include <string>

#include "base/status.h"
#include "problem/band.h"

namespace flashacl::tool {

struct Picture {
  Band band;
  int64_t rows = 0;
  int64_t columns = 0;
  int64_t tile_rows = 0;  // 0: no tiles drawn
  int64_t tile_cols = 0;
};

// "row 7 sees [0,2) [3,8)".
std::string RowSentence(const Picture& picture, int64_t i);

// '#' seen, '.' unseen; where it would not fit a terminal one character stands
// for several scores, and '+' for those of which some are seen.
std::string DrawText(const Picture& picture);

struct PngSize {
  int64_t width = 0;
  int64_t height = 0;
};

// A pixel or more per score up to 4096 scores a side, then scores per pixel;
// around them axes with numbers, and a legend. "-" is stdout.
Result<PngSize> DrawPng(const Picture& picture, const std::string& path);

}  // namespace flashacl::tool
