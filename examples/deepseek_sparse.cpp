// SPDX-License-Identifier: Apache-2.0
// Sparse attention of DeepSeek V3.2, forward and backward, as it is trained:
//   aclnnLightningIndexer          scores the keys and lists the best of them
//   aclnnSparseFlashAttention      attends to the listed keys
//   aclnnSparseFlashAttentionGrad  gradients of attention
//   aclnnLightningIndexerGrad      gradients of the indexer, which learns to
//   give
//                                  its keys the weights that attention gave
//                                  them
// The lists pass no gradient, so there are two losses: attention's is
// sum(out * grad_out), the indexer's is the cross entropy of the softmax of its
// scores with attention's weights. Gradients are compared with differences of
// these losses in fp64 at random coordinates.
#include <functional>

#include "aclnnop/aclnn_lightning_indexer.h"
#include "aclnnop/aclnn_lightning_indexer_grad.h"
#include "aclnnop/aclnn_sparse_flash_attention.h"
#include "aclnnop/aclnn_sparse_flash_attention_grad.h"
#include "example.h"

namespace {

const int64_t kRows = 8, kKeys = 64, kChosen = 16;
const int64_t kHeads = 16, kDim = 512, kRope = 64;  // attention
const int64_t kIndexHeads = 8, kIndexDim = 128;     // the indexer
const int64_t kAllTokens = 2147483647;
const double kScale = 1 / std::sqrt(576.0);
const int kCoordinates = 12;

typedef example::Host<uint16_t> Bf16;
typedef example::Host<double> Fp64;

Fp64 Wide(const Bf16& narrow) {
  Fp64 wide(narrow.dims);
  for (size_t n = 0; n < wide.values.size(); ++n) {
    wide.values[n] = double(example::FromBf16(narrow.values[n]));
  }
  return wide;
}

Bf16 Narrow(const Fp64& wide) {
  Bf16 narrow(wide.dims);
  for (size_t n = 0; n < wide.values.size(); ++n) {
    narrow.values[n] = example::ToBf16(static_cast<float>(wide.values[n]));
  }
  return narrow;
}

double Dot(const double* a, const double* b, int64_t count) {
  double sum = 0;
  for (int64_t n = 0; n < count; ++n) sum += a[n] * b[n];
  return sum;
}

std::vector<double> Softmax(std::vector<double> scores) {
  const double top = *std::max_element(scores.begin(), scores.end());
  double sum = 0;
  for (size_t n = 0; n < scores.size(); ++n) {
    scores[n] = std::exp(scores[n] - top);
    sum += scores[n];
  }
  for (size_t n = 0; n < scores.size(); ++n) scores[n] /= sum;
  return scores;
}

// What is learned, in fp64, and what follows from it by definition.
struct Model {
  Fp64 query, key, query_rope, key_rope;  // the value is the key
  Fp64 index_query, index_key, index_weights;
  example::Host<int32_t> chosen;  // [row, 1, place]

  double IndexScore(int64_t t, int64_t j) {
    double sum = 0;
    for (int64_t h = 0; h < kIndexHeads; ++h) {
      const double dot =
          Dot(&index_query.At(t, h), &index_key.At(j), kIndexDim);
      sum += index_weights.At(t, h) * std::max(0.0, dot);
    }
    return sum;
  }

  std::vector<double> IndexScores(int64_t t) {
    std::vector<double> scores;
    for (int64_t n = 0; n < kChosen; ++n) {
      scores.push_back(IndexScore(t, chosen.At(t, 0, n)));
    }
    return scores;
  }

  // Attention's weights of the listed keys.
  std::vector<double> Weights(int64_t t, int64_t h) {
    std::vector<double> scores;
    for (int64_t n = 0; n < kChosen; ++n) {
      const int64_t j = chosen.At(t, 0, n);
      scores.push_back(kScale *
                       (Dot(&query.At(t, h), &key.At(j), kDim) +
                        Dot(&query_rope.At(t, h), &key_rope.At(j), kRope)));
    }
    return Softmax(scores);
  }

