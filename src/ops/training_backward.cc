// SPDX-License-Identifier: Apache-2.0
// Backward calls of training as problems.
#include "ops/training_backward.h"

#include <string>
#include <utility>
#include <vector>

#include "acl/environment.h"
#include "acl/error.h"
#include "base/check.h"
#include "ops/canonical.h"
#include "ops/training.h"
#include "ops/training_mask.h"
#include "ops/training_rope.h"
#include "ops/training_rows.h"
#include "ops/training_score.h"
#include "ops/training_workspace.h"

namespace flashacl::ops::backward {
namespace {

using acl::Arguments;
using acl::Tensor;

constexpr std::string_view kSameAsInput = "same_as_input";

constexpr TrainingTable kTraining{
    .names = {.pse = "pseShiftOptional",
              .keep_prob = "keepProb",
              .pre_tokens = "preTokens",
              .next_tokens = "nextTokens",
              .sparse_mode = "sparseMode",
              .pse_type = "pseType"},
    .backward = true,
    .query = kQuery,
    .query_rope = kQueryRope,
    .key = kKey,
    .key_rope = kKeyRope,
    .pse = kPse,
    .drop_mask = kDropMask,
    .atten_mask = kAttenMask,
    .query_rope_gradient = kDqRope,
    .key_rope_gradient = kDkRope,
};

Status CheckTypes(const Arguments& args) {
  FLASHACL_RETURN_IF_ERROR(args.CheckTypes());
  for (const int row : {kKey, kValue, kDy, kAttentionIn, kDq, kDk, kDv}) {
    FLASHACL_RETURN_IF_ERROR(CheckTypeOfQuery(args, kQuery, row));
  }
  return {};
}

Status CheckShapes(const Arguments& args, const Layout& layout,
                   int64_t head_num) {
  for (const int row : {kQuery, kKey, kValue, kDy, kAttentionIn}) {
    const bool keys = row == kKey || row == kValue;
    FLASHACL_RETURN_IF_ERROR(
        CheckRank(args.name(row), args[row], layout, keys ? 1 : head_num));
  }
  const auto rank = static_cast<size_t>(layout.rank);
  FLASHACL_RETURN_IF_ERROR(CheckShape(args, kValue, kKey, rank - 1));
  FLASHACL_RETURN_IF_ERROR(CheckShape(args, kDy, kQuery, rank - 1));
  FLASHACL_RETURN_IF_ERROR(CheckShape(args, kAttentionIn, kDy, rank));
  FLASHACL_RETURN_IF_ERROR(CheckShape(args, kDq, kQuery, rank));
  FLASHACL_RETURN_IF_ERROR(CheckShape(args, kDk, kKey, rank));
  return CheckShape(args, kDv, kValue, rank);
}

// A gradient without sink is left alone, a sink without gradient is fine.
Status CheckSink(const Arguments& args, int64_t head_num) {
  if (!args.has(kSink)) return {};
  for (const int row : {kSink, kDsink}) {
    if (!args.has(row)) continue;
    if (args[row].rank != 1 || args[row].dims[0] != head_num) {
      return Invalid("{}: shape {}, expected [{}]", args.name(row),
                     ShapeText(args[row]), head_num);
    }
  }
  return {};
}

// Comes before the checks for nulls, as on the device.
Status CheckTexts(const TrainingArgs& a) {
  if (a.input_layout == nullptr) {
    return NullArgument("The inputLayout cannot be nullptr.");
  }
  const std::string layout = acl::ReadText(a.input_layout);
  if (!a.dense() && layout != kTnd.name) {
    return Invalid("inputLayout: \"{}\", expected \"TND\"", layout);
  }
  const std::string order = acl::ReadText(a.softmax_layout);
  const bool known = order.empty() || order == kSameAsInput;
  if (known || !a.only_known_softmax_layouts) return {};
  return Invalid("softmaxInLayout: \"{}\", expected \"{}\" or none", order,
                 kSameAsInput);
}

Result<Training> ReadTraining(const Arguments& args, const TrainingRows& rows,
                              const TrainingArgs& a) {
  Result<Batch> batch = ReadBatch(rows, a.lengths);
  if (!batch.ok()) return batch.status();
  if (args.has(kSink) && args[kQuery].dtype() == DType::kF32) {
    return Invalid("sinkInOptional: given, but there is none with {}",
                   acl::TypeText(ACL_FLOAT));
  }
  FLASHACL_RETURN_IF_ERROR(CheckHeadCounts(rows, a.head_num));
  Training training = NumbersOf(args, kTraining, rows.layout, a);
  training.batch = *std::move(batch);
  FLASHACL_RETURN_IF_ERROR(ReadArrays(a, training));
  return training;
}

// [T, N, 8] or [N, T, 8]; what memory holds is said elsewhere.
Status CheckPackedStatistic(const RowStatistic& statistic, int64_t rows) {
  const Tensor& given = statistic.tensor;
  const int64_t heads = statistic.heads;
  const auto is = [&](int64_t a, int64_t b) {
    return given.dims[0] == a && given.dims[1] == b;
  };
  if (given.rank == 3 && given.dims[2] == 8 &&
      (is(rows, heads) || is(heads, rows))) {
    return {};
  }
  return Contradiction("{}: shape {}, expected [{}, {}, 8]", statistic.name,
                       ShapeText(given), rows, heads);
}

Status LowerStatistics(const Arguments& args, const TrainingRows& rows,
                       const Training& training, const TrainingArgs& a,
                       AttentionProblem& problem) {
  constexpr std::pair<Row, Slot> kStatistics[] = {{kSoftmaxMax, Slot::kRowMax},
                                                  {kSoftmaxSum, Slot::kRowSum}};
  const int64_t total = rows.of_query.rows;
  for (const auto& [row, slot] : kStatistics) {
    const Tensor* given = args.given(row);
    if (given == nullptr) {
      return NullArgument("The {} cannot be nullptr.", args.name(row));
    }
    const RowStatistic statistic{
        .name = args.name(row),
        .tensor = *given,
        .heads = training.head_num,
        .sequences = training.batch.count(),
        .same_as_input = acl::ReadText(a.softmax_layout) == kSameAsInput};
    if (training.packed()) {
      FLASHACL_RETURN_IF_ERROR(CheckPackedStatistic(statistic, total));
    }
    Result<TensorSpec> spec = training.packed()
                                  ? RowStatisticSpec(statistic)
                                  : DenseStatisticSpec(statistic, total);
    if (!spec.ok()) return spec.status();
    problem[slot] = *spec;
  }
  return {};
}

// With a probability of 1 the mask is not looked at.
Status LowerDropout(const Training& training, AttentionProblem& problem) {
  FLASHACL_RETURN_IF_ERROR(CheckKeepProb(training));
  if (static_cast<float>(training.keep_prob) == 1.0f) return {};
  if (training.drop_mask == nullptr) {
    return NullArgument(
        "The dropMaskOptional cannot be nullptr when keepProb is {}.",
        training.keep_prob);
  }
  return LowerDropMask(training, problem);
}

Status LowerBias(const Arguments& args, const Training& training,
                 AttentionProblem& problem) {
  FLASHACL_RETURN_IF_ERROR(
      CheckPse(training, args[kQuery].acl_dtype, args.given(kPse) != nullptr));
  FLASHACL_RETURN_IF_ERROR(LowerPse(training, problem));
  // The device leaves dpse alone; it is computed where it has pse's form.
  const Tensor* gradient = args.at(kDpse);
  if (training.pse == nullptr || gradient == nullptr ||
      gradient->acl_dtype != training.pse->acl_dtype ||
      !CheckShape(args, kDpse, kPse, training.pse->rank).ok()) {
    return {};
  }
  Result<TensorSpec> grid = PseGrid(training, *gradient);
  if (grid.ok()) problem[Slot::kGradBias] = *grid;
  return {};
}

void StateTensors(const Arguments& args, const TrainingRows& rows,
                  const Training& training, AttentionProblem& problem) {
  StateRows(rows, training, problem);
  StateRope(args, kTraining, training, problem);
  problem[Slot::kOut] = QueryLike(args[kAttentionIn], training);
  problem[Slot::kGradOut] = QueryLike(args[kDy], training);
  problem[Slot::kGradQuery] = QueryLike(args[kDq], training);
  problem[Slot::kGradKey] = KeyLike(args[kDk], rows.of_key, training);
  problem[Slot::kGradValue] = KeyLike(args[kDv], rows.of_value, training);
  if (!args.has(kSink)) return;
  problem[Slot::kSink] = HeadSpec(args[kSink]);
  if (args.has(kDsink)) problem[Slot::kGradSink] = HeadSpec(args[kDsink]);
}

constexpr Place kPlaces[] = {
    {kQuery, Slot::kQuery},
    {kQueryRope, Slot::kQueryRope},
    {kKey, Slot::kKey},
    {kKeyRope, Slot::kKeyRope},
    {kValue, Slot::kValue},
    {kDy, Slot::kGradOut},
    {kPse, Slot::kBias},
    {kDropMask, Slot::kKeep},
    {kAttenMask, Slot::kMask},
    {kSoftmaxMax, Slot::kRowMax},
    {kSoftmaxSum, Slot::kRowSum},
    {kAttentionIn, Slot::kOut},
    {kSink, Slot::kSink},
    {kDq, Slot::kGradQuery},
    {kDqRope, Slot::kGradQueryRope},
    {kDk, Slot::kGradKey},
    {kDkRope, Slot::kGradKeyRope},
    {kDv, Slot::kGradValue},
    {kDpse, Slot::kGradBias},
    {kDsink, Slot::kGradSink},
};

// The problem, after everything that can be said without it.
Status LowerAll(const Arguments& args, const TrainingRows& rows,
                const TrainingArgs& a, acl::Lowered& lowered) {
  Result<Training> read = ReadTraining(args, rows, a);
  if (!read.ok()) return read.status();
  Training& training = *read;
  AttentionProblem& problem = lowered.problem;
  problem.direction = Direction::kBackward;
  problem.score.scale = static_cast<float>(a.scale_value);
  StateTensors(args, rows, training, problem);
  problem.score.half_probs = a.AllowsBf16Probs(problem);
  FLASHACL_RETURN_IF_ERROR(LowerStatistics(args, rows, training, a, problem));
  FLASHACL_RETURN_IF_ERROR(LowerMask(training, problem));
  if (IsMaskCompressed(training)) lowered.compressed_mask = kAttenMask;
  FLASHACL_RETURN_IF_ERROR(LowerBias(args, training, problem));
  FLASHACL_RETURN_IF_ERROR(LowerDropout(training, problem));
  if (acl::TheEnvironment().strict) {
    FLASHACL_RETURN_IF_ERROR(CheckHardwareLimits(rows, training));
  }
  problem.lengths.sequences = std::move(training.batch.sequences);
  BindPlaces(args, kPlaces, lowered);
  return {};
}

Result<acl::Lowered> Lower(const Arguments& args, const TrainingArgs& a) {
  acl::Lowered lowered;
  lowered.nothing = NothingToWrite(args);
  if (lowered.nothing) return lowered;
  const Result<TrainingRows> rows = CheckTensors(args, a);
  if (!rows.ok()) return rows.status();
  FLASHACL_RETURN_IF_ERROR(LowerAll(args, *rows, a, lowered));
  return lowered;
}

}  // namespace

bool NothingToWrite(const Arguments& args) {
  const bool sink = args.has(kSink) && args.has(kDsink);
  return args[kDq].empty() && args[kDk].empty() && args[kDv].empty() &&
         !args.has(kDpse) && !sink;
}

Result<TrainingRows> CheckTensors(const Arguments& args,
                                  const TrainingArgs& a) {
  const int64_t head_num = a.head_num;
  if (head_num <= 0) {
    return Invalid("headNum: {}, expected at least 1", head_num);
  }
  FLASHACL_RETURN_IF_ERROR(CheckTypes(args));
  const Layout* layout = &kTnd;
  if (a.dense()) {
    const Result<const Layout*> dense =
        ReadDenseLayout(acl::ReadText(a.input_layout));
    if (!dense.ok()) return dense.status();
    layout = *dense;
  }
  FLASHACL_RETURN_IF_ERROR(CheckShapes(args, *layout, head_num));
  FLASHACL_RETURN_IF_ERROR(CheckSink(args, head_num));
  TrainingRows rows{*layout, args[kQuery], args[kKey], args[kValue], "keyIn"};
  FLASHACL_RETURN_IF_ERROR(ReadExtents(rows, head_num));
  const int64_t dy_dim = ExtentsOf(args[kDy], *layout, head_num).dim;
  if (dy_dim != rows.of_value.dim) {
    return Invalid("dy: head dim {} does not match value head dim {}", dy_dim,
                   rows.of_value.dim);
  }
  FLASHACL_RETURN_IF_ERROR(CheckRope(args, kTraining, a));
  return rows;
}

aclnnStatus PrepareBackward(const acl::Operator& op, Tensors tensors,
                            const TrainingArgs& a,
                            acl::PhaseOne answer) noexcept {
  const aclnnStatus fits =
      acl::Guard(op.contradiction, [&] { return CheckTexts(a); });
  if (fits != 0) return fits;
  return Prepare(op, tensors, a, Lower, answer);
}

aclnnStatus PrepareBackwardForMaxLengths(const acl::Operator& op,
                                         Tensors tensors, const TrainingArgs& a,
                                         acl::PhaseOne answer) noexcept {
  FLASHACL_DCHECK(tensors.size() == kRows);
  const acl::Passed& drop_mask = tensors.begin()[kDropMask];
  const aclnnStatus fits = acl::Guard(op.contradiction, [&]() -> Status {
    if (drop_mask.tensor == nullptr) return {};
    return Invalid("dropMaskOptional: given, but its size depends on lengths");
  });
  if (fits != 0) return fits;
  return PrepareForAnyLengths(
      op,
      [&](acl::PhaseOne one) { return PrepareBackward(op, tensors, a, one); },
      answer);
}

}  // namespace flashacl::ops::backward
