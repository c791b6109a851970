// SPDX-License-Identifier: Apache-2.0
// Calls on packed sequences.
#include "tests/testing/varlen_call.h"

#include <numeric>

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

}  // namespace

std::vector<int64_t> Ends(const std::vector<int64_t>& lengths) {
  std::vector<int64_t> ends(lengths.size());
  std::partial_sum(lengths.begin(), lengths.end(), ends.begin());
  return ends;
}

VarLenForward::VarLenForward(const VarLenSizes& sizes) {
  const int64_t rows = Sum(sizes.rows, sizes.row_tail);
  const int64_t columns = Sum(sizes.columns, sizes.column_tail);
  query = Form{sizes.type, {rows, sizes.heads, sizes.dim}};
  key = Form{sizes.type, {columns, sizes.kv_heads, sizes.dim}};
  value = Form{sizes.type, {columns, sizes.kv_heads, sizes.v_dim}};
  softmaxMax = softmaxSum = Form{ACL_FLOAT, {rows, sizes.heads, 8}};
  attentionOut = Form{sizes.type, {rows, sizes.heads, sizes.v_dim}};
  actualSeqQLen = Ends(sizes.rows);
  actualSeqKvLen = Ends(sizes.columns);
  headNum = sizes.heads;
}

VarLenForward::Tensors VarLenForward::Make(Caller& caller) const {
  Tensors t{};
  t.query = Input(caller, query);
  t.key = Input(caller, key);
  t.value = Input(caller, value);
  t.realShift = Input(caller, realShift);
  t.dropMask = Input(caller, dropMask);
  t.paddingMask = Input(caller, paddingMask);
  t.attenMask = Input(caller, attenMask);
  t.softmaxMax = Output(caller, softmaxMax);
  t.softmaxSum = Output(caller, softmaxSum);
  t.softmaxOut = Output(caller, softmaxOut);
  t.attentionOut = Output(caller, attentionOut);
  t.prefix = ArrayOf(caller, prefix);
  t.actualSeqQLen = ArrayOf(caller, actualSeqQLen);
  t.actualSeqKvLen = ArrayOf(caller, actualSeqKvLen);
  return t;
}

aclnnStatus VarLenForward::Plan(const Tensors& tensors, uint64_t* size,
                                aclOpExecutor** executor) const {
  return aclnnFlashAttentionVarLenScoreGetWorkspaceSize(
      HandleOf(tensors.query), HandleOf(tensors.key), HandleOf(tensors.value),
      HandleOf(tensors.realShift), HandleOf(tensors.dropMask),
      HandleOf(tensors.paddingMask), HandleOf(tensors.attenMask),
      tensors.prefix, tensors.actualSeqQLen, tensors.actualSeqKvLen, scaleValue,
      keepProb, preTokens, nextTokens, headNum, TextOf(inputLayout),
      innerPrecise, sparseMode, HandleOf(tensors.softmaxMax),
      HandleOf(tensors.softmaxSum), HandleOf(tensors.softmaxOut),
      HandleOf(tensors.attentionOut), give_size ? size : nullptr,
      give_executor ? executor : nullptr);
}

VarLenBackward::VarLenBackward(const VarLenSizes& sizes) {
  const int64_t rows = Sum(sizes.rows, sizes.row_tail);
  const int64_t columns = Sum(sizes.columns, sizes.column_tail);
  query = dq = Form{sizes.type, {rows, sizes.heads, sizes.dim}};
  keyIn = dk = Form{sizes.type, {columns, sizes.kv_heads, sizes.dim}};
  value = dv = Form{sizes.type, {columns, sizes.kv_heads, sizes.v_dim}};
  dy = attentionIn = Form{sizes.type, {rows, sizes.heads, sizes.v_dim}};
  softmaxMax = softmaxSum = Form{ACL_FLOAT, {rows, sizes.heads, 8}};
  actualSeqQLen = Ends(sizes.rows);
  actualSeqKvLen = Ends(sizes.columns);
  headNum = sizes.heads;
}

