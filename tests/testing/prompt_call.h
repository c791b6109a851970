// SPDX-License-Identifier: Apache-2.0
// Calls of aclnnPromptFlashAttention from a few words, and what the document
// says the answer is: plain loops over the caller's layout, in fp64.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "aclnnop/aclnn_prompt_flash_attention.h"
#include "base/random.h"
#include "tests/testing/call.h"

namespace flashacl::testing {

enum class PromptMask : uint8_t { kNone, k2, k13, kB3, k114, kB14 };

// Shapes and scalars of one call. For SH, rows and columns are of all
// sequences together.
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
};

std::string ToString(const PromptCase& c);
PromptCase RandomPromptCase(Random& random);

// Tensors full of numbers and the arguments that go with them, any of which a
// test may replace before it calls.
class PromptCall {
 public:
  explicit PromptCall(const PromptCase& c = {}, uint64_t seed = 1);

  aclnnStatus PhaseOne(uint64_t* size, aclOpExecutor** executor);
  bool Run();
  void ExpectFailure(aclnnStatus status, std::string_view words);
  // Run, and compare with Expected.
  void ExpectAsDocumented();

  // In order of attentionOut's shape.
  std::vector<double> Expected() const;

  PromptCase asked;
  Caller caller{aclnnPromptFlashAttention};
  DeviceTensor* query = nullptr;
  DeviceTensor* key = nullptr;
  DeviceTensor* value = nullptr;
  DeviceTensor* pse = nullptr;
  DeviceTensor* mask = nullptr;
  DeviceTensor* out = nullptr;
  const aclIntArray* lengths = nullptr;
  int64_t heads = 0;
  int64_t kv_heads = 0;
  int64_t pre_tokens = 0;
  int64_t next_tokens = 0;
  char* layout = nullptr;

 private:
  bool Sees(int64_t b, int64_t i, int64_t j) const;

  std::vector<char> layout_text_;
};

}  // namespace flashacl::testing
