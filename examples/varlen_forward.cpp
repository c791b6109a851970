// SPDX-License-Identifier: Apache-2.0
// Packed training forward, aclnnFlashAttentionVarLenScore: three sequences of a
// model with 32 query heads, 8 key heads and head dim 128 (Llama 3 8B), causal.
#include "aclnnop/aclnn_flash_attention_score.h"
#include "example.h"

namespace {

const int64_t kHeads = 32, kKeyHeads = 8, kDim = 128;
const int64_t kEnds[] = {96, 256, 384};  // where each sequence ends
const int64_t kTotal = 384;

struct Tensors {
  example::Host<uint16_t> query, key, value, out;
};

// Row i of sequence [first, ..) sees the keys first, ..., i.
void CheckRow(Tensors& t, int64_t first, int64_t i, int64_t head,
              example::Error& error) {
  const double scale = 1 / std::sqrt(static_cast<double>(kDim));
  const int64_t key_head = head / (kHeads / kKeyHeads);
  std::vector<double> weights;
  double sum = 0;
  for (int64_t j = first; j <= i; ++j) {
    double score = 0;
    for (int64_t d = 0; d < kDim; ++d) {
      score += double(example::FromBf16(t.query.At(i, head, d))) *
               example::FromBf16(t.key.At(j, key_head, d));
    }
    weights.push_back(std::exp(score * scale));
    sum += weights.back();
  }
  for (int64_t d = 0; d < kDim; ++d) {
    double truth = 0;
    for (int64_t j = first; j <= i; ++j) {
      truth += weights[static_cast<size_t>(j - first)] / sum *
               example::FromBf16(t.value.At(j, key_head, d));
    }
    error.Add(example::FromBf16(t.out.At(i, head, d)), truth);
  }
}

}  // namespace

int main() {
  example::Session session;
  std::mt19937 random(1);
  Tensors t = {example::RandomBf16({kTotal, kHeads, kDim}, random),
               example::RandomBf16({kTotal, kKeyHeads, kDim}, random),
               example::RandomBf16({kTotal, kKeyHeads, kDim}, random),
               example::Host<uint16_t>({kTotal, kHeads, kDim})};
  example::Host<float> statistics({kTotal, kHeads, 8});
  // The compressed causal mask: ones above the diagonal.
  example::Host<uint8_t> mask({2048, 2048});
  for (int64_t i = 0; i < 2048; ++i) {
    for (int64_t j = 0; j < 2048; ++j) mask.At(i, j) = j > i ? 1 : 0;
  }

  const example::Device query(t.query, ACL_BF16), key(t.key, ACL_BF16),
      value(t.value, ACL_BF16), out(t.out, ACL_BF16), masks(mask, ACL_BOOL),
      row_max(statistics, ACL_FLOAT), row_sum(statistics, ACL_FLOAT);
  aclIntArray* ends = aclCreateIntArray(kEnds, 3);
  char layout[] = "TND";
  const int64_t all_tokens = 2147483647;
  const int64_t causal = 3;  // sparseMode: the diagonal ends bottom right
  uint64_t workspace_size = 0;
  aclOpExecutor* executor = nullptr;
  EXAMPLE_CHECK(aclnnFlashAttentionVarLenScoreGetWorkspaceSize(
      query.tensor(), key.tensor(), value.tensor(), nullptr, nullptr, nullptr,
      masks.tensor(), nullptr, ends, ends, 1 / std::sqrt(double(kDim)), 1.0,
      all_tokens, all_tokens, kHeads, layout, 0, causal, row_max.tensor(),
      row_sum.tensor(), nullptr, out.tensor(), &workspace_size, &executor));
  const float ms =
      session.Run(aclnnFlashAttentionVarLenScore, workspace_size, executor);
  out.CopyTo(t.out);

  example::Error error;
  for (int64_t head = 0; head < kHeads; head += 7) {
    CheckRow(t, 0, 0, head, error);
    CheckRow(t, 0, 95, head, error);
    CheckRow(t, 96, 200, head, error);
    CheckRow(t, 256, 383, head, error);
  }
  aclDestroyIntArray(ends);
  return example::Report("aclnnFlashAttentionVarLenScore", error, 4e-3, ms);
}
