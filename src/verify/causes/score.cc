// SPDX-License-Identifier: Apache-2.0
// What is done to scores and probs, mistaken: scale, rope, bias, sink, 16 bits,
// dropout.
#include <cmath>

#include "base/str.h"
#include "problem/grid.h"
#include "verify/causes/causes.h"

namespace flashacl {
namespace {

void AddScale(const TensorSet& tensors, double scale,
              std::vector<Trial>& trials) {
  const float given = tensors.problem.score.scale;
  const auto wrong = static_cast<float>(scale);
  if (wrong == given || !std::isfinite(wrong)) return;
  Trial trial{Str("{:.6g}, where the line has {:.6g}", wrong, given), tensors};
  trial.tensors.problem.score.scale = wrong;
  trials.push_back(std::move(trial));
}

void ForgetScale(const TensorSet& tensors, std::vector<Trial>& trials) {
  AddScale(tensors, 1, trials);
}

void SquareScale(const TensorSet& tensors, std::vector<Trial>& trials) {
  const double scale = tensors.problem.score.scale;
  AddScale(tensors, scale * scale, trials);
}

void MistakeScale(const TensorSet& tensors, std::vector<Trial>& trials) {
  const AttentionProblem& problem = tensors.problem;
  const double scale = problem.score.scale;
  AddScale(tensors, 1 / scale, trials);
  AddScale(tensors, std::sqrt(std::fabs(scale)), trials);
  for (const int64_t dim :
       {problem.qk_dim, problem.score_dim(), problem.rope_dim, problem.v_dim}) {
    if (dim > 0) {
      AddScale(tensors, 1 / std::sqrt(static_cast<double>(dim)), trials);
    }
  }
}

// Leaves channels [first, first + count) of the rope, in gradients too: what a
// wrong program has in the others is nobody's guess.
Trial WithRope(const TensorSet& tensors, int64_t first, int64_t count) {
  Trial trial{"", tensors};
  TensorSet& set = trial.tensors;
  set.problem.rope_dim = count;
  for (const Slot slot : {Slot::kQueryRope, Slot::kKeyRope,
                          Slot::kGradQueryRope, Slot::kGradKeyRope}) {
    if (count == 0) {
      set.Drop(slot);
      continue;
    }
    if (set.bindings[slot] == nullptr) continue;
    TensorSpec& spec = set.problem[slot];
    spec.dims[3] = count;
    set.bindings[slot] += spec.ChannelAt(first) * SizeOf(spec.dtype);
  }
  return trial;
}

void ForgetRope(const TensorSet& tensors, std::vector<Trial>& trials) {
  const int64_t rope = tensors.problem.rope_dim;
  if (rope == 0) return;
  const auto add = [&](int64_t first, int64_t count, std::string_view what) {
    trials.push_back(WithRope(tensors, first, count));
    trials.back().detail = std::string(what);
  };
  add(0, 0, "no channel of the rope is in the scores");
  if (rope < 2) return;
  add(0, rope / 2, "only the first half of the rope is in the scores");
  add(rope / 2, rope - rope / 2,
      "only the second half of the rope is in the scores");
}

void ForgetBias(const TensorSet& tensors, std::vector<Trial>& trials) {
  if (tensors.problem.score.bias == Score::Bias::kNone) return;
  Trial trial{"as if the line had none", tensors};
  trial.tensors.problem.score.bias = Score::Bias::kNone;
  trial.tensors.Drop(Slot::kBias);
  trials.push_back(std::move(trial));
  const Score::Bias bias = tensors.problem.score.bias;
  if (IsAlibi(bias)) return;
  const bool before = bias == Score::Bias::kBeforeScale;
  Trial other{before ? "added after scaling, not before"
                     : "added before scaling, not after",
              tensors};
  other.tensors.problem.score.bias =
      before ? Score::Bias::kAfterScale : Score::Bias::kBeforeScale;
  trials.push_back(std::move(other));
}

void ForgetSink(const TensorSet& tensors, std::vector<Trial>& trials) {
  if (!tensors.problem.has(Slot::kSink)) return;
  Trial trial{"as if the line had none", tensors};
  trial.tensors.Drop(Slot::kSink);
  trials.push_back(std::move(trial));
}

void NarrowSoftmax(const TensorSet& tensors, std::vector<Trial>& trials) {
  const DType query = tensors.problem[Slot::kQuery].dtype;
  for (const DType dtype : {DType::kBf16, DType::kF16}) {
    if (IsFloat(query) && query != DType::kF32 && dtype != query) continue;
    const auto add = [&](std::string_view what, bool scores, bool softmax) {
      Trial trial{Str("{} in {}", what, Name(dtype)), tensors};
      trial.recipe = PlainRecipe(tensors.problem);
      if (scores) trial.recipe.scores = dtype;
      if (softmax) trial.recipe.softmax = dtype;
      trial.nearer_is_enough = true;
      trials.push_back(std::move(trial));
    };
    add("scores, exponentials and their sum", true, true);
    add("scores", true, false);
    add("exponentials and their sum", false, true);
  }
}

std::byte Reversed(std::byte byte) {
  unsigned bits = std::to_integer<unsigned>(byte);
  unsigned reversed = 0;
  for (int n = 0; n < 8; ++n) {
    reversed = reversed << 1 | (bits & 1);
    bits >>= 1;
  }
  return static_cast<std::byte>(reversed);
}

// The same bits, changed byte by byte.
template <typename Change>
Trial WithBytes(const TensorSet& tensors, std::string_view detail,
                Change change) {
  Trial trial{std::string(detail), tensors};
  const TensorSpec& spec = tensors.problem[Slot::kKeep];
  const Grid grid(spec, tensors.problem.lengths.sequences);
  const std::byte* const from = tensors.bindings[Slot::kKeep];
  std::vector<std::byte> bytes;
  for (int64_t n = 0; n < CeilDiv(grid.ElementsNeeded(), 8); ++n) {
    bytes.push_back(change(from[n]));
  }
  trial.tensors.Bind(Slot::kKeep, spec, std::move(bytes));
  return trial;
}

// The same memory read with two neighbouring axes in the other order.
void SwapKeepAxes(const TensorSet& tensors, size_t a, size_t b,
                  std::string_view detail, std::vector<Trial>& trials) {
  const TensorSpec& spec = tensors.problem[Slot::kKeep];
  if (spec.placement != Placement::kStrided) return;
  const auto order = [&] {
    std::vector<size_t> axes{0, 1, 2, 3};
    std::swap(axes[a], axes[b]);
    return axes;
  }();
  if (spec.dims[a] == 1 || spec.dims[b] == 1) return;
  Trial trial{std::string(detail), tensors};
  int64_t stride = 1;
  for (size_t n = 4; n-- > 0;) {
    const size_t axis = order[n];
    const bool repeats = spec.strides[axis] == 0;
    trial.tensors.problem[Slot::kKeep].strides[axis] = repeats ? 0 : stride;
    stride *= spec.dims[axis];
  }
  trials.push_back(std::move(trial));
}

void MistakeDropout(const TensorSet& tensors, std::vector<Trial>& trials) {
  if (!tensors.problem.has(Slot::kKeep)) return;
  trials.push_back(WithBytes(tensors,
                             "the first of eight is the highest bit of its "
                             "byte, not the lowest",
                             Reversed));
  trials.push_back(WithBytes(tensors, "a set bit drops, where it should keep",
                             [](std::byte byte) { return ~byte; }));
  SwapKeepAxes(tensors, 2, 3, "[.., key, query], not [.., query, key]", trials);
  SwapKeepAxes(tensors, 0, 1, "[head, sequence, ..], not [sequence, head, ..]",
               trials);
  SwapKeepAxes(tensors, 1, 2,
               "[.., query, head, key], not [.., head, query, "
               "key]",
               trials);
  Trial undivided{"kept weights are not divided by the probability", tensors};
  undivided.tensors.problem.score.keep_probability = 1;
  trials.push_back(std::move(undivided));
  Trial none{"no weight is dropped", tensors};
  none.tensors.problem.score.keep_probability = 1;
  none.tensors.Drop(Slot::kKeep);
  trials.push_back(std::move(none));
}

}  // namespace

std::vector<Cause> ScoreCauses() {
  return {{"scale forgotten", ForgetScale},
          {"scale squared", SquareScale},
          {"another scale", MistakeScale},
          {"rope forgotten", ForgetRope},
          {"bias mistaken", ForgetBias},
          {"sink forgotten", ForgetSink},
          {"dropout mask mistaken", MistakeDropout},
          {"softmax in 16 bits", NarrowSoftmax}};
}

}  // namespace flashacl