  Fp64 Out() {
    Fp64 out({kRows, kHeads, kDim});
    for (int64_t t = 0; t < kRows; ++t) {
      for (int64_t h = 0; h < kHeads; ++h) {
        const std::vector<double> p = Weights(t, h);
        for (int64_t n = 0; n < kChosen; ++n) {
          const double* value = &key.At(chosen.At(t, 0, n));
          double* row = &out.At(t, h);
          for (int64_t d = 0; d < kDim; ++d) {
            row[d] += p[static_cast<size_t>(n)] * value[d];
          }
        }
      }
    }
    return out;
  }
};

// No unlisted key that a row sees may be better than a listed one, by more than
// fp32 sums of 128 products and 8 heads explain.
bool ListsAreBest(Model& model) {
  for (int64_t t = 0; t < kRows; ++t) {
    std::vector<bool> listed(kKeys);
    double worst = 1e300;
    for (int64_t n = 0; n < kChosen; ++n) {
      const int32_t j = model.chosen.At(t, 0, n);
      if (j < 0 || j > kKeys - kRows + t || listed[size_t(j)]) return false;
      listed[static_cast<size_t>(j)] = true;
      worst = std::min(worst, model.IndexScore(t, j));
    }
    for (int64_t j = 0; j <= kKeys - kRows + t; ++j) {
      const bool better = model.IndexScore(t, j) > worst + 1e-2;
      if (better && !listed[static_cast<size_t>(j)]) return false;
    }
  }
  return true;
}

// Compares a gradient with central differences of a loss at random coordinates;
// candidates are such that the gradient is not 0 there.
void Compare(Fp64& input, const Bf16& gradient,
             const std::function<double()>& loss, std::mt19937& random,
             example::Error& error) {
  std::vector<size_t> candidates;
  for (size_t n = 0; n < gradient.values.size(); ++n) {
    if ((gradient.values[n] & 0x7FFF) != 0) candidates.push_back(n);
  }
  if (candidates.empty()) error.Add(std::nan(""), 0);  // nothing was written
  for (int n = 0; n < kCoordinates && !candidates.empty(); ++n) {
    const size_t at = candidates[random() % candidates.size()];
    const double step = 1e-5, kept = input.values[at];
    input.values[at] = kept + step;
    const double above = loss();
    input.values[at] = kept - step;
    const double below = loss();
    input.values[at] = kept;
    error.Add(example::FromBf16(gradient.values[at]),
              (above - below) / (2 * step));
  }
}

double Print(const char* name, const example::Error& error) {
  std::printf("%s: error %.1e of the greatest\n", name, error.relative());
  return error.relative();
}

}  // namespace

