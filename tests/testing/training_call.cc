// SPDX-License-Identifier: Apache-2.0
// Calls of the operators for training.
#include "tests/testing/training_call.h"

#include <numeric>

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

// What both directions have besides tensors, as far as the version has it.
template <typename Call>
Parameters PassNumbers(const Call& c, const typename Call::Tensors& t) {
  const VersionFeatures has = FeaturesOf(c.packed, c.version);
  Parameters p{.arrays = {t.prefix},
               .reals = {c.scaleValue, c.keepProb},
               .integers = {c.preTokens, c.nextTokens, c.headNum,
                            c.innerPrecise, c.sparseMode},
               .texts = {TextOf(c.inputLayout)}};
  const auto add = [&](auto... arrays) {
    p.arrays.insert(p.arrays.end(), {arrays...});
  };
  if (c.packed) add(t.actualSeqQLen, t.actualSeqKvLen);
  if (has.pse_types) add(t.qStartIdx, t.kvStartIdx);
  if (has.pse_types) p.integers.push_back(c.pseType);
  return p;
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

std::string TrainingForward::Name() const {
  return VersionName(
      packed ? "aclnnFlashAttentionVarLenScore" : "aclnnFlashAttentionScore",
      version);
}

Parameters TrainingForward::Pass(const Tensors& t) const {
  const VersionFeatures has = FeaturesOf(packed, version);
  Parameters p = PassNumbers(*this, t);
  if (has.statistic_order) p.texts.push_back(TextOf(softmaxOutLayout));
  Add(p, {t.query});
  if (has.rope) Add(p, {t.queryRope});
  Add(p, {t.key});
  if (has.rope) Add(p, {t.keyRope});
  Add(p, {t.value, t.realShift, t.dropMask, t.paddingMask, t.attenMask});
  if (has.sink) Add(p, {t.sink});
  Add(p, {t.softmaxMax, t.softmaxSum, t.softmaxOut, t.attentionOut});
  return p;
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

std::string TrainingBackward::Name() const {
  return VersionName(packed ? "aclnnFlashAttentionUnpaddingScoreGrad"
                            : "aclnnFlashAttentionScoreGrad",
                     version);
}

Parameters TrainingBackward::Pass(const Tensors& t) const {
  const VersionFeatures has = FeaturesOf(packed, version);
  Parameters p = PassNumbers(*this, t);
  if (has.statistic_order) p.texts.push_back(TextOf(softmaxInLayout));
  Add(p, {t.query});
  if (has.rope) Add(p, {t.queryRope});
  Add(p, {t.keyIn});
  if (has.rope) Add(p, {t.keyInRope});
  Add(p, {t.value, t.dy, t.pseShift, t.dropMask, t.paddingMask, t.attenMask,
          t.softmaxMax, t.softmaxSum, t.softmaxIn, t.attentionIn});
  if (has.sink) Add(p, {t.sinkIn});
  Add(p, {t.dq});
  if (has.rope) Add(p, {t.dqRope});
  Add(p, {t.dk});
  if (has.rope) Add(p, {t.dkRope});
  Add(p, {t.dv, t.dpse});
  if (has.sink) Add(p, {t.dsink});
  return p;
}

}  // namespace flashacl::testing
