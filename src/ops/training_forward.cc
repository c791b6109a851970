// SPDX-License-Identifier: Apache-2.0
// Forward calls of training as problems.
#include "ops/training_forward.h"

#include <algorithm>
#include <cctype>
#include <string>
#include <utility>
#include <vector>

#include "acl/environment.h"
#include "ops/canonical.h"
#include "ops/training.h"
#include "ops/training_mask.h"
#include "ops/training_rope.h"
#include "ops/training_rows.h"
#include "ops/training_score.h"
#include "ops/training_workspace.h"

namespace flashacl::ops::forward {
namespace {

using acl::Arguments;
using acl::Tensor;

constexpr TrainingTable kTraining{
    .names = {.pse = "realShiftOptional",
              .keep_prob = "keepProbOptional",
              .pre_tokens = "preTokensOptional",
              .next_tokens = "nextTokensOptional",
              .sparse_mode = "sparseModeOptional",
              .pse_type = "pseTypeOptional"},
    .query = kQuery,
    .query_rope = kQueryRope,
    .key = kKey,
    .key_rope = kKeyRope,
    .pse = kRealShift,
    .drop_mask = kDropMask,
    .atten_mask = kAttenMask,
};

// Greater ones are refused by the operator itself, not only by the hardware.
constexpr int64_t kMaxHeadDim = 768;

bool NothingToWrite(const Arguments& args) {
  return args[kAttentionOut].empty() && args[kSoftmaxMax].empty() &&
         args[kSoftmaxSum].empty();
}

// "TND" to the letter; dense layouts in any case.
Result<const Layout*> ReadLayout(const TrainingArgs& a) {
  std::string name = acl::ReadText(a.input_layout);
  if (!a.dense()) {
    if (name == kTnd.name) return &kTnd;
    return Invalid("inputLayout: \"{}\", expected \"TND\"", name);
  }
  std::ranges::transform(name, name.begin(), [](unsigned char letter) {
    return static_cast<char>(std::toupper(letter));
  });
  return ReadDenseLayout(name);
}

Status CheckTypes(const Arguments& args) {
  FLASHACL_RETURN_IF_ERROR(args.CheckTypes());
  for (const int row : {kKey, kValue, kAttentionOut}) {
    FLASHACL_RETURN_IF_ERROR(CheckTypeOfQuery(args, kQuery, row));
  }
  return {};
}

Result<TrainingRows> ReadRows(const Arguments& args, const Layout& layout,
                              int64_t head_num) {
  if (head_num <= 0) {
    return Invalid("headNum: {}, expected at least 1", head_num);
  }
  TrainingRows rows{layout, args[kQuery], args[kKey], args[kValue], "key"};
  FLASHACL_RETURN_IF_ERROR(ReadExtents(rows, head_num));
  FLASHACL_RETURN_IF_ERROR(CheckRank(args.name(kAttentionOut),
                                     args[kAttentionOut], layout, head_num));
  if (rows.of_query.dim <= kMaxHeadDim) return rows;
  return Invalid("query: head dim {}, expected at most {}", rows.of_query.dim,
                 kMaxHeadDim);
}

// attentionOut is query with value's head dim.
Status CheckOut(const Arguments& args, const TrainingRows& rows) {
  const Tensor& out = args[kAttentionOut];
  Tensor expected = rows.query;
  const int64_t heads =
      rows.layout.folded_heads ? rows.of_query.heads : int64_t{1};
  expected.dims[expected.rank - 1] = heads * rows.of_value.dim;
  if (std::ranges::equal(out.shape(), expected.shape())) return {};
  return Invalid("attentionOutOut: shape {}, expected {}", ShapeText(out),
                 ShapeText(expected));
}

// What is said in arrays and numbers.
Result<Training> ReadTraining(const Arguments& args, const TrainingRows& rows,
                              const TrainingArgs& a) {
  if (!a.dense() &&
      (a.lengths.queries == nullptr || a.lengths.keys == nullptr)) {
    return NullArgument("The {} cannot be nullptr.",
                        a.lengths.queries == nullptr
                            ? "actualSeqQLenOptional"
                            : "actualSeqKvLenOptional");
  }
  Training training = NumbersOf(args, kTraining, rows.layout, a);
  FLASHACL_RETURN_IF_ERROR(CheckHeadCounts(rows, a.head_num));
  FLASHACL_RETURN_IF_ERROR(CheckKeepProb(training));
  FLASHACL_RETURN_IF_ERROR(CheckPse(training, args[kQuery].acl_dtype,
                                    args.given(kRealShift) != nullptr));
  Result<Batch> batch = ReadBatch(rows, a.lengths);
  if (!batch.ok()) return batch.status();
  training.batch = *std::move(batch);
  FLASHACL_RETURN_IF_ERROR(ReadArrays(a, training));
  return training;
}

Status LowerSink(const Arguments& args, int64_t head_num,
                 AttentionProblem& problem) {
  if (!args.has(kSink)) return {};
  const Tensor& sink = args[kSink];
  if (sink.rank != 1 || sink.dims[0] != head_num) {
    return Contradiction("sinkOptional: shape {}, expected [{}]",
                         ShapeText(sink), head_num);
  }
  problem[Slot::kSink] = HeadSpec(sink);
  return {};
}

// [B, N, Sq, 8], or of packed sequences any shape of as many elements.
Status LowerStatistics(const Arguments& args, const TrainingRows& rows,
                       const Training& training, const TrainingArgs& a,
                       AttentionProblem& problem) {
  constexpr std::pair<Row, Slot> kStatistics[] = {{kSoftmaxMax, Slot::kRowMax},
                                                  {kSoftmaxSum, Slot::kRowSum}};
  const int64_t total = rows.of_query.rows;
  const int64_t lanes = Product(Product(total, training.head_num), 8);
  for (const auto& [row, slot] : kStatistics) {
    const RowStatistic statistic{
        .name = args.name(row),
        .tensor = args[row],
        .heads = training.head_num,
        .sequences = training.batch.count(),
        .same_as_input = acl::ReadText(a.softmax_layout) == "same_as_input"};
    if (training.packed() && args[row].elements() != lanes) {
      return Invalid("{}: shape {} has {} elements, expected [{}, {}, 8]",
                     args.name(row), ShapeText(args[row]), args[row].elements(),
                     total, training.head_num);
    }
    Result<TensorSpec> spec = training.packed()
                                  ? RowStatisticSpec(statistic)
                                  : DenseStatisticSpec(statistic, total);
    if (!spec.ok()) return spec.status();
    problem[slot] = *spec;
  }
  return {};
}

constexpr Place kPlaces[] = {
    {kQuery, Slot::kQuery},       {kQueryRope, Slot::kQueryRope},
    {kKey, Slot::kKey},           {kKeyRope, Slot::kKeyRope},
    {kValue, Slot::kValue},       {kRealShift, Slot::kBias},
    {kDropMask, Slot::kKeep},     {kAttenMask, Slot::kMask},
    {kSink, Slot::kSink},         {kSoftmaxMax, Slot::kRowMax},
    {kSoftmaxSum, Slot::kRowSum}, {kAttentionOut, Slot::kOut},
};

// The problem, after everything that can be said without it.
Status LowerAll(const Arguments& args, const TrainingRows& rows,
                const TrainingArgs& a, acl::Lowered& lowered) {
  Result<Training> read = ReadTraining(args, rows, a);
  if (!read.ok()) return read.status();
  Training& training = *read;
  AttentionProblem& problem = lowered.problem;
  problem.score.scale = static_cast<float>(a.scale_value);
  StateRows(rows, training, problem);
  problem.score.half_probs = a.AllowsBf16Probs(problem);
  StateRope(args, kTraining, training, problem);
  problem[Slot::kOut] = QueryLike(args[kAttentionOut], training);
  FLASHACL_RETURN_IF_ERROR(LowerPse(training, problem));
  FLASHACL_RETURN_IF_ERROR(LowerDropMask(training, problem));
  FLASHACL_RETURN_IF_ERROR(LowerMask(training, problem));
  if (IsMaskCompressed(training)) lowered.compressed_mask = kAttenMask;
  FLASHACL_RETURN_IF_ERROR(LowerSink(args, a.head_num, problem));
  FLASHACL_RETURN_IF_ERROR(CheckOut(args, rows));
  FLASHACL_RETURN_IF_ERROR(LowerStatistics(args, rows, training, a, problem));
  if (acl::TheEnvironment().strict) {
    FLASHACL_RETURN_IF_ERROR(CheckHardwareLimits(rows, training));
  }
  problem.lengths.sequences = std::move(training.batch.sequences);
  BindPlaces(args, kPlaces, lowered);
  return {};
}

Result<acl::Lowered> Lower(const Arguments& args, const TrainingArgs& a) {
  if (a.input_layout == nullptr) {
    return NullArgument("The inputLayout cannot be nullptr.");
  }
  acl::Lowered lowered;
  lowered.nothing = NothingToWrite(args);
  if (lowered.nothing) return lowered;
  const Result<const Layout*> layout = ReadLayout(a);
  if (!layout.ok()) return layout.status();
  FLASHACL_RETURN_IF_ERROR(CheckTypes(args));
  const Result<TrainingRows> rows = ReadRows(args, **layout, a.head_num);
  if (!rows.ok()) return rows.status();
  FLASHACL_RETURN_IF_ERROR(CheckRope(args, kTraining, a));
  FLASHACL_RETURN_IF_ERROR(LowerAll(args, *rows, a, lowered));
  return lowered;
}

}  // namespace

aclnnStatus PrepareForward(const acl::Operator& op, Tensors tensors,
                           const TrainingArgs& a,
                           acl::PhaseOne answer) noexcept {
  return Prepare(op, tensors, a, Lower, answer);
}

aclnnStatus PrepareForwardForMaxLengths(const acl::Operator& op,
                                        Tensors tensors, const TrainingArgs& a,
                                        acl::PhaseOne answer) noexcept {
  return PrepareForAnyLengths(
      op,
      [&](acl::PhaseOne one) { return PrepareForward(op, tensors, a, one); },
      answer);
}

}  // namespace flashacl::ops::forward
