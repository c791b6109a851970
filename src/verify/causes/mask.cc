// SPDX-License-Identifier: Apache-2.0
// Who sees whom, mistaken: corners, windows, masks, lengths, lost blocks.
#include <algorithm>
#include <set>

#include "base/str.h"
#include "problem/grid.h"
#include "verify/causes/causes.h"

namespace flashacl {
namespace {

using Corner = MaskRule::Corner;

bool IsOpen(int64_t distance) {
  return distance <= -Band::kOpen / 2 || distance >= Band::kOpen / 2;
}

void SwapCorners(const TensorSet& tensors, std::vector<Trial>& trials) {
  if (tensors.problem.mask.rules.empty()) return;
  Trial trial{"", tensors};
  for (MaskRule& rule : trial.tensors.problem.mask.rules) {
    const bool left = rule.corner == Corner::kTopLeft;
    rule.corner = left ? Corner::kBottomRight : Corner::kTopLeft;
    trial.detail = left ? "the mask ends in the bottom right corner, where the "
                          "line has it start in the top left"
                        : "the mask starts in the top left corner, where the "
                          "line has it end in the bottom right";
  }
  trials.push_back(std::move(trial));
}

void MoveWindow(const TensorSet& tensors, std::vector<Trial>& trials) {
  if (tensors.problem.mask.rules.empty()) return;
  for (const int64_t lower : {0, -1, 1}) {
    for (const int64_t upper : {0, -1, 1}) {
      if (lower == 0 && upper == 0) continue;
      Trial trial{"", tensors};
      bool moves = true;
      for (MaskRule& rule : trial.tensors.problem.mask.rules) {
        if (lower != 0) moves = moves && !IsOpen(rule.band.lower);
        if (upper != 0) moves = moves && !IsOpen(rule.band.upper);
        rule.band.lower += lower;
        rule.band.upper += upper;
      }
      if (!moves) continue;
      const auto side = [&](std::string_view name, int64_t by, bool more) {
        if (by == 0) return;
        trial.detail += Str("{}every row sees one key {} at its {} end",
                            trial.detail.empty() ? "" : ", and ",
                            more ? "more" : "less", name);
      };
      side("left", lower, lower < 0);
      side("right", upper, upper > 0);
      trials.push_back(std::move(trial));
    }
  }
}

void InvertMask(const TensorSet& tensors, std::vector<Trial>& trials) {
  const TensorSpec& spec = tensors.problem[Slot::kMask];
  if (spec.present()) {
    Trial trial{"1 lets a key be seen, where it should hide it", tensors};
    const Grid grid(spec, tensors.problem.lengths.sequences);
    const auto count = static_cast<size_t>(grid.ElementsNeeded());
    std::vector<std::byte> flags(count);
    const std::byte* const from = tensors.bindings[Slot::kMask];
    for (size_t n = 0; n < count; ++n) {
      flags[n] = from[n] == std::byte{0} ? std::byte{1} : std::byte{0};
    }
    trial.tensors.Bind(Slot::kMask, spec, std::move(flags));
    trials.push_back(std::move(trial));
  }
  Trial trial{"rows see what the rule hides, and only that", tensors};
  for (MaskRule& rule : trial.tensors.problem.mask.rules) {
    Band& band = rule.band;
    if (band.prefix > 0 || IsOpen(band.lower) == IsOpen(band.upper)) return;
    band = IsOpen(band.lower) ? Band{band.upper + 1, Band::kOpen, 0}
                              : Band{-Band::kOpen, band.lower - 1, 0};
  }
  if (!tensors.problem.mask.rules.empty()) trials.push_back(std::move(trial));
}

void ForgetMask(const TensorSet& tensors, std::vector<Trial>& trials) {
  if (!tensors.problem.mask.rules.empty()) {
    Trial trial{"as if the line had no rule", tensors};
    trial.tensors.problem.mask.rules.clear();
    trials.push_back(std::move(trial));
  }
  if (tensors.problem.has(Slot::kMask)) {
    Trial trial{"as if there were no mask tensor", tensors};
    trial.tensors.Drop(Slot::kMask);
    trials.push_back(std::move(trial));
  }
}

// One rule for each sequence, which other lengths do not move.
void FreezeRules(AttentionProblem& problem) {
  if (problem.mask.rules.empty()) return;
  std::vector<MaskRule> rules;
  for (int64_t b = 0; b < problem.lengths.count(); ++b) {
    const Sequence& sequence =
        problem.lengths.sequences[static_cast<size_t>(b)];
    rules.push_back(
        {Corner::kTopLeft,
         problem.mask.BandOf(b, sequence.rows(), sequence.columns())});
  }
  problem.mask.rules = std::move(rules);
}

void LoseLastBlock(const TensorSet& tensors, std::vector<Trial>& trials) {
  std::set<int64_t> blocks{16, 32, 64, 128, 256, 512};
  const KvSource& kv = tensors.problem.kv;
  if (kv.rows == KvSource::Rows::kPaged) blocks.insert(kv.page_rows);
  if (kv.gathers()) return;
  std::set<std::vector<int64_t>> seen;
  for (const int64_t block : blocks) {
    // A block that is not whole, or the last whole one.
    for (const bool whole : {false, true}) {
      Trial trial{Str("the last block of {} keys{} is not seen", block,
                      whole ? "" : ", which is not whole,"),
                  tensors};
      FreezeRules(trial.tensors.problem);
      std::vector<int64_t> lost;
      for (Sequence& sequence : trial.tensors.problem.lengths.sequences) {
        const int64_t keys = sequence.keys.size();
        const int64_t rest = keys % block;
        const int64_t some = rest == 0 && whole ? std::min(block, keys) : rest;
        lost.push_back(some);
        sequence.keys.last -= some;
      }
      if (!seen.insert(lost).second || std::ranges::max(lost) == 0) continue;
      trials.push_back(std::move(trial));
    }
  }
}

void LoseLastKey(const TensorSet& tensors, std::vector<Trial>& trials) {
  Trial trial{"the last key of every sequence is not seen", tensors};
  FreezeRules(trial.tensors.problem);
  for (Sequence& sequence : trial.tensors.problem.lengths.sequences) {
    if (sequence.keys.size() > 0) --sequence.keys.last;
  }
  if (!tensors.problem.kv.gathers()) trials.push_back(std::move(trial));
}

// Ranges as a program reads them that takes one kind of number for the other.
std::vector<Range> Mistaken(const std::vector<Range>& ranges, bool packed,
                            bool ends_expected, int64_t most) {
  std::vector<Range> mistaken;
  int64_t end = 0;  // of the numbers that were meant
  int64_t at = 0;   // where the wrong program is
  for (const Range& range : ranges) {
    end += range.size();
    const int64_t number = ends_expected ? range.size() : end;
    int64_t length = ends_expected ? number - at : number;
    if (!packed) {
      length = ends_expected ? number - (end - range.size()) : number;
    }
    const int64_t first = packed ? std::min(at, most) : int64_t{0};
    length = std::clamp<int64_t>(length, 0, most - first);
    mistaken.push_back({first, first + length});
    at = ends_expected ? number : first + length;
  }
  return mistaken;
}

void MistakeLengths(const TensorSet& tensors, std::vector<Trial>& trials) {
  const AttentionProblem& problem = tensors.problem;
  const bool paged = problem.kv.rows == KvSource::Rows::kPaged;
  // Of a list each sequence has keys of its own, which have no ends.
  const bool lists = problem.kv.rows == KvSource::Rows::kList;
  if (problem.lengths.count() < 2 || problem.kv.gathers() || lists) return;
  std::vector<Range> queries;
  std::vector<Range> keys;
  for (const Sequence& sequence : problem.lengths.sequences) {
    queries.push_back(sequence.queries);
    keys.push_back(sequence.keys);
  }
  const bool rows_packed = problem[Slot::kQuery].strides[0] == 0;
  const bool keys_packed = !paged && problem[Slot::kKey].strides[0] == 0;
  const int64_t most_rows = problem[Slot::kQuery].dims[1];
  const int64_t most_keys =
      paged ? problem[Slot::kBlockTable].dims[1] * problem.kv.page_rows
            : problem[Slot::kKey].dims[1];
  for (const bool ends_expected : {true, false}) {
    for (const int sides : {3, 1, 2}) {
      Trial trial{
          Str("{} of {} are read as {}", ends_expected ? "lengths" : "ends",
              sides == 3   ? "queries and keys"
              : sides == 1 ? "queries"
                           : "keys",
              ends_expected ? "ends" : "lengths"),
          tensors};
      const auto rows =
          Mistaken(queries, rows_packed, ends_expected, most_rows);
      const auto columns =
          Mistaken(keys, keys_packed, ends_expected, most_keys);
      DropForwardResults(trial.tensors);
      auto& sequences = trial.tensors.problem.lengths.sequences;
      for (size_t b = 0; b < sequences.size(); ++b) {
        if ((sides & 1) != 0) sequences[b].queries = rows[b];
        if ((sides & 2) != 0) sequences[b].keys = columns[b];
      }
      trials.push_back(std::move(trial));
    }
  }
}

}  // namespace

std::vector<Cause> MaskCauses() {
  return {{"mask from the other corner", SwapCorners},
          {"window off by one", MoveWindow},
          {"mask inverted", InvertMask},
          {"mask forgotten", ForgetMask},
          {"lengths for ends", MistakeLengths},
          {"last block missing", LoseLastBlock},
          {"last key missing", LoseLastKey}};
}

}  // namespace flashacl
