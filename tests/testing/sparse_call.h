// SPDX-License-Identifier: Apache-2.0
// Calls of aclnnSparseFlashAttentionGrad from a few words, and what the
// document says the gradients are: plain loops in fp64.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "base/random.h"
#include "tests/testing/call.h"

namespace flashacl::testing {

// Shapes and scalars of one call. Packed: rows and columns are of all sequences
// together.
struct SparseCase {
  aclDataType type = ACL_FLOAT16;
  bool packed = true;
  int64_t sequences = 2;
  int64_t heads = 4;
  int64_t rows = 5;
  int64_t columns = 9;
  int64_t dim = 16;
  int64_t v_dim = 16;
  int64_t rope_dim = 8;  // 0: no rope
  int64_t top_k = 4;
  int64_t block = 1;
  int64_t mode = 0;
  double scale = 0.25;
  aclDataType index_type = ACL_INT32;
  aclDataType query_length_type = ACL_INT32;
  aclDataType key_length_type = ACL_INT32;
  // Packed: where each sequence ends. Dense: rows of each; empty: none passed.
  std::vector<int64_t> query_lengths = {3, 5};
  std::vector<int64_t> key_lengths = {4, 9};
  bool merged = false;  // no value
  bool spread = false;  // all tensors in memory with gaps
  // Row max, row sum and out are those of a forward pass, not any numbers.
  bool consistent = true;
};

std::string ToString(const SparseCase& c);
SparseCase RandomSparseCase(Random& random);

// Gradients in order of their shapes, and the size of what was summed.
struct SparseGradients {
  std::vector<double> query, key, value, query_rope, key_rope;
  double scale = 0;
};

// Tensors full of numbers and the arguments that go with them, any of which a
// test may replace before it calls.
class SparseCall : public OperatorFixture {
 public:
  using Case = SparseCase;

  explicit SparseCall(const SparseCase& c = {}, uint64_t seed = 1);

  // Run, and compare with Expected.
  void ExpectAsDocumented();

  SparseGradients Expected() const;

  SparseCase asked;
  DeviceTensor* query = nullptr;
  DeviceTensor* key = nullptr;
  DeviceTensor* value = nullptr;
  DeviceTensor* indices = nullptr;
  DeviceTensor* grad_out = nullptr;
  DeviceTensor* out = nullptr;
  DeviceTensor* row_max = nullptr;
  DeviceTensor* row_sum = nullptr;
  DeviceTensor* query_lengths = nullptr;
  DeviceTensor* key_lengths = nullptr;
  DeviceTensor* query_rope = nullptr;
  DeviceTensor* key_rope = nullptr;
  DeviceTensor* grad_query = nullptr;
  DeviceTensor* grad_key = nullptr;
  DeviceTensor* grad_value = nullptr;
  DeviceTensor* grad_query_rope = nullptr;
  DeviceTensor* grad_key_rope = nullptr;
  char* layout = nullptr;
  int64_t pre_tokens = 2147483647;
  int64_t next_tokens = 2147483647;
  bool deterministic = false;

 private:
  Parameters Pass() override;
  // Tensor rows, counted over all sequences.
  struct Sequence {
    int64_t query = 0, queries = 0;
    int64_t key = 0, keys = 0;
  };
  // A query row and head with what it lists, in order.
  struct Row {
    int64_t row, head;
    std::vector<int64_t> keys;  // tensor rows
    std::vector<double> scores;
  };

  DeviceTensor* Numbers(std::vector<int64_t> dims, Random& random);
  void MakeLists(Random& random);
  void MakeForward(Random& random);
  std::vector<Sequence> Sequences() const;
  std::vector<int64_t> Listed(const Sequence& sequence, int64_t i) const;
  std::vector<Row> Rows() const;  // of all sequences and heads
  double Dot(const DeviceTensor& a, int64_t row_a, const DeviceTensor& b,
             int64_t row_b) const;
  void AddGradients(const Row& row, SparseGradients& sums) const;

  std::vector<char> layout_text_;
};

}  // namespace flashacl::testing
