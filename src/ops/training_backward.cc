// SPDX-License-Identifier: Apache-2.0
// Backward calls of training as problems.
#include "ops/training_backward.h"

#include <string>
#include <utility>
#include <vector>

#include "acl/environment.h"
#include "acl/error.h"
#include "ops/canonical.h"
#include "ops/training.h"
#include "ops/training_mask.h"
#include "ops/training_rows.h"
#include "ops/training_score.h"
#include "ops/training_workspace.h"

namespace flashacl::ops::backward {
namespace {

using acl::Arguments;
using acl::Tensor;

constexpr std::string_view kSameAsInput = "same_as_input";

// Comes before the checks for nulls, as on the device.
Status CheckTexts(const Args& a) {
  if (a.input_layout == nullptr) {
    return NullArgument("The inputLayout cannot be nullptr.");
  }
  const std::string layout = acl::ReadText(a.input_layout);
  if (!a.dense && layout != kTnd.name) {
    return Invalid("inputLayout: \"{}\", expected \"TND\"", layout);
  }
  const std::string order = acl::ReadText(a.softmax_in_layout);
  if (!a.strict_in_layout || order.empty() || order == kSameAsInput) return {};
  return Invalid("softmaxInLayout: \"{}\", expected \"{}\" or none", order,
                 kSameAsInput);
}

Result<Training> ReadTraining(const Arguments& args, const TrainingRows& rows,
                              const Args& a) {
  Result<Batch> batch =
      ReadBatch(rows, a.actual_seq_q_len, a.actual_seq_kv_len);
  if (!batch.ok()) return batch.status();
  if (args.has(kSink) && args[kQuery].dtype() == DType::kF32) {
    return Invalid("sinkInOptional: given, but there is none with {}",
                   acl::TypeText(ACL_FLOAT));
  }
  FLASHACL_RETURN_IF_ERROR(CheckHeadCounts(rows, a.head_num));
  Result<std::vector<int64_t>> prefix =
      acl::ReadArray("prefixOptional", a.prefix);
  if (!prefix.ok()) return prefix.status();
  const Result<int64_t> q_start = ReadStart("qStartIdxOptional", a.q_start_idx);
  if (!q_start.ok()) return q_start.status();
  const Result<int64_t> kv_start =
      ReadStart("kvStartIdxOptional", a.kv_start_idx);
  if (!kv_start.ok()) return kv_start.status();
  return Training{.names = &kNames,
                  .backward = true,
                  .layout = &rows.layout,
                  .head_num = a.head_num,
                  .batch = *std::move(batch),
                  .pse = args.at(kPse),
                  .drop_mask = args.at(kDropMask),
                  .atten_mask = args.at(kAttenMask),
                  .keep_prob = a.keep_prob,
                  .pse_type = a.pse_type,
                  .q_start_idx = *q_start,
                  .kv_start_idx = *kv_start,
                  .sparse_mode = a.sparse_mode,
                  .pre_tokens = Tokens(a.pre_tokens),
                  .next_tokens = Tokens(a.next_tokens),
                  .prefix = *std::move(prefix)};
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
                       const Training& training, const Args& a,
                       AttentionProblem& problem) {
  constexpr std::pair<Row, Slot> kStatistics[] = {{kSoftmaxMax, Slot::kRowMax},
                                                  {kSoftmaxSum, Slot::kRowSum}};
  const int64_t total = rows.of_query.rows;
  for (const auto& [row, slot] : kStatistics) {
    const Tensor* given = PassedIn(args, row);
    if (given == nullptr) {
      return NullArgument("The {} cannot be nullptr.", args.name(row));
    }
    const RowStatistic statistic{
        .name = args.name(row),
        .tensor = *given,
        .heads = training.head_num,
        .sequences = training.batch.count(),
        .same_as_input = acl::ReadText(a.softmax_in_layout) == kSameAsInput};
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

Status LowerMask(const Training& training, AttentionProblem& problem) {
  if (training.atten_mask == nullptr) return {};
  FLASHACL_RETURN_IF_ERROR(CheckSparseMode(training));
  Result<TensorSpec> grid = MaskGrid(training, MaskStorage::kPacked);
  if (!grid.ok()) return grid.status();
  problem[Slot::kMask] = *grid;
  FLASHACL_RETURN_IF_ERROR(CheckPrefix(training));
  FLASHACL_RETURN_IF_ERROR(CheckBackwardTokens(training));
  problem.mask = SparseRules(training);
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
  FLASHACL_RETURN_IF_ERROR(CheckPse(training, args[kQuery].acl_dtype,
                                    PassedIn(args, kPse) != nullptr));
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
  StateRope(args, kRope, training, problem);
  problem[Slot::kOut] = QueryLike(args[kAttentionIn], training);
  problem[Slot::kGradOut] = QueryLike(args[kDy], training);
  problem[Slot::kGradQuery] = QueryLike(args[kDq], training);
  problem[Slot::kGradKey] = KeyLike(args[kDk], rows.of_key, training);
  problem[Slot::kGradValue] = KeyLike(args[kDv], rows.of_value, training);
  if (!args.has(kSink)) return;
  problem[Slot::kSink] = HeadSpec(args[kSink]);
  if (args.has(kDsink)) problem[Slot::kGradSink] = HeadSpec(args[kDsink]);
}

void BindAll(const Arguments& args, acl::Lowered& lowered) {
  constexpr std::pair<Row, Slot> kPlaces[] = {
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
  for (const auto& [row, slot] : kPlaces) {
    if (lowered.problem.has(slot) && args.has(row)) {
      lowered.Bind(args, row, slot);
    }
  }
}

// The problem, after everything that can be said without it.
Status LowerAll(const Arguments& args, const TrainingRows& rows, const Args& a,
                acl::Lowered& lowered) {
  Result<Training> read = ReadTraining(args, rows, a);
  if (!read.ok()) return read.status();
  Training& training = *read;
  AttentionProblem& problem = lowered.problem;
  problem.direction = Direction::kBackward;
  problem.score.scale = static_cast<float>(a.scale_value);
  StateTensors(args, rows, training, problem);
  FLASHACL_RETURN_IF_ERROR(LowerStatistics(args, rows, training, a, problem));
  FLASHACL_RETURN_IF_ERROR(LowerMask(training, problem));
  if (IsMaskCompressed(training)) lowered.compressed_mask = kAttenMask;
  FLASHACL_RETURN_IF_ERROR(LowerBias(args, training, problem));
  FLASHACL_RETURN_IF_ERROR(LowerDropout(training, problem));
  if (acl::TheEnvironment().strict) {
    FLASHACL_RETURN_IF_ERROR(CheckHardwareLimits(rows, training));
  }
  problem.lengths.sequences = std::move(training.batch.sequences);
  BindAll(args, lowered);
  return {};
}

Result<acl::Lowered> Lower(const Arguments& args, const Args& a) {
  acl::Lowered lowered;
  lowered.nothing = NothingToWrite(args);
  if (lowered.nothing) return lowered;
  const std::string layout = acl::ReadText(a.input_layout);
  const Result<TrainingRows> rows =
      CheckTensors(args, {.dense = a.dense,
                          .layout = layout,
                          .head_num = a.head_num,
                          .keep_prob = a.keep_prob,
                          .sparse_mode = a.sparse_mode});
  if (!rows.ok()) return rows.status();
  FLASHACL_RETURN_IF_ERROR(LowerAll(args, *rows, a, lowered));
  return lowered;
}

}  // namespace

aclnnStatus Plan(const acl::Operator& op, const Tensors& tensors, const Args& a,
                 acl::PhaseOne answer) noexcept {
  const aclnnStatus fits =
      acl::Guard(op.contradiction, [&] { return CheckTexts(a); });
  if (fits != 0) return fits;
  const acl::Passed passed[kRows] = {
      tensors.query,      tensors.query_rope,   tensors.key,
      tensors.key_rope,   tensors.value,        tensors.dy,
      tensors.pse,        tensors.drop_mask,    tensors.padding_mask,
      tensors.atten_mask, tensors.softmax_max,  tensors.softmax_sum,
      tensors.softmax_in, tensors.attention_in, tensors.sink,
      tensors.dq,         tensors.dq_rope,      tensors.dk,
      tensors.dk_rope,    tensors.dv,           tensors.dpse,
      tensors.dsink};
  return acl::Prepare(
      op, passed, [&](const Arguments& args) { return Lower(args, a); },
      answer);
}

aclnnStatus PlanMost(const acl::Operator& op, const Tensors& tensors,
                     const Args& a, acl::PhaseOne answer) noexcept {
  const aclnnStatus fits = acl::Guard(op.contradiction, [&]() -> Status {
    if (tensors.drop_mask == nullptr) return {};
    return Invalid("dropMaskOptional: given, but its size depends on lengths");
  });
  if (fits != 0) return fits;
  return PlanForAnyLengths(
      op, [&](acl::PhaseOne one) { return Plan(op, tensors, a, one); }, answer);
}

}  // namespace flashacl::ops::backward