int main() {
  example::Session session;
  std::mt19937 random(7);
  const Bf16 query = example::RandomBf16({kRows, kHeads, kDim}, random);
  const Bf16 key = example::RandomBf16({kKeys, 1, kDim}, random);
  const Bf16 query_rope = example::RandomBf16({kRows, kHeads, kRope}, random);
  const Bf16 key_rope = example::RandomBf16({kKeys, 1, kRope}, random);
  const Bf16 grad_out = example::RandomBf16({kRows, kHeads, kDim}, random);
  const Bf16 index_query =
      example::RandomBf16({kRows, kIndexHeads, kIndexDim}, random);
  const Bf16 index_key = example::RandomBf16({kKeys, 1, kIndexDim}, random);
  // The indexer's scale, 1 / sqrt(heads * dim), is part of its weights.
  Fp64 weights = Wide(example::RandomBf16({kRows, kIndexHeads}, random));
  for (size_t n = 0; n < weights.values.size(); ++n) weights.values[n] /= 32;
  const Bf16 index_weights = Narrow(weights);
  Model model = {
      Wide(query),         Wide(key),
      Wide(query_rope),    Wide(key_rope),
      Wide(index_query),   Wide(index_key),
      Wide(index_weights), example::Host<int32_t>({kRows, 1, kChosen})};
  example::Host<int32_t> query_ends({1}), key_ends({1});
  query_ends.At(0) = static_cast<int32_t>(kRows);
  key_ends.At(0) = static_cast<int32_t>(kKeys);
  Bf16 out(query.dims), grad_query(query.dims), grad_key(key.dims);
  Bf16 grad_query_rope(query_rope.dims), grad_key_rope(key_rope.dims);
  Bf16 grad_index_query(index_query.dims), grad_index_key(index_key.dims);
  Bf16 grad_index_weights(index_weights.dims);
  const example::Host<float> statistics({1, kRows, kHeads});
  const example::Device q(query, ACL_BF16), k(key, ACL_BF16),
      qr(query_rope, ACL_BF16), kr(key_rope, ACL_BF16), d_o(grad_out, ACL_BF16),
      iq(index_query, ACL_BF16), ik(index_key, ACL_BF16),
      iw(index_weights, ACL_BF16), chosen(model.chosen, ACL_INT32),
      o(out, ACL_BF16), top(statistics, ACL_FLOAT), sum(statistics, ACL_FLOAT),
      q_ends(query_ends, ACL_INT32), k_ends(key_ends, ACL_INT32),
      dq(grad_query, ACL_BF16), dk(grad_key, ACL_BF16),
      dqr(grad_query_rope, ACL_BF16), dkr(grad_key_rope, ACL_BF16),
      diq(grad_index_query, ACL_BF16), dik(grad_index_key, ACL_BF16),
      diw(grad_index_weights, ACL_BF16);
  char layout[] = "TND";
  uint64_t size = 0;
  aclOpExecutor* executor = nullptr;
  float ms = 0;

  // Forward: sparseMode 3, so that row t sees keys up to the diagonal.
  EXAMPLE_CHECK(aclnnLightningIndexerGetWorkspaceSize(
      iq.tensor(), ik.tensor(), iw.tensor(), q_ends.tensor(), k_ends.tensor(),
      nullptr, layout, layout, kChosen, 3, kAllTokens, kAllTokens, false,
      chosen.tensor(), nullptr, &size, &executor));
  ms += session.Run(aclnnLightningIndexer, size, executor);
  EXAMPLE_CHECK(aclnnSparseFlashAttentionGetWorkspaceSize(
      q.tensor(), k.tensor(), nullptr, chosen.tensor(), nullptr,
      q_ends.tensor(), k_ends.tensor(), qr.tensor(), kr.tensor(), kScale, 1,
      layout, layout, 3, kAllTokens, kAllTokens, 2, true, o.tensor(),
      top.tensor(), sum.tensor(), &size, &executor));
  ms += session.Run(aclnnSparseFlashAttention, size, executor);
  chosen.CopyTo(model.chosen);
  o.CopyTo(out);
  if (!ListsAreBest(model)) {
    std::fprintf(stderr, "the indexer's lists are not the best keys\n");
    return 1;
  }
  const Fp64 true_out = model.Out();
  example::Error out_error;
  for (size_t n = 0; n < out.values.size(); ++n) {
    out_error.Add(example::FromBf16(out.values[n]), true_out.values[n]);
  }

  // Backward of attention. Without a value of its own the key gets both
  // gradients.
  EXAMPLE_CHECK(aclnnSparseFlashAttentionGradGetWorkspaceSize(
      q.tensor(), k.tensor(), nullptr, chosen.tensor(), d_o.tensor(),
      o.tensor(), top.tensor(), sum.tensor(), q_ends.tensor(), k_ends.tensor(),
      qr.tensor(), kr.tensor(), kScale, 1, layout, 3, kAllTokens, kAllTokens,
      true, dq.tensor(), dk.tensor(), nullptr, dqr.tensor(), dkr.tensor(),
      &size, &executor));
  ms += session.Run(aclnnSparseFlashAttentionGrad, size, executor);

  // Backward of the indexer: the gradient of a cross entropy to the scores is
  // their softmax less the target, attention's weights averaged over heads.
  Fp64 target({kRows, kChosen}), grad_scores({kRows, kChosen});
  for (int64_t t = 0; t < kRows; ++t) {
    const std::vector<double> now = Softmax(model.IndexScores(t));
    for (int64_t h = 0; h < kHeads; ++h) {
      const std::vector<double> p = model.Weights(t, h);
      for (int64_t n = 0; n < kChosen; ++n) {
        target.At(t, n) += p[static_cast<size_t>(n)] / kHeads;
      }
    }
    for (int64_t n = 0; n < kChosen; ++n) {
      grad_scores.At(t, n) = now[static_cast<size_t>(n)] - target.At(t, n);
    }
  }
  const example::Device dy(Narrow(grad_scores), ACL_BF16);
  EXAMPLE_CHECK(aclnnLightningIndexerGradGetWorkspaceSize(
      iq.tensor(), ik.tensor(), dy.tensor(), chosen.tensor(), iw.tensor(),
      q_ends.tensor(), k_ends.tensor(), kIndexHeads, layout, 3, kAllTokens,
      kAllTokens, true, diq.tensor(), dik.tensor(), diw.tensor(), &size,
      &executor));
  ms += session.Run(aclnnLightningIndexerGrad, size, executor);

  dq.CopyTo(grad_query), dk.CopyTo(grad_key);
  dqr.CopyTo(grad_query_rope), dkr.CopyTo(grad_key_rope);
  diq.CopyTo(grad_index_query), dik.CopyTo(grad_index_key);
  diw.CopyTo(grad_index_weights);
  const Fp64 wide_grad_out = Wide(grad_out);
  const std::function<double()> attention = [&] {
    const Fp64 now = model.Out();
    return Dot(now.values.data(), wide_grad_out.values.data(),
               static_cast<int64_t>(now.values.size()));
  };
  const std::function<double()> entropy = [&] {
    double loss = 0;
    for (int64_t t = 0; t < kRows; ++t) {
      const std::vector<double> p = Softmax(model.IndexScores(t));
      for (int64_t n = 0; n < kChosen; ++n) {
        loss -= target.At(t, n) * std::log(p[static_cast<size_t>(n)]);
      }
    }
    return loss;
  };
  struct Row {
    const char* name;
    Fp64& input;
    const Bf16& gradient;
    const std::function<double()>& loss;
  };
  const Row rows[] = {
      {"grad query", model.query, grad_query, attention},
      {"grad key", model.key, grad_key, attention},
      {"grad query rope", model.query_rope, grad_query_rope, attention},
      {"grad key rope", model.key_rope, grad_key_rope, attention},
      {"grad index query", model.index_query, grad_index_query, entropy},
      {"grad index key", model.index_key, grad_index_key, entropy},
      {"grad index weights", model.index_weights, grad_index_weights, entropy}};
  std::printf("%d rows, each with the %d best of %d keys\n",
              static_cast<int>(kRows), static_cast<int>(kChosen),
              static_cast<int>(kKeys));
  double worst = Print("out", out_error);
  for (const Row& row : rows) {
    example::Error error;
    Compare(row.input, row.gradient, row.loss, random, error);
    const double relative = Print(row.name, error);
    if (example::IsWorse(relative, worst)) worst = relative;
  }
  // Inputs of the backward operators (out, dy) and results are rounded to bf16:
  // 2^-8 = 4e-3 each, of sums in which some terms cancel.
  example::Error error;
  error.Add(1 + worst, 1);
  return example::Report("aclnnSparseFlashAttentionGrad", error, 2e-2, ms);
}
