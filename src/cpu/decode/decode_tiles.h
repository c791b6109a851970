// SPDX-License-Identifier: Apache-2.0
// The tiles of few rows, for whoever has sequences for them: cpu/decode, and
// cpu/mixed.
#pragma once

#include <cstddef>
#include <cstdint>

#include "base/function_ref.h"
#include "cpu/decode/decode_workspace.h"
#include "cpu/forward/forward_operands.h"
#include "cpu/piece_shape.h"
#include "plan/backend.h"
#include "plan/schedule.h"

namespace flashacl::cpu {

// What cpu/decode takes, but for the number of rows.
Status SupportsFewRows(const AttentionProblem& problem,
                       const DeviceInfo& device);

// Which instructions multiply the tiles of one launch, as this process chooses
// them.
struct DecodeProducts {
  PairDots dots = PairDots::kNone;  // of tiles that may have pairs
  ByteDots byte_dots = ByteDots::kNone;
  bool half_dots = false;
  Int16Dots int16_dots = Int16Dots::kNone;
  bool shares_conversions = false;

  // whole_matrices: keys and values are bf16 that fills such. allows_int16: as
  // Score::half_probs says.
  static DecodeProducts Choose(bool whole_matrices, bool allows_int16);

  DecodeArgs ArgsOf(const ForwardTile& tile,
                    const DecodeScratch& scratch) const;
};

// The same as ForwardTiles, of few rows.
class DecodeTiles {
 public:
  DecodeTiles(const AttentionProblem& problem, const DeviceInfo& device,
              Range sequence_rows, WorkspaceLayout& layout);

  const TileShape& shape() const { return shape_; }
  const Schedule& schedule() const { return schedule_; }
  PieceShape piece() const { return piece_; }

  class Launch {
   public:
    Launch(const DecodeTiles& tiles, const ForwardOperands& operands,
           std::byte* memory, float* splits);

    const Schedule& schedule() const { return *schedule_; }

    void Attend(int64_t worker, FunctionRef<int64_t()> take) const;
    void Combine(int64_t worker, FunctionRef<int64_t()> take) const;

   private:
    // Tile `n` with the scratch memory of the `i`th of a worker's tiles.
    DecodeArgs TileOf(int64_t n, int64_t worker, int64_t i) const;
    // The piece that begins with this tile; nothing if none does.
    void AttendPiece(int64_t n, int64_t worker) const;

    const DecodeTiles& tiles_;
    const ForwardOperands& operands_;
    const RunSchedule schedule_;
    const PieceShape piece_;
    const DecodeProducts products_;
    std::byte* const memory_;
    float* const splits_;
  };

 private:
  const TileShape shape_;
  const Schedule schedule_;
  const bool whole_matrices_, allows_int16_;  // as DecodeProducts has them
  const int64_t kv_heads_;
  const int64_t workers_;
  const PieceShape piece_;  // of a run whose lengths were known
  const DecodeWorkspace workspace_;
};

}  // namespace flashacl::cpu
