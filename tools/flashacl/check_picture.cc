// SPDX-License-Identifier: Apache-2.0
#include "tools/flashacl/check_picture.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <vector>

#include "base/str.h"
#include "problem/grid.h"
#include "tools/flashacl/canvas.h"
#include "verify/check/operand_rows.h"

namespace flashacl::tool {
namespace {

constexpr Color kRight = {0xcf, 0xe3, 0xd4};
constexpr Color kSlight = {0xf2, 0xb6, 0x5c};  // just above what is allowed
constexpr Color kWrong = {0xb0, 0x1c, 0x1c};   // by a thousand times
constexpr Color kUnchecked = {0xff, 0xff, 0xff};

constexpr int64_t kSpace = 16;
constexpr int64_t kTextTop = 48;
constexpr int64_t kGoodSetPixels = 512;
constexpr int64_t kMaxPerCell = 16;
constexpr int64_t kMaxCells = 2048;

Color Between(const Color& a, const Color& b, double share) {
  Color color;
  for (size_t n = 0; n < color.size(); ++n) {
    color[n] = static_cast<uint8_t>(a[n] + share * (b[n] - a[n]) + 0.5);
  }
  return color;
}

Color ColorOf(double share) {
  if (share < 0) return kUnchecked;
  if (share <= 1) return kRight;
  return Between(kSlight, kWrong, std::min(std::log10(share) / 3, 1.0));
}

// Cells of a side: so many pixels each, or so many numbers in one.
struct Side {
  explicit Side(int64_t count) : numbers(std::max<int64_t>(count, 1)) {
    per_cell = CeilDiv(numbers, kMaxCells);
    pixels = std::clamp<int64_t>(kGoodSetPixels / numbers, 1, kMaxPerCell);
  }
  int64_t cells() const { return CeilDiv(numbers, per_cell); }
  int64_t size() const { return cells() * pixels; }

  int64_t numbers;
  int64_t per_cell = 1;
  int64_t pixels = 1;
};

// The first result that has a wrong row, best one of queries or keys; or the
// first.
Slot PicturedSlot(const Judgement& judgement) {
  for (const bool any : {false, true}) {
    for (const HeadJudgement& head : judgement.heads) {
      const bool rows = HasQueryRows(head.slot) || HasKeyRows(head.slot);
      if (head.wrong_rows > 0 && (rows || any)) return head.slot;
    }
  }
  return judgement.heads[0].slot;
}

int64_t WorstSequence(const CheckedResult& result, Slot slot) {
  std::map<int64_t, int64_t> wrong;
  for (const HeadJudgement& head : result.judgement.heads) {
    if (head.slot == slot) wrong[head.sequence] += head.wrong_rows;
  }
  int64_t worst = 0;
  for (const auto& [sequence, rows] : wrong) {
    if (rows > wrong[worst]) worst = sequence;
  }
  return worst;
}

// Who sees whom in head 0 of a sequence.
class Sight {
 public:
  Sight(const TensorSet& tensors, int64_t sequence)
      : grid_(tensors.problem[Slot::kMask], tensors.problem.lengths.sequences),
        mask_(tensors.bindings[Slot::kMask]) {
    const Sequence& extent =
        tensors.problem.lengths.sequences[static_cast<size_t>(sequence)];
    band_ =
        tensors.problem.mask.BandOf(sequence, extent.rows(), extent.columns());
    if (grid_.present()) plane_ = grid_.Plane(sequence, 0);
  }

  bool Sees(int64_t i, int64_t j) const {
    const bool hidden =
        mask_ != nullptr && mask_[plane_.At(i, j)] != std::byte{0};
    return band_.Sees(i, j) && !hidden;
  }

