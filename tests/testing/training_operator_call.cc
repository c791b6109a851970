// SPDX-License-Identifier: Apache-2.0
// Calls of the operators for training, in all versions.
#include "tests/testing/operator_call.h"

namespace flashacl::testing {
namespace {

constexpr int64_t kAllTokens = 2147483647;

// Two sequences of 3 queries and 4 keys; 4 and 2 heads of 8 channels, and 4 of
// rope.
struct Operands {
  std::string layout;
  aclDataType type;

  bool packed() const { return layout == "TND"; }
  TensorArgument Rows(int64_t length, int64_t heads, int64_t dim) const {
    if (layout == "BSH") return {{2, length, heads * dim}, type};
    if (layout == "SBH") return {{length, 2, heads * dim}, type};
    if (layout == "BNSD") return {{2, heads, length, dim}, type};
    return {{2 * length, heads, dim}, type};
  }
  TensorArgument Query(int64_t dim = 8) const { return Rows(3, 4, dim); }
  TensorArgument Key(int64_t dim = 8) const { return Rows(4, 2, dim); }
  TensorArgument Pse() const {
    if (packed()) return {{4 * (3 * 4 + 3 * 4)}, type};
    return {{2, 4, 3, 4}, type};
  }
  TensorArgument Statistic() const {
    if (packed()) return {{6, 4, 8}, ACL_FLOAT};
    return {{2, 4, 3, 8}, ACL_FLOAT};
  }
};

struct Version {
  const char* name;
  std::string layout = "TND";
  bool rope = false;
  bool sink = false;
  bool types = false;
  bool order = false;
};

OperatorCall CallOf(const Version& version) {
  OperatorCall call{.name = version.name,
                    .tensors = {},
                    .arrays = {{{0, 0}}},
                    .reals = {0.5, version.rope ? 1.0 : 0.9},
                    .integers = {kAllTokens, kAllTokens, 4, 0, 1},
                    .texts = {version.layout},
                    .first_output = 0};
  if (version.layout == "TND") call.arrays.push_back({{3, 6}});
  if (version.layout == "TND") call.arrays.push_back({{4, 8}});
  if (version.types) call.arrays.insert(call.arrays.end(), {{{0}}, {{0}}});
  if (version.types) call.integers.push_back(1);
  if (version.order) call.texts.push_back("same_as_input");
  return call;
}

OperatorCall Forward(const Version& version) {
  OperatorCall call = CallOf(version);
  const Operands of{version.layout, version.rope ? ACL_BF16 : ACL_FLOAT};
  TensorArgument pse = of.Pse();
  TensorArgument drop{{12}, ACL_UINT8};
  pse.present = drop.present = !version.rope;
  auto& tensors = call.tensors;
  tensors.push_back(of.Query());
  if (version.rope) tensors.push_back(of.Query(4));
  tensors.push_back(of.Key());
  if (version.rope) tensors.push_back(of.Key(4));
  tensors.push_back(of.Key());
  tensors.push_back(pse);
  tensors.push_back(drop);
  tensors.push_back({{1}, ACL_UINT8, false});  // paddingMask
  tensors.push_back({{3, 4}, ACL_BOOL});       // attenMask
  if (version.sink) tensors.push_back({{4}, ACL_FLOAT});
  call.first_output = tensors.size();
  tensors.push_back(of.Statistic());
  tensors.push_back(of.Statistic());
  tensors.push_back({{0}, ACL_FLOAT, false});  // softmaxOut
  tensors.push_back(of.Query());
  return call;
}

OperatorCall Backward(const Version& version) {
  OperatorCall call = CallOf(version);
  const Operands of{version.layout, ACL_BF16};
  TensorArgument pse = of.Pse();
  TensorArgument drop{{12}, ACL_UINT8};
  pse.present = drop.present = !version.rope;
  auto& tensors = call.tensors;
  tensors.push_back(of.Query());
  if (version.rope) tensors.push_back(of.Query(4));
  tensors.push_back(of.Key());
  if (version.rope) tensors.push_back(of.Key(4));
  tensors.push_back(of.Key());
  tensors.push_back(of.Query());  // dy
  tensors.push_back(pse);
  tensors.push_back(drop);
  tensors.push_back({{1}, ACL_UINT8, false});  // paddingMask
  tensors.push_back({{3, 4}, ACL_UINT8});      // attenMask
  tensors.push_back(of.Statistic());
  tensors.push_back(of.Statistic());
  tensors.push_back({{0}, ACL_FLOAT, false});  // softmaxIn
  tensors.push_back(of.Query());               // attentionIn
  if (version.sink) tensors.push_back({{4}, ACL_FLOAT});
  call.first_output = tensors.size();
  tensors.push_back(of.Query());
  if (version.rope) tensors.push_back(of.Query(4));
  tensors.push_back(of.Key());
  if (version.rope) tensors.push_back(of.Key(4));
  tensors.push_back(of.Key());
  tensors.push_back(pse);
  if (version.sink) tensors.push_back({{4}, ACL_FLOAT});
  return call;
}

// The first version first.
std::vector<OperatorCall> ForwardCalls() {
  const Version versions[] = {
      {.name = "aclnnFlashAttentionVarLenScore"},
      {.name = "aclnnFlashAttentionVarLenScoreV2", .types = true},
      {.name = "aclnnFlashAttentionVarLenScoreV3", .rope = true, .types = true},
      {.name = "aclnnFlashAttentionVarLenScoreV4", .order = true},
      {.name = "aclnnFlashAttentionVarLenScoreV5",
       .rope = true,
       .sink = true,
       .types = true,
       .order = true},
      {.name = "aclnnFlashAttentionScore", .layout = "BSH"},
      {.name = "aclnnFlashAttentionScoreV2", .layout = "SBH", .types = true},
      {.name = "aclnnFlashAttentionScoreV3",
       .layout = "BNSD",
       .sink = true,
       .types = true},
  };
  std::vector<OperatorCall> calls;
  for (const Version& version : versions) calls.push_back(Forward(version));
  return calls;
}

// The newest version first.
std::vector<OperatorCall> BackwardCalls() {
  const Version versions[] = {
      {.name = "aclnnFlashAttentionUnpaddingScoreGradV5",
       .rope = true,
       .sink = true,
       .types = true,
       .order = true},
      {.name = "aclnnFlashAttentionUnpaddingScoreGrad"},
      {.name = "aclnnFlashAttentionUnpaddingScoreGradV2", .types = true},
      {.name = "aclnnFlashAttentionUnpaddingScoreGradV3",
       .rope = true,
       .types = true},
      {.name = "aclnnFlashAttentionUnpaddingScoreGradV4", .order = true},
      {.name = "aclnnFlashAttentionScoreGrad", .layout = "SBH"},
      {.name = "aclnnFlashAttentionScoreGradV2",
       .layout = "BNSD",
       .types = true},
      {.name = "aclnnFlashAttentionScoreGradV3",
       .layout = "BSH",
       .sink = true,
       .types = true},
  };
  std::vector<OperatorCall> calls;
  for (const Version& version : versions) calls.push_back(Backward(version));
  return calls;
}

}  // namespace

std::vector<OperatorCall> TrainingOperatorCalls() {
  std::vector<OperatorCall> calls = ForwardCalls();
  std::vector<OperatorCall> backward = BackwardCalls();
  calls.insert(calls.begin() + 1, backward.front());
  calls.insert(calls.end(), backward.begin() + 1, backward.end());
  return calls;
}

}  // namespace flashacl::testing
