// SPDX-License-Identifier: Apache-2.0
// What aclnnFusedInferAttentionScore computes although the NPU's documents do
// not list it, and refuses in strict mode; and what strict mode takes.
#include <gtest/gtest.h>

#include <string>
#include <utility>
#include <vector>

#include "tests/testing/child.h"
#include "tests/testing/fused_infer_call.h"
#include "tests/testing/fused_infer_refusal.h"
#include "tests/testing/runtime.h"

namespace flashacl::testing {
namespace {

using Case = FusedInferCase;

// A case, and what of it strict mode's message names.
struct Limit {
  std::string words;
  Case c;
};

using Limits = std::vector<Limit>;

// The case with some fields changed.
template <typename Change>
Case With(Case c, Change change) {
  change(c);
  return c;
}

// Latent decode reads keys and values from the same cache.
void ShareLatentCache(FusedInferCall& call) {
  const bool latent = call.asked.dim == 512 && call.asked.rope_dim > 0;
  if (latent) call.values = call.keys;
}

Case Paged(int64_t block_size) {
  return {.columns = 2 * block_size,
          .kv_lengths = {block_size + 1, 3},
          .keys = FusedKeys::kPagesOfRows,
          .block_size = block_size};
}

Case Dim(int64_t dim) { return {.dim = dim, .v_dim = dim}; }

Case Packed(int64_t dim) {
  Case c = fused::Packed();
  c.dim = c.v_dim = dim;
  return c;
}

Case Roped(int64_t dim, int64_t rope_dim = 64) {
  return {.dim = dim, .v_dim = dim, .rope_dim = rope_dim};
}

Case Latent() {
  Case c = Roped(512);
  c.type = ACL_BF16;
  c.kv_heads = 1;
  return c;
}

// INT8 queries of latent decode.
Case LatentBytes(int64_t rows) {
  Case c = Latent();
  c.rows = rows;
  c.columns = 128;
  c.kv_lengths = {40, 3};
  c.keys = FusedKeys::kPagesOfChannels;
  c.block_size = 128;
  c.latent = true;
  if (rows > 1) {
    c.mask = FusedMask::kSquare;
    c.sparse_mode = 3;
  }
  return c;
}

Case Sink() {
  Case c = Dim(64);
  c.inner_precise = 0;
  c.sink = ACL_BF16;
  return c;
}

Case Quantised(aclDataType type, FusedScales scales) {
  Case c = Dim(32);
  c.type = type;
  c.scales = scales;
  return c;
}

// INT4, eight to a word.
Case Words(int64_t dim) {
  Case c = Quantised(ACL_BF16, FusedScales::kSeparate);
  c.dim = c.v_dim = dim;
  c.bits = 4;
  c.scale_form = 5;
  return c;
}

// Quantised keys in NZ pages.
Case Blocks() {
  Case c = Paged(128);
  c.type = ACL_BF16;
  c.dim = c.v_dim = 128;
  c.keys = FusedKeys::kPagesOfChannels;
  c.scales = FusedScales::kSeparate;
  c.scale_form = 5;
  return c;
}

Limits StepLimits() {
  Case surplus{.layout = "TND", .lengths = {2, 1}, .surplus_rows = 2};
  surplus.kv_lengths = {3, 2};
  return {
      {"innerPrecise: 4", {.inner_precise = 4}},
      {"blockSize: 24", Paged(24)},
      {"blockSize: 1040", Paged(1040)},
      {"actualSeqLengths: absent", {.query_padding = 1}},
      {"actualSeqLengthsKv: absent", {.kv_padding = 1}},
      {"the last sequence ends at 3", surplus},
  };
}

Limits DimLimits() {
  const auto in = [](Case c, const char* layout) {
    return With(std::move(c), [=](Case& one) { one.layout = layout; });
  };
  const Case wide{.layout = "BSND",
                  .sequences = 1,
                  .heads = 256,
                  .kv_heads = 1,
                  .rows = 1,
                  .columns = 2,
                  .dim = 272,
                  .v_dim = 272};
  return {
      {"query: 69632 channels of all heads", wide},
      {"value: head dim 32, expected query's 16", {.v_dim = 32}},
      {"query: head dim 20, expected a multiple of 16", Dim(20)},
      {"query: head dim 48, expected a multiple of 32",
       With(Dim(48), [](Case& c) { c.scales = FusedScales::kCombined; })},
      {"query: head dim 32, expected a multiple of 64", Words(32)},
      {"blockTable: given with INT4 keys", With(Words(64),
                                                [](Case& c) {
                                                  c.columns = 16;
                                                  c.kv_lengths = {9, 3};
                                                  c.keys =
                                                      FusedKeys::kPagesOfRows;
                                                  c.block_size = 16;
                                                })},
      {"inputLayout: BSH_NBSD, expected another", in({}, "BSH_NBSD")},
      {"query: head dim 32, expected 64, 128 or 192", Packed(32)},
      {"query: head dim 272, expected 64, 128 or 192",
       With(Packed(272), [](Case& c) { c.inner_precise = 0; })},
      {"query: head dim 192, expected 64 or 128 in", in(Packed(192), "NTD")},
      {"query: head dim 32, expected 64 or 128 in", in(Dim(32), "BSND_BNSD")},
      {"query: head dim 32, expected 64 or 128 with keys of 5",
       With(Paged(16),
            [](Case& c) {
              c.keys = FusedKeys::kPagesOfChannels;
              c.dim = c.v_dim = 32;
            })},
  };
}

Limits RopeLimits() {
  const auto latent = [](auto change) { return With(Latent(), change); };
  return {
      {"queryRope: head dim 32", Roped(128, 32)},
      {"queryRope: given with a list", With(Roped(128),
                                            [](Case& c) {
                                              c.keys = FusedKeys::kList;
                                              c.own_columns = {5, 3};
                                            })},
      {"query: head dim 64, value's 64", Roped(64)},
      {"query: head dim 128, value's 64",
       With(Roped(128), [](Case& c) { c.v_dim = 64; })},
      {"inputLayout: BSH_NBSD, expected BSH, BSND, BNSD, BNSD_BSND",
       With(Roped(128), [](Case& c) { c.layout = "BSH_NBSD"; })},
      {"numKeyValueHeads: 2", latent([](Case& c) { c.kv_heads = 2; })},
      {"numHeads: 3", latent([](Case& c) { c.heads = 3; })},
      {"inputLayout: BNSD_BSND, expected BSH, BSND, BNSD, these",
       latent([](Case& c) { c.layout = "BNSD_BSND"; })},
      {"sparseMode: 2", latent([](Case& c) {
         c.mask = FusedMask::kSquare;
         c.sparse_mode = 2;
       })},
  };
}

Limits ScoreLimits() {
  const auto sink = [](auto change) { return With(Sink(), change); };
  const auto packed = [](auto change) { return With(Packed(64), change); };
  return {
      {"sparseMode: 0, expected 0 without attenMask",
       packed([](Case& c) { c.mask = FusedMask::kFull; })},
      {"sparseMode: 1, expected 0 without attenMask", packed([](Case& c) {
         c.mask = FusedMask::kFull;
         c.sparse_mode = 1;
       })},
      {"sparseMode: 2, expected 0 without attenMask", packed([](Case& c) {
         c.mask = FusedMask::kSquare;
         c.sparse_mode = 2;
       })},
      {"attenMask: shape [3, 5]", With(Roped(128),
                                       [](Case& c) {
                                         c.mask = FusedMask::kFull;
                                         c.mask_rank = 2;
                                       })},
      {"pseShift: given in layout TND",
       packed([](Case& c) { c.pse_sequences = 1; })},
      {"pseShift: given in layout BSND_BNSD", With(Dim(64),
                                                   [](Case& c) {
                                                     c.layout = "BSND_BNSD";
                                                     c.pse_sequences = 2;
                                                   })},
      {"learnableSink: given with head dims 16 and 16",
       sink([](Case& c) { c.dim = c.v_dim = 16; })},
      {"innerPrecise: 1, expected 0 with learnableSink",
       sink([](Case& c) { c.inner_precise = 1; })},
      {"learnableSink: given with pseShift",
       sink([](Case& c) { c.pse_sequences = 1; })},
      {"learnableSink: given with left padding", sink([](Case& c) {
         c.kv_lengths = {3, 2};
         c.kv_padding = 1;
       })},
      {"learnableSink: given with shared prefix",
       sink([](Case& c) { c.prefix = 2; })},
      {"learnableSink: given with INT8 attentionOut",
       sink([](Case& c) { c.out_scales = 1; })},
      {"learnableSink: given with quantised keys",
       sink([](Case& c) { c.scales = FusedScales::kCombined; })},
  };
}

Limits ByteLimits() {
  const auto bytes = [](Case c, const char* layout) {
    c.out_scales = 1;
    c.layout = layout;
    return c;
  };
  const Case merged{.dim = 192, .v_dim = 128};
  const Case folded{.sequences = 1,
                    .heads = 241,
                    .kv_heads = 241,
                    .rows = 1,
                    .columns = 16,
                    .dim = 272,
                    .v_dim = 272,
                    .kv_lengths = {2},
                    .keys = FusedKeys::kPagesOfRows,
                    .block_size = 16};
  const auto latent = [](int64_t rows, auto change) {
    return With(LatentBytes(rows), change);
  };
  return {
      {"INT8 with rope", bytes(Roped(128), "BNSD")},
      {"INT8 with a head dim of values", bytes(merged, "BNSD")},
      {"INT8 with a packed layout", bytes(Packed(64), "TND")},
      {"INT8 with a layout of results", bytes(Dim(64), "BSND_BNSD")},
      {"key: 65552 channels of all heads", folded},
      {"blockSize: 256, expected 128 or 512", With(Blocks(),
                                                   [](Case& c) {
                                                     c.columns = 256;
                                                     c.block_size = 256;
                                                   })},
      {"blockSize: 512, expected 128", latent(1,
                                              [](Case& c) {
                                                c.columns = 512;
                                                c.block_size = 512;
                                              })},
      {"query: head dim 128, expected 512",
       latent(1, [](Case& c) { c.dim = c.v_dim = 128; })},
      {"key: shape", latent(1, [](Case& c) { c.keys = FusedKeys::kOne; })},
      {"query: 17 rows", latent(17, [](Case&) {})},
      {"sparseMode: 0, expected 0 without attenMask for one row",
       latent(1, [](Case& c) { c.mask = FusedMask::kFull; })},
      {"sparseMode: 0, expected 3 or 9", latent(2,
                                                [](Case& c) {
                                                  c.mask = FusedMask::kNone;
                                                  c.sparse_mode = 0;
                                                })},
  };
}

Limits BlockLimits() {
  const auto blocks = [](auto change) { return With(Blocks(), change); };
  return {
      {"a BFLOAT16 query", blocks([](Case& c) { c.type = ACL_FLOAT16; })},
      {"expected head dim 128", blocks([](Case& c) { c.dim = c.v_dim = 64; })},
      {"at most 16 rows", blocks([](Case& c) { c.rows = 17; })},
      {"expected layout", blocks([](Case& c) { c.layout = "BNSD_BSND"; })},
      {"separate scales",
       blocks([](Case& c) { c.scales = FusedScales::kCombined; })},
      {"no offsets", blocks([](Case& c) { c.offsets = true; })},
      {"scales by channel", blocks([](Case& c) { c.scale_form = 0; })},
      {"scales by channel", blocks([](Case& c) { c.scale_form = 2; })},
      {"scales by channel", blocks([](Case& c) { c.value_mode = 1; })},
      {"scales by channel",
       blocks([](Case& c) { c.key_mode = c.value_mode = 3; })},
      {"but in layout TND", blocks([](Case& c) {
         c.layout = "TND";
         c.lengths = {2, 1};
         c.key_mode = c.value_mode = 1;
       })},
      {"expected sparseMode", blocks([](Case& c) {
         c.mask = FusedMask::kSquare;
         c.sparse_mode = 2;
       })},
      {"innerPrecise 1", blocks([](Case& c) { c.inner_precise = 0; })},
  };
}

Limits KeyLimits() {
  const auto separate = [](auto change) {
    return With(Quantised(ACL_BF16, FusedScales::kSeparate), change);
  };
  return {
      {"pages of 5 dimensions", separate([](Case& c) {
         c.layout = "TND";
         c.dim = c.v_dim = 64;
         c.lengths = {2, 1};
         c.kv_lengths = {3, 2};
       })},
      {"FLOAT16 query with modes 0 and 1", separate([](Case& c) {
         c.rows = 1;
         c.scale_form = 5;
         c.value_mode = 1;
       })},
      {"a FLOAT16 query of several",
       Quantised(ACL_BF16, FusedScales::kCombined)},
      {"a BFLOAT16 query of several",
       Quantised(ACL_FLOAT16, FusedScales::kSeparate)},
      {"at most 16 rows", separate([](Case& c) { c.rows = 17; })},
      {"keyAntiquantMode 0 or 1",
       separate([](Case& c) { c.key_mode = c.value_mode = 2; })},
      {"no pages", separate([](Case& c) {
         c.columns = 64;
         c.kv_lengths = {40, 3};
         c.keys = FusedKeys::kPagesOfRows;
         c.block_size = 32;
       })},
      {"no list", separate([](Case& c) {
         c.keys = FusedKeys::kList;
         c.own_columns = {5, 3};
       })},
      {"no left padding", separate([](Case& c) {
         c.kv_lengths = {3, 2};
         c.kv_padding = 1;
       })},
  };
}

Limits AllLimits() {
  Limits all;
  for (const Limits& some :
       {StepLimits(), DimLimits(), RopeLimits(), ScoreLimits(), ByteLimits(),
        BlockLimits(), KeyLimits()}) {
    all.insert(all.end(), some.begin(), some.end());
  }
  return all;
}

// What the documents list.
std::vector<Case> Listed() {
  std::vector<Case> cases = {
      {},
      {.dim = 192, .v_dim = 128},
      Packed(64),
      With(Packed(256), [](Case& c) { c.inner_precise = 0; }),
      With(Dim(64), [](Case& c) { c.layout = "BSH_BNSD"; }),
      With(Dim(20), [](Case& c) { c.rows = 1; }),
      With(Dim(32), [](Case& c) { c.out_scales = 1; }),
      With(Dim(64),
           [](Case& c) {
             c.mask = FusedMask::kFull;
             c.mask_rank = 2;
           }),
      Roped(128),
      With(Roped(128), [](Case& c) { c.layout = "BSH_BNSD"; }),
      Latent(),
      With(Latent(), [](Case& c) { c.layout = "BNSD_NBSD"; }),
      LatentBytes(1),
      LatentBytes(16),
      Sink(),
      Blocks(),
      With(Blocks(), [](Case& c) { c.key_mode = c.value_mode = 1; }),
      Quantised(ACL_FLOAT16, FusedScales::kCombined),
      Quantised(ACL_BF16, FusedScales::kSeparate),
      Words(64),
      With(Quantised(ACL_FLOAT16, FusedScales::kSeparate),
           [](Case& c) {
             c.rows = 1;
             c.scale_form = 5;
             c.value_mode = 1;
           }),
      With(Quantised(ACL_BF16, FusedScales::kSeparate),
           [](Case& c) {
             c.bits = 4;
             c.dim = c.v_dim = 64;
             c.scale_form = 5;
           }),
  };
  for (const char* layout : {"BSH", "BSND", "TND"}) {
    cases.push_back(With(Blocks(), [=](Case& c) {
      c.layout = layout;
      c.rows = 9;
      c.lengths = {9, 9};  // more together than each may have
    }));
  }
  return cases;
}

// More keys than an NPU takes, in no memory.
void MakeLong(FusedInferCall& call) {
  const Form rows = WithoutMemory(ACL_FLOAT16, {2, 2, 20971521, 16});
  fused::Keys(rows, rows)(call);
}

// A prefix has one length: the first of these.
void GiveTwoLengths(FusedInferCall& call) {
  call.prefix_length = call.caller.Array({2, 3});
}

// A child, which Limits starts.
TEST(FusedInferChild, DISABLED_Strict) {
  for (const Limit& limit : AllLimits()) {
    SCOPED_TRACE(limit.words + ": " + ToString(limit.c));
    FusedInferCall call(limit.c);
    ShareLatentCache(call);
    call.ExpectFailure(561002, limit.words);
  }
  FusedInferCall apart(Latent());
  apart.ExpectFailure(561002, "value: other memory than key's");
  FusedInferCall longer;
  MakeLong(longer);
  longer.ExpectFailure(561002, "key: 20971521 rows");
  FusedInferCall lengths({.prefix = 4});
  GiveTwoLengths(lengths);
  lengths.ExpectFailure(561002, "actualSharedPrefixLen: 2 numbers");
}

// Phase 1 succeeds, and that of GetMaxWorkspaceSize.
void ExpectPlanned(FusedInferCall& call) {
  for (const bool most : {false, true}) {
    uint64_t size = 0;
    aclOpExecutor* executor = nullptr;
    ASSERT_TRUE(Succeeds(most ? call.MaxPhaseOne(&size, &executor)
                              : call.PhaseOne(&size, &executor)));
    EXPECT_EQ(aclDestroyAclOpExecutor(executor), 0);
  }
}

// A child, which TakesWhatIsListed starts.
TEST(FusedInferChild, DISABLED_Listed) {
  for (const Case& c : Listed()) {
    SCOPED_TRACE(ToString(c));
    FusedInferCall call(c);
    ShareLatentCache(call);
    ExpectPlanned(call);
  }
}

TEST(FusedInferStrict, Limits) {
  for (const Limit& limit : AllLimits()) {
    SCOPED_TRACE(limit.words + ": " + ToString(limit.c));
    FusedInferCall(limit.c).ExpectAsDocumented();
  }
  FusedInferCall longer;
  MakeLong(longer);
  ExpectPlanned(longer);
  FusedInferCall lengths({.prefix = 4, .prefix_length = 2});
  GiveTwoLengths(lengths);
  lengths.ExpectAsDocumented();
  const ChildResult child =
      RunChild("FusedInferChild.DISABLED_Strict", {{"FLASHACL_STRICT", "1"}});
  EXPECT_TRUE(child.ok()) << child.output;
}

TEST(FusedInferStrict, TakesWhatIsListed) {
  const ChildResult child =
      RunChild("FusedInferChild.DISABLED_Listed", {{"FLASHACL_STRICT", "1"}});
  EXPECT_TRUE(child.ok()) << child.output;
}

}  // namespace
}  // namespace flashacl::testing
