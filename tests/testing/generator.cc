// SPDX-License-Identifier: Apache-2.0
// Draws a spec, builds it, and then disturbs its layout.
#include "tests/testing/generator.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cstdlib>
#include <utility>
#include <vector>

#include "base/str.h"
#include "problem/notation.h"
#include "tests/testing/random.h"

namespace flashacl::testing {
namespace {

using Bias = Score::Bias;
using Device = Lengths::Device;
using Rows = KvSource::Rows;
using Scales = ProblemSpec::Scales;
using Selection = KvSource::Selection;

void DrawShape(Random& random, const Space& space, ProblemSpec& problem_spec) {
  problem_spec.kv_heads =
      Sized(random, 1, std::min<int64_t>(3, space.most_heads));
  problem_spec.heads =
      problem_spec.kv_heads *
      random.Within(
          1, std::max<int64_t>(1, space.most_heads / problem_spec.kv_heads));
  const auto channels = [&] {
    return space.unit_dim * Sized(random, 1, space.most_dim);
  };
  problem_spec.qk_dim = channels();
  problem_spec.v_dim = random.OneIn(3) ? channels() : problem_spec.qk_dim;
  const int64_t sequences = random.Within(1, space.most_sequences);
  const int64_t shift = random.Within(-2, 2);
  const bool alike = random.OneIn(3);
  for (int64_t b = 0; b < sequences; ++b) {
    int64_t rows = Sized(random, 1, space.most_rows);
    int64_t columns = Sized(random, 1, space.most_columns);
    if (random.OneIn(10)) rows = 0;
    if (random.OneIn(16)) columns = 0;
    if (alike)
      columns = std::clamp<int64_t>(rows + shift, 0, space.most_columns);
    problem_spec.rows.push_back(rows);
    problem_spec.columns.push_back(columns);
  }
}

void DrawSource(Random& random, const Space& space, ProblemSpec& problem_spec) {
  const bool forward = problem_spec.direction == Direction::kForward;
  if (space.sources && random.OneIn(2)) {
    if (!forward || random.OneIn(3)) problem_spec.selection = Selection::kTopK;
    if (forward) {
      problem_spec.source =
          OneOf(random, {Rows::kList, Rows::kPaged, Rows::kStrided});
    }
  }
  problem_spec.page_rows = Sized(random, 1, 16);
  problem_spec.top_k = random.Within(0, space.most_columns / 2);
  problem_spec.gather_rows = random.OneIn(3) ? random.Within(2, 5) : 1;
  if (space.shared_value && random.OneIn(6)) {
    problem_spec.value_is_key = true;
    problem_spec.v_dim = std::min(problem_spec.v_dim, problem_spec.qk_dim);
  }
  if (space.rope && problem_spec.source != Rows::kList && random.OneIn(5)) {
    problem_spec.rope_dim =
        space.unit_dim * Sized(random, 1, space.most_dim / 2);
  }
  if (space.int8 && forward && random.OneIn(4)) {
    problem_spec.keys = {OneOf(random, {Scales::kTensor, Scales::kChannel}),
                         random.OneIn(2)};
  }
  if (space.int8 && forward && random.OneIn(8)) {
    problem_spec.out = {OneOf(random, {Scales::kTensor, Scales::kChannel}),
                        random.OneIn(2)};
  }
}

MaskRule DrawRule(Random& random, const Space& space) {
  MaskRule rule;
  const int64_t most = space.most_columns;
  switch (random.Within(0, 4)) {
    case 0:
      rule = Causal();
      break;
    case 1:
      rule = CausalTopLeft();
      break;
    case 2:
      rule = Window(random.Within(-3, most), random.Within(-3, most));
      break;
    case 3:
      rule = TopLeftBand(random.Within(-most, 3), random.Within(-3, most));
      break;
    default:
      rule = random.OneIn(2) ? Window(random.Within(0, most), Band::kOpen)
                             : MaskRule{};
  }
  if (random.OneIn(5)) rule.band.prefix = random.Within(0, most);
  return rule;
}

ProblemSpec::Axes DrawAxes(Random& random) {
  return {random.OneIn(2), random.OneIn(2), !random.OneIn(4)};
}

void DrawMask(Random& random, const Space& space, ProblemSpec& problem_spec) {
  if (!space.masks) return;
  if (random.OneIn(3)) {
    problem_spec.rules = {DrawRule(random, space)};
  } else if (random.OneIn(3)) {
    for (size_t b = 0; b < problem_spec.rows.size(); ++b) {
      problem_spec.rules.push_back(DrawRule(random, space));
    }
  }
  if (random.OneIn(4)) problem_spec.mask = DrawAxes(random);
}

void DrawScore(Random& random, const Space& space, ProblemSpec& problem_spec) {
  Score& score = problem_spec.score;
  score.scale = DefaultScale(problem_spec.qk_dim);
  if (random.OneIn(4)) score.scale *= 0.5f + 1.5f * random.Bell() / 3.0f;
  if (space.bias && random.OneIn(3)) {
    score.bias = OneOf(random, {Bias::kAfterScale, Bias::kBeforeScale,
                                Bias::kAlibi, Bias::kAlibiSqrt});
    problem_spec.bias = DrawAxes(random);
    if (random.OneIn(4)) problem_spec.diagonal_rows = random.Within(1, 48);
    if (IsAlibi(score.bias) && random.OneIn(2)) {
      score.query_start = random.Within(-9, 9);
      score.key_start = random.Within(-9, 9);
      score.starts_only_first = random.OneIn(2);
    }
  }
  problem_spec.sink = space.sink && random.OneIn(4);
  problem_spec.keep = space.dropout && random.OneIn(5);
  score.keep_probability = static_cast<float>(random.Within(1, 10)) / 10.0f;
}

void DrawLengths(Random& random, const Space& space,
                 ProblemSpec& problem_spec) {
  if (!space.device_lengths) return;
  if (random.OneIn(5)) {
    const auto draw = [&] {
      return OneOf(random, {Device::kNone, Device::kCounts, Device::kEnds});
    };
    problem_spec.query_lengths = draw();
    problem_spec.key_lengths =
        problem_spec.source == Rows::kStrided ? draw() : Device::kCounts;
  }
  problem_spec.key_padding = problem_spec.source == Rows::kStrided &&
                             problem_spec.key_lengths != Device::kEnds &&
                             random.OneIn(12);
}

void DrawInference(Random& random, const Space& space,
                   ProblemSpec& problem_spec) {
  problem_spec.mask_tail = problem_spec.mask && random.OneIn(4);
  // Lists of keys have neither of the rest.
  if (problem_spec.selection == Selection::kTopK) return;
  problem_spec.lse = random.OneIn(3);
  problem_spec.query_padding = space.device_lengths &&
                               problem_spec.query_lengths != Device::kEnds &&
                               random.OneIn(12);
}

// Whether scales by row may be of pages depends on where keys are.
Scales DrawRowScales(Random& random, const ProblemSpec& problem_spec) {
  if (problem_spec.source == Rows::kPaged && random.OneIn(2)) {
    return OneOf(random, {Scales::kPageRow, Scales::kPageRowHead});
  }
  return OneOf(random, {Scales::kRow, Scales::kRowHead});
}

// Keys with scales become words of four bits: eight channels each.
void DrawWords(Random& random, ProblemSpec& problem_spec) {
  const bool int8 = problem_spec.dtype == DType::kI8;
  if (problem_spec.keys.scales == Scales::kNone || int8 || !random.OneIn(2)) {
    return;
  }
  problem_spec.int4 = true;
  problem_spec.qk_dim = RoundUp(problem_spec.qk_dim, 8);
  if (!problem_spec.value_is_key) {
    problem_spec.v_dim = RoundUp(problem_spec.v_dim, 8);
  }
  problem_spec.channel_block = RoundUp(problem_spec.channel_block, 8);
}

void DrawCaches(Random& random, const Space& space, ProblemSpec& problem_spec) {
  const bool forward = problem_spec.direction == Direction::kForward;
  if (!space.caches || !forward) return;
  if (problem_spec.source != Rows::kList && random.OneIn(5)) {
    problem_spec.channel_block = OneOf<int64_t>(random, {3, 8, 16, 32});
  }
  if (problem_spec.source == Rows::kList && space.rope && random.OneIn(5)) {
    problem_spec.rope_dim =
        space.unit_dim * Sized(random, 1, space.most_dim / 2);
  }
  // Blocks are as far apart as a tensor has rows, so those of a prefix lie
  // otherwise.
  if (problem_spec.source != Rows::kPaged && problem_spec.rope_dim == 0 &&
      problem_spec.channel_block == 0 && random.OneIn(6)) {
    problem_spec.prefix = Sized(random, 1, space.most_columns / 2);
    return DrawWords(random, problem_spec);
  }
  if (!space.int8 || !random.OneIn(5)) return DrawWords(random, problem_spec);
  const ProblemSpec::Encoding by_row{DrawRowScales(random, problem_spec),
                                     random.OneIn(2)};
  const ProblemSpec::Encoding by_channel{Scales::kChannel, random.OneIn(2)};
  problem_spec.keys = random.OneIn(3) ? by_channel : by_row;
  problem_spec.values = random.OneIn(3) ? by_channel : by_row;
  DrawWords(random, problem_spec);
}

ProblemSpec DrawSpec(Random& random, const Space& space) {
  ProblemSpec problem_spec;
  const bool backward = space.backward && (!space.forward || random.OneIn(3));
  problem_spec.direction =
      backward ? Direction::kBackward : Direction::kForward;
  if (space.half_types) {
    problem_spec.dtype =
        OneOf(random, {DType::kF32, DType::kF16, DType::kBf16});
  }
  problem_spec.out_dtype = problem_spec.dtype;
  if (space.half_types && !backward && random.OneIn(8)) {
    problem_spec.out_dtype = OneOf(random, {DType::kF32, DType::kBf16});
  }
  DrawShape(random, space, problem_spec);
  DrawSource(random, space, problem_spec);
  DrawMask(random, space, problem_spec);
  DrawScore(random, space, problem_spec);
  DrawLengths(random, space, problem_spec);
  DrawCaches(random, space, problem_spec);
  problem_spec.row_stats = random.OneIn(2);
  if (backward && random.OneIn(3)) {
    problem_spec.gradients = {random.OneIn(2), random.OneIn(2), random.OneIn(2),
                              random.OneIn(2), random.OneIn(2)};
  }
  if (space.inference && !backward) DrawInference(random, space, problem_spec);
  problem_spec.query_bytes = space.caches && !backward &&
                             problem_spec.keys.scales != Scales::kNone &&
                             random.OneIn(4);
  const bool scaled = problem_spec.keys.scales != Scales::kNone;
  problem_spec.score.half_probs =
      (problem_spec.dtype == DType::kBf16 ||
       (problem_spec.dtype == DType::kF16 && scaled)) &&
      !problem_spec.query_bytes && random.OneIn(2);
  return problem_spec;
}

// Other strides for the same elements: the axes after the first in any order,
// the innermost dense or not, with room between.
void Disturb(Random& random, TensorSpec& spec) {
  if (!spec.present() || spec.placement != Placement::kStrided) return;
  if (spec.channel_block != 0) return;
  std::array<size_t, 3> order{1, 2, 3};
  for (size_t n = 2; n > 0; --n) {
    std::swap(
        order[n],
        order[static_cast<size_t>(random.Within(0, static_cast<int64_t>(n)))]);
  }
  const bool repeats = spec.strides[0] == 0;
  int64_t stride = random.OneIn(4) ? 2 : 1;
  for (size_t n = 3; n-- > 0;) {
    spec.strides[order[n]] = stride;
    stride *= std::max<int64_t>(spec.dims[order[n]], 1) + random.Within(0, 2);
  }
  spec.strides[0] = repeats ? 0 : stride;
}

constexpr Slot kQueryRows[] = {
    Slot::kQuery,   Slot::kQueryRope, Slot::kQueryRowScale, Slot::kOut,
    Slot::kGradOut, Slot::kGradQuery, Slot::kGradQueryRope, Slot::kTopK};
constexpr Slot kKeyRows[] = {Slot::kKey,         Slot::kKeyRope,
                             Slot::kValue,       Slot::kGradKey,
                             Slot::kGradKeyRope, Slot::kGradValue};

// From sequences one after the other to one part of the tensor for each.
template <size_t N>
void Unpack(const Slot (&slots)[N], Range Sequence::*side, int64_t room,
            AttentionProblem& problem) {
  int64_t most = 0;
  for (Sequence& sequence : problem.lengths.sequences) {
    sequence.*side = {0, (sequence.*side).size()};
    most = std::max(most, (sequence.*side).last);
  }
  for (Slot slot : slots) {
    TensorSpec& spec = problem[slot];
    if (!spec.present()) continue;
    const auto& dims = spec.dims;
    spec = DenseSpec(spec.dtype,
                     {problem.lengths.count(), most + room, dims[2], dims[3]});
  }
}

void DisturbRows(Random& random, AttentionProblem& problem) {
  const bool strided = problem.kv.rows == Rows::kStrided;
  const bool keys_packed = strided && problem[Slot::kKey].strides[0] == 0;
  if (random.OneIn(2) && problem.lengths.queries != Device::kEnds) {
    Unpack(kQueryRows, &Sequence::queries, random.Within(0, 3), problem);
  }
  if (random.OneIn(2) && keys_packed && problem.lengths.keys != Device::kEnds) {
    Unpack(kKeyRows, &Sequence::keys, random.Within(0, 3), problem);
  }
  const int64_t tail = random.OneIn(3) ? random.Within(1, 4) : 0;
  for (Slot slot : kQueryRows) {
    if (problem.has(slot)) problem[slot].dims[1] += tail;
    Disturb(random, problem[slot]);
  }
  for (Slot slot : kKeyRows) {
    if (problem.has(slot) && strided) problem[slot].dims[1] += tail;
  }
  // Rows of a prefix lie as the others do.
  if (problem.has(Slot::kKeyPrefix)) return;
  for (Slot slot : kKeyRows) Disturb(random, problem[slot]);
  for (TensorSpec& spec : problem.kv.key_list) Disturb(random, spec);
  for (TensorSpec& spec : problem.kv.value_list) Disturb(random, spec);
}

// Row max and row sum in each of their placements, with one copy or eight.
void DisturbStats(Random& random, AttentionProblem& problem) {
  const int64_t copies = OneOf<int64_t>(random, {1, 8});
  const TensorSpec& out = problem[Slot::kOut];
  TensorSpec spec;
  if (random.OneIn(2)) {
    spec = {.dtype = DType::kF32, .placement = Placement::kBlocks};
    spec.dims = {problem.lengths.count(), problem.heads,
                 TensorSpec::kPerSequence, copies};
  } else {
    const int64_t planes = out.strides[0] == 0 ? 1 : out.dims[0];
    spec = DenseSpec(DType::kF32, {planes, problem.heads, out.dims[1], copies});
    if (out.strides[0] == 0) {
      spec.strides[0] = 0;
      spec.placement = Placement::kTensorRows;
    }
  }
  for (Slot slot : {Slot::kRowMax, Slot::kRowSum, Slot::kLse}) {
    if (problem.has(slot)) problem[slot] = spec;
  }
}

// A mask over whole packed tensors, or with room around; other small dtypes.
void DisturbScores(Random& random, AttentionProblem& problem) {
  TensorSpec& mask = problem[Slot::kMask];
  const int64_t rows = problem[Slot::kQuery].dims[1];
  const int64_t prefix = problem[Slot::kKeyPrefix].dims[1];
  const int64_t columns = prefix + problem[Slot::kKey].dims[1];
  if (mask.present()) {
    if (random.OneIn(3) && problem.kv.rows == Rows::kStrided &&
        mask.placement == Placement::kBlocks) {
      mask = DenseSpec(mask.dtype, {1, mask.dims[1], rows, columns});
      mask.placement = Placement::kTensorScores;
      mask.strides[0] = 0;
      if (mask.dims[1] == 1) mask.strides[1] = 0;
    } else if (mask.placement == Placement::kStrided ||
               mask.placement == Placement::kTail) {
      mask.dims[3] += random.Within(0, 5);
      for (size_t axis : {2, 1, 0}) {
        if (mask.strides[axis] != 0) {
          mask.strides[axis] *= std::max<int64_t>(mask.dims[3], 1);
        }
      }
    }
    mask.dtype = OneOf(random, {DType::kBool, DType::kU8, DType::kI8});
  }
  for (Slot slot : {Slot::kQueryLengths, Slot::kKeyLengths, Slot::kTopK}) {
    if (problem.has(slot) && random.OneIn(2)) {
      problem[slot].dtype = slot == Slot::kTopK ? DType::kI64 : DType::kI32;
    }
  }
  for (Slot slot : {Slot::kKeyScale, Slot::kKeyOffset, Slot::kValueScale,
                    Slot::kValueOffset}) {
    if (problem.has(slot) && random.OneIn(3)) problem[slot].dtype = DType::kF16;
  }
}

// Scales by row over the rows of the keys' tensor.
void DisturbRowScales(Random& random, AttentionProblem& problem) {
  if (problem.kv.rows != Rows::kStrided) return;
  const TensorSpec& key = problem[Slot::kKey];
  for (Slot slot : {Slot::kKeyRowScale, Slot::kKeyRowOffset,
                    Slot::kValueRowScale, Slot::kValueRowOffset}) {
    if (!problem.has(slot) || random.OneIn(2)) continue;
    TensorSpec& spec = problem[slot];
    const bool by_head = spec.strides[2] != 0;
    const int64_t outer = key.strides[0] == 0 ? 1 : key.dims[0];
    spec = DenseSpec(DType::kF32, {outer, key.dims[1], spec.dims[2], 1});
    spec.placement = Placement::kTensorRows;
    if (key.strides[0] == 0) spec.strides[0] = 0;
    if (!by_head) spec.strides[2] = 0;
  }
}

int64_t FromEnvironment(const char* name, int64_t otherwise) {
  const char* text = std::getenv(name);
  return text == nullptr ? otherwise : std::strtoll(text, nullptr, 10);
}

}  // namespace

AttentionProblem RandomProblem(Random& random, const Space& space) {
  for (int tries = 0; tries < 1000; ++tries) {
    AttentionProblem problem = Build(DrawSpec(random, space));
    if (space.strides && random.OneIn(2)) {
      DisturbRows(random, problem);
      DisturbStats(random, problem);
      DisturbScores(random, problem);
      DisturbRowScales(random, problem);
    }
    if (CheckProblem(problem).ok()) return problem;
  }
  ADD_FAILURE() << "no possible problem in this space";
  return {};
}

::testing::AssertionResult SeenOften(int64_t seen, int64_t fewest) {
  const bool all = FromEnvironment("FLASHACL_TEST_PERCENT", 100) >= 100 &&
                   FromEnvironment("FLASHACL_TEST_SEED", -1) < 0;
  if (!all || seen > fewest) return ::testing::AssertionSuccess();
  return ::testing::AssertionFailure()
         << seen << " cases of the kind; expected more than " << fewest;
}

int64_t ShareOf(int64_t count) {
  const int64_t rounds = FromEnvironment("FLASHACL_TEST_ROUNDS", 1);
  const int64_t percent = FromEnvironment("FLASHACL_TEST_PERCENT", 100);
  return std::max<int64_t>(count * rounds * percent / 100, 1);
}

void ForRandomProblems(
    int64_t count, const Space& space,
    FunctionRef<void(const AttentionProblem&, Random&)> body) {
  const int64_t alone = FromEnvironment("FLASHACL_TEST_SEED", -1);
  const int64_t first = alone < 0 ? 0 : alone;
  const int64_t last = alone < 0 ? ShareOf(count) : alone + 1;
  for (int64_t seed = first; seed < last; ++seed) {
    Random random(static_cast<uint64_t>(seed) * 1000003);
    const AttentionProblem problem = RandomProblem(random, space);
    SCOPED_TRACE(Str("\"{}\", FLASHACL_TEST_SEED={}", ToString(problem), seed));
    body(problem, random);
    if (::testing::Test::HasFatalFailure()) return;
    if (::testing::Test::HasNonfatalFailure()) return;
  }
}

}  // namespace flashacl::testing
