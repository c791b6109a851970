// SPDX-License-Identifier: Apache-2.0
// Every law of a problem has a problem that breaks it, and a message.
#include "problem/attention_problem.h"

#include <gtest/gtest.h>

#include <cmath>
#include <string>
#include <string_view>

#include "problem/notation.h"

namespace flashacl {
namespace {

// A line, what is done to its problem, and how the message begins.
struct Breach {
  const char* line;
  void (*change)(AttentionProblem& p);
  Code code;
  const char* message;
};

constexpr char kDense[] = "fwd f16 h=4/2 d=8+2/6 q=3,4 k=5,6 stats";
constexpr char kPages[] = "fwd f16 h=4/2 d=8 q=3,4 k=5,6 paged:4 int8:channel";
constexpr char kInt8[] = "fwd i8 h=4/2 d=8 q=3,4 k=5,6 int8:tensor+offset";
constexpr char kBytes[] =
    "fwd f16 h=4/2 d=8+2 q=3,4 k=5,6 int8:channel query:int8";
constexpr char kBlocks[] = "fwd f16 h=4/2 d=8 q=3,4 k=5,6 paged:4 blocks:4";
constexpr char kRows[] = "fwd f16 h=4/2 d=8 q=3,4 k=5,6 int8:row-head+offset";
constexpr char kPrefix[] = "fwd f16 h=4/2 d=8 q=3,4 k=5,6 prefix:7 mask";
constexpr char kLists[] = "fwd f16 h=4/2 d=8 q=3,4 k=5,6 list";
constexpr char kTopK[] = "bwd f16 h=4/2 d=8 q=3,4 k=5,6 topk:2 shared sink";
constexpr char kScores[] = "fwd f16 h=4/2 d=8 q=3,4 k=5,6 mask bias keep:0.5";
constexpr char kDiagonal[] = "fwd f16 h=2 d=8 q=9 k=9 causal bias:diagonal:3";
constexpr char kCounts[] = "fwd f16 h=2 d=8 q=9 k=9 counts:qk padding";
constexpr char kBackward[] = "bwd f16 h=4/2 d=8 q=3,4 k=5,6 alibi grad:qkvb";

const Breach kBreaches[] = {
    // Heads and dims.
    {kDense, [](auto& p) { p.heads = 0; }, Code::kInvalidArgument,
     "heads: 0, expected at least 1"},
    {kDense, [](auto& p) { p.kv_heads = 3; }, Code::kInvalidArgument,
     "heads: 4 query heads cannot share 3 kv heads evenly"},
    {kDense, [](auto& p) { p.kv_heads = -2; }, Code::kInvalidArgument,
     "heads: 4 query heads cannot share -2 kv heads evenly"},
    {kDense, [](auto& p) { p.v_dim = -1; }, Code::kInvalidArgument,
     "dims: qk 8, rope 2, v -1"},
    // Lengths.
    {kDense, [](auto& p) { p.lengths.sequences[1].keys.last = 4; },
     Code::kInvalidArgument, "lengths: sequence 1 has queries [3, 7) and keys"},
    {kDense, [](auto& p) { p.lengths.sequences[0].queries.first = -1; },
     Code::kInvalidArgument, "lengths: sequence 0 has queries [-1, 3)"},
    {kDense, [](auto& p) { p.lengths.sequences[1].queries.first = 2; },
     Code::kInvalidArgument, "lengths: queries of sequence 1 begin at 2"},
    {kBackward, [](auto& p) { p.lengths.sequences[1].keys.first = 4; },
     Code::kInvalidArgument, "lengths: keys of sequence 1 begin at 4"},
    {kDense, [](auto& p) { p.lengths.sequences[1].queries.last = 8; },
     Code::kInvalidArgument, "query: 7 rows, but sequences end at row 8"},
    {kDense, [](auto& p) { p.lengths.sequences[1].keys.last = 12; },
     Code::kInvalidArgument, "key: 11 rows, but sequences end at row 12"},
    // Specs.
    {kDense, [](auto& p) { p[Slot::kQuery].dims[1] = -7; },
     Code::kInvalidArgument, "query: second extent is -7"},
    {kDense, [](auto& p) { p[Slot::kValue].strides[2] = -6; },
     Code::kInvalidArgument, "value: third stride is -6"},
    {kDense, [](auto& p) { p[Slot::kKey].strides[1] = int64_t{1} << 60; },
     Code::kInvalidArgument, "key: extents and strides span more than 2^59"},
    {kDense, [](auto& p) { p[Slot::kKey].dims[1] = int64_t{1} << 62; },
     Code::kInvalidArgument, "key: extents and strides span more than 2^59"},
    {kDense, [](auto& p) { p[Slot::kQuery].placement = Placement::kBlocks; },
     Code::kInvalidArgument, "query: only scores and rows may be placed"},
    {kLists, [](auto& p) { p.kv.key_list[1].dims[0] = -1; },
     Code::kInvalidArgument, "key: first extent is -1"},
    {kBlocks, [](auto& p) { p[Slot::kQuery].channel_block = 4; },
     Code::kContradiction, "query: channels in blocks, expected keys or"},
    {kBlocks, [](auto& p) { p[Slot::kKey].channel_block = -4; },
     Code::kInvalidArgument, "key: blocks of -4 channels, 16 elements apart"},
    {kBlocks, [](auto& p) { p[Slot::kValue].channel_block = 0; },
     Code::kInvalidArgument, "value: blocks of 0 channels, 16 elements apart"},
    {kBlocks, [](auto& p) { p[Slot::kValue].block_stride = -1; },
     Code::kInvalidArgument, "value: blocks of 4 channels, -1 elements apart"},
    {kBlocks, [](auto& p) { p[Slot::kKey].block_stride = int64_t{1} << 59; },
     Code::kInvalidArgument, "key: extents and strides span more than 2^59"},
    // A shared prefix.
    {kPrefix, [](auto& p) { p.lengths.sequences[1].prefix = 3; },
     Code::kInvalidArgument, "lengths: sequence 1 has a prefix of 3 keys, exp"},
    {kPrefix, [](auto& p) { p[Slot::kKeyPrefix] = {}; }, Code::kNullArgument,
     "key prefix: missing"},
    {kPrefix, [](auto& p) { p[Slot::kValuePrefix] = {}; }, Code::kNullArgument,
     "value prefix: missing"},
    {kPrefix, [](auto& p) { p[Slot::kKeyPrefix].dims[1] = 6; },
     Code::kInvalidArgument, "key prefix: 6 rows, but sequences end at row 7"},
    {kPrefix, [](auto& p) { p[Slot::kValuePrefix].dims[3] = 7; },
     Code::kInvalidArgument, "value prefix: fourth extent is 7, expected 8"},
    {kPrefix, [](auto& p) { p[Slot::kKeyPrefix].dtype = DType::kF32; },
     Code::kInvalidArgument, "key prefix: dtype f32, expected f16 as the key"},
    {kPrefix, [](auto& p) { p[Slot::kMask].dims[3] = 12; },
     Code::kInvalidArgument, "mask: fourth extent is 12, but 13 are needed"},
    {kDense, [](auto& p) { p[Slot::kKeyPrefix] = p[Slot::kKey]; },
     Code::kContradiction, "key prefix: given, but sequences have no prefix"},
    // Scales by row.
    {kRows, [](auto& p) { p[Slot::kKeyRowScale] = {}; }, Code::kNullArgument,
     "key scale: missing"},
    {kRows,
     [](auto& p) {
       p[Slot::kKeyScale] = DenseSpec(DType::kF32, {2, 8, 1, 1});
     },
     Code::kContradiction, "key scale: given, but there are scales by row"},
    {kRows,
     [](auto& p) {
       p[Slot::kValueOffset] = DenseSpec(DType::kF32, {2, 8, 1, 1});
     },
     Code::kContradiction, "value offset: given, but there are scales by row"},
    {kDense,
     [](auto& p) {
       p[Slot::kKeyRowOffset] = DenseSpec(DType::kF32, {2, 6, 2, 1});
     },
     Code::kContradiction, "key row offset: given, but there is no scale"},
    {kDense,
     [](auto& p) {
       p[Slot::kKeyRowScale] = DenseSpec(DType::kF32, {2, 6, 2, 1});
     },
     Code::kContradiction, "key row scale: given, but what it scales is not"},
    {kRows, [](auto& p) { p[Slot::kKeyRowScale].dtype = DType::kF16; },
     Code::kInvalidArgument, "key row scale: dtype f16 is not one"},
    {kRows, [](auto& p) { p[Slot::kKeyRowScale].dims[0] = 1; },
     Code::kInvalidArgument, "key row scale: first extent is 1, but 2"},
    {kRows, [](auto& p) { p[Slot::kValueRowOffset].dims[1] = 5; },
     Code::kInvalidArgument, "value row offset: second extent is 5, but 6"},
    {kRows,
     [](auto& p) { p[Slot::kKeyRowScale].placement = Placement::kTensorRows; },
     Code::kInvalidArgument, "key row scale: second extent is 6, but 11"},
    {kRows,
     [](auto& p) { p[Slot::kKeyRowScale].placement = Placement::kDiagonal; },
     Code::kInvalidArgument, "key row scale: only scores and rows may be"},
    {kRows, [](auto& p) { p[Slot::kKeyRowScale].dims[2] = 1; },
     Code::kInvalidArgument, "key row scale: third extent is 1, but 2"},
    {kRows, [](auto& p) { p.kv.row_scales_in_pages = true; },
     Code::kContradiction, "row scales: in pages, but keys are not"},
    // Presence, dims and dtypes of rows.
    {kDense, [](auto& p) { p[Slot::kQuery] = {}; }, Code::kNullArgument,
     "query: missing"},
    {kDense, [](auto& p) { p[Slot::kKey] = {}; }, Code::kNullArgument,
     "key: missing"},
    {kDense, [](auto& p) { p[Slot::kValue] = {}; }, Code::kNullArgument,
     "value: missing"},
    {kDense, [](auto& p) { p[Slot::kOut] = {}; }, Code::kNullArgument,
     "out: missing"},
    {kDense, [](auto& p) { p[Slot::kKeyRope] = {}; }, Code::kNullArgument,
     "key rope: missing"},
    {kDense, [](auto& p) { p.rope_dim = 0; }, Code::kContradiction,
     "query rope: given, but rope has no channels"},
    {kDense, [](auto& p) { p.qk_dim = 9; }, Code::kInvalidArgument,
     "query: fourth extent is 8, expected 9"},
    {kDense, [](auto& p) { p[Slot::kValue].dims[3] = 8; },
     Code::kInvalidArgument, "value: fourth extent is 8, expected 6"},
    {kDense, [](auto& p) { p[Slot::kKey].dims[2] = 4; }, Code::kInvalidArgument,
     "key: third extent is 4, expected 2"},
    {kDense, [](auto& p) { p[Slot::kQuery].dtype = DType::kI8; },
     Code::kNullArgument, "weight scale: missing"},
    {kDense, [](auto& p) { p[Slot::kQuery].dtype = DType::kU8; },
     Code::kInvalidArgument, "query: dtype u8 is not one this tensor may have"},
    {kInt8, [](auto& p) { p[Slot::kWeightScale] = {}; }, Code::kNullArgument,
     "weight scale: missing"},
    {kInt8, [](auto& p) { p[Slot::kWeightScale].dtype = DType::kI8; },
     Code::kInvalidArgument, "weight scale: dtype i8 is not one"},
    {kInt8, [](auto& p) { p[Slot::kKeyScale] = {}; }, Code::kNullArgument,
     "key scale: missing"},
    {kInt8, [](auto& p) { p[Slot::kKeyOffset].dtype = DType::kU64; },
     Code::kInvalidArgument, "key offset: dtype u64 is not one"},
    {kBytes, [](auto& p) { p[Slot::kQueryRowScale] = {}; }, Code::kNullArgument,
     "weight scale: missing"},
    {kBytes, [](auto& p) { p[Slot::kWeightScale] = p[Slot::kKeyScale]; },
     Code::kContradiction, "weight scale: given, but the query has scales by"},
    {kBytes, [](auto& p) { p[Slot::kQueryRowScale].dtype = DType::kF16; },
     Code::kInvalidArgument, "query row scale: dtype f16 is not one"},
    {kBytes, [](auto& p) { p[Slot::kQueryRowScale].dims[1] = 6; },
     Code::kInvalidArgument, "query row scale: 6 rows, but sequences end at"},
    {kBytes, [](auto& p) { p[Slot::kQueryRowScale].dims[2] = 2; },
     Code::kInvalidArgument, "query row scale: third extent is 2, expected 4"},
    {kBytes, [](auto& p) { p[Slot::kQueryRowScale].dims[3] = 8; },
     Code::kInvalidArgument, "query row scale: fourth extent is 8, expected 1"},
    {kBytes, [](auto& p) { p[Slot::kQuery].dtype = DType::kF16; },
     Code::kContradiction, "query row scale: given, but the query is not i8"},
    {kBytes, [](auto& p) { p[Slot::kKeyRope].dtype = DType::kBf16; },
     Code::kInvalidArgument, "key rope: dtype bf16, expected f16 as the query"},
    {kBytes, [](auto& p) { p[Slot::kQueryRope].dtype = DType::kI8; },
     Code::kInvalidArgument, "query rope: dtype i8 is not one"},
    {kPages, [](auto& p) { p[Slot::kWeightScale] = p[Slot::kKeyScale]; },
     Code::kContradiction, "weight scale: given, but the query is not i8"},
    {kPages, [](auto& p) { p[Slot::kKeyScale].dtype = DType::kU64; },
     Code::kInvalidArgument, "key scale: dtype u64 is not one"},
    {kDense, [](auto& p) { p[Slot::kKey].dtype = DType::kBf16; },
     Code::kInvalidArgument,
     "key: dtype bf16, expected f16 as the query or i8"},
    {kDense, [](auto& p) { p[Slot::kValue].dtype = DType::kF32; },
     Code::kInvalidArgument, "value: dtype f32, expected f16 as the key"},
    {kDense, [](auto& p) { p[Slot::kKeyRope].dtype = DType::kF32; },
     Code::kInvalidArgument, "key rope: dtype f32, expected f16 as the query"},
    {kDense, [](auto& p) { p[Slot::kOut].dtype = DType::kU8; },
     Code::kInvalidArgument, "out: dtype u8 is not one"},
    {kDense, [](auto& p) { p[Slot::kOut].strides[2] = 0; },
     Code::kInvalidArgument, "out: third stride is 0, but results do not"},
    {kDense,
     [](auto& p) {
       p[Slot::kQuery].strides[0] = 1;
       p[Slot::kQuery].dims[0] = 1;
     },
     Code::kInvalidArgument, "query: first extent is 1, but 2 are needed"},
    // Row max and sum.
    {kDense, [](auto& p) { p[Slot::kRowMax].dtype = DType::kF16; },
     Code::kInvalidArgument, "row max: dtype f16 is not one"},
    {kDense, [](auto& p) { p[Slot::kRowSum].dims[3] = 0; },
     Code::kInvalidArgument, "row sum: 0 lanes, expected at least 1"},
    {kDense, [](auto& p) { p[Slot::kRowSum].dims[2] = 6; },
     Code::kInvalidArgument, "row sum: third extent is 6, but 7 are needed"},
    {kDense, [](auto& p) { p[Slot::kRowMax].placement = Placement::kDiagonal; },
     Code::kInvalidArgument, "row max: has rows and lanes, no columns"},
    {kDense, [](auto& p) { p[Slot::kRowMax].strides[1] = 0; },
     Code::kInvalidArgument, "row max: second stride is 0, but results"},
    // Where keys are.
    {kPages, [](auto& p) { p.kv.page_rows = 0; }, Code::kInvalidArgument,
     "page rows: 0, expected at least 1"},
    {kPages, [](auto& p) { p.kv.page_rows = 5; }, Code::kInvalidArgument,
     "key: 4 rows, but sequences end at row 5"},
    {kPages, [](auto& p) { p[Slot::kBlockTable].dims[1] = 1; },
     Code::kInvalidArgument,
     "block table: 1 pages of 4 rows per sequence, but 6 keys need 2"},
    {kPages, [](auto& p) { p[Slot::kBlockTable].dims[0] = 1; },
     Code::kInvalidArgument, "block table: first extent is 1, but 2"},
    {kPages, [](auto& p) { p[Slot::kBlockTable].dtype = DType::kI64; },
     Code::kInvalidArgument, "block table: dtype i64 is not one"},
    {kPages, [](auto& p) { p[Slot::kBlockTable] = {}; }, Code::kNullArgument,
     "block table: missing"},
    {kPages, [](auto& p) { p.kv.rows = KvSource::Rows::kStrided; },
     Code::kInvalidArgument, "key: 4 rows, but sequences end at row 6"},
    {kDense,
     [](auto& p) {
       p[Slot::kBlockTable] = DenseSpec(DType::kI32, {2, 2, 1, 1});
     },
     Code::kContradiction, "block table: given, but keys are not paged"},
    {kLists, [](auto& p) { p.kv.key_list.pop_back(); }, Code::kInvalidArgument,
     "key: 1 tensors in the list, expected 2"},
    {kLists, [](auto& p) { p.kv.value_list[0].dtype = DType::kF32; },
     Code::kInvalidArgument, "value: tensor 0 of the list is f32"},
    {kLists, [](auto& p) { p.kv.value_list[1].dims[1] = 5; },
     Code::kInvalidArgument, "value: 5 rows, but sequences end at row 6"},
    {kDense, [](auto& p) { p.kv.key_list.push_back({}); },
     Code::kInvalidArgument, "key: 1 tensors in the list, expected 0"},
    {kTopK, [](auto& p) { p.kv.gather_rows = 0; }, Code::kInvalidArgument,
     "gather rows: 0, expected at least 1"},
    {kTopK, [](auto& p) { p[Slot::kTopK].dtype = DType::kU64; },
     Code::kInvalidArgument, "top-k: dtype u64 is not one"},
    {kTopK, [](auto& p) { p[Slot::kTopK].dims[1] = 6; }, Code::kInvalidArgument,
     "top-k: second extent is 6, but 7 are needed"},
    {kTopK, [](auto& p) { p[Slot::kTopK].dims[2] = 1; }, Code::kInvalidArgument,
     "top-k: third extent is 1, but 2 are needed"},
    {kTopK, [](auto& p) { p[Slot::kValue] = p[Slot::kKey]; },
     Code::kContradiction, "value: given, but value is key"},
    {kTopK, [](auto& p) { p.v_dim = 9; }, Code::kContradiction,
     "value is key: 9 channels of value in 8 of key"},
    {"fwd f16 h=1 d=8+4 q=3 k=5 shared", [](auto& p) { p.v_dim = 9; },
     Code::kContradiction, "value is key: 9 channels of value in 8 of key"},
    // Encodings.
    {kPages, [](auto& p) { p[Slot::kKeyScale] = {}; }, Code::kNullArgument,
     "key scale: missing"},
    {kPages, [](auto& p) { p[Slot::kValueScale].dims[1] = 7; },
     Code::kInvalidArgument, "value scale: second extent is 7, but 8"},
    {kPages, [](auto& p) { p[Slot::kValueScale].dtype = DType::kI32; },
     Code::kInvalidArgument, "value scale: dtype i32 is not one"},
    {kDense,
     [](auto& p) {
       p[Slot::kKeyOffset] = DenseSpec(DType::kF32, {2, 8, 1, 1});
     },
     Code::kContradiction, "key offset: given, but what it scales is not i8"},
    {kDense, [](auto& p) { p[Slot::kOut].dtype = DType::kI8; },
     Code::kNullArgument, "out scale: missing"},
    {kDense, [](auto& p) { p[Slot::kOut].dtype = DType::kI4x8; },
     Code::kInvalidArgument, "out: dtype i4x8 is not one"},
    {kDense, [](auto& p) { p[Slot::kQuery].dtype = DType::kI4x8; },
     Code::kInvalidArgument, "query: dtype i4x8 is not one"},
    {"fwd f16 h=1 d=8+8 q=3 k=5 int4:row",
     [](auto& p) { p[Slot::kKeyRope].dtype = DType::kI4x8; },
     Code::kInvalidArgument, "key rope: 8 words of 8 channels"},
    // Masks and scores.
    {kScores, [](auto& p) { p.mask.rules.resize(3); }, Code::kInvalidArgument,
     "mask: 3 rules for 2 sequences, expected 0, 1 or 2"},
    {"fwd f16 h=1 d=8 q=3,4,5 k=5,6,7", [](auto& p) { p.mask.rules.resize(2); },
     Code::kInvalidArgument,
     "mask: 2 rules for 3 sequences, expected 0, 1 or 3"},
    {kScores,
     [](auto& p) {
       p.mask.rules = {{{}, {.prefix = -1}}};
     },
     Code::kInvalidArgument, "mask: band -1099511627776 to 1099511627776"},
    {kScores, [](auto& p) { p[Slot::kMask].dtype = DType::kF16; },
     Code::kInvalidArgument, "mask: dtype f16 is not one"},
    {kScores, [](auto& p) { p[Slot::kMask].dims[3] = 5; },
     Code::kInvalidArgument, "mask: fourth extent is 5, but 6 are needed"},
    {kScores,
     [](auto& p) { p[Slot::kMask].placement = Placement::kTensorScores; },
     Code::kInvalidArgument, "mask: third extent is 4, but 7 are needed"},
    {kScores, [](auto& p) { p[Slot::kBias] = {}; }, Code::kNullArgument,
     "bias: missing"},
    {kScores, [](auto& p) { p.score.bias = Score::Bias::kNone; },
     Code::kContradiction, "bias: given, but the score has no bias"},
    {kScores, [](auto& p) { p[Slot::kBias].dims[1] = 3; },
     Code::kInvalidArgument, "bias: second extent is 3, expected 4"},
    {kScores, [](auto& p) { p[Slot::kBias].dims[2] = 3; },
     Code::kInvalidArgument, "bias: third extent of a block is 3, but 4"},
    {kScores, [](auto& p) { p[Slot::kBias].dims[2] = int64_t{1} << 62; },
     Code::kInvalidArgument, "bias: more than 2^59 elements"},
    {kScores, [](auto& p) { p[Slot::kKeep].dtype = DType::kBool; },
     Code::kInvalidArgument, "keep: dtype bool is not one"},
    {kScores, [](auto& p) { p[Slot::kKeep] = {}; }, Code::kContradiction,
     "keep probability: 0.5 without keep bits"},
    {kScores, [](auto& p) { p.score.keep_probability = 1.5f; },
     Code::kInvalidArgument, "keep probability: 1.5, expected more than 0"},
    {kScores, [](auto& p) { p.score.keep_probability = std::nanf(""); },
     Code::kInvalidArgument, "keep probability: nan, expected more than 0"},
    {kScores, [](auto& p) { p.score.half_probs = true; }, Code::kContradiction,
     "probs: of 16 bits beside a query of f16, expected one of bf16"},
    {kDiagonal, [](auto& p) { p[Slot::kBias].dims[2] = 10; },
     Code::kInvalidArgument, "bias: 10 stored rows of 9 columns"},
    {kDiagonal, [](auto& p) { p[Slot::kBias].dims[3] = 8; },
     Code::kInvalidArgument, "bias: a diagonal of 8 for sequences of 9 rows"},
    {kDiagonal, [](auto& p) { p.mask.rules = {Window(9, 3)}; },
     Code::kContradiction,
     "bias: 3 stored rows, but the mask lets sequence 0 see 3 columns"},
    {kBackward, [](auto& p) { p[Slot::kBias].dtype = DType::kF16; },
     Code::kInvalidArgument, "bias: dtype f16 is not one"},
    {kBackward, [](auto& p) { p.score.query_start = Band::kOpen; },
     Code::kInvalidArgument, "alibi: start 1099511627776"},
    {kTopK, [](auto& p) { p[Slot::kSink].dims[0] = 3; }, Code::kInvalidArgument,
     "sink: first extent is 3, but 4 are needed"},
    {kTopK, [](auto& p) { p[Slot::kSink].dtype = DType::kF16; },
     Code::kInvalidArgument, "sink: dtype f16 is not one"},
    // Lengths on the device.
    {kCounts, [](auto& p) { p.lengths.queries = Lengths::Device::kNone; },
     Code::kContradiction, "query lengths: given, but lengths are known"},
    {kCounts, [](auto& p) { p[Slot::kKeyLengths] = {}; }, Code::kNullArgument,
     "key lengths: missing"},
    {kPages,
     [](auto& p) {
       p.lengths.keys = Lengths::Device::kEnds;
       p[Slot::kKeyLengths] = DenseSpec(DType::kI32, {2, 1, 1, 1});
     },
     Code::kContradiction, "key lengths: ends of keys that share no axis"},
    {kCounts, [](auto& p) { p[Slot::kKeyLengths].dtype = DType::kF32; },
     Code::kInvalidArgument, "key lengths: dtype f32 is not one"},
    {kCounts, [](auto& p) { p[Slot::kKeyLengths].dims[0] = 0; },
     Code::kInvalidArgument, "key lengths: first extent is 0, but 1"},
    {kCounts, [](auto& p) { p[Slot::kKeyPadding].dtype = DType::kI32; },
     Code::kInvalidArgument, "key padding: dtype i32 is not one"},
    {"fwd f32 h=1 d=1 q=4 k=4 padding:q",
     [](auto& p) { p[Slot::kQueryPadding].dtype = DType::kI32; },
     Code::kInvalidArgument, "query padding: dtype i32 is not one"},
    {"fwd f32 h=1 d=1 q=4 k=3 mask",
     [](auto& p) { p[Slot::kMask].placement = Placement::kTail; },
     Code::kContradiction, "mask: a tail of 4 keys, but sequence 0 has 3"},
    {"fwd f32 h=1 d=1 q=2x4 k=2x9 mask:tail:ij",
     [](auto& p) { p[Slot::kMask].dims[3] = 3; }, Code::kInvalidArgument,
     "mask: fourth extent is 3, but 4 are needed"},
    {"fwd f32 h=1 d=4 q=1x1 k=1x8 paged:4 int8:page-row",
     [](auto& p) { p[Slot::kKeyRowScale].dims[0] = 1; }, Code::kInvalidArgument,
     "key row scale: first extent is 1, but 2 are needed"},
    // Padding may move keys to any row of their tensor.
    {"fwd f32 h=1 d=4 q=1x1 k=1x8 int8:row padding",
     [](auto& p) {
       p[Slot::kKey].dims[1] = p[Slot::kValue].dims[1] = 10;
       p[Slot::kKeyRowScale].placement = Placement::kTensorRows;
     },
     Code::kInvalidArgument,
     "key row scale: second extent is 8, but 10 are needed"},
    {"fwd f32 h=1 d=1 q=4 k=5 prefix:2 mask",
     [](auto& p) {
       p[Slot::kMask].placement = Placement::kTensorScores;
       p[Slot::kMask].dims[3] = 6;
     },
     Code::kInvalidArgument, "mask: fourth extent is 6, but 7 are needed"},
    {"fwd f32 h=1 d=1 q=4 k=4 bias",
     [](auto& p) { p[Slot::kBias].placement = Placement::kTailBlocks; },
     Code::kContradiction, "bias: given, but the last columns alone"},
    {kDense,
     [](auto& p) { p[Slot::kLse] = DenseSpec(DType::kF32, {1, 1, 1, 1}); },
     Code::kInvalidArgument, "log-sum-exp: third extent is 1, but"},
    // Directions.
    {kDense, [](auto& p) { p[Slot::kGradOut] = p[Slot::kOut]; },
     Code::kContradiction, "grad out: given, but the direction is forward"},
    {kLists, [](auto& p) { p.direction = Direction::kBackward; },
     Code::kInvalidArgument, "keys: backward takes rows of one tensor"},
    {kBackward, [](auto& p) { p[Slot::kRowSum] = {}; }, Code::kNullArgument,
     "row sum: missing"},
    {kBackward, [](auto& p) { p[Slot::kGradOut] = {}; }, Code::kNullArgument,
     "grad out: missing"},
    {kBackward, [](auto& p) { p[Slot::kGradSink] = p[Slot::kBias]; },
     Code::kContradiction, "grad sink: given, but there is no sink"},
    {kBackward, [](auto& p) { p[Slot::kGradKey].dtype = DType::kI8; },
     Code::kInvalidArgument, "grad key: dtype i8 is not one"},
    {kBackward, [](auto& p) { p[Slot::kGradKey].dims[1] = 10; },
     Code::kInvalidArgument, "grad key: 10 rows, but sequences end at row 11"},
    {kBackward, [](auto& p) { p[Slot::kGradValue].strides[3] = 0; },
     Code::kInvalidArgument, "grad value: fourth stride is 0, but results"},
    {kTopK, [](auto& p) { p[Slot::kGradBias] = p[Slot::kSink]; },
     Code::kContradiction, "grad bias: given, but there is no bias"},
};

TEST(CheckProblem, SaysWhichLawIsBroken) {
  for (const Breach& breach : kBreaches) {
    SCOPED_TRACE(breach.message);
    Result<AttentionProblem> problem = Parse(breach.line);
    ASSERT_TRUE(problem.ok()) << problem.status().message();
    breach.change(*problem);
    const Status status = CheckProblem(*problem);
    const std::string_view begin(breach.message);
    EXPECT_EQ(status.message().substr(0, begin.size()), begin);
    EXPECT_EQ(status.code(), breach.code);
  }
}

TEST(CheckProblem, TakesWhatHasAMeaning) {
  for (const char* line :
       {"fwd f32 h=1 d=0 q=3 k=4", "fwd f32 h=1 d=4/0 q=3 k=4",
        "fwd f32 h=7 d=4 q=0 k=0", "fwd f32 h=7 d=4 q=0x0 k=0x0",
        "fwd f32 h=1 d=4 q=3 k=4 topk:0",
        "fwd f32 h=1 d=4 q=2x3 k=4,0 mask:tail:bij",
        // Blocks of the last keys are small however many there are.
        "fwd f32 h=1 d=4 q=1000000,1 k=1000000000000,1 mask:tail:bij",
        "fwd f32 h=1000 d=1000 q=1000000000 k=1000000000"}) {
    const Result<AttentionProblem> problem = Parse(line);
    EXPECT_TRUE(problem.ok()) << problem.status().message();
  }
}

TEST(RowBlockElements, AreOfAllSequencesAndCopies) {
  AttentionProblem problem;
  problem.heads = 4;
  problem[Slot::kOut] = DenseSpec(DType::kF32, {2, 3, 4, 16});
  TensorSpec& max = problem[Slot::kRowMax];
  max = {.dtype = DType::kF32, .placement = Placement::kBlocks};
  max.dims = {2, 4, TensorSpec::kPerSequence, 8};
  EXPECT_EQ(RowBlockElements(problem, Slot::kRowMax), 2 * 3 * 4 * 8);
  max.strides[3] = 2;
  EXPECT_EQ(RowBlockElements(problem, Slot::kRowMax), 2 * 2 * 3 * 4 * 8 - 1);
  // Sequences that lie one after the other are rows of one.
  problem[Slot::kOut].strides[0] = 0;
  EXPECT_EQ(RowBlockElements(problem, Slot::kRowMax), 2 * 3 * 4 * 8 - 1);
}

}  // namespace
}  // namespace flashacl
