// SPDX-License-Identifier: Apache-2.0
// Calls of aclnnIncreFlashAttention, V2, V3 and V4 from a few words, and what
// the document says the answer is: plain loops over the caller's layout, in
// fp64.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "base/random.h"
#include "tests/testing/call.h"

namespace flashacl::testing {

// Where keys and values are.
enum class DecodeKeys : uint8_t {
  kSingle,
  kList,
  kBlocksOfRows,   // [block, row, head * channel]
  kBlocksOfHeads,  // [block, head, row, channel]
};

// In the order of the documents; per channel are all but kNone and kTensor.
// N is the heads' axis, D the channels', H both.
enum class Scales : uint8_t { kNone, kTensor, kN1D, k1ND, kND, kH };

struct DecodeCase {
  aclDataType type = ACL_FLOAT16;
  std::string layout = "BNSD";
  DecodeKeys keys = DecodeKeys::kSingle;
  int64_t sequences = 2;
  int64_t heads = 4;
  int64_t kv_heads = 2;
  int64_t columns = 7;  // with blocks: of a sequence, a multiple of block_size
  int64_t dim = 16;
  int64_t block_size = 0;
  double scale = 0.25;
  int64_t inner_precise = 1;
  std::vector<int64_t> lengths = {};      // empty: none passed
  std::vector<int64_t> own_columns = {};  // kList: of each sequence

  size_t mask_rank = 0;  // 2, 3 or 4; 0: none
  aclDataType mask_type = ACL_BOOL;
  int64_t pse_sequences = 0;  // 1 or as many as there are; 0: none
  int64_t more_columns = 0;   // of mask and pse, which nobody looks at
  Scales key_scales = Scales::kNone;
  bool key_offset = false;
  Scales out_scales = Scales::kNone;
  bool out_offset = false;
  aclDataType out_scale_type = ACL_FLOAT;
  std::optional<int64_t> padding = {};
  bool spread = false;  // rows, keys and grids in memory with gaps
  int version = 4;      // what it lacks must be absent, or is ignored: pse

  bool paged() const { return keys >= DecodeKeys::kBlocksOfRows; }
};

std::string ToString(const DecodeCase& c);
DecodeCase RandomDecodeCase(Random& random);  // of the last version
DecodeCase RandomEarlierDecodeCase(Random& random);

// Tensors full of numbers and the arguments that go with them, any of which a
// test may replace before it calls.
class DecodeCall : public OperatorFixture {
 public:
  using Case = DecodeCase;

  explicit DecodeCall(const DecodeCase& c = {}, uint64_t seed = 1);

  // Run, and compare with Expected.
  void ExpectAsDocumented();

  // In order of attentionOut's shape; INT8 before rounding.
  std::vector<double> Expected() const;

  DecodeCase asked;
  DeviceTensor* query = nullptr;
  std::vector<DeviceTensor*> keys;
  std::vector<DeviceTensor*> values;
  bool null_keys = false;  // pass null lists
  bool null_values = false;
  DeviceTensor* pse = nullptr;
  DeviceTensor* mask = nullptr;
  DeviceTensor* dequant_scale1 = nullptr;
  DeviceTensor* quant_scale1 = nullptr;
  DeviceTensor* dequant_scale2 = nullptr;
  DeviceTensor* quant_scale2 = nullptr;
  DeviceTensor* quant_offset2 = nullptr;
  DeviceTensor* antiquant_scale = nullptr;
  DeviceTensor* antiquant_offset = nullptr;
  DeviceTensor* block_table = nullptr;
  DeviceTensor* padding = nullptr;
  DeviceTensor* out = nullptr;
  const aclIntArray* lengths = nullptr;
  int64_t heads = 0;
  int64_t kv_heads = 0;
  int64_t block_size = 0;
  int64_t inner_precise = 0;
  char* layout = nullptr;

 private:
  Parameters Pass() override;
  void MakeKeys(Random& random);
  void MakeGrids(Random& random);
  void MakeScales(Random& random);

  int64_t ColumnsOf(int64_t b) const;
  double RowElement(const std::vector<DeviceTensor*>& from, int64_t b,
                    int64_t j, int64_t g, int64_t d) const;
  std::pair<int64_t, int64_t> KeysOf(int64_t b) const;
  double Scale(int64_t index, int64_t channel) const;
  int64_t FactorsOf() const;
  double Decoded(int64_t index, int64_t b, int64_t j, int64_t g,
                 int64_t d) const;
  std::vector<double> Attend(int64_t b, int64_t h) const;
  bool fast() const { return asked.version < 3 || inner_precise % 2 == 1; }
  // What results may err by where queries and probs are integers of 16 bits, in
  // the order of Expected.
  std::vector<double> Int16Errors() const;
  double Int16Error(int64_t b, int64_t h) const;

  std::vector<char> layout_text_;
};

}  // namespace flashacl::testing
