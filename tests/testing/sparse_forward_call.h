// SPDX-License-Identifier: Apache-2.0
// Calls of aclnnSparseFlashAttention and V2 from a few words, and what the
// document says the answer is: plain loops in fp64.
#pragma once

#include <cstdint>
#include <limits>
#include <string>
#include <string_view>
#include <vector>

#include "base/random.h"
#include "tests/testing/call.h"

namespace flashacl::testing {

// Shapes and scalars of one call. Packed: rows, and columns unless they are in
// pages, are of all sequences together.
struct SparseForwardCase {
  int version = 1;
  aclDataType type = ACL_FLOAT16;
  bool packed = true;
  int64_t page_rows = 0;  // 0: no pages
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
  aclDataType length_type = ACL_INT32;
  // Packed: where each sequence ends. Else, and of keys in pages: how long it
  // is; empty: none passed.
  std::vector<int64_t> query_lengths = {3, 5};
  std::vector<int64_t> key_lengths = {4, 9};
  bool merged = false;     // no value
  bool statistics = true;  // returnSoftmaxLse
  bool sinks = false;
  bool spread = false;  // all tensors in memory with gaps

  bool paged() const { return page_rows > 0; }
};

std::string ToString(const SparseForwardCase& c);
SparseForwardCase RandomSparseForwardCase(Random& random);

// Results in order of their shapes.
struct SparseResults {
  std::vector<double> out, row_max, row_sum;
};

// Tensors full of numbers and the arguments that go with them, any of which a
// test may replace before it calls.
class SparseForwardCall : public OperatorFixture {
 public:
  using Case = SparseForwardCase;

  explicit SparseForwardCall(const SparseForwardCase& c = {},
                             uint64_t seed = 1);

  // Run, and compare with Expected.
  void ExpectAsDocumented();

  SparseResults Expected() const;

  SparseForwardCase asked;
  DeviceTensor* query = nullptr;
  DeviceTensor* key = nullptr;
  DeviceTensor* value = nullptr;
  DeviceTensor* indices = nullptr;
  DeviceTensor* block_table = nullptr;
  DeviceTensor* query_lengths = nullptr;
  DeviceTensor* key_lengths = nullptr;
  DeviceTensor* query_rope = nullptr;
  DeviceTensor* key_rope = nullptr;
  DeviceTensor* sinks = nullptr;
  DeviceTensor* out = nullptr;
  DeviceTensor* row_max = nullptr;  // inputs, never written, if not wanted
  DeviceTensor* row_sum = nullptr;
  char* query_layout = nullptr;
  char* key_layout = nullptr;
  int64_t pre_tokens = std::numeric_limits<int64_t>::max();
  int64_t next_tokens = std::numeric_limits<int64_t>::max();
  int64_t attention_mode = 2;

 private:
  Parameters Pass() override;
  // Tensor rows, counted over all sequences; keys in pages begin nowhere.
  struct Sequence {
    int64_t number = 0;
    int64_t query = 0, queries = 0;
    int64_t key = 0, keys = 0;
  };

  DeviceTensor* Numbers(std::vector<int64_t> dims, Random& random);
  DeviceTensor* LengthsOf(const std::vector<int64_t>& lengths);
  void MakePages(Random& random);
  void MakeLists(Random& random);
  void MakeResults(Random& random);
  std::vector<Sequence> Sequences() const;
  std::vector<int64_t> Listed(const Sequence& sequence, int64_t i) const;
  double Score(int64_t row_and_head, int64_t key_row) const;
  // Of row i and head h, into the results.
  void Attend(const Sequence& sequence, int64_t i, int64_t h,
              SparseResults& results) const;

  std::vector<char> query_text_;
  std::vector<char> key_text_;
};

}  // namespace flashacl::testing
