// SPDX-License-Identifier: Apache-2.0
// Calls of sparse attention, forward and backward, from a few words, and what
// the documents say the answers are: plain loops in fp64.
#pragma once

#include <cstdint>
#include <limits>
#include <string>
#include <string_view>
#include <vector>

#include "base/random.h"
#include "tests/testing/call.h"
#include "tests/testing/softmax.h"

namespace flashacl::testing {

// Shapes and scalars of one call. Packed: rows, and columns unless they are in
// pages, are of all sequences together.
struct SparseCase {
  int version = 1;  // of forward, as what says so below
  aclDataType type = ACL_FLOAT16;
  bool packed = true;
  int64_t page_rows = 0;  // forward; 0: no pages
  int64_t sequences = 2;
  int64_t heads = 4;
  int64_t rows = 5;
  int64_t columns = 9;  // in pages: a multiple of page_rows
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
  // Packed: where each sequence ends. Else, and of keys in pages: how long it
  // is; empty: none passed.
  std::vector<int64_t> query_lengths = {3, 5};
  std::vector<int64_t> key_lengths = {4, 9};
  bool merged = false;     // no value
  bool statistics = true;  // forward: returnSoftmaxLse
  bool sinks = false;      // forward
  bool spread = false;     // all tensors in memory with gaps
  // Backward: row max, row sum and out are those of a forward pass, not any
  // numbers.
  bool consistent = true;

  bool paged() const { return page_rows > 0; }
};

std::string ToString(const SparseCase& c);
SparseCase RandomSparseForwardCase(Random& random);
SparseCase RandomSparseBackwardCase(Random& random);

// Tensors full of numbers and the arguments that go with them, any of which a
// test may replace before it calls.
class SparseFixture : public OperatorFixture {
 public:
  using Case = SparseCase;

  SparseCase asked;
  DeviceTensor* query = nullptr;
  DeviceTensor* key = nullptr;
  DeviceTensor* value = nullptr;
  DeviceTensor* indices = nullptr;
  DeviceTensor* block_table = nullptr;  // forward
  DeviceTensor* query_lengths = nullptr;
  DeviceTensor* key_lengths = nullptr;
  DeviceTensor* query_rope = nullptr;
  DeviceTensor* key_rope = nullptr;
  DeviceTensor* out = nullptr;
  DeviceTensor* row_max = nullptr;
  DeviceTensor* row_sum = nullptr;

 protected:
  // A query row and head with what it lists, in order.
  struct Row {
    int64_t row, head, sequence_keys;
    std::vector<int64_t> keys;  // tensor rows
    std::vector<double> scores;
  };
  // Its answer; zeros without keys and sink.
  struct Answer {
    double max = 0, sum = 0;
    std::vector<double> out;
  };

  SparseFixture(std::string_view name, int version, const SparseCase& c);

  Form FormOf(aclDataType type, std::vector<int64_t> dims) const;
  std::vector<int64_t> QueryDims(int64_t heads, int64_t channels) const;
  std::vector<int64_t> KeyDims(int64_t channels) const;
  std::vector<int64_t> StatisticDims() const;
  DeviceTensor* Numbers(std::vector<int64_t> dims, Random& random);
  char* Text(std::string_view text);  // terminated, and ours

  // Query, key, value, ropes and lengths, then pages and lists.
  void MakeInputs(Random& random);
  std::vector<Row> Rows() const;  // of all sequences and heads
  Answer Attend(const Row& row, double sink = Softmax::kUnseen) const;
  const DeviceTensor& ValueRows() const { return value ? *value : *key; }

 private:
  // Tensor rows, counted over all sequences; keys in pages begin nowhere.
  struct Sequence {
    int64_t number = 0;
    int64_t query = 0, queries = 0;
    int64_t key = 0, keys = 0;
  };

  int64_t Pages() const;
  DeviceTensor* Lengths(aclDataType type, const std::vector<int64_t>& from);
  void MakePages(Random& random);
  void MakeLists(Random& random);
  std::vector<Sequence> Sequences() const;
  std::vector<int64_t> Listed(const Sequence& sequence, int64_t i) const;

  std::vector<std::vector<char>> texts_;
};

// Rows of channels lie one after the other in order of the shape.
double Dot(const DeviceTensor& a, int64_t row_a, const DeviceTensor& b,
           int64_t row_b);

// aclnnSparseFlashAttention and V2.
class SparseForwardCall : public SparseFixture {
 public:
  explicit SparseForwardCall(const SparseCase& c = {}, uint64_t seed = 1);

  // Run, and compare with the definition.
  void ExpectAsDocumented();

  DeviceTensor* sinks = nullptr;
  char* query_layout = nullptr;
  char* key_layout = nullptr;
  int64_t pre_tokens = std::numeric_limits<int64_t>::max();
  int64_t next_tokens = std::numeric_limits<int64_t>::max();
  int64_t attention_mode = 2;

 private:
  Parameters Pass() override;
};

// Gradients in order of their shapes, and the size of what was summed.
struct SparseGradients {
  std::vector<double> query, key, value, query_rope, key_rope;
  double scale = 0;
};

// aclnnSparseFlashAttentionGrad.
class SparseBackwardCall : public SparseFixture {
 public:
  explicit SparseBackwardCall(const SparseCase& c = {}, uint64_t seed = 1);

  // Run, and compare with Expected.
  void ExpectAsDocumented();

  SparseGradients Expected() const;

  DeviceTensor* grad_out = nullptr;
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
  void MakeForward(Random& random);
  void AddGradients(const Row& row, SparseGradients& sums) const;
};

}  // namespace flashacl::testing
