// SPDX-License-Identifier: Apache-2.0
// The table of entry points.
#include "tests/testing/entry_points.h"

#include <stdexcept>
#include <string>
#include <tuple>

#include "aclnnop/aclnn_add.h"
#include "aclnnop/aclnn_attention_update.h"
#include "aclnnop/aclnn_cast.h"
#include "aclnnop/aclnn_copy.h"
#include "aclnnop/aclnn_dropout.h"
#include "aclnnop/aclnn_dropout_backward.h"
#include "aclnnop/aclnn_dropout_do_mask.h"
#include "aclnnop/aclnn_dropout_gen_mask.h"
#include "aclnnop/aclnn_flash_attention_score.h"
#include "aclnnop/aclnn_flash_attention_score_grad.h"
#include "aclnnop/aclnn_fused_infer_attention_score.h"
#include "aclnnop/aclnn_fused_infer_attention_score_v2.h"
#include "aclnnop/aclnn_fused_infer_attention_score_v3.h"
#include "aclnnop/aclnn_fused_infer_attention_score_v4.h"
#include "aclnnop/aclnn_fused_infer_attention_score_v5.h"
#include "aclnnop/aclnn_gather_pa_kv_cache.h"
#include "aclnnop/aclnn_incre_flash_attention.h"
#include "aclnnop/aclnn_incre_flash_attention_v2.h"
#include "aclnnop/aclnn_incre_flash_attention_v3.h"
#include "aclnnop/aclnn_incre_flash_attention_v4.h"
#include "aclnnop/aclnn_lightning_indexer.h"
#include "aclnnop/aclnn_lightning_indexer_grad.h"
#include "aclnnop/aclnn_mul.h"
#include "aclnnop/aclnn_prompt_flash_attention.h"
#include "aclnnop/aclnn_prompt_flash_attention_v2.h"
#include "aclnnop/aclnn_prompt_flash_attention_v3.h"
#include "aclnnop/aclnn_ring_attention_update.h"
#include "aclnnop/aclnn_ring_attention_update_v2.h"
#include "aclnnop/aclnn_scatter_pa_kv_cache.h"
#include "aclnnop/aclnn_sparse_flash_attention.h"
#include "aclnnop/aclnn_sparse_flash_attention_grad.h"
#include "aclnnop/aclnn_sparse_flash_attention_v2.h"

namespace flashacl::testing {
namespace {

// Hands out parameters one by one, by type.
class Next {
 public:
  Next(const Parameters& from, uint64_t* size, aclOpExecutor** executor)
      : from_(from), size_(size), executor_(executor) {}

  bool AllTaken() const {
    return tensors_ == from_.tensors.size() && arrays_ == from_.arrays.size() &&
           reals_ == from_.reals.size() && integers_ == from_.integers.size() &&
           texts_ == from_.texts.size() && scalars_ == from_.scalars.size();
  }

  operator const aclTensor*() { return from_.tensors.at(tensors_++).tensor; }
  operator aclTensor*() {  // of what is written
    return const_cast<aclTensor*>(from_.tensors.at(tensors_++).tensor);
  }
  operator const aclTensorList*() { return from_.tensors.at(tensors_++).list; }
  operator const aclIntArray*() { return from_.arrays.at(arrays_++); }
  operator double() { return from_.reals.at(reals_++); }
  operator int64_t() { return from_.integers.at(integers_++); }
  operator bool() { return from_.integers.at(integers_++) != 0; }
  operator char*() { return from_.texts.at(texts_++); }
  operator const aclScalar*() { return from_.scalars.at(scalars_++); }
  operator uint64_t*() { return size_; }
  operator aclOpExecutor**() { return executor_; }

