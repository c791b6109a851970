// SPDX-License-Identifier: Apache-2.0
// Attention over packed sequences, backward:
// aclnnFlashAttentionUnpaddingScoreGradV5. With P = exp(S - max) / sum from the
// caller's max and sum, dP = dropout(dY V^T), delta = sum(dY * out):
//   dS = P * (dP - delta),  dQ = scale dS K,  dK = scale dS^T Q,
//   dV = dropout(P)^T dY,  dsink = -sum(P * dP * exp(sink - max) / sum).
// docs/operators/flash_attention_varlen_grad.md has arguments and limits.

#include <algorithm>
#include <array>
#include <span>
#include <string>
#include <utility>

#include "acl/arguments.h"
#include "acl/environment.h"
#include "acl/error.h"
#include "acl/executor.h"
#include "aclnnop/aclnn_flash_attention_score_grad.h"
#include "ops/canonical.h"
#include "ops/operators.h"
#include "ops/training.h"
#include "ops/training_gradients.h"
#include "ops/training_mask.h"
#include "ops/training_rows.h"
#include "ops/training_score.h"

namespace flashacl::ops {
namespace {

using namespace gradients;  // the rows of the table
using acl::Arguments;
using acl::Tensor;

constexpr TrainingNames kNames{
    .pse = "pseShiftOptional",
    .keep_prob = "keepProb",
    .pre_tokens = "preTokens",
    .next_tokens = "nextTokens",
    .sparse_mode = "sparseMode",
};

struct Args {
  const aclIntArray* prefix;
  const aclIntArray* actual_seq_q_len;
  const aclIntArray* actual_seq_kv_len;
  const aclIntArray* q_start_idx;
  const aclIntArray* kv_start_idx;
  double scale_value;
  double keep_prob;
  int64_t pre_tokens;
  int64_t next_tokens;
  int64_t head_num;
  int64_t sparse_mode;
  int64_t pse_type;
  const char* softmax_in_layout;
};

// Comes before the checks for nulls, as on the device.
Status CheckInputLayout(const char* layout) {
  if (layout == nullptr) {
    return NullArgument("The inputLayout cannot be nullptr.");
  }
  const std::string text = acl::ReadText(layout);
  if (text == kTnd.name) return {};
  return Invalid("inputLayout: \"{}\", expected \"TND\"", text);
}

Result<Training> ReadTraining(const Arguments& args, const Args& a) {
  Result<Packed> packed =
      ReadPacked(a.actual_seq_q_len, a.actual_seq_kv_len,
                 {args[kQuery].dims[0], args[kKey].dims[0]});
  if (!packed.ok()) return packed.status();
  if (args.has(kSink) && args[kQuery].dtype() == DType::kF32) {
    return Invalid("sinkInOptional: given, but there is none with {}",
                   acl::TypeText(ACL_FLOAT));
  }
  FLASHACL_RETURN_IF_ERROR(CheckHeadCounts(RowsOf(args), a.head_num));
  Result<std::vector<int64_t>> prefix =
      acl::ReadArray("prefixOptional", a.prefix);
  if (!prefix.ok()) return prefix.status();
  const Result<int64_t> q_start = ReadStart("qStartIdxOptional", a.q_start_idx);
  if (!q_start.ok()) return q_start.status();
  const Result<int64_t> kv_start =
      ReadStart("kvStartIdxOptional", a.kv_start_idx);
  if (!kv_start.ok()) return kv_start.status();
  Training training{.names = &kNames,
                    .backward = true,
                    .head_num = a.head_num,
                    .packed = *std::move(packed),
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
  if (args[kKey].empty()) ForgetKeys(training.packed);
  return training;
}

Status LowerStatistics(const Arguments& args, const Training& training,
                       const Args& a, AttentionProblem& problem) {
  constexpr std::pair<Row, Slot> kStatistics[] = {{kSoftmaxMax, Slot::kRowMax},
                                                  {kSoftmaxSum, Slot::kRowSum}};
  const int64_t rows = args[kQuery].dims[0];
  const int64_t heads = training.head_num;
  for (const auto& [row, slot] : kStatistics) {
    const Tensor* given = PassedIn(args, row);
    if (given == nullptr) {
      return NullArgument("The {} cannot be nullptr.", args.name(row));
    }
    const auto is = [&](int64_t a0, int64_t a1) {
      return given->dims[0] == a0 && given->dims[1] == a1;
    };
    if (given->rank != 3 || given->dims[2] != 8 ||
        (!is(rows, heads) && !is(heads, rows))) {
      return Contradiction("{}: shape {}, expected [{}, {}, 8]", args.name(row),
                           ShapeText(*given), rows, heads);
    }
    Result<TensorSpec> spec =
        RowStatisticSpec({.name = args.name(row),
                          .tensor = *given,
                          .heads = heads,
                          .sequences = training.packed.count(),
                          .same_as_input = acl::ReadText(a.softmax_in_layout) ==
                                           "same_as_input"});
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
  FLASHACL_RETURN_IF_ERROR(CheckPseType(training));
  if (training.pse == nullptr) {
    // One without elements has none to enter scores, so its type is moot.
    const bool empty = PassedIn(args, kPse) != nullptr;
    if (training.pse_type == 1 || (training.pse_type == 0 && empty)) return {};
    return Contradiction("pseShiftOptional: none, expected one with pseType {}",
                         training.pse_type);
  }
  const bool slopes = training.pse_type >= 2;
  const DType expected = slopes ? DType::kF32 : args[kQuery].dtype();
  if (training.pse->dtype() != expected) {
    return Contradiction(
        "pseShiftOptional: data type {} with pseType {}, expected {}",
        acl::TypeText(training.pse->acl_dtype), training.pse_type,
        slopes ? acl::TypeText(ACL_FLOAT)
               : acl::TypeText(args[kQuery].acl_dtype));
  }
  FLASHACL_RETURN_IF_ERROR(LowerPse(training, problem));
  // The device leaves dpse alone; it is computed where it has pse's form.
  const Tensor* gradient = args.at(kDpse);
  if (gradient == nullptr || gradient->acl_dtype != training.pse->acl_dtype ||
      !CheckShape(args, kDpse, kPse, training.pse->rank).ok()) {
    return {};
  }
  Result<TensorSpec> grid = PseGrid(training, *gradient);
  if (grid.ok()) problem[Slot::kGradBias] = *grid;
  return {};
}

// One number per head.
TensorSpec HeadSpec(const Tensor& tensor) {
  return Strided(tensor, {0, kOne, kOne, kOne}, {tensor.dims[0], 1, 1, 1});
}

void StateTensors(const Arguments& args, const Training& training,
                  AttentionProblem& problem) {
  StateRows(RowsOf(args), training, problem);
  problem[Slot::kOut] = QueryLike(args[kAttentionIn], training);
  problem[Slot::kGradOut] = QueryLike(args[kDy], training);
  problem[Slot::kGradQuery] = QueryLike(args[kDq], training);
  problem[Slot::kGradKey] = KeyLike(args[kDk], training);
  problem[Slot::kGradValue] = KeyLike(args[kDv], training);
  if (HasRope(args)) {
    problem.rope_dim = PassedIn(args, kQueryRope)->dims[2];
    problem[Slot::kQueryRope] =
        QueryLike(*PassedIn(args, kQueryRope), training);
    problem[Slot::kKeyRope] = KeyLike(*PassedIn(args, kKeyRope), training);
    problem[Slot::kGradQueryRope] =
        QueryLike(*PassedIn(args, kDqRope), training);
    problem[Slot::kGradKeyRope] = KeyLike(*PassedIn(args, kDkRope), training);
  }
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

Result<acl::Lowered> Lower(const Arguments& args, const Args& a) {
  acl::Lowered lowered;
  lowered.nothing = NothingToWrite(args);
  if (lowered.nothing) return lowered;
  FLASHACL_RETURN_IF_ERROR(
      CheckTensors(args, {a.head_num, a.keep_prob, a.sparse_mode}));
  Result<Training> read = ReadTraining(args, a);
  if (!read.ok()) return read.status();
  Training& training = *read;

  AttentionProblem& problem = lowered.problem;
  problem.direction = Direction::kBackward;
  problem.score.scale = static_cast<float>(a.scale_value);
  StateTensors(args, training, problem);
  FLASHACL_RETURN_IF_ERROR(LowerStatistics(args, training, a, problem));
  FLASHACL_RETURN_IF_ERROR(LowerMask(training, problem));
  if (IsMaskCompressed(training)) lowered.compressed_mask = kAttenMask;
  FLASHACL_RETURN_IF_ERROR(LowerBias(args, training, problem));
  FLASHACL_RETURN_IF_ERROR(LowerDropout(training, problem));
  if (acl::TheEnvironment().strict) {
    FLASHACL_RETURN_IF_ERROR(CheckHardwareLimits(RowsOf(args), training));
  }
  problem.lengths.sequences = std::move(training.packed.sequences);
  BindAll(args, lowered);
  return lowered;
}

// The most any lengths ask for: one sequence of all rows, which sees all.
AttentionProblem Widest(AttentionProblem problem) {
  const int64_t rows = problem[Slot::kQuery].dims[1];
  const int64_t columns = problem[Slot::kKey].dims[1];
  for (Sequence& sequence : problem.lengths.sequences) {
    sequence = {{rows, rows}, {columns, columns}};
  }
  problem.lengths.sequences.front() = {{0, rows}, {0, columns}};
  problem.mask = {};
  problem.score.bias = Score::Bias::kNone;
  for (const Slot slot : {Slot::kMask, Slot::kBias, Slot::kGradBias}) {
    problem[slot] = {};
  }
  return problem;
}

// Raises `workspace_size` to what the executor's call would need with any
// lengths.
Status RaiseToMost(const aclOpExecutor* handle, uint64_t& workspace_size) {
  const auto executor = acl::Find<acl::Executor>(handle);
  if (executor == nullptr || executor->plan == nullptr) return {};
  const Result<uint64_t> most =
      acl::WorkspaceBytes(Widest(executor->plan->problem));
  if (!most.ok()) return most.status();
  workspace_size = std::max(workspace_size, *most);
  return {};
}

}  // namespace

const acl::Operator kFlashAttentionUnpaddingScoreGradV5{
    .name = "aclnnFlashAttentionUnpaddingScoreGradV5",
    .arguments = kTable,
    .contradiction = 161002,
};

namespace {

aclnnStatus Plan(const char* layout, std::span<const acl::Passed> passed,
                 const Args& a, acl::PhaseOne answer) noexcept {
  const acl::Operator& op = kFlashAttentionUnpaddingScoreGradV5;
  const aclnnStatus fits =
      acl::Guard(op.contradiction, [&] { return CheckInputLayout(layout); });
  if (fits != 0) return fits;
  return acl::Prepare(
      op, passed, [&](const Arguments& args) { return Lower(args, a); },
      answer);
}

}  // namespace

}  // namespace flashacl::ops

extern "C" aclnnStatus aclnnFlashAttentionUnpaddingScoreGradV5GetWorkspaceSize(
    const aclTensor* query, const aclTensor* queryRope, const aclTensor* keyIn,
    const aclTensor* keyInRope, const aclTensor* value, const aclTensor* dy,
    const aclTensor* pseShiftOptional, const aclTensor* dropMaskOptional,
    const aclTensor* paddingMaskOptional, const aclTensor* attenMaskOptional,
    const aclTensor* softmaxMaxOptional, const aclTensor* softmaxSumOptional,
    const aclTensor* softmaxInOptional, const aclTensor* attentionInOptional,
    const aclTensor* sinkInOptional, const aclIntArray* prefixOptional,
    const aclIntArray* actualSeqQLenOptional,
    const aclIntArray* actualSeqKvLenOptional,
    const aclIntArray* qStartIdxOptional, const aclIntArray* kvStartIdxOptional,
    double scaleValue, double keepProb, int64_t preTokens, int64_t nextTokens,
    int64_t headNum, char* inputLayout, int64_t /*innerPrecise*/,
    int64_t sparseMode, int64_t pseType, char* softmaxInLayout,
    const aclTensor* dqOut, const aclTensor* dqRopeOut, const aclTensor* dkOut,
    const aclTensor* dkRopeOut, const aclTensor* dvOut,
    const aclTensor* dpseOut, const aclTensor* dsinkOut,
    uint64_t* workspaceSize, aclOpExecutor** executor) {
  namespace ops = flashacl::ops;
  const flashacl::acl::Passed passed[] = {query,
                                          queryRope,
                                          keyIn,
                                          keyInRope,
                                          value,
                                          dy,
                                          pseShiftOptional,
                                          dropMaskOptional,
                                          paddingMaskOptional,
                                          attenMaskOptional,
                                          softmaxMaxOptional,
                                          softmaxSumOptional,
                                          softmaxInOptional,
                                          attentionInOptional,
                                          sinkInOptional,
                                          dqOut,
                                          dqRopeOut,
                                          dkOut,
                                          dkRopeOut,
                                          dvOut,
                                          dpseOut,
                                          dsinkOut};
  const ops::Args args{.prefix = prefixOptional,
                       .actual_seq_q_len = actualSeqQLenOptional,
                       .actual_seq_kv_len = actualSeqKvLenOptional,
                       .q_start_idx = qStartIdxOptional,
                       .kv_start_idx = kvStartIdxOptional,
                       .scale_value = scaleValue,
                       .keep_prob = keepProb,
                       .pre_tokens = preTokens,
                       .next_tokens = nextTokens,
                       .head_num = headNum,
                       .sparse_mode = sparseMode,
                       .pse_type = pseType,
                       .softmax_in_layout = softmaxInLayout};
  return ops::Plan(inputLayout, passed, args, {workspaceSize, executor});
}

extern "C" aclnnStatus
aclnnFlashAttentionUnpaddingScoreGradV5GetMaxWorkspaceSize(
    const aclTensor* query, const aclTensor* queryRope, const aclTensor* keyIn,
    const aclTensor* keyInRope, const aclTensor* value, const aclTensor* dy,
    const aclTensor* pseShiftOptional, const aclTensor* dropMaskOptional,
    const aclTensor* paddingMaskOptional, const aclTensor* attenMaskOptional,
    const aclTensor* softmaxMaxOptional, const aclTensor* softmaxSumOptional,
    const aclTensor* softmaxInOptional, const aclTensor* attentionInOptional,
    const aclTensor* sinkInOptional, const aclIntArray* prefixOptional,
    const aclIntArray* actualSeqQLenOptional,
    const aclIntArray* actualSeqKvLenOptional,
    const aclIntArray* qStartIdxOptional, const aclIntArray* kvStartIdxOptional,
    double scaleValue, double keepProb, int64_t preTokens, int64_t nextTokens,
    int64_t headNum, char* inputLayout, int64_t innerPrecise,
    int64_t sparseMode, int64_t pseType, char* softmaxInLayout,
    const aclTensor* dqOut, const aclTensor* dqRopeOut, const aclTensor* dkOut,
    const aclTensor* dkRopeOut, const aclTensor* dvOut,
    const aclTensor* dpseOut, const aclTensor* dsinkOut,
    uint64_t* workspaceSize, aclOpExecutor** executor) {
  namespace acl = flashacl::acl;
  uint64_t size = 0;
  aclOpExecutor* made = nullptr;
  const aclnnStatus planned = acl::Guard(161002, [&]() -> flashacl::Status {
    if (dropMaskOptional == nullptr) return {};
    return flashacl::Invalid(
        "dropMaskOptional: given, but its size depends on lengths");
  });
  if (planned != 0) return planned;
  const aclnnStatus status =
      aclnnFlashAttentionUnpaddingScoreGradV5GetWorkspaceSize(
          query, queryRope, keyIn, keyInRope, value, dy, pseShiftOptional,
          dropMaskOptional, paddingMaskOptional, attenMaskOptional,
          softmaxMaxOptional, softmaxSumOptional, softmaxInOptional,
          attentionInOptional, sinkInOptional, prefixOptional,
          actualSeqQLenOptional, actualSeqKvLenOptional, qStartIdxOptional,
          kvStartIdxOptional, scaleValue, keepProb, preTokens, nextTokens,
          headNum, inputLayout, innerPrecise, sparseMode, pseType,
          softmaxInLayout, dqOut, dqRopeOut, dkOut, dkRopeOut, dvOut, dpseOut,
          dsinkOut, workspaceSize == nullptr ? nullptr : &size,
          executor == nullptr ? nullptr : &made);
  if (status != 0) return status;
  const aclnnStatus raised = acl::Guard(
      161002, [&] { return flashacl::ops::RaiseToMost(made, size); });
  if (raised != 0) {
    (void)aclDestroyAclOpExecutor(made);
    return raised;
  }
  *workspaceSize = size;
  *executor = made;
  return 0;
}

extern "C" aclnnStatus aclnnFlashAttentionUnpaddingScoreGradV5(
    void* workspace, uint64_t workspaceSize, aclOpExecutor* executor,
    const aclrtStream stream) {
  return flashacl::acl::Launch(workspace, workspaceSize, executor, stream);
}
