// SPDX-License-Identifier: Apache-2.0
// Decode, aclnnIncreFlashAttentionV4: one new token for each of four requests,
// 32 query heads, 8 key heads, head dim 128 (Qwen3 8B), from a paged cache of
// int8 keys and values with a scale per channel.
#include "aclnnop/aclnn_incre_flash_attention_v4.h"
#include "example.h"

namespace {

const int64_t kRequests = 4, kHeads = 32, kKeyHeads = 8, kDim = 128;
const int64_t kPageRows = 128, kPagesEach = 8, kPages = kRequests * kPagesEach;
const int64_t kLengths[kRequests] = {1000, 17, 512, 129};

struct Tensors {
  example::Host<uint16_t> query, out;  // [request, 1, head * dim]
  example::Host<int8_t> key, value;    // [page, row, key head * dim]
  example::Host<uint16_t> scale;       // [key or value, key head * dim]
  example::Host<int32_t> table;        // [request, page of the request]

  // A key (0) or value (1) channel of token j of a request.
  double Cached(int which, int64_t request, int64_t j, int64_t channel) {
    const int64_t page = table.At(request, j / kPageRows);
    example::Host<int8_t>& cache = which == 0 ? key : value;
    return double(example::FromBf16(scale.At(which, channel))) *
           cache.At(page, j % kPageRows, channel);
  }
};

void CheckHead(Tensors& t, int64_t request, int64_t head,
               example::Error& error) {
  const double softmax_scale = 1 / std::sqrt(static_cast<double>(kDim));
  const int64_t channel = head / (kHeads / kKeyHeads) * kDim;
  const int64_t length = kLengths[request];
  std::vector<double> weights(static_cast<size_t>(length));
  double sum = 0;
  for (int64_t j = 0; j < length; ++j) {
    double score = 0;
    for (int64_t d = 0; d < kDim; ++d) {
      score += example::FromBf16(t.query.At(request, 0, head * kDim + d)) *
               t.Cached(0, request, j, channel + d);
    }
    weights[static_cast<size_t>(j)] = std::exp(score * softmax_scale);
    sum += weights[static_cast<size_t>(j)];
  }
  for (int64_t d = 0; d < kDim; ++d) {
    double truth = 0;
    for (int64_t j = 0; j < length; ++j) {
      truth += weights[static_cast<size_t>(j)] / sum *
               t.Cached(1, request, j, channel + d);
    }
    error.Add(example::FromBf16(t.out.At(request, 0, head * kDim + d)), truth);
  }
}

void Fill(Tensors& t, std::mt19937& random) {
  std::uniform_int_distribution<int> bytes(-127, 127);
  for (size_t n = 0; n < t.key.values.size(); ++n) {
    t.key.values[n] = static_cast<int8_t>(bytes(random));
    t.value.values[n] = static_cast<int8_t>(bytes(random));
  }
  std::uniform_real_distribution<float> scales(0.005f, 0.02f);
  for (size_t n = 0; n < t.scale.values.size(); ++n) {
    t.scale.values[n] = example::ToBf16(scales(random));
  }
  // Pages are handed out in any order; -1 where a request needs none.
  std::vector<int32_t> pages;
  for (int64_t page = 0; page < kPages; ++page) {
    pages.push_back(static_cast<int32_t>(page));
  }
  std::shuffle(pages.begin(), pages.end(), random);
  for (int64_t request = 0; request < kRequests; ++request) {
    for (int64_t n = 0; n < kPagesEach; ++n) {
      const bool needed = n * kPageRows < kLengths[request];
      t.table.At(request, n) =
          needed ? pages[static_cast<size_t>(request * kPagesEach + n)] : -1;
    }
  }
}

}  // namespace

int main() {
  example::Session session;
  std::mt19937 random(3);
  Tensors t = {example::RandomBf16({kRequests, 1, kHeads * kDim}, random),
               example::Host<uint16_t>({kRequests, 1, kHeads * kDim}),
               example::Host<int8_t>({kPages, kPageRows, kKeyHeads * kDim}),
               example::Host<int8_t>({kPages, kPageRows, kKeyHeads * kDim}),
               example::Host<uint16_t>({2, kKeyHeads * kDim}),
               example::Host<int32_t>({kRequests, kPagesEach})};
  Fill(t, random);

  const example::Device query(t.query, ACL_BF16), key(t.key, ACL_INT8),
      value(t.value, ACL_INT8), scale(t.scale, ACL_BF16),
      table(t.table, ACL_INT32), out(t.out, ACL_BF16);
  const aclTensor* const keys[] = {key.tensor()};
  const aclTensor* const values[] = {value.tensor()};
  // The lists are not destroyed, since they would take the tensors along.
  aclTensorList* const key_list = aclCreateTensorList(keys, 1);
  aclTensorList* const value_list = aclCreateTensorList(values, 1);
  aclIntArray* lengths = aclCreateIntArray(kLengths, kRequests);
  char layout[] = "BSH";
  uint64_t workspace_size = 0;
  aclOpExecutor* executor = nullptr;
  EXAMPLE_CHECK(aclnnIncreFlashAttentionV4GetWorkspaceSize(
      query.tensor(), key_list, value_list, nullptr, nullptr, lengths, nullptr,
      nullptr, nullptr, nullptr, nullptr, scale.tensor(), nullptr,
      table.tensor(), nullptr, kHeads, 1 / std::sqrt(double(kDim)), layout,
      kKeyHeads, kPageRows, 1, out.tensor(), &workspace_size, &executor));
  const float ms =
      session.Run(aclnnIncreFlashAttentionV4, workspace_size, executor);
  out.CopyTo(t.out);

  example::Error error;
  for (int64_t request = 0; request < kRequests; ++request) {
    for (int64_t head = 0; head < kHeads; head += 5) {
      CheckHead(t, request, head, error);
    }
  }
  aclDestroyIntArray(lengths);
  return example::Report("aclnnIncreFlashAttentionV4", error, 4e-3, ms);
}