 private:
  const Parameters& from_;
  uint64_t* size_;
  aclOpExecutor** executor_;
  size_t tensors_ = 0, arrays_ = 0, reals_ = 0, integers_ = 0, texts_ = 0,
         scalars_ = 0;
};

// Enumerations may hold any number on their way, which reading them as such may
// not.
template <typename P>
using Stored = std::conditional_t<std::is_enum_v<P>, int64_t, P>;

template <typename... P>
aclnnStatus Apply(aclnnStatus (*phase_one)(P...), Next next) {
  // Braces: the first parameter is taken first.
  const std::tuple<Stored<P>...> all{static_cast<Stored<P>>(next)...};
  if (!next.AllTaken()) throw std::logic_error("parameters are left");
  return std::apply(
      [&](const Stored<P>&... one) {
        return phase_one(static_cast<P>(one)...);
      },
      all);
}

template <auto kPhaseOne>
aclnnStatus PhaseOne(const Parameters& parameters, uint64_t* size,
                     aclOpExecutor** executor) {
  return Apply(kPhaseOne, Next(parameters, size, executor));
}

#define ENTRY_POINTS(name) \
  { #name, PhaseOne < name##GetWorkspaceSize>, name }
#define MAX_ENTRY_POINTS(name) \
  { #name "Max", PhaseOne < name##GetMaxWorkspaceSize>, name }

constexpr EntryPoints kAll[] = {
    ENTRY_POINTS(aclnnFlashAttentionScore),
    ENTRY_POINTS(aclnnFlashAttentionScoreV2),
    ENTRY_POINTS(aclnnFlashAttentionScoreV3),
    ENTRY_POINTS(aclnnFlashAttentionVarLenScore),
    ENTRY_POINTS(aclnnFlashAttentionVarLenScoreV2),
    ENTRY_POINTS(aclnnFlashAttentionVarLenScoreV3),
    ENTRY_POINTS(aclnnFlashAttentionVarLenScoreV4),
    ENTRY_POINTS(aclnnFlashAttentionVarLenScoreV5),
    MAX_ENTRY_POINTS(aclnnFlashAttentionVarLenScoreV5),
    ENTRY_POINTS(aclnnFlashAttentionScoreGrad),
    ENTRY_POINTS(aclnnFlashAttentionScoreGradV2),
    ENTRY_POINTS(aclnnFlashAttentionScoreGradV3),
    ENTRY_POINTS(aclnnFlashAttentionUnpaddingScoreGrad),
    ENTRY_POINTS(aclnnFlashAttentionUnpaddingScoreGradV2),
    ENTRY_POINTS(aclnnFlashAttentionUnpaddingScoreGradV3),
    ENTRY_POINTS(aclnnFlashAttentionUnpaddingScoreGradV4),
    ENTRY_POINTS(aclnnFlashAttentionUnpaddingScoreGradV5),
    MAX_ENTRY_POINTS(aclnnFlashAttentionUnpaddingScoreGradV5),
    ENTRY_POINTS(aclnnPromptFlashAttention),
    ENTRY_POINTS(aclnnPromptFlashAttentionV2),
    ENTRY_POINTS(aclnnPromptFlashAttentionV3),
    ENTRY_POINTS(aclnnIncreFlashAttention),
    ENTRY_POINTS(aclnnIncreFlashAttentionV2),
    ENTRY_POINTS(aclnnIncreFlashAttentionV3),
    ENTRY_POINTS(aclnnIncreFlashAttentionV4),
    ENTRY_POINTS(aclnnFusedInferAttentionScore),
    MAX_ENTRY_POINTS(aclnnFusedInferAttentionScore),
    ENTRY_POINTS(aclnnFusedInferAttentionScoreV2),
    MAX_ENTRY_POINTS(aclnnFusedInferAttentionScoreV2),
    ENTRY_POINTS(aclnnFusedInferAttentionScoreV3),
    MAX_ENTRY_POINTS(aclnnFusedInferAttentionScoreV3),
    ENTRY_POINTS(aclnnFusedInferAttentionScoreV4),
    MAX_ENTRY_POINTS(aclnnFusedInferAttentionScoreV4),
    ENTRY_POINTS(aclnnFusedInferAttentionScoreV5),
    MAX_ENTRY_POINTS(aclnnFusedInferAttentionScoreV5),
    ENTRY_POINTS(aclnnSparseFlashAttention),
    ENTRY_POINTS(aclnnSparseFlashAttentionV2),
    ENTRY_POINTS(aclnnSparseFlashAttentionGrad),
    ENTRY_POINTS(aclnnLightningIndexer),
    ENTRY_POINTS(aclnnLightningIndexerGrad),
    ENTRY_POINTS(aclnnAdd),
    ENTRY_POINTS(aclnnInplaceAdd),
    ENTRY_POINTS(aclnnMul),
    ENTRY_POINTS(aclnnInplaceMul),
    ENTRY_POINTS(aclnnInplaceCopy),
    ENTRY_POINTS(aclnnCast),
    ENTRY_POINTS(aclnnDropoutGenMask),
    ENTRY_POINTS(aclnnDropoutGenMaskV2),
    ENTRY_POINTS(aclnnDropoutGenMaskV2Tensor),
    ENTRY_POINTS(aclnnDropoutDoMask),
    ENTRY_POINTS(aclnnDropout),
    ENTRY_POINTS(aclnnDropoutBackward),
    ENTRY_POINTS(aclnnAttentionUpdate),
    ENTRY_POINTS(aclnnRingAttentionUpdate),
    ENTRY_POINTS(aclnnRingAttentionUpdateV2),
    ENTRY_POINTS(aclnnScatterPaKvCache),
    ENTRY_POINTS(aclnnGatherPaKvCache),
};

}  // namespace

const EntryPoints& EntryPointsOf(std::string_view name) {
  for (const EntryPoints& entry : kAll) {
    if (entry.name == name) return entry;
  }
  throw std::logic_error("no entry points of " + std::string(name));
}

}  // namespace flashacl::testing
