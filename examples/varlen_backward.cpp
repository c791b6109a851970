// SPDX-License-Identifier: Apache-2.0
// Packed training step, aclnnFlashAttentionUnpaddingScoreGradV5 behind its
// forward: two causal sequences, 32 query heads, 8 key heads, head dim 128.
#include "aclnnop/aclnn_flash_attention_score.h"
#include "aclnnop/aclnn_flash_attention_score_grad.h"
#include "example.h"

namespace {

const int64_t kHeads = 32, kKeyHeads = 8, kGroup = 4, kDim = 128;
const int64_t kEnds[] = {80, 192};
const int64_t kTotal = 192, kAllTokens = 2147483647, kCausal = 3;
const double kScale = 1 / std::sqrt(static_cast<double>(kDim));

typedef example::Host<uint16_t> Bf16;

double Dot(Bf16& a, int64_t i, int64_t h, Bf16& b, int64_t j, int64_t g) {
  double sum = 0;
  for (int64_t d = 0; d < kDim; ++d) {
    sum += double(example::FromBf16(a.At(i, h, d))) *
           example::FromBf16(b.At(j, g, d));
  }
  return sum;
}

struct Tensors {
  Bf16 query, key, value, out, grad_out, grad_query, grad_key, grad_value;

  // The weights and score gradients of one row over the keys first, ..., i.
  void Row(int64_t first, int64_t i, int64_t head, std::vector<double>* p,
           std::vector<double>* ds) {
    const int64_t g = head / kGroup;
    double sum = 0, delta = 0;
    p->clear();
    ds->clear();
    for (int64_t j = first; j <= i; ++j) {
      p->push_back(std::exp(kScale * Dot(query, i, head, key, j, g)));
      sum += p->back();
    }
    for (int64_t j = first; j <= i; ++j) {
      double& weight = (*p)[static_cast<size_t>(j - first)];
      weight /= sum;
      ds->push_back(Dot(grad_out, i, head, value, j, g));
      delta += weight * ds->back();
    }
    for (size_t n = 0; n < p->size(); ++n)
      (*ds)[n] = (*p)[n] * ((*ds)[n] - delta);
  }
};

void CheckQueryRow(Tensors& t, int64_t first, int64_t i, int64_t head,
                   example::Error& error) {
  std::vector<double> p, ds;
  t.Row(first, i, head, &p, &ds);
  for (int64_t d = 0; d < kDim; ++d) {
    double truth = 0;
    for (size_t n = 0; n < ds.size(); ++n) {
      truth += kScale * ds[n] *
               example::FromBf16(
                   t.key.At(first + static_cast<int64_t>(n), head / kGroup, d));
    }
    error.Add(example::FromBf16(t.grad_query.At(i, head, d)), truth);
  }
}

void CheckKeyRow(Tensors& t, int64_t first, int64_t last, int64_t j, int64_t g,
                 example::Error& key_error, example::Error& value_error) {
  std::vector<double> key(kDim), value(kDim), p, ds;
  for (int64_t head = g * kGroup; head < (g + 1) * kGroup; ++head) {
    for (int64_t i = j; i < last; ++i) {
      t.Row(first, i, head, &p, &ds);
      const size_t n = static_cast<size_t>(j - first);
      for (int64_t d = 0; d < kDim; ++d) {
        key[static_cast<size_t>(d)] +=
            kScale * ds[n] * example::FromBf16(t.query.At(i, head, d));
        value[static_cast<size_t>(d)] +=
            p[n] * example::FromBf16(t.grad_out.At(i, head, d));
      }
    }
  }
  for (int64_t d = 0; d < kDim; ++d) {
    key_error.Add(example::FromBf16(t.grad_key.At(j, g, d)),
                  key[static_cast<size_t>(d)]);
    value_error.Add(example::FromBf16(t.grad_value.At(j, g, d)),
                    value[static_cast<size_t>(d)]);
  }
}

}  // namespace

