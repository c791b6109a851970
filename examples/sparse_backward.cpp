// SPDX-License-Identifier: Apache-2.0
// Backward of sparse latent attention, aclnnSparseFlashAttentionGrad: 64 heads
// over one latent key of 512 + 64 channels (DeepSeek V3.2), every token with
// its own list of 128 among 512 keys.
#include "aclnnop/aclnn_sparse_flash_attention_grad.h"
#include "example.h"

namespace {

const int64_t kRows = 16, kKeys = 512, kHeads = 64, kDim = 512, kRope = 64;
const int64_t kChosen = 128, kAllTokens = 2147483647;
const double kScale = 1 / std::sqrt(576.0);

typedef example::Host<uint16_t> Bf16;

struct Tensors {
  Bf16 query, key, query_rope, key_rope, grad_out, out;
  Bf16 grad_query, grad_key, grad_value, grad_query_rope, grad_key_rope;
  example::Host<int32_t> chosen;          // [row, 1, place]
  example::Host<float> row_max, row_sum;  // [1, row, head]

  double Score(int64_t i, int64_t h, int64_t j) {
    double sum = 0;
    for (int64_t d = 0; d < kDim; ++d) {
      sum += double(example::FromBf16(query.At(i, h, d))) *
             example::FromBf16(key.At(j, 0, d));
    }
    for (int64_t d = 0; d < kRope; ++d) {
      sum += double(example::FromBf16(query_rope.At(i, h, d))) *
             example::FromBf16(key_rope.At(j, 0, d));
    }
    return kScale * sum;
  }

  // dO . v, where the value is the key's first part.
  double GradWeight(int64_t i, int64_t h, int64_t j) {
    double sum = 0;
    for (int64_t d = 0; d < kDim; ++d) {
      sum += double(example::FromBf16(grad_out.At(i, h, d))) *
             example::FromBf16(key.At(j, 0, d));
    }
    return sum;
  }
};

// The forward pass, which leaves out, row_max and row_sum.
void Forward(Tensors& t, int64_t i, int64_t h) {
  std::vector<double> scores;
  double max = -1e300, sum = 0;
  for (int64_t n = 0; n < kChosen; ++n) {
    scores.push_back(t.Score(i, h, t.chosen.At(i, 0, n)));
    max = std::max(max, scores.back());
  }
  for (size_t n = 0; n < scores.size(); ++n) sum += std::exp(scores[n] - max);
  std::vector<double> out(kDim);
  for (int64_t n = 0; n < kChosen; ++n) {
    const double p = std::exp(scores[static_cast<size_t>(n)] - max) / sum;
    for (int64_t d = 0; d < kDim; ++d) {
      out[static_cast<size_t>(d)] +=
          p * example::FromBf16(t.key.At(t.chosen.At(i, 0, n), 0, d));
    }
  }
  for (int64_t d = 0; d < kDim; ++d) {
    t.out.At(i, h, d) =
        example::ToBf16(static_cast<float>(out[static_cast<size_t>(d)]));
  }
  t.row_max.At(0, i, h) = static_cast<float>(max);
  t.row_sum.At(0, i, h) = static_cast<float>(sum);
}

void CheckQueryRow(Tensors& t, int64_t i, int64_t h, example::Error& error) {
  double delta = 0;
  for (int64_t d = 0; d < kDim; ++d) {
    delta += double(example::FromBf16(t.grad_out.At(i, h, d))) *
             example::FromBf16(t.out.At(i, h, d));
  }
  std::vector<double> truth(kDim);
  for (int64_t n = 0; n < kChosen; ++n) {
    const int64_t j = t.chosen.At(i, 0, n);
    const double p = std::exp(t.Score(i, h, j) - t.row_max.At(0, i, h)) /
                     t.row_sum.At(0, i, h);
    const double ds = p * (t.GradWeight(i, h, j) - delta);
    for (int64_t d = 0; d < kDim; ++d) {
      truth[static_cast<size_t>(d)] +=
          kScale * ds * example::FromBf16(t.key.At(j, 0, d));
    }
  }
  for (int64_t d = 0; d < kDim; ++d) {
    error.Add(example::FromBf16(t.grad_query.At(i, h, d)),
              truth[static_cast<size_t>(d)]);
  }
}

void CheckValueRow(Tensors& t, int64_t j, example::Error& error) {
  std::vector<double> truth(kDim);
  for (int64_t i = 0; i < kRows; ++i) {
    bool chosen = false;
    for (int64_t n = 0; n < kChosen; ++n) {
      chosen = chosen || t.chosen.At(i, 0, n) == j;
    }
    for (int64_t h = 0; chosen && h < kHeads; ++h) {
      const double p = std::exp(t.Score(i, h, j) - t.row_max.At(0, i, h)) /
                       t.row_sum.At(0, i, h);
      for (int64_t d = 0; d < kDim; ++d) {
        truth[static_cast<size_t>(d)] +=
            p * example::FromBf16(t.grad_out.At(i, h, d));
      }
    }
  }
  for (int64_t d = 0; d < kDim; ++d) {
    error.Add(example::FromBf16(t.grad_value.At(j, 0, d)),
              truth[static_cast<size_t>(d)]);
  }
}

}  // namespace