VarLenBackward::Tensors VarLenBackward::Make(Caller& caller) const {
  Tensors t{};
  t.query = Input(caller, query);
  t.queryRope = Input(caller, queryRope);
  t.keyIn = Input(caller, keyIn);
  t.keyInRope = Input(caller, keyInRope);
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
  t.sinkIn = Input(caller, sinkIn);
  t.dq = Output(caller, dq);
  t.dqRope = Output(caller, dqRope);
  t.dk = Output(caller, dk);
  t.dkRope = Output(caller, dkRope);
  t.dv = Output(caller, dv);
  t.dpse = Output(caller, dpse);
  t.dsink = Output(caller, dsink);
  t.prefix = ArrayOf(caller, prefix);
  t.actualSeqQLen = ArrayOf(caller, actualSeqQLen);
  t.actualSeqKvLen = ArrayOf(caller, actualSeqKvLen);
  t.qStartIdx = ArrayOf(caller, qStartIdx);
  t.kvStartIdx = ArrayOf(caller, kvStartIdx);
  return t;
}

aclnnStatus VarLenBackward::Plan(const Tensors& tensors, uint64_t* size,
                                 aclOpExecutor** executor) const {
  return aclnnFlashAttentionUnpaddingScoreGradV5GetWorkspaceSize(
      HandleOf(tensors.query), HandleOf(tensors.queryRope),
      HandleOf(tensors.keyIn), HandleOf(tensors.keyInRope),
      HandleOf(tensors.value), HandleOf(tensors.dy), HandleOf(tensors.pseShift),
      HandleOf(tensors.dropMask), HandleOf(tensors.paddingMask),
      HandleOf(tensors.attenMask), HandleOf(tensors.softmaxMax),
      HandleOf(tensors.softmaxSum), HandleOf(tensors.softmaxIn),
      HandleOf(tensors.attentionIn), HandleOf(tensors.sinkIn), tensors.prefix,
      tensors.actualSeqQLen, tensors.actualSeqKvLen, tensors.qStartIdx,
      tensors.kvStartIdx, scaleValue, keepProb, preTokens, nextTokens, headNum,
      TextOf(inputLayout), innerPrecise, sparseMode, pseType,
      TextOf(softmaxInLayout), HandleOf(tensors.dq), HandleOf(tensors.dqRope),
      HandleOf(tensors.dk), HandleOf(tensors.dkRope), HandleOf(tensors.dv),
      HandleOf(tensors.dpse), HandleOf(tensors.dsink),
      give_size ? size : nullptr, give_executor ? executor : nullptr);
}

aclnnStatus VarLenBackward::PlanMost(const Tensors& tensors, uint64_t* size,
                                     aclOpExecutor** executor) const {
  return aclnnFlashAttentionUnpaddingScoreGradV5GetMaxWorkspaceSize(
      HandleOf(tensors.query), HandleOf(tensors.queryRope),
      HandleOf(tensors.keyIn), HandleOf(tensors.keyInRope),
      HandleOf(tensors.value), HandleOf(tensors.dy), HandleOf(tensors.pseShift),
      HandleOf(tensors.dropMask), HandleOf(tensors.paddingMask),
      HandleOf(tensors.attenMask), HandleOf(tensors.softmaxMax),
      HandleOf(tensors.softmaxSum), HandleOf(tensors.softmaxIn),
      HandleOf(tensors.attentionIn), HandleOf(tensors.sinkIn), tensors.prefix,
      tensors.actualSeqQLen, tensors.actualSeqKvLen, tensors.qStartIdx,
      tensors.kvStartIdx, scaleValue, keepProb, preTokens, nextTokens, headNum,
      TextOf(inputLayout), innerPrecise, sparseMode, pseType,
      TextOf(softmaxInLayout), HandleOf(tensors.dq), HandleOf(tensors.dqRope),
      HandleOf(tensors.dk), HandleOf(tensors.dkRope), HandleOf(tensors.dv),
      HandleOf(tensors.dpse), HandleOf(tensors.dsink),
      give_size ? size : nullptr, give_executor ? executor : nullptr);
}

}  // namespace flashacl::testing