int main() {
  example::Session session;
  std::mt19937 random(4);
  const std::vector<int64_t> rows = {kTotal, kHeads, kDim};
  const std::vector<int64_t> keys = {kTotal, kKeyHeads, kDim};
  Tensors t = {example::RandomBf16(rows, random),
               example::RandomBf16(keys, random),
               example::RandomBf16(keys, random),
               Bf16(rows),
               example::RandomBf16(rows, random),
               Bf16(rows),
               Bf16(keys),
               Bf16(keys)};
  example::Host<float> statistics({kTotal, kHeads, 8});
  example::Host<uint8_t> mask({2048, 2048});
  for (int64_t i = 0; i < 2048; ++i) {
    for (int64_t j = 0; j < 2048; ++j) mask.At(i, j) = j > i ? 1 : 0;
  }
  const example::Device query(t.query, ACL_BF16), key(t.key, ACL_BF16),
      value(t.value, ACL_BF16), out(t.out, ACL_BF16),
      grad_out(t.grad_out, ACL_BF16), grad_query(t.grad_query, ACL_BF16),
      grad_key(t.grad_key, ACL_BF16), grad_value(t.grad_value, ACL_BF16),
      masks(mask, ACL_BOOL), row_max(statistics, ACL_FLOAT),
      row_sum(statistics, ACL_FLOAT);
  aclIntArray* ends = aclCreateIntArray(kEnds, 2);
  char layout[] = "TND";
  char statistics_layout[] = "";  // as the forward leaves them
  uint64_t workspace_size = 0;
  aclOpExecutor* executor = nullptr;
  EXAMPLE_CHECK(aclnnFlashAttentionVarLenScoreGetWorkspaceSize(
      query.tensor(), key.tensor(), value.tensor(), nullptr, nullptr, nullptr,
      masks.tensor(), nullptr, ends, ends, kScale, 1.0, kAllTokens, kAllTokens,
      kHeads, layout, 0, kCausal, row_max.tensor(), row_sum.tensor(), nullptr,
      out.tensor(), &workspace_size, &executor));
  session.Run(aclnnFlashAttentionVarLenScore, workspace_size, executor);
  EXAMPLE_CHECK(aclnnFlashAttentionUnpaddingScoreGradV5GetWorkspaceSize(
      query.tensor(), nullptr, key.tensor(), nullptr, value.tensor(),
      grad_out.tensor(), nullptr, nullptr, nullptr, masks.tensor(),
      row_max.tensor(), row_sum.tensor(), nullptr, out.tensor(), nullptr,
      nullptr, ends, ends, nullptr, nullptr, kScale, 1.0, kAllTokens,
      kAllTokens, kHeads, layout, 0, kCausal, 1, statistics_layout,
      grad_query.tensor(), nullptr, grad_key.tensor(), nullptr,
      grad_value.tensor(), nullptr, nullptr, &workspace_size, &executor));
  const float ms = session.Run(aclnnFlashAttentionUnpaddingScoreGradV5,
                               workspace_size, executor);
  grad_query.CopyTo(t.grad_query);
  grad_key.CopyTo(t.grad_key);
  grad_value.CopyTo(t.grad_value);

  example::Error query_error, key_error, value_error;
  CheckQueryRow(t, 0, 79, 3, query_error);
  CheckQueryRow(t, 80, 100, 17, query_error);
  CheckQueryRow(t, 80, 191, 31, query_error);
  CheckKeyRow(t, 0, 80, 5, 0, key_error, value_error);
  CheckKeyRow(t, 80, 192, 90, 7, key_error, value_error);
  aclDestroyIntArray(ends);
  const char* const name = "aclnnFlashAttentionUnpaddingScoreGradV5";
  const example::Error* worst = &query_error;
  if (key_error.relative() > worst->relative()) worst = &key_error;
  if (value_error.relative() > worst->relative()) worst = &value_error;
  return example::Report(name, *worst, 1e-2, ms);
}
