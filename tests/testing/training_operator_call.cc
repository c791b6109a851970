// SPDX-License-Identifier: Apache-2.0
// Calls of the operators for training, in all versions. Their phases 1 differ
// in how many of which arguments there are, not in the order of kinds.
#include <tuple>
#include <utility>

#include "aclnnop/aclnn_flash_attention_score.h"
#include "aclnnop/aclnn_flash_attention_score_grad.h"
#include "tests/testing/call_handles.h"
#include "tests/testing/operator_call.h"

namespace flashacl::testing {
namespace {

constexpr int64_t kAllTokens = 2147483647;

// Inputs, arrays, two reals, three integers, the layout, further integers, a
// second text, outputs.
struct Shape {
  size_t inputs, arrays, integers, outputs;
  size_t texts = 1;
  bool text_last = false;  // the second text comes behind the outputs
};

// Elements first, first + 1, ... of a vector.
template <size_t kCount, typename T>
auto Take(const std::vector<T>& from, size_t first) {
  return [&]<size_t... kIndex>(std::index_sequence<kIndex...>) {
    return std::make_tuple(from[first + kIndex]...);
  }
  (std::make_index_sequence<kCount>{});
}

template <auto kPhaseOne, Shape kShape>
aclnnStatus PrepareCall(const OperatorCall& c, const CallHandles& h,
                        uint64_t* size, aclOpExecutor** executor) {
  const auto second = [&] {
    if constexpr (kShape.texts > 1) {
      return std::make_tuple(h.Text(1));
    } else {
      return std::make_tuple();
    }
  }();
  const auto before = std::tuple_cat(
      Take<kShape.inputs>(h.tensors, 0), Take<kShape.arrays>(h.arrays, 0),
      Take<2>(c.reals, 0), Take<3>(c.integers, 0), std::make_tuple(h.Text(0)),
      Take<kShape.integers - 3>(c.integers, 3));
  const auto outputs = Take<kShape.outputs>(h.tensors, kShape.inputs);
  const auto answer = std::make_tuple(size, executor);
  if constexpr (kShape.text_last) {
    return std::apply(kPhaseOne,
                      std::tuple_cat(before, outputs, second, answer));
  } else {
    return std::apply(kPhaseOne,
                      std::tuple_cat(before, second, outputs, answer));
  }
}

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
};

template <auto kPhaseOne, Shape kShape>
OperatorCall CallOf(const Version& version,
                    OperatorCall::LaunchFunction launch) {
  OperatorCall call{.name = version.name,
                    .tensors = {},
                    .arrays = {{{0, 0}}},
                    .reals = {0.5, version.rope ? 1.0 : 0.9},
                    .integers = {kAllTokens, kAllTokens, 4, 0, 1},
                    .texts = {version.layout},
                    .first_output = kShape.inputs,
                    .prepare = PrepareCall<kPhaseOne, kShape>,
                    .launch = launch};
  if (version.layout == "TND") call.arrays.push_back({{3, 6}});
  if (version.layout == "TND") call.arrays.push_back({{4, 8}});
  if (version.types) call.arrays.insert(call.arrays.end(), {{{0}}, {{0}}});
  if (version.types) call.integers.push_back(1);
  if (kShape.texts > 1) call.texts.push_back("same_as_input");
  return call;
}

template <auto kPhaseOne, Shape kShape>
OperatorCall Forward(const Version& version,
                     OperatorCall::LaunchFunction launch) {
  OperatorCall call = CallOf<kPhaseOne, kShape>(version, launch);
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
  tensors.push_back(of.Statistic());
  tensors.push_back(of.Statistic());
  tensors.push_back({{0}, ACL_FLOAT, false});  // softmaxOut
  tensors.push_back(of.Query());
  return call;
}

template <auto kPhaseOne, Shape kShape>
OperatorCall Backward(const Version& version,
                      OperatorCall::LaunchFunction launch) {
  OperatorCall call = CallOf<kPhaseOne, kShape>(version, launch);
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
  return {
      Forward<aclnnFlashAttentionVarLenScoreGetWorkspaceSize,
              Shape{7, 3, 5, 4}>({.name = "aclnnFlashAttentionVarLenScore"},
                                 aclnnFlashAttentionVarLenScore),
      Forward<aclnnFlashAttentionVarLenScoreV2GetWorkspaceSize,
              Shape{7, 5, 6, 4}>(
          {.name = "aclnnFlashAttentionVarLenScoreV2", .types = true},
          aclnnFlashAttentionVarLenScoreV2),
      Forward<aclnnFlashAttentionVarLenScoreV3GetWorkspaceSize,
              Shape{9, 5, 6, 4}>({.name = "aclnnFlashAttentionVarLenScoreV3",
                                  .rope = true,
                                  .types = true},
                                 aclnnFlashAttentionVarLenScoreV3),
      Forward<aclnnFlashAttentionVarLenScoreV4GetWorkspaceSize,
              Shape{7, 3, 5, 4, 2}>(
          {.name = "aclnnFlashAttentionVarLenScoreV4"},
          aclnnFlashAttentionVarLenScoreV4),
      Forward<aclnnFlashAttentionVarLenScoreV5GetWorkspaceSize,
              Shape{10, 5, 6, 4, 2}>(
          {.name = "aclnnFlashAttentionVarLenScoreV5",
           .rope = true,
           .sink = true,
           .types = true},
          aclnnFlashAttentionVarLenScoreV5),
      Forward<aclnnFlashAttentionScoreGetWorkspaceSize, Shape{7, 1, 5, 4}>(
          {.name = "aclnnFlashAttentionScore", .layout = "BSH"},
          aclnnFlashAttentionScore),
      Forward<aclnnFlashAttentionScoreV2GetWorkspaceSize, Shape{7, 3, 6, 4}>(
          {.name = "aclnnFlashAttentionScoreV2",
           .layout = "SBH",
           .types = true},
          aclnnFlashAttentionScoreV2),
      Forward<aclnnFlashAttentionScoreV3GetWorkspaceSize, Shape{8, 3, 6, 4}>(
          {.name = "aclnnFlashAttentionScoreV3",
           .layout = "BNSD",
           .sink = true,
           .types = true},
          aclnnFlashAttentionScoreV3),
  };
}

// The newest version first.
std::vector<OperatorCall> BackwardCalls() {
  return {
      Backward<aclnnFlashAttentionUnpaddingScoreGradV5GetWorkspaceSize,
               Shape{15, 5, 6, 7, 2}>(
          {.name = "aclnnFlashAttentionUnpaddingScoreGradV5",
           .rope = true,
           .sink = true,
           .types = true},
          aclnnFlashAttentionUnpaddingScoreGradV5),
      Backward<aclnnFlashAttentionUnpaddingScoreGradGetWorkspaceSize,
               Shape{12, 3, 5, 4}>(
          {.name = "aclnnFlashAttentionUnpaddingScoreGrad"},
          aclnnFlashAttentionUnpaddingScoreGrad),
      Backward<aclnnFlashAttentionUnpaddingScoreGradV2GetWorkspaceSize,
               Shape{12, 5, 6, 4}>(
          {.name = "aclnnFlashAttentionUnpaddingScoreGradV2", .types = true},
          aclnnFlashAttentionUnpaddingScoreGradV2),
      Backward<aclnnFlashAttentionUnpaddingScoreGradV3GetWorkspaceSize,
               Shape{14, 5, 6, 6}>(
          {.name = "aclnnFlashAttentionUnpaddingScoreGradV3",
           .rope = true,
           .types = true},
          aclnnFlashAttentionUnpaddingScoreGradV3),
      Backward<aclnnFlashAttentionUnpaddingScoreGradV4GetWorkspaceSize,
               Shape{12, 3, 5, 4, 2, true}>(
          {.name = "aclnnFlashAttentionUnpaddingScoreGradV4"},
          aclnnFlashAttentionUnpaddingScoreGradV4),
      Backward<aclnnFlashAttentionScoreGradGetWorkspaceSize,
               Shape{12, 1, 5, 4}>(
          {.name = "aclnnFlashAttentionScoreGrad", .layout = "SBH"},
          aclnnFlashAttentionScoreGrad),
      Backward<aclnnFlashAttentionScoreGradV2GetWorkspaceSize,
               Shape{12, 3, 6, 4}>({.name = "aclnnFlashAttentionScoreGradV2",
                                    .layout = "BNSD",
                                    .types = true},
                                   aclnnFlashAttentionScoreGradV2),
      Backward<aclnnFlashAttentionScoreGradV3GetWorkspaceSize,
               Shape{13, 3, 6, 5}>({.name = "aclnnFlashAttentionScoreGradV3",
                                    .layout = "BSH",
                                    .sink = true,
                                    .types = true},
                                   aclnnFlashAttentionScoreGradV3),
  };
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
