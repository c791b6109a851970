// SPDX-License-Identifier: Apache-2.0
// Attention over packed sequences, forward: aclnnFlashAttentionVarLenScore.
//   out = dropout(softmax(mask(scale * (q k^T + pse)))) v
// docs/operators/flash_attention_varlen.md has the arguments and the limits.

#include <algorithm>
#include <array>
#include <string>

#include "acl/arguments.h"
#include "acl/environment.h"
#include "acl/executor.h"
#include "aclnnop/aclnn_flash_attention_score.h"
#include "ops/canonical.h"
#include "ops/operators.h"
#include "ops/training.h"
#include "ops/training_mask.h"
#include "ops/training_rows.h"
#include "ops/training_score.h"

namespace flashacl::ops {
namespace {

using acl::Arguments;
using acl::Need;

enum Row {
  kQuery,
  kKey,
  kValue,
  kRealShift,
  kDropMask,
  kPaddingMask,
  kAttenMask,
  kSoftmaxMax,
  kSoftmaxSum,
  kSoftmaxOut,
  kAttentionOut,
};

constexpr acl::DTypeSet kMaskTypes =
    acl::Bit(DType::kBool) | acl::Bit(DType::kU8);

constexpr acl::Argument kArguments[] = {
    {"query", Need::kRequired, acl::kFloats},  // [T, N, D]
    {"key", Need::kRequired, acl::kFloats},    // [Tkv, Nkv, D]
    {"value", Need::kRequired, acl::kFloats},  // [Tkv, Nkv, Dv]
    {"realShiftOptional", Need::kOptional, acl::kFloats},
    {"dropMaskOptional", Need::kOptional, acl::Bit(DType::kU8)},
    {"paddingMaskOptional", Need::kIgnored},
    {"attenMaskOptional", Need::kOptional, kMaskTypes},
    {"softmaxMaxOut", Need::kRequired, acl::kF32Only, true},  // [T, N, 8]
    {"softmaxSumOut", Need::kRequired, acl::kF32Only, true},
    {"softmaxOutOut", Need::kIgnored, acl::kAnyType, true},
    {"attentionOutOut", Need::kRequired, acl::kFloats, true},  // [T, N, Dv]
};

constexpr TrainingNames kNames{
    .pse = "realShiftOptional",
    .keep_prob = "keepProbOptional",
    .pre_tokens = "preTokensOptional",
    .next_tokens = "nextTokensOptional",
    .sparse_mode = "sparseModeOptional",
};

struct Args {
  const aclIntArray* prefix;
  const aclIntArray* actual_seq_q_len;
  const aclIntArray* actual_seq_kv_len;
  double scale_value;
  double keep_prob;
  int64_t pre_tokens;
  int64_t next_tokens;
  int64_t head_num;
  const char* input_layout;
  int64_t sparse_mode;
};

// Greater ones are refused by the operator itself, not only by the hardware.
constexpr int64_t kMostHeadDim = 768;

TrainingRows RowsOf(const Arguments& args) {
  return {args[kQuery], args[kKey], args[kValue], "key"};
}

bool NothingToWrite(const Arguments& args) {
  return args[kAttentionOut].empty() && args[kSoftmaxMax].empty() &&
         args[kSoftmaxSum].empty();
}

Status CheckLayoutAndTypes(const Arguments& args, const Args& a) {
  const std::string layout = acl::ReadText(a.input_layout);
  if (layout != kTnd.name) {
    return Invalid("inputLayout: \"{}\", expected \"TND\"", layout);
  }
  FLASHACL_RETURN_IF_ERROR(args.CheckTypes());
  for (const int row : {kKey, kValue, kRealShift, kAttentionOut}) {
    FLASHACL_RETURN_IF_ERROR(CheckTypeOfQuery(args, kQuery, row));
  }
  return {};
}

Status CheckHeadsAndRanks(const Arguments& args, const Args& a) {
  for (const int row : {kQuery, kKey, kValue, kAttentionOut}) {
    FLASHACL_RETURN_IF_ERROR(
        CheckRank(args.name(row), args[row], kTnd, a.head_num));
  }
  if (a.head_num <= 0) {
    return Invalid("headNum: {}, expected at least 1", a.head_num);
  }
  FLASHACL_RETURN_IF_ERROR(CheckHeadDims(RowsOf(args)));
  const int64_t dim = args[kQuery].dims[2];
  if (dim <= kMostHeadDim) return {};
  return Invalid("query: head dim {}, expected at most {}", dim, kMostHeadDim);
}

// [T, N, Dv], and as many elements as [T, N, 8].
Status CheckOutputs(const Arguments& args) {
  const acl::Tensor& query = args[kQuery];
  const acl::Tensor& out = args[kAttentionOut];
  const int64_t v_dim = args[kValue].dims[2];
  if (out.dims[0] != query.dims[0] || out.dims[1] != query.dims[1] ||
      out.dims[2] != v_dim) {
    return Invalid("attentionOutOut: shape {}, expected [{}, {}, {}]",
                   ShapeText(out), query.dims[0], query.dims[1], v_dim);
  }
  const int64_t lanes = Product(Product(query.dims[0], query.dims[1]), 8);
  for (const int row : {kSoftmaxMax, kSoftmaxSum}) {
    if (args[row].elements() == lanes) continue;
    return Invalid("{}: shape {} has {} elements, expected [{}, {}, 8]",
                   args.name(row), ShapeText(args[row]), args[row].elements(),
                   query.dims[0], query.dims[1]);
  }
  return {};
}

Result<Training> ReadTraining(const Arguments& args, const Args& a) {
  if (a.actual_seq_q_len == nullptr || a.actual_seq_kv_len == nullptr) {
    return NullArgument("The {} cannot be nullptr.",
                        a.actual_seq_q_len == nullptr
                            ? "actualSeqQLenOptional"
                            : "actualSeqKvLenOptional");
  }
  Training training{.names = &kNames,
                    .head_num = a.head_num,
                    .pse = args.at(kRealShift),
                    .drop_mask = args.at(kDropMask),
                    .atten_mask = args.at(kAttenMask),
                    .keep_prob = a.keep_prob,
                    .sparse_mode = a.sparse_mode,
                    .pre_tokens = Tokens(a.pre_tokens),
                    .next_tokens = Tokens(a.next_tokens)};
  FLASHACL_RETURN_IF_ERROR(CheckHeadCounts(RowsOf(args), a.head_num));
  FLASHACL_RETURN_IF_ERROR(CheckKeepProb(training));
  Result<Packed> packed =
      ReadPacked(a.actual_seq_q_len, a.actual_seq_kv_len,
                 {args[kQuery].dims[0], args[kKey].dims[0]});
  if (!packed.ok()) return packed.status();
  training.packed = *std::move(packed);
  if (args[kKey].empty()) ForgetKeys(training.packed);
  Result<std::vector<int64_t>> prefix =
      acl::ReadArray("prefixOptional", a.prefix);
  if (!prefix.ok()) return prefix.status();
  training.prefix = *std::move(prefix);
  return training;
}

Status LowerMask(const Training& training, AttentionProblem& problem) {
  if (training.atten_mask == nullptr) return {};
  FLASHACL_RETURN_IF_ERROR(CheckSparseMode(training));
  Result<TensorSpec> grid = MaskGrid(training, MaskStorage::kPadded);
  if (!grid.ok()) return grid.status();
  problem[Slot::kMask] = *grid;
  FLASHACL_RETURN_IF_ERROR(CheckPrefix(training));
  FLASHACL_RETURN_IF_ERROR(CheckForwardTokens(training));
  problem.mask = SparseRules(training);
  return {};
}

Status LowerStatistics(const Arguments& args, const Training& training,
                       AttentionProblem& problem) {
  constexpr std::pair<Row, Slot> kStatistics[] = {{kSoftmaxMax, Slot::kRowMax},
                                                  {kSoftmaxSum, Slot::kRowSum}};
  for (const auto& [row, slot] : kStatistics) {
    Result<TensorSpec> spec =
        RowStatisticSpec({.name = args.name(row),
                          .tensor = args[row],
                          .heads = training.head_num,
                          .sequences = training.packed.count()});
    if (!spec.ok()) return spec.status();
    problem[slot] = *spec;
  }
  return {};
}

void BindAll(const Arguments& args, acl::Lowered& lowered) {
  constexpr std::pair<Row, Slot> kPlaces[] = {
      {kQuery, Slot::kQuery},       {kKey, Slot::kKey},
      {kValue, Slot::kValue},       {kRealShift, Slot::kBias},
      {kDropMask, Slot::kKeep},     {kAttenMask, Slot::kMask},
      {kSoftmaxMax, Slot::kRowMax}, {kSoftmaxSum, Slot::kRowSum},
      {kAttentionOut, Slot::kOut},
  };
  for (const auto& [row, slot] : kPlaces) {
    if (lowered.problem.has(slot)) lowered.Bind(args, row, slot);
  }
}

Result<acl::Lowered> Lower(const Arguments& args, const Args& a) {
  if (a.input_layout == nullptr) {
    return NullArgument("The inputLayout cannot be nullptr.");
  }
  acl::Lowered lowered;
  lowered.nothing = NothingToWrite(args);
  if (lowered.nothing) return lowered;
  FLASHACL_RETURN_IF_ERROR(CheckLayoutAndTypes(args, a));
  FLASHACL_RETURN_IF_ERROR(CheckHeadsAndRanks(args, a));
  Result<Training> read = ReadTraining(args, a);
  if (!read.ok()) return read.status();
  Training& training = *read;

  AttentionProblem& problem = lowered.problem;
  problem.score.scale = static_cast<float>(a.scale_value);
  StateRows(RowsOf(args), training, problem);
  problem[Slot::kOut] = QueryLike(args[kAttentionOut], training);
  FLASHACL_RETURN_IF_ERROR(LowerPse(training, problem));
  FLASHACL_RETURN_IF_ERROR(LowerDropMask(training, problem));
  FLASHACL_RETURN_IF_ERROR(LowerMask(training, problem));
  if (IsMaskCompressed(training)) lowered.compressed_mask = kAttenMask;
  FLASHACL_RETURN_IF_ERROR(CheckOutputs(args));
  if (acl::TheEnvironment().strict) {
    FLASHACL_RETURN_IF_ERROR(CheckHardwareLimits(RowsOf(args), training));
  }
  FLASHACL_RETURN_IF_ERROR(LowerStatistics(args, training, problem));
  problem.lengths.sequences = std::move(training.packed.sequences);
  BindAll(args, lowered);
  return lowered;
}

}  // namespace

const acl::Operator kFlashAttentionVarLenScore{
    .name = "aclnnFlashAttentionVarLenScore",
    .arguments = kArguments,
    .contradiction = 561103,
};

}  // namespace flashacl::ops

