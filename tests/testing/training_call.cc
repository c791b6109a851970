// SPDX-License-Identifier: Apache-2.0
// Calls of the operators for training.
#include "tests/testing/training_call.h"

#include <numeric>
#include <tuple>

#include "aclnnop/aclnn_flash_attention_score.h"
#include "aclnnop/aclnn_flash_attention_score_grad.h"

namespace flashacl::testing {
namespace {

using Array = std::optional<std::vector<int64_t>>;

int64_t Sum(const std::vector<int64_t>& lengths, int64_t tail) {
  return std::accumulate(lengths.begin(), lengths.end(), tail);
}

DeviceTensor* Input(Caller& caller, const std::optional<Form>& form) {
  return form ? caller.Input(*form) : nullptr;
}

DeviceTensor* Output(Caller& caller, const std::optional<Form>& form) {
  return form ? caller.Output(*form) : nullptr;
}

const aclIntArray* ArrayOf(Caller& caller, const Array& values) {
  return values ? caller.Array(*values) : nullptr;
}

// Texts are not const in the C API.
char* TextOf(const std::optional<std::string>& text) {
  return text ? const_cast<char*>(text->c_str()) : nullptr;
}

// A tensor of rows in the layout of the sizes.
std::vector<int64_t> Dims(const TrainingSizes& sizes, bool of_keys,
                          int64_t dim) {
  const std::vector<int64_t>& lengths = of_keys ? sizes.columns : sizes.rows;
  const int64_t heads = of_keys ? sizes.kv_heads : sizes.heads;
  const int64_t count = sizes.count();
  const int64_t length = lengths.empty() ? 0 : lengths.front();
  if (sizes.layout == "BSH") return {count, length, heads * dim};
  if (sizes.layout == "SBH") return {length, count, heads * dim};
  if (sizes.layout == "BSND") return {count, length, heads, dim};
  if (sizes.layout == "BNSD") return {count, heads, length, dim};
  return {Sum(lengths, of_keys ? sizes.column_tail : sizes.row_tail), heads,
          dim};
}

template <typename Call>
bool FitsIn(const Call& call, const VersionFeatures& asked) {
  const VersionFeatures has = FeaturesOf(call.packed, call.version);
  return (has.pse_types || !asked.pse_types) && (has.rope || !asked.rope) &&
         (has.sink || !asked.sink) &&
         (has.statistic_order || !asked.statistic_order);
}

Form QueryForm(const TrainingSizes& sizes, int64_t dim) {
  return {sizes.type, Dims(sizes, false, dim)};
}

Form KeyForm(const TrainingSizes& sizes, int64_t dim) {
  return {sizes.type, Dims(sizes, true, dim)};
}

Form StatisticForm(const TrainingSizes& sizes) {
  if (sizes.packed()) {
    return {ACL_FLOAT, {Sum(sizes.rows, sizes.row_tail), sizes.heads, 8}};
  }
  return {ACL_FLOAT, {sizes.count(), sizes.heads, sizes.rows.front(), 8}};
}

}  // namespace

std::vector<int64_t> Ends(const std::vector<int64_t>& lengths) {
  std::vector<int64_t> ends(lengths.size());
  std::partial_sum(lengths.begin(), lengths.end(), ends.begin());
  return ends;
}

VersionFeatures FeaturesOf(bool packed, int version) {
  if (!packed) return {.pse_types = version > 1, .sink = version > 2};
  return {.pse_types = version != 1 && version != 4,
          .rope = version == 3 || version == 5,
          .sink = version == 5,
          .statistic_order = version >= 4};
}

TrainingForward::TrainingForward(const TrainingSizes& sizes, int version)
    : packed(sizes.packed()), version(version) {
  query = QueryForm(sizes, sizes.dim);
  key = KeyForm(sizes, sizes.dim);
  value = KeyForm(sizes, sizes.v_dim);
  softmaxMax = softmaxSum = StatisticForm(sizes);
  attentionOut = QueryForm(sizes, sizes.v_dim);
  if (packed) actualSeqQLen = Ends(sizes.rows);
  if (packed) actualSeqKvLen = Ends(sizes.columns);
  headNum = sizes.heads;
  inputLayout = sizes.layout;
}

bool TrainingForward::Fits() const {
  return FitsIn(*this, {.pse_types = pseType != 1 || qStartIdx || kvStartIdx,
                        .rope = queryRope || keyRope,
                        .sink = sink.has_value(),
                        .statistic_order = softmaxOutLayout.has_value()});
}

TrainingForward::Tensors TrainingForward::Make(Caller& caller) const {
  const VersionFeatures has = FeaturesOf(packed, version);
  Tensors t{};
  t.query = Input(caller, query);
  if (has.rope) t.queryRope = Input(caller, queryRope);
  t.key = Input(caller, key);
  if (has.rope) t.keyRope = Input(caller, keyRope);
  t.value = Input(caller, value);
  t.realShift = Input(caller, realShift);
  t.dropMask = Input(caller, dropMask);
  t.paddingMask = Input(caller, paddingMask);
  t.attenMask = Input(caller, attenMask);
  if (has.sink) t.sink = Input(caller, sink);
  t.softmaxMax = Output(caller, softmaxMax);
  t.softmaxSum = Output(caller, softmaxSum);
  t.softmaxOut = Output(caller, softmaxOut);
  t.attentionOut = Output(caller, attentionOut);
  t.prefix = ArrayOf(caller, prefix);
  t.actualSeqQLen = ArrayOf(caller, actualSeqQLen);
  t.actualSeqKvLen = ArrayOf(caller, actualSeqKvLen);
  t.qStartIdx = ArrayOf(caller, qStartIdx);
  t.kvStartIdx = ArrayOf(caller, kvStartIdx);
  return t;
}

Caller::PhaseTwo TrainingForward::PhaseTwo() const {
  constexpr Caller::PhaseTwo kPacked[] = {
      aclnnFlashAttentionVarLenScore, aclnnFlashAttentionVarLenScoreV2,
      aclnnFlashAttentionVarLenScoreV3, aclnnFlashAttentionVarLenScoreV4,
      aclnnFlashAttentionVarLenScoreV5};
  constexpr Caller::PhaseTwo kDense[] = {aclnnFlashAttentionScore,
                                         aclnnFlashAttentionScoreV2,
                                         aclnnFlashAttentionScoreV3};
  return (packed ? kPacked : kDense)[version - 1];
}

namespace {

// The order of the newest version's arguments, which has two phases 1.
aclnnStatus PlanNewest(
    decltype(aclnnFlashAttentionVarLenScoreV5GetWorkspaceSize)& function,
    const TrainingForward& c, const TrainingForward::Tensors& t, uint64_t* size,
    aclOpExecutor** executor) {
  return function(
      HandleOf(t.query), HandleOf(t.queryRope), HandleOf(t.key),
      HandleOf(t.keyRope), HandleOf(t.value), HandleOf(t.realShift),
      HandleOf(t.dropMask), HandleOf(t.paddingMask), HandleOf(t.attenMask),
      HandleOf(t.sink), t.prefix, t.actualSeqQLen, t.actualSeqKvLen,
      t.qStartIdx, t.kvStartIdx, c.scaleValue, c.keepProb, c.preTokens,
      c.nextTokens, c.headNum, TextOf(c.inputLayout), c.innerPrecise,
      c.sparseMode, c.pseType, TextOf(c.softmaxOutLayout),
      HandleOf(t.softmaxMax), HandleOf(t.softmaxSum), HandleOf(t.softmaxOut),
      HandleOf(t.attentionOut), size, executor);
}

}  // namespace

// The orders of arguments, put together from what versions share.
aclnnStatus TrainingForward::Plan(const Tensors& t, uint64_t* size,
                                  aclOpExecutor** executor) const {
  const auto h = [](const DeviceTensor* tensor) { return HandleOf(tensor); };
  using std::make_tuple;
  const auto rows = make_tuple(h(t.query), h(t.key), h(t.value));
  const auto roped = make_tuple(h(t.query), h(t.queryRope), h(t.key),
                                h(t.keyRope), h(t.value));
  const auto masks = make_tuple(h(t.realShift), h(t.dropMask), h(t.paddingMask),
                                h(t.attenMask));
  const auto sunk = make_tuple(h(t.sink));
  const auto prefixes = make_tuple(t.prefix);
  const auto lengths = make_tuple(t.actualSeqQLen, t.actualSeqKvLen);
  const auto starts = make_tuple(t.qStartIdx, t.kvStartIdx);
  const auto numbers =
      make_tuple(scaleValue, keepProb, preTokens, nextTokens, headNum,
                 TextOf(inputLayout), innerPrecise, sparseMode);
  const auto type = make_tuple(pseType);
  const auto order = make_tuple(TextOf(softmaxOutLayout));
  const auto out = make_tuple(h(t.softmaxMax), h(t.softmaxSum), h(t.softmaxOut),
                              h(t.attentionOut), give_size ? size : nullptr,
                              give_executor ? executor : nullptr);
  const auto call = [](auto function, const auto&... parts) {
    return std::apply(function, std::tuple_cat(parts...));
  };
  switch (packed ? version : -version) {
    case 1:
      return call(aclnnFlashAttentionVarLenScoreGetWorkspaceSize, rows, masks,
                  prefixes, lengths, numbers, out);
    case 2:
      return call(aclnnFlashAttentionVarLenScoreV2GetWorkspaceSize, rows, masks,
                  prefixes, lengths, starts, numbers, type, out);
    case 3:
      return call(aclnnFlashAttentionVarLenScoreV3GetWorkspaceSize, roped,
                  masks, prefixes, lengths, starts, numbers, type, out);
    case 4:
      return call(aclnnFlashAttentionVarLenScoreV4GetWorkspaceSize, rows, masks,
                  prefixes, lengths, numbers, order, out);
    case 5:
      return PlanNewest(aclnnFlashAttentionVarLenScoreV5GetWorkspaceSize, *this,
                        t, std::get<4>(out), std::get<5>(out));
    case -1:
      return call(aclnnFlashAttentionScoreGetWorkspaceSize, rows, masks,
                  prefixes, numbers, out);
    case -2:
      return call(aclnnFlashAttentionScoreV2GetWorkspaceSize, rows, masks,
                  prefixes, starts, numbers, type, out);
    default:
      return call(aclnnFlashAttentionScoreV3GetWorkspaceSize, rows, masks, sunk,
                  prefixes, starts, numbers, type, out);
  }
}

aclnnStatus TrainingForward::PlanMost(const Tensors& t, uint64_t* size,
                                      aclOpExecutor** executor) const {
  return PlanNewest(aclnnFlashAttentionVarLenScoreV5GetMaxWorkspaceSize, *this,
                    t, give_size ? size : nullptr,
                    give_executor ? executor : nullptr);
}

TrainingBackward::TrainingBackward(const TrainingSizes& sizes, int version)
    : packed(sizes.packed()),
      version(version == 0 ? VersionsOf(packed) : version) {
  query = dq = QueryForm(sizes, sizes.dim);
  keyIn = dk = KeyForm(sizes, sizes.dim);
  value = dv = KeyForm(sizes, sizes.v_dim);
  dy = attentionIn = QueryForm(sizes, sizes.v_dim);
  softmaxMax = softmaxSum = StatisticForm(sizes);
  if (packed) actualSeqQLen = Ends(sizes.rows);
  if (packed) actualSeqKvLen = Ends(sizes.columns);
  headNum = sizes.heads;
  inputLayout = sizes.layout;
}

bool TrainingBackward::Fits() const {
  return FitsIn(*this, {.pse_types = pseType != 1 || qStartIdx || kvStartIdx,
                        .rope = queryRope || keyInRope || dqRope || dkRope,
                        .sink = sinkIn || dsink,
                        .statistic_order = softmaxInLayout.has_value()});
}

TrainingBackward::Tensors TrainingBackward::Make(Caller& caller) const {
  const VersionFeatures has = FeaturesOf(packed, version);
  Tensors t{};
  t.query = Input(caller, query);
  if (has.rope) t.queryRope = Input(caller, queryRope);
  t.keyIn = Input(caller, keyIn);
  if (has.rope) t.keyInRope = Input(caller, keyInRope);
  t.value = Input(caller, value);
  t.dy = Input(caller, dy);
  t.pseShift = Input(caller, pseShift);
  t.dropMask = Input(caller, dropMask);
  t.paddingMask = Input(caller, paddingMask);
  t.attenMask = Input(caller, attenMask);
  t.softmaxMax = Input(caller, softmaxMax);
  t.softmaxSum = Input(caller, softmaxSum);
  t.softmaxIn = Input(caller, softmaxIn);
  t.attentionIn = Input(caller, attentionIn);
  if (has.sink) t.sinkIn = Input(caller, sinkIn);
  t.dq = Output(caller, dq);
  if (has.rope) t.dqRope = Output(caller, dqRope);
  t.dk = Output(caller, dk);
  if (has.rope) t.dkRope = Output(caller, dkRope);
  t.dv = Output(caller, dv);
  t.dpse = Output(caller, dpse);
  if (has.sink) t.dsink = Output(caller, dsink);
  t.prefix = ArrayOf(caller, prefix);
  t.actualSeqQLen = ArrayOf(caller, actualSeqQLen);
  t.actualSeqKvLen = ArrayOf(caller, actualSeqKvLen);
  t.qStartIdx = ArrayOf(caller, qStartIdx);
  t.kvStartIdx = ArrayOf(caller, kvStartIdx);
  return t;
}

Caller::PhaseTwo TrainingBackward::PhaseTwo() const {
  constexpr Caller::PhaseTwo kPacked[] = {
      aclnnFlashAttentionUnpaddingScoreGrad,
      aclnnFlashAttentionUnpaddingScoreGradV2,
      aclnnFlashAttentionUnpaddingScoreGradV3,
      aclnnFlashAttentionUnpaddingScoreGradV4,
      aclnnFlashAttentionUnpaddingScoreGradV5};
  constexpr Caller::PhaseTwo kDense[] = {aclnnFlashAttentionScoreGrad,
                                         aclnnFlashAttentionScoreGradV2,
                                         aclnnFlashAttentionScoreGradV3};
  return (packed ? kPacked : kDense)[version - 1];
}

namespace {

// The order of the newest version's arguments, which has two phases 1.
aclnnStatus PlanNewest(
    decltype(aclnnFlashAttentionUnpaddingScoreGradV5GetWorkspaceSize)& function,
    const TrainingBackward& c, const TrainingBackward::Tensors& t,
    uint64_t* size, aclOpExecutor** executor) {
  return function(
      HandleOf(t.query), HandleOf(t.queryRope), HandleOf(t.keyIn),
      HandleOf(t.keyInRope), HandleOf(t.value), HandleOf(t.dy),
      HandleOf(t.pseShift), HandleOf(t.dropMask), HandleOf(t.paddingMask),
      HandleOf(t.attenMask), HandleOf(t.softmaxMax), HandleOf(t.softmaxSum),
      HandleOf(t.softmaxIn), HandleOf(t.attentionIn), HandleOf(t.sinkIn),
      t.prefix, t.actualSeqQLen, t.actualSeqKvLen, t.qStartIdx, t.kvStartIdx,
      c.scaleValue, c.keepProb, c.preTokens, c.nextTokens, c.headNum,
      TextOf(c.inputLayout), c.innerPrecise, c.sparseMode, c.pseType,
      TextOf(c.softmaxInLayout), HandleOf(t.dq), HandleOf(t.dqRope),
      HandleOf(t.dk), HandleOf(t.dkRope), HandleOf(t.dv), HandleOf(t.dpse),
      HandleOf(t.dsink), size, executor);
}

}  // namespace

aclnnStatus TrainingBackward::Plan(const Tensors& t, uint64_t* size,
                                   aclOpExecutor** executor) const {
  const auto h = [](const DeviceTensor* tensor) { return HandleOf(tensor); };
  using std::make_tuple;
  const auto rows = make_tuple(h(t.query), h(t.keyIn), h(t.value));
  const auto roped = make_tuple(h(t.query), h(t.queryRope), h(t.keyIn),
                                h(t.keyInRope), h(t.value));
  const auto given = make_tuple(
      h(t.dy), h(t.pseShift), h(t.dropMask), h(t.paddingMask), h(t.attenMask),
      h(t.softmaxMax), h(t.softmaxSum), h(t.softmaxIn), h(t.attentionIn));
  const auto sunk = make_tuple(h(t.sinkIn));
  const auto prefixes = make_tuple(t.prefix);
  const auto lengths = make_tuple(t.actualSeqQLen, t.actualSeqKvLen);
  const auto starts = make_tuple(t.qStartIdx, t.kvStartIdx);
  const auto numbers =
      make_tuple(scaleValue, keepProb, preTokens, nextTokens, headNum,
                 TextOf(inputLayout), innerPrecise, sparseMode);
  const auto type = make_tuple(pseType);
  const auto out = make_tuple(h(t.dq), h(t.dk), h(t.dv), h(t.dpse));
  const auto order = make_tuple(TextOf(softmaxInLayout));
  const auto answer = make_tuple(give_size ? size : nullptr,
                                 give_executor ? executor : nullptr);
  const auto call = [](auto function, const auto&... parts) {
    return std::apply(function, std::tuple_cat(parts...));
  };
  switch (packed ? version : -version) {
    case 1:
      return call(aclnnFlashAttentionUnpaddingScoreGradGetWorkspaceSize, rows,
                  given, prefixes, lengths, numbers, out, answer);
    case 2:
      return call(aclnnFlashAttentionUnpaddingScoreGradV2GetWorkspaceSize, rows,
                  given, prefixes, lengths, starts, numbers, type, out, answer);
    case 3:
      return call(aclnnFlashAttentionUnpaddingScoreGradV3GetWorkspaceSize,
                  roped, given, prefixes, lengths, starts, numbers, type,
                  make_tuple(h(t.dq), h(t.dqRope), h(t.dk), h(t.dkRope),
                             h(t.dv), h(t.dpse)),
                  answer);
    case 4:
      return call(aclnnFlashAttentionUnpaddingScoreGradV4GetWorkspaceSize, rows,
                  given, prefixes, lengths, numbers, out, order, answer);
    case 5:
      return PlanNewest(aclnnFlashAttentionUnpaddingScoreGradV5GetWorkspaceSize,
                        *this, t, std::get<0>(answer), std::get<1>(answer));
    case -1:
      return call(aclnnFlashAttentionScoreGradGetWorkspaceSize, rows, given,
                  prefixes, numbers, out, answer);
    case -2:
      return call(aclnnFlashAttentionScoreGradV2GetWorkspaceSize, rows, given,
                  prefixes, starts, numbers, type, out, answer);
    default:
      return call(aclnnFlashAttentionScoreGradV3GetWorkspaceSize, rows, given,
                  sunk, prefixes, starts, numbers, type, out,
                  make_tuple(h(t.dsink)), answer);
  }
}

aclnnStatus TrainingBackward::PlanMost(const Tensors& t, uint64_t* size,
                                       aclOpExecutor** executor) const {
  return PlanNewest(aclnnFlashAttentionUnpaddingScoreGradV5GetMaxWorkspaceSize,
                    *this, t, give_size ? size : nullptr,
                    give_executor ? executor : nullptr);
}

}  // namespace flashacl::testing
