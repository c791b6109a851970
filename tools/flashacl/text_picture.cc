// SPDX-License-Identifier: Apache-2.0
// Masks as text.
#include <algorithm>
#include <string_view>
#include <vector>

#include "base/range.h"
#include "base/str.h"
#include "tools/flashacl/picture.h"

namespace flashacl::tool {
namespace {

// What fits a terminal beside a sentence, and on its screen.
constexpr int64_t kMaxColumns = 64;
constexpr int64_t kMaxRows = 48;

std::string_view Name(TileKind kind) {
  if (kind == TileKind::kEmpty) return "empty";
  return kind == TileKind::kFull ? "full" : "partial";
}

char Mark(TileKind kind) {
  if (kind == TileKind::kEmpty) return '.';
  return kind == TileKind::kFull ? '#' : '+';
}

Range Block(int64_t number, int64_t size, int64_t end) {
  return {number * size, std::min((number + 1) * size, end)};
}

// The row's scores, with a bar between tiles.
std::string DrawRow(const Picture& picture, int64_t i) {
  std::string line(static_cast<size_t>(picture.columns), '.');
  for (const Range& seen : picture.band.Row(i, picture.columns)) {
    for (int64_t j = seen.first; j < seen.last; ++j) {
      line[static_cast<size_t>(j)] = '#';
    }
  }
  if (picture.tile_cols == 0) return line;
  const int64_t bars = CeilDiv(picture.columns, picture.tile_cols) - 1;
  for (int64_t bar = bars; bar > 0; --bar) {
    line.insert(static_cast<size_t>(bar * picture.tile_cols), "|");
  }
  return line;
}

std::string Separator(const std::string& row) {
  std::string line(row.size(), '-');
  for (size_t at = 0; at < row.size(); ++at) {
    if (row[at] == '|') line[at] = '+';
  }
  return line;
}

// One line per row of tiles: what Classify says of each.
std::vector<std::string> TileNotes(const Picture& picture) {
  std::vector<std::string> notes;
  for (int64_t i = 0; i * picture.tile_rows < picture.rows; ++i) {
    std::string note = i == 0 ? "tiles:" : "      ";
    const Range rows = Block(i, picture.tile_rows, picture.rows);
    for (int64_t j = 0; j * picture.tile_cols < picture.columns; ++j) {
      const Range cols = Block(j, picture.tile_cols, picture.columns);
      note += Str(" {}", Name(picture.band.Classify(rows, cols)));
    }
    notes.push_back(std::move(note));
  }
  return notes;
}

// Writes notes beside the lines from `at`, where there is none yet; the rest
// below.
void Place(const std::vector<std::string>& notes, size_t at, size_t width,
           std::vector<std::string>& lines) {
  for (const std::string& note : notes) {
    while (at < lines.size() && lines[at].size() > width) ++at;
    if (at == lines.size()) lines.emplace_back(width, ' ');
    lines[at++] += "      " + note;
  }
}

std::string DrawExact(const Picture& picture) {
  std::vector<std::string> lines;
  const bool tiles = picture.tile_rows > 0;
  for (int64_t i = 0; i < picture.rows; ++i) {
    const std::string row = DrawRow(picture, i);
    if (tiles && i > 0 && i % picture.tile_rows == 0) {
      lines.push_back(Separator(row));
    }
    lines.push_back(row);
  }
  const size_t width = lines.front().size();
  const size_t first_tile_note =
      tiles ? static_cast<size_t>(std::min(picture.tile_rows, picture.rows))
            : 0;
  Place({RowSentence(picture, 0)}, 0, width, lines);
  if (picture.rows > 1) {
    Place({RowSentence(picture, picture.rows - 1)}, lines.size() - 1, width,
          lines);
  }
  if (tiles) Place(TileNotes(picture), first_tile_note, width, lines);
  return Str("{}\n", Join(lines, "\n"));
}

std::string DrawScaled(const Picture& picture) {
  const int64_t high = CeilDiv(picture.rows, kMaxRows);
  const int64_t wide = CeilDiv(picture.columns, kMaxColumns);
  std::string text;
  for (int64_t i = 0; i * high < picture.rows; ++i) {
    for (int64_t j = 0; j * wide < picture.columns; ++j) {
      text += Mark(picture.band.Classify(Block(i, high, picture.rows),
                                         Block(j, wide, picture.columns)));
    }
    text += '\n';
  }
  return Str(
      "{}one character: {} row{} x {} column{}; # seen, . unseen, + in "
      "part\n{}\n{}\n",
      text, high, high == 1 ? "" : "s", wide, wide == 1 ? "" : "s",
      RowSentence(picture, 0), RowSentence(picture, picture.rows - 1));
}

}  // namespace

std::string RowSentence(const Picture& picture, int64_t i) {
  auto [head, tail] = picture.band.Row(i, picture.columns);
  if (!head.empty() && head.last == tail.first) {
    head.last = std::max(head.last, tail.last);
    tail = {};
  }
  std::string sentence = Str("row {} sees", i);
  if (!head.empty()) sentence += Str(" [{},{})", head.first, head.last);
  if (!tail.empty()) sentence += Str(" [{},{})", tail.first, tail.last);
  return head.empty() && tail.empty() ? sentence + " nothing" : sentence;
}

std::string DrawText(const Picture& picture) {
  if (picture.rows <= 0) return "no rows\n";
  if (picture.columns <= 0) return "no columns: no row sees anything\n";
  const bool fits = picture.rows <= kMaxRows && picture.columns <= kMaxColumns;
  return fits ? DrawExact(picture) : DrawScaled(picture);
}

}  // namespace flashacl::tool