int main() {
  example::Session session;
  std::mt19937 random(5);
  const std::vector<int64_t> rows = {kRows, kHeads, kDim};
  const std::vector<int64_t> keys = {kKeys, 1, kDim};
  const std::vector<int64_t> rope_rows = {kRows, kHeads, kRope};
  const std::vector<int64_t> rope_keys = {kKeys, 1, kRope};
  Tensors t = {example::RandomBf16(rows, random),
               example::RandomBf16(keys, random),
               example::RandomBf16(rope_rows, random),
               example::RandomBf16(rope_keys, random),
               example::RandomBf16(rows, random),
               Bf16(rows),
               Bf16(rows),
               Bf16(keys),
               Bf16(keys),
               Bf16(rope_rows),
               Bf16(rope_keys),
               example::Host<int32_t>({kRows, 1, kChosen}),
               example::Host<float>({1, kRows, kHeads}),
               example::Host<float>({1, kRows, kHeads})};
  std::vector<int32_t> order(kKeys);
  for (size_t n = 0; n < order.size(); ++n) order[n] = static_cast<int32_t>(n);
  for (int64_t i = 0; i < kRows; ++i) {
    std::shuffle(order.begin(), order.end(), random);
    for (int64_t n = 0; n < kChosen; ++n) {
      t.chosen.At(i, 0, n) = order[static_cast<size_t>(n)];
    }
    for (int64_t h = 0; h < kHeads; ++h) Forward(t, i, h);
  }
  example::Host<int32_t> query_ends({1}), key_ends({1});
  query_ends.At(0) = static_cast<int32_t>(kRows);
  key_ends.At(0) = static_cast<int32_t>(kKeys);

  const example::Device query(t.query, ACL_BF16), key(t.key, ACL_BF16),
      query_rope(t.query_rope, ACL_BF16), key_rope(t.key_rope, ACL_BF16),
      grad_out(t.grad_out, ACL_BF16), out(t.out, ACL_BF16),
      chosen(t.chosen, ACL_INT32), row_max(t.row_max, ACL_FLOAT),
      row_sum(t.row_sum, ACL_FLOAT), query_end(query_ends, ACL_INT32),
      key_end(key_ends, ACL_INT32), grad_query(t.grad_query, ACL_BF16),
      grad_key(t.grad_key, ACL_BF16), grad_value(t.grad_value, ACL_BF16),
      grad_query_rope(t.grad_query_rope, ACL_BF16),
      grad_key_rope(t.grad_key_rope, ACL_BF16);
  char layout[] = "TND";
  uint64_t workspace_size = 0;
  aclOpExecutor* executor = nullptr;
  // In latent attention the value is the key's first part: the same tensor.
  EXAMPLE_CHECK(aclnnSparseFlashAttentionGradGetWorkspaceSize(
      query.tensor(), key.tensor(), key.tensor(), chosen.tensor(),
      grad_out.tensor(), out.tensor(), row_max.tensor(), row_sum.tensor(),
      query_end.tensor(), key_end.tensor(), query_rope.tensor(),
      key_rope.tensor(), kScale, 1, layout, 0, kAllTokens, kAllTokens, true,
      grad_query.tensor(), grad_key.tensor(), grad_value.tensor(),
      grad_query_rope.tensor(), grad_key_rope.tensor(), &workspace_size,
      &executor));
  const float ms =
      session.Run(aclnnSparseFlashAttentionGrad, workspace_size, executor);
  grad_query.CopyTo(t.grad_query);
  grad_value.CopyTo(t.grad_value);

  example::Error query_error, value_error;
  for (int64_t i = 0; i < kRows; i += 5) {
    CheckQueryRow(t, i, 3 * i + 1, query_error);
  }
  CheckValueRow(t, t.chosen.At(0, 0, 0), value_error);
  CheckValueRow(t, t.chosen.At(15, 0, 127), value_error);
  const bool query_worse = query_error.relative() > value_error.relative();
  return example::Report("aclnnSparseFlashAttentionGrad",
                         query_worse ? query_error : value_error, 1e-2, ms);
}