 private:
  Grid grid_;
  const std::byte* mask_;
  GridPlane plane_;
  Band band_;
};

// What is wrong in one sequence of a result: down its rows, which of gradients
// of keys and values are keys; across its heads, then what rows see or who sees
// them.
class SetPicture {
 public:
  SetPicture(const TensorSet& tensors, Slot slot, int64_t sequence)
      : of_keys_(HasKeyRows(slot)),
        extent_(
            tensors.problem.lengths.sequences[static_cast<size_t>(sequence)]),
        down_(of_keys_ ? extent_.columns() : extent_.rows()),
        heads_(of_keys_ ? tensors.problem.kv_heads : tensors.problem.heads),
        right_(of_keys_ ? extent_.rows() : extent_.columns()),
        sight_(tensors, sequence),
        shares_(static_cast<size_t>(down_.cells() * heads_.cells()), -1),
        wrong_(static_cast<size_t>(down_.cells()), false) {}

  void Add(const HeadJudgement& head) {
    for (const RowJudgement& row : head.rows) {
      const int64_t cell = row.row / down_.per_cell;
      if (cell >= down_.cells()) continue;  // of a bias, or of no row
      double& share = shares_[static_cast<size_t>(cell * heads_.cells() +
                                                  head.head / heads_.per_cell)];
      share = std::max(share, row.share);
      if (row.wrong()) wrong_[static_cast<size_t>(cell)] = true;
    }
  }

  Canvas Draw(const std::string& title) const {
    const char* const left = of_keys_ ? "key by head" : "row by head";
    const char* const mask = of_keys_ ? "key by row" : "row by key";
    const int64_t mask_at =
        kSpace + std::max(heads_.size(), Canvas::TextWidth(left)) + 2 * kSpace;
    Canvas canvas(
        mask_at + std::max(right_.size(), Canvas::TextWidth(mask)) + kSpace,
        kTextTop + down_.size() + 2 * kSpace + Canvas::kTextHeight, kPaper);
    canvas.Write(kSpace, kSpace, left, kInk);
    canvas.Write(mask_at, kSpace, mask, kInk);
    canvas.Write(kSpace, kTextTop + down_.size() + kSpace, title, kInk);
    for (int64_t y = 0; y < down_.cells(); ++y) {
      DrawErrors(y, canvas);
      DrawSight(y, mask_at, canvas);
    }
    return canvas;
  }

 private:
  void DrawErrors(int64_t y, Canvas& canvas) const {
    for (int64_t x = 0; x < heads_.cells(); ++x) {
      const double share = shares_[static_cast<size_t>(y * heads_.cells() + x)];
      canvas.Fill(kSpace + x * heads_.pixels, kTextTop + y * down_.pixels,
                  heads_.pixels, down_.pixels, ColorOf(share));
    }
  }

  void DrawSight(int64_t y, int64_t mask_at, Canvas& canvas) const {
    constexpr double kMarked = 0.5;
    if (extent_.rows() == 0 || extent_.columns() == 0) return;
    for (int64_t x = 0; x < right_.cells(); ++x) {
      const int64_t i = (of_keys_ ? x * right_.per_cell : y * down_.per_cell);
      const int64_t j = (of_keys_ ? y * down_.per_cell : x * right_.per_cell);
      Color color = sight_.Sees(i, j) ? kSeen : kUnseen;
      if (wrong_[static_cast<size_t>(y)]) {
        color = Between(color, kWrong, kMarked);
      }
      canvas.Fill(mask_at + x * right_.pixels, kTextTop + y * down_.pixels,
                  right_.pixels, down_.pixels, color);
    }
  }

  const bool of_keys_;
  const Sequence& extent_;
  const Side down_, heads_, right_;
  const Sight sight_;
  std::vector<double> shares_;
  std::vector<bool> wrong_;
};

}  // namespace

Status DrawCheck(const TensorSet& tensors, const CheckedResult& result,
                 const std::string& path) {
  if (result.judgement.heads.empty()) return Invalid("--png: no result");
  const Slot slot = PicturedSlot(result.judgement);
  const int64_t sequence = WorstSequence(result, slot);
  SetPicture picture(tensors, slot, sequence);
  for (const HeadJudgement& head : result.judgement.heads) {
    if (head.slot == slot && head.sequence == sequence) picture.Add(head);
  }
  return picture.Draw(Str("sequence {}", sequence)).WritePng(path);
}

}  // namespace flashacl::tool
