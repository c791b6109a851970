// SPDX-License-Identifier: Apache-2.0
// Calls of the operators for training as data, in all versions: change any
// field, then make the tensors and call.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "acl/acl.h"
#include "aclnn/aclnn_base.h"
#include "tests/testing/call.h"

namespace flashacl::testing {

// {2, 0, 3} -> {2, 2, 5}.
std::vector<int64_t> Ends(const std::vector<int64_t>& lengths);

// What shapes of a call follow from.
struct TrainingSizes {
  aclDataType type = ACL_FLOAT16;
  std::vector<int64_t> rows = {3, 2};
  std::vector<int64_t> columns = {4, 2};
  int64_t heads = 2;
  int64_t kv_heads = 1;
  int64_t dim = 8;
  int64_t v_dim = 8;
  int64_t row_tail = 0;  // rows that belong to no sequence
  int64_t column_tail = 0;
  std::string layout = "TND";  // in the others, all lengths must be equal

  bool packed() const { return layout == "TND"; }
  int64_t count() const { return static_cast<int64_t>(rows.size()); }
};

// What a version has that the first has not: the same in both directions.
struct VersionFeatures {
  bool pse_types = false;  // and starts
  bool rope = false;
  bool sink = false;
  bool statistic_order = false;  // softmaxOutLayout, softmaxInLayout
};
VersionFeatures FeaturesOf(bool packed, int version);

// 1 to that.
constexpr int VersionsOf(bool packed) { return packed ? 5 : 3; }

// aclnnFlashAttentionVarLenScore, or aclnnFlashAttentionScore unless packed,
// with their arguments' names. What the version lacks is not passed.
struct TrainingForward {
  explicit TrainingForward(const TrainingSizes& sizes = {}, int version = 1);

  bool packed = true;
  int version = 1;
  std::optional<Form> query, queryRope, key, keyRope, value, realShift,
      dropMask, paddingMask, attenMask, sink, softmaxMax, softmaxSum,
      softmaxOut, attentionOut;
  std::optional<std::vector<int64_t>> prefix, actualSeqQLen, actualSeqKvLen,
      qStartIdx, kvStartIdx;
  double scaleValue = 0.5;
  double keepProb = 1;
  int64_t preTokens = 65536;
  int64_t nextTokens = 65536;
  int64_t headNum = 0;
  std::optional<std::string> inputLayout;
  int64_t innerPrecise = 0;
  int64_t sparseMode = 0;
  int64_t pseType = 1;
  std::optional<std::string> softmaxOutLayout;

  struct Tensors {
    DeviceTensor *query, *queryRope, *key, *keyRope, *value, *realShift,
        *dropMask, *paddingMask, *attenMask, *sink, *softmaxMax, *softmaxSum,
        *softmaxOut, *attentionOut;
    const aclIntArray *prefix, *actualSeqQLen, *actualSeqKvLen, *qStartIdx,
        *kvStartIdx;
  };
  // Whether the version has all that the fields ask for.
  bool Fits() const;
  std::string Name() const;  // of the version
  Tensors Make(Caller& caller) const;
  Parameters Pass(const Tensors& tensors) const;
};

// aclnnFlashAttentionUnpaddingScoreGrad, or aclnnFlashAttentionScoreGrad unless
// packed, with their arguments' names. What the version lacks is not passed.
struct TrainingBackward {
  // No version: the newest.
  explicit TrainingBackward(const TrainingSizes& sizes = {}, int version = 0);

  bool packed = true;
  int version = 5;
  std::optional<Form> query, queryRope, keyIn, keyInRope, value, dy, pseShift,
      dropMask, paddingMask, attenMask, softmaxMax, softmaxSum, softmaxIn,
      attentionIn, sinkIn, dq, dqRope, dk, dkRope, dv, dpse, dsink;
  std::optional<std::vector<int64_t>> prefix, actualSeqQLen, actualSeqKvLen,
      qStartIdx, kvStartIdx;
  double scaleValue = 0.5;
  double keepProb = 1;
  int64_t preTokens = 65536;
  int64_t nextTokens = 65536;
  int64_t headNum = 0;
  std::optional<std::string> inputLayout;
  int64_t innerPrecise = 0;
  int64_t sparseMode = 0;
  int64_t pseType = 1;
  std::optional<std::string> softmaxInLayout;

  struct Tensors {
    DeviceTensor *query, *queryRope, *keyIn, *keyInRope, *value, *dy, *pseShift,
        *dropMask, *paddingMask, *attenMask, *softmaxMax, *softmaxSum,
        *softmaxIn, *attentionIn, *sinkIn, *dq, *dqRope, *dk, *dkRope, *dv,
        *dpse, *dsink;
    const aclIntArray *prefix, *actualSeqQLen, *actualSeqKvLen, *qStartIdx,
        *kvStartIdx;
  };
  // Whether the version has all that the fields ask for.
  bool Fits() const;
  std::string Name() const;  // of the version
  Tensors Make(Caller& caller) const;
  Parameters Pass(const Tensors& tensors) const;
};

// Tensors of a call, and the call made with them.
template <typename Call>
class TrainingFixture : public OperatorFixture {
 public:
  explicit TrainingFixture(const Call& call)
      : TrainingFixture(call, call.Name()) {}
  // Another phase 1: "aclnnXMax".
  TrainingFixture(const Call& call, const std::string& name)
      : OperatorFixture(name), t(call.Make(caller)), call_(call) {}

  typename Call::Tensors t;

 private:
  Parameters Pass() override { return call_.Pass(t); }

  const Call call_;
};

}  // namespace flashacl::testing