extern "C" aclnnStatus aclnnFlashAttentionVarLenScoreGetWorkspaceSize(
    const aclTensor* query, const aclTensor* key, const aclTensor* value,
    const aclTensor* realShiftOptional, const aclTensor* dropMaskOptional,
    const aclTensor* paddingMaskOptional, const aclTensor* attenMaskOptional,
    const aclIntArray* prefixOptional, const aclIntArray* actualSeqQLenOptional,
    const aclIntArray* actualSeqKvLenOptional, double scaleValueOptional,
    double keepProbOptional, int64_t preTokensOptional,
    int64_t nextTokensOptional, int64_t headNum, char* inputLayout,
    int64_t /*innerPreciseOptional*/, int64_t sparseModeOptional,
    const aclTensor* softmaxMaxOut, const aclTensor* softmaxSumOut,
    const aclTensor* softmaxOutOut, const aclTensor* attentionOutOut,
    uint64_t* workspaceSize, aclOpExecutor** executor) {
  using flashacl::acl::Passed;
  const Passed passed[] = {
      query,
      key,
      value,
      realShiftOptional,
      dropMaskOptional,
      paddingMaskOptional,
      attenMaskOptional,
      softmaxMaxOut,
      softmaxSumOut,
      softmaxOutOut,
      attentionOutOut,
  };
  const flashacl::ops::Args args{
      .prefix = prefixOptional,
      .actual_seq_q_len = actualSeqQLenOptional,
      .actual_seq_kv_len = actualSeqKvLenOptional,
      .scale_value = scaleValueOptional,
      .keep_prob = keepProbOptional,
      .pre_tokens = preTokensOptional,
      .next_tokens = nextTokensOptional,
      .head_num = headNum,
      .input_layout = inputLayout,
      .sparse_mode = sparseModeOptional,
  };
  return flashacl::acl::Prepare(flashacl::ops::kFlashAttentionVarLenScore,
                                passed,
                                [&](const flashacl::acl::Arguments& read) {
                                  return flashacl::ops::Lower(read, args);
                                },
                                {workspaceSize, executor});
}

extern "C" aclnnStatus aclnnFlashAttentionVarLenScore(
    void* workspace, uint64_t workspaceSize, aclOpExecutor* executor,
    const aclrtStream stream) {
  return flashacl::acl::Launch(workspace, workspaceSize, executor, stream);
}
