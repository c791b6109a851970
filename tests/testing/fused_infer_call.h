// SPDX-License-Identifier: Apache-2.0
// Calls of aclnnFusedInferAttentionScore, V2 to V5, from a few words, and what
// the document says the answer is: plain loops over the caller's layout, in
// fp64, with how far rounding may take each number from it.
#pragma once

#include <cstdint>
#include <vector>

#include "tests/testing/call.h"
#include "tests/testing/fused_infer_case.h"

namespace flashacl::testing {

// A number and how far from it one may be that was rounded on the way.
struct Near {
  double value = 0;
  double slack = 0;
};

// Tensors full of numbers and the arguments that go with them, any of which a
// test may replace before it calls. NaN stands where nothing may be read.
class FusedInferCall : public OperatorFixture {
 public:
  using Case = FusedInferCase;

  explicit FusedInferCall(const FusedInferCase& c = {}, uint64_t seed = 1);
  ~FusedInferCall() override;

  // Run, and compare both results with Expected.
  void ExpectAsDocumented();

  struct Results {
    std::vector<Near> out;  // in order of attentionOut's shape
    std::vector<Near> lse;  // in order of softmaxLse's
  };
  Results Expected() const;

  // Phase 1 of GetMaxWorkspaceSize.
  aclnnStatus MaxPhaseOne(uint64_t* size, aclOpExecutor** executor);

  FusedInferCase asked;
  DeviceTensor* query = nullptr;
  std::vector<DeviceTensor*> keys;
  std::vector<DeviceTensor*> values;
  bool null_keys = false;  // pass null lists
  bool null_values = false;
  const aclTensorList* other_keys = nullptr;  // in place of `keys`
  DeviceTensor* pse = nullptr;
  DeviceTensor* mask = nullptr;
  const aclIntArray* lengths = nullptr;
  const aclIntArray* kv_lengths = nullptr;
  DeviceTensor* deq_scale1 = nullptr;
  DeviceTensor* quant_scale1 = nullptr;
  DeviceTensor* deq_scale2 = nullptr;
  DeviceTensor* quant_scale2 = nullptr;
  DeviceTensor* quant_offset2 = nullptr;
  DeviceTensor* antiquant_scale = nullptr;
  DeviceTensor* antiquant_offset = nullptr;
  DeviceTensor* block_table = nullptr;
  DeviceTensor* query_padding = nullptr;
  DeviceTensor* kv_padding = nullptr;
  DeviceTensor* key_scale = nullptr;
  DeviceTensor* key_offset = nullptr;
  DeviceTensor* value_scale = nullptr;
  DeviceTensor* value_offset = nullptr;
  DeviceTensor* key_prefix = nullptr;
  DeviceTensor* value_prefix = nullptr;
  const aclIntArray* prefix_length = nullptr;
  DeviceTensor* query_rope = nullptr;
  DeviceTensor* key_rope = nullptr;
  DeviceTensor* key_rope_scale = nullptr;
  DeviceTensor* query_scale = nullptr;
  DeviceTensor* sink = nullptr;
  const aclIntArray* query_start = nullptr;
  const aclIntArray* kv_start = nullptr;
  int64_t heads = 0;
  double scale = 0;
  int64_t pre_tokens = 0;
  int64_t next_tokens = 0;
  char* layout = nullptr;
  int64_t kv_heads = 0;
  int64_t sparse_mode = 0;
  int64_t inner_precise = 0;
  int64_t block_size = 0;
  int64_t antiquant_mode = 0;
  int64_t lse_flag = 0;
  int64_t key_mode = 0;
  int64_t value_mode = 0;
  int64_t query_mode = 0;
  int64_t pse_type = 0;
  DeviceTensor* out = nullptr;
  DeviceTensor* lse = nullptr;

 private:
  enum Side { kKey, kValue, kRope };

  // Element `n` of a tensor; of INT4, the `nibble` of that word. No tensor: the
  // page is missing.
  struct Spot {
    DeviceTensor* tensor = nullptr;
    int64_t n = 0;
    int64_t nibble = -1;
  };
  // Rows of keys or values as numbers, and the size of what was added up.
  struct Rows {
    int64_t width = 0;
    std::vector<double> x, size, scale;
    std::vector<bool> missing;
  };
  // One row of the result.
  struct Row {
    bool seen = false;
    std::vector<Near> out;
    Near lse;
  };

  Parameters Pass() override;
  const aclTensorList* ListOf(const std::vector<DeviceTensor*>& members);
  void MakeQuery(Random& random);
  void MakeKeys(Random& random);
  void MakeTable(Random& random);
  void MakePrefix(Random& random);
  void MakeGrids(Random& random);
  void MakeKeyScales(Random& random);
  void MakeLatentScales(Random& random);
  void MakeOtherScales(Random& random);
  void FillRows(Side side, Random& random);
  DeviceTensor* NewSmall(Random& random, aclDataType type,
                         std::vector<int64_t> dims, double low, double high);

  int64_t WidthOf(Side side) const;
  aclDataType KeyType(Side side) const;
  std::vector<int64_t> KeyDims(Side side, int64_t member) const;
  int64_t PageOf(int64_t b, int64_t t) const;  // -1: missing
  Spot SpotOf(Side side, int64_t b, int64_t t, int64_t g, int64_t c) const;
  Spot PrefixSpot(Side side, int64_t u, int64_t g, int64_t c) const;
  static double NumberAt(const Spot& spot);
  int64_t QueryScaleSpot(int64_t b, int64_t row, int64_t h) const;
  int64_t ScaleSpot(const DeviceTensor& tensor, int64_t mode, int64_t b,
                    int64_t t, int64_t g, int64_t c) const;
  double Factor(Side side, bool offset, int64_t b, int64_t t, int64_t g,
                int64_t c) const;
  void BlankUnused(DeviceTensor* tensor, int64_t mode, int64_t parts);
  Rows RowsOf(Side side, int64_t b, int64_t g) const;

  bool Sees(int64_t b, const FusedInferCase::Extent& extent, int64_t i,
            int64_t u) const;
  bool MaskHides(int64_t b, const FusedInferCase::Extent& extent, int64_t i,
                 int64_t u) const;
  // The score of column u for that row of numbers; the slack is its error.
  Near Score(int64_t b, const FusedInferCase::Extent& extent, int64_t h,
             int64_t i, int64_t u, const std::vector<double>& q,
             const Rows& key) const;
  Near Weight(double weight, double error) const;
  std::vector<double> QueryRow(int64_t b, int64_t row, int64_t h) const;
  Row Attend(int64_t b, const FusedInferCase::Extent& extent, int64_t h,
             int64_t i, const Rows& key, const Rows& value) const;
  Near Quantised(const Near& x, int64_t channel) const;

  std::vector<char> layout_text_;
  std::vector<const aclTensorList*> lists_;  // of ACL_INT4, and its tensors
};

}  // namespace flashacl::testing
