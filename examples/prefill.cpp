// SPDX-License-Identifier: Apache-2.0
// Prefill, aclnnPromptFlashAttention: one prompt of 256 tokens, 28 query heads,
// 4 key heads, head dim 128 (Qwen 2.5 7B), with a causal mask.
#include "aclnnop/aclnn_prompt_flash_attention.h"
#include "example.h"

namespace {

const int64_t kHeads = 28, kKeyHeads = 4, kDim = 128, kRows = 256;

struct Tensors {
  example::Host<uint16_t> query, key, value, out;  // [1, head, row, dim]
};

void CheckRow(Tensors& t, int64_t head, int64_t i, example::Error& error) {
  const double scale = 1 / std::sqrt(static_cast<double>(kDim));
  const int64_t key_head = head / (kHeads / kKeyHeads);
  std::vector<double> weights(static_cast<size_t>(i + 1));
  double sum = 0;
  for (int64_t j = 0; j <= i; ++j) {
    double score = 0;
    for (int64_t d = 0; d < kDim; ++d) {
      score += double(example::FromBf16(t.query.At(0, head, i, d))) *
               example::FromBf16(t.key.At(0, key_head, j, d));
    }
    weights[static_cast<size_t>(j)] = std::exp(score * scale);
    sum += weights[static_cast<size_t>(j)];
  }
  for (int64_t d = 0; d < kDim; ++d) {
    double truth = 0;
    for (int64_t j = 0; j <= i; ++j) {
      truth += weights[static_cast<size_t>(j)] / sum *
               example::FromBf16(t.value.At(0, key_head, j, d));
    }
    error.Add(example::FromBf16(t.out.At(0, head, i, d)), truth);
  }
}

}  // namespace

int main() {
  example::Session session;
  std::mt19937 random(2);
  Tensors t = {example::RandomBf16({1, kHeads, kRows, kDim}, random),
               example::RandomBf16({1, kKeyHeads, kRows, kDim}, random),
               example::RandomBf16({1, kKeyHeads, kRows, kDim}, random),
               example::Host<uint16_t>({1, kHeads, kRows, kDim})};
  example::Host<uint8_t> mask({kRows, kRows});
  for (int64_t i = 0; i < kRows; ++i) {
    for (int64_t j = 0; j < kRows; ++j) mask.At(i, j) = j > i ? 1 : 0;
  }

  const example::Device query(t.query, ACL_BF16), key(t.key, ACL_BF16),
      value(t.value, ACL_BF16), out(t.out, ACL_BF16), masks(mask, ACL_BOOL);
  char layout[] = "BNSD";
  const int64_t all_tokens = 2147483647;
  uint64_t workspace_size = 0;
  aclOpExecutor* executor = nullptr;
  EXAMPLE_CHECK(aclnnPromptFlashAttentionGetWorkspaceSize(
      query.tensor(), key.tensor(), value.tensor(), nullptr, masks.tensor(),
      nullptr, kHeads, 1 / std::sqrt(double(kDim)), all_tokens, 0, layout,
      kKeyHeads, out.tensor(), &workspace_size, &executor));
  const float ms =
      session.Run(aclnnPromptFlashAttention, workspace_size, executor);
  out.CopyTo(t.out);

  example::Error error;
  for (int64_t head = 0; head < kHeads; head += 9) {
    for (int64_t i = 0; i < kRows; i += 85) CheckRow(t, head, i, error);
  }
  return example::Report("aclnnPromptFlashAttention", error, 4e-3, ms);
}
