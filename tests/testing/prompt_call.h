// SPDX-License-Identifier: Apache-2.0
// Calls of aclnnPromptFlashAttention and its later versions from a few words,
// and what the document says the answer is: plain loops over the caller's
// layout, in fp64.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "base/random.h"
#include "tests/testing/call.h"

namespace flashacl::testing {

enum class PromptMask : uint8_t {
  kNone,
  k2,
  k13,
  kB3,
  k114,
  kB14,
  kSquare,  // the compressed one of sparse modes 2 to 4
};

// Shapes and scalars of one call. For SH, TND and NTD, rows and columns are of
// all sequences together; for the last two, lengths are ends.
struct PromptCase {
  aclDataType type = ACL_FLOAT16;
  std::string layout = "BNSD";
  int64_t sequences = 2;
  int64_t heads = 4;
  int64_t kv_heads = 2;
  int64_t rows = 3;
  int64_t columns = 5;
  int64_t dim = 16;
  int64_t v_dim = 16;
  PromptMask mask = PromptMask::kNone;
  aclDataType mask_type = ACL_BOOL;
  int64_t more_rows = 0;  // of the mask, which nobody looks at
  int64_t more_columns = 0;
  int64_t pre_tokens = 2147483647;
  int64_t next_tokens = 0;
  double scale = 0.25;
  std::vector<int64_t> lengths = {};  // empty: none passed
  bool spread = false;                // all tensors in memory with gaps

  // Of versions 2 and 3.
  int version = 1;
  std::vector<int64_t> kv_lengths = {};
  int64_t sparse_mode = 0;
  int64_t inner_precise = 1;
  int64_t pse_sequences = 0;  // 1 or as many as there are; 0: none
  bool int8 = false;          // query, key and value; `type` is the result's
  bool whole_scales = false;  // deqScale1 and deqScale2 as UINT64
  int64_t out_scales = 0;     // 1, or one per channel; 0: no INT8 result
  bool out_offset = false;

  bool ends() const { return layout == "TND" || layout == "NTD"; }
  bool packed() const { return layout == "SH" || ends(); }
};

// How long sequences are that end there.
std::vector<int64_t> LengthsOf(const std::vector<int64_t>& ends);

std::string ToString(const PromptCase& c);
PromptCase RandomPromptCase(Random& random);  // of version 1
PromptCase RandomLaterPromptCase(Random& random);

// Tensors full of numbers and the arguments that go with them, any of which a
// test may replace before it calls.
class PromptCall : public OperatorFixture {
 public:
  using Case = PromptCase;

  explicit PromptCall(const PromptCase& c = {}, uint64_t seed = 1);

  // Run, and compare with Expected.
  void ExpectAsDocumented();

  // In order of attentionOut's shape.
  std::vector<double> Expected() const;

  PromptCase asked;
  DeviceTensor* query = nullptr;
  DeviceTensor* key = nullptr;
  DeviceTensor* value = nullptr;
  DeviceTensor* pse = nullptr;
  DeviceTensor* mask = nullptr;
  DeviceTensor* deq_scale1 = nullptr;
  DeviceTensor* quant_scale1 = nullptr;
  DeviceTensor* deq_scale2 = nullptr;
  DeviceTensor* quant_scale2 = nullptr;
  DeviceTensor* quant_offset2 = nullptr;
  DeviceTensor* out = nullptr;
  const aclIntArray* lengths = nullptr;
  const aclIntArray* kv_lengths = nullptr;
  int64_t heads = 0;
  int64_t kv_heads = 0;
  int64_t pre_tokens = 0;
  int64_t next_tokens = 0;
  char* layout = nullptr;

  int64_t sparse_mode = 0;
  int64_t inner_precise = 0;

 private:
  Parameters Pass() override;
  // Where a sequence is on the axes of rows.
  struct Extent {
    int64_t row, rows, column, columns;
  };
  Extent ExtentOf(int64_t b) const;
  void MakeScales(Random& random);
  bool Sees(int64_t b, const Extent& extent, int64_t i, int64_t j) const;
  std::vector<double> Attend(int64_t b, const Extent& extent, int64_t h,
                             int64_t i) const;
  double Quantised(double x, int64_t channel) const;

  std::vector<char> layout_text_;
};

}  // namespace flashacl::testing
