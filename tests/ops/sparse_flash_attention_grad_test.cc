// SPDX-License-Identifier: Apache-2.0
// What aclnnSparseFlashAttentionGrad takes: one test per statement of its
// document.
#include <gtest/gtest.h>

#include <algorithm>
#include <limits>
#include <string>

#include "aclnnop/aclnn_sparse_flash_attention_grad.h"
#include "tests/testing/child.h"
#include "tests/testing/device_bytes.h"
#include "tests/testing/sparse_call.h"

namespace flashacl::testing {
namespace {

void ExpectZeros(const DeviceTensor* tensor) {
  const std::vector<double> values = tensor->Values();
  EXPECT_EQ(std::ranges::count(values, 0.0),
            static_cast<ptrdiff_t>(values.size()));
}

TEST(SparseGrad, EveryLayoutTypeAndMode) {
  for (const aclDataType type : {ACL_FLOAT16, ACL_BF16}) {
    for (const bool packed : {true, false}) {
      for (const int64_t mode : {0, 3}) {
        for (const bool spread : {false, true}) {
          const SparseCase c{
              .type = type, .packed = packed, .mode = mode, .spread = spread};
          SCOPED_TRACE(ToString(c));
          SparseBackwardCall(c).ExpectAsDocumented();
        }
      }
    }
  }
}

TEST(SparseGrad, EveryBlockSize) {
  for (const int64_t block : {1, 8, 16, 32, 64}) {
    for (const int64_t mode : {0, 3}) {
      SparseBackwardCall call({.columns = 150,
                               .top_k = 5,
                               .block = block,
                               .mode = mode,
                               .key_lengths = {67, 150}});
      call.ExpectAsDocumented();
    }
  }
}

// Sizes the NPU has no code for.
TEST(SparseGrad, AnyBlockSizeAndNumberOfHeads) {
  for (const int64_t block :
       {int64_t{3}, int64_t{100}, std::numeric_limits<int64_t>::max()}) {
    SparseBackwardCall({.heads = 3, .block = block}).ExpectAsDocumented();
  }
}

TEST(SparseGrad, EveryNumberOfHeads) {
  for (const int64_t heads : {1, 2, 4, 8, 16, 32, 64, 128}) {
    SparseBackwardCall({.heads = heads}).ExpectAsDocumented();
  }
}

TEST(SparseGrad, IndicesAndLengthsOfEitherType) {
  for (const bool packed : {true, false}) {
    for (int bits = 0; bits < 8; ++bits) {
      const auto type = [&](int bit) {
        return (bits >> bit & 1) == 0 ? ACL_INT32 : ACL_INT64;
      };
      SparseCase c{.packed = packed,
                   .index_type = type(0),
                   .query_length_type = type(1),
                   .key_length_type = type(2)};
      if (!packed) c.key_lengths = {4, 8};
      SCOPED_TRACE(ToString(c));
      SparseBackwardCall(c).ExpectAsDocumented();
    }
  }
}

TEST(SparseGrad, MinusOneEndsAList) {
  SparseBackwardCall call(
      {.sequences = 1, .rows = 1, .query_lengths = {1}, .key_lengths = {9}});
  const double list[] = {5, 2, -1, 7};
  for (int64_t n = 0; n < 4; ++n) call.indices->SetNth(n, list[n]);
  call.ExpectAsDocumented();
  for (int64_t j = 0; j < 9; ++j) {
    EXPECT_EQ(call.grad_key->Get({j, 0, 0}) != 0, j == 5 || j == 2) << j;
  }
}

TEST(SparseGrad, EmptyListsGiveZeros) {
  SparseBackwardCall call;
  call.indices->FillWith(-1);
  call.ExpectAsDocumented();
  for (const DeviceTensor* tensor :
       {call.grad_query, call.grad_key, call.grad_value, call.grad_query_rope,
        call.grad_key_rope}) {
    ExpectZeros(tensor);
  }
}

// Blocks beyond the keys are skipped, the last one is cut where they end.
TEST(SparseGrad, BlocksOutsideAreSkipped) {
  SparseBackwardCall call({.index_type = ACL_INT64});
  const double far = 0x1p52;
  for (int64_t n = 0; n < call.indices->elements(); n += 2) {
    call.indices->SetNth(n, n % 4 == 0 ? far : 9);
  }
  call.ExpectAsDocumented();
}

// The last row sees all keys, each row before it one less.
TEST(SparseGrad, CausalFromTheBottomRight) {
  SparseBackwardCall call({.sequences = 1,
                           .rows = 3,
                           .columns = 2,
                           .top_k = 2,
                           .mode = 3,
                           .query_lengths = {3},
                           .key_lengths = {2},
                           .consistent = false});
  for (int64_t n = 0; n < 6; ++n) {
    call.indices->SetNth(n, static_cast<double>(n % 2));
  }
  call.ExpectAsDocumented();
  EXPECT_EQ(call.grad_query->Get({0, 0, 0}), 0);  // sees no key
  EXPECT_NE(call.grad_query->Get({1, 0, 0}), 0);
}

TEST(SparseGrad, LengthsOfPackedSequencesAreCumulative) {
  SparseBackwardCall call({.sequences = 3,
                           .rows = 8,
                           .columns = 8,
                           .query_lengths = {4, 4, 8},
                           .key_lengths = {3, 4, 4}});
  call.ExpectAsDocumented();
}

TEST(SparseGrad, RowsAfterTheLastSequenceAreZero) {
  SparseBackwardCall call({.rows = 7, .columns = 12});
  call.ExpectAsDocumented();
  for (int64_t t = 5; t < 7; ++t) {
    EXPECT_EQ(call.grad_query->Get({t, 0, 0}), 0);
  }
  for (int64_t t = 9; t < 12; ++t) {
    EXPECT_EQ(call.grad_key->Get({t, 0, 0}), 0);
    EXPECT_EQ(call.grad_value->Get({t, 0, 0}), 0);
  }
}

TEST(SparseGrad, DenseLengthsAreCounts) {
  for (const int64_t mode : {0, 3}) {
    SparseBackwardCall both({.packed = false,
                             .mode = mode,
                             .query_lengths = {0, 4},
                             .key_lengths = {9, 2}});
    both.ExpectAsDocumented();
    SparseBackwardCall keys({.packed = false,
                             .mode = mode,
                             .query_lengths = {},
                             .key_lengths = {3, 0}});
    keys.ExpectAsDocumented();
    SparseBackwardCall none({.packed = false,
                             .mode = mode,
                             .query_lengths = {},
                             .key_lengths = {}});
    none.ExpectAsDocumented();
  }
}

// Wrong lengths are clamped into the tensors.
TEST(SparseGrad, WildLengthsStayInside) {
  for (const bool packed : {true, false}) {
    SparseBackwardCall call({.packed = packed, .key_lengths = {4, 8}});
    call.query_lengths->SetNth(0, 1e9);
    call.query_lengths->SetNth(1, -7);
    call.key_lengths->SetNth(0, -1e9);
    call.key_lengths->SetNth(1, 1e9);
    EXPECT_TRUE(call.Run());
  }
}

TEST(SparseGrad, NoLayoutIsBsnd) {
  SparseBackwardCall call(
      {.packed = false, .query_lengths = {}, .key_lengths = {}});
  call.layout = nullptr;
  call.ExpectAsDocumented();
}

TEST(SparseGrad, TokensAndDeterminismChangeNothing) {
  SparseBackwardCall call;
  call.ExpectAsDocumented();
  const std::vector<std::byte> before = call.grad_key->ElementBytes();
  call.pre_tokens = std::numeric_limits<int64_t>::max();
  call.next_tokens = -3;
  call.deterministic = true;
  ASSERT_TRUE(call.Run());
  EXPECT_EQ(call.grad_key->ElementBytes(), before);
}

TEST(SparseGrad, ScaleIsTakenAsGiven) {
  for (const double scale : {0.0, -0.5, 1.0, 0.088388}) {
    SparseBackwardCall({.scale = scale}).ExpectAsDocumented();
  }
}

// Nothing is renormalised: row max and row sum are what the caller says.
TEST(SparseGrad, StatisticsAreTakenAsGiven) {
  SparseBackwardCall({.consistent = false}).ExpectAsDocumented();
  SparseBackwardCall call({.consistent = false});
  call.row_sum->FillWith(0);  // as of rows without keys
  call.ExpectAsDocumented();
  ExpectZeros(call.grad_value);
}

TEST(SparseGrad, ValueIsATensorOfItsOwn) {
  SparseBackwardCall({.v_dim = 24}).ExpectAsDocumented();
  SparseBackwardCall call;  // the same handle twice
  call.caller.Forget(call.value);
  call.value = call.key;
  call.ExpectAsDocumented();
}

TEST(SparseGrad, WithoutValueTheKeyTakesBothGradients) {
  for (const bool packed : {true, false}) {
    SparseCase c{.packed = packed, .merged = true};
    if (!packed) c.query_lengths = c.key_lengths = {};
    SparseBackwardCall(c).ExpectAsDocumented();
  }
}

TEST(SparseGrad, WithoutRope) {
  SparseBackwardCall({.rope_dim = 0}).ExpectAsDocumented();
  // As torch_npu says it.
  SparseBackwardCall call({.rope_dim = 0});
  call.query_rope = call.caller.Input({.dims = {0}});
  call.key_rope = call.caller.Input({.dims = {0}});
  call.grad_query_rope = call.caller.Output({.dims = {0}});
  call.grad_key_rope = call.caller.Output({.dims = {0}});
  ASSERT_TRUE(call.Run());
  call.query_rope = nullptr;
  ExpectNear(*call.grad_query, call.Expected().query, 4.0);
}

TEST(SparseGrad, OneRopeAloneIsNone) {
  for (const bool query : {true, false}) {
    SparseBackwardCall call;
    DeviceTensor*& gone = query ? call.key_rope : call.query_rope;
    call.caller.Forget(gone);
    gone = nullptr;
    for (DeviceTensor** unused : {&call.grad_query_rope, &call.grad_key_rope}) {
      call.caller.Forget(*unused);
      *unused = nullptr;
    }
    call.ExpectAsDocumented();
  }
}

// One tensor holds latent channels and rope side by side.
TEST(SparseGrad, KeyAndRopeAsViewsOfOneTensor) {
  SparseBackwardCall call;
  const auto view = [&](DeviceTensor*& tensor, int64_t offset) {
    Form form = tensor->form();
    form.strides = {form.dims[1] * 24, 24, 1};
    form.offset = offset;
    call.caller.Forget(tensor);
    tensor = call.caller.Input(form);
    Random random(3);
    tensor->Fill(random, -1, 1);
  };
  view(call.key, 0);
  view(call.key_rope, 16);
  view(call.query, 0);
  view(call.query_rope, 16);
  call.ExpectAsDocumented();
}

// Without queries, the keys' gradients are 0.
TEST(SparseGrad, EmptyQuery) {
  for (const bool packed : {true, false}) {
    SparseCase c{.packed = packed, .rows = 0, .query_lengths = {0, 0}};
    if (!packed) c.key_lengths = {};
    SparseBackwardCall rows(c);
    rows.ExpectAsDocumented();
    ExpectZeros(rows.grad_key);
    ExpectZeros(rows.grad_key_rope);
  }
  SparseBackwardCall heads({.heads = 0});
  heads.ExpectAsDocumented();
  ExpectZeros(heads.grad_value);
  SparseBackwardCall channels({.dim = 0});
  channels.row_sum->FillWith(0);  // weights would be 0, too
  channels.ExpectAsDocumented();
  SparseBackwardCall batch({.packed = false,
                            .sequences = 0,
                            .query_lengths = {},
                            .key_lengths = {}});
  EXPECT_TRUE(batch.Run());
}

TEST(SparseGrad, NoPackedSequenceAtAll) {
  SparseBackwardCall call({.rows = 0, .query_lengths = {0, 0}});
  for (DeviceTensor** lengths : {&call.query_lengths, &call.key_lengths}) {
    call.caller.Forget(*lengths);
    *lengths = call.caller.Input({.type = ACL_INT32, .dims = {0}});
  }
  ASSERT_TRUE(call.Run());
  ExpectZeros(call.grad_key);
}

TEST(SparseGrad, EmptyKey) {
  for (const bool packed : {true, false}) {
    SparseCase c{.packed = packed, .columns = 0, .key_lengths = {0, 0}};
    SparseBackwardCall call(c);
    call.ExpectAsDocumented();
    ExpectZeros(call.grad_query);
    ExpectZeros(call.grad_query_rope);
  }
}

// Every key is the same and the document's example says so: dP = delta, and
// what is left of dV is less than half of the smallest number there is.
TEST(SparseGrad, ExampleProgram) {
  SparseBackwardCall call({.sequences = 1,
                           .heads = 16,
                           .rows = 1,
                           .columns = 2048,
                           .dim = 512,
                           .v_dim = 512,
                           .rope_dim = 64,
                           .top_k = 2048,
                           .scale = 0.088388,
                           .query_length_type = ACL_INT64,
                           .key_length_type = ACL_INT64,
                           .query_lengths = {1},
                           .key_lengths = {1}});
  call.key_lengths->SetNth(0, 2048);
  call.asked.key_lengths = {2048};
  for (DeviceTensor* tensor : {call.query, call.key, call.value, call.out,
                               call.grad_out, call.query_rope, call.key_rope}) {
    tensor->FillWith(0x1p-24);
  }
  for (int64_t n = 0; n < 2048; ++n) {
    call.indices->SetNth(n, static_cast<double>(n));
  }
  call.row_max->FillWith(3);
  call.row_sum->FillWith(3);
  ASSERT_TRUE(call.Run());
  for (const DeviceTensor* tensor :
       {call.grad_query, call.grad_key, call.grad_value, call.grad_query_rope,
        call.grad_key_rope}) {
    ExpectZeros(tensor);
  }
}

// One query, one key: p = exp(s - max) / sum with s = scale * 2 * 3.
TEST(SparseGrad, OneKeyByHand) {
  SparseBackwardCall call({.sequences = 1,
                           .heads = 1,
                           .rows = 1,
                           .columns = 1,
                           .dim = 1,
                           .v_dim = 1,
                           .rope_dim = 0,
                           .top_k = 1,
                           .scale = 0.5,
                           .query_lengths = {1},
                           .key_lengths = {1}});
  call.query->SetNth(0, 2);
  call.key->SetNth(0, 3);
  call.value->SetNth(0, 5);
  call.grad_out->SetNth(0, 2);
  call.out->SetNth(0, 4);
  call.row_max->SetNth(0, 3);
  call.row_sum->SetNth(0, 2);
  call.indices->SetNth(0, 0);
  ASSERT_TRUE(call.Run());
  EXPECT_EQ(call.grad_value->Nth(0), 1);    // p dO = 0.5 * 2
  EXPECT_EQ(call.grad_query->Nth(0), 1.5);  // scale p (10 - 8) k
  EXPECT_EQ(call.grad_key->Nth(0), 1);      // scale p (10 - 8) q
}

// A child, which SparseGrad.StrictModeKnowsTheHardware starts.
TEST(SparseGradChild, DISABLED_Strict) {
  const auto refuse = [](const SparseCase& c, const char* words) {
    SparseBackwardCall(c).ExpectFailure(161002, words);
  };
  const SparseCase good{.heads = 1, .dim = 512, .rope_dim = 64};
  SparseCase c = good;
  c.heads = 3;
  refuse(c, "query: 3 heads");
  c = good;
  c.heads = 256;
  refuse(c, "query: 256 heads");
  c = good;
  c.dim = 128;
  refuse(c, "query: 128 channels");
  c = good;
  c.rope_dim = 32;
  refuse(c, "queryRopeOptional: 32 channels");
  c = good;
  c.block = 4;
  refuse(c, "sparseBlockSize: 4");
  c = good;
  c.sequences = 257;
  c.query_lengths.assign(257, 5);
  c.key_lengths.assign(257, 9);
  refuse(c, "query: 257 sequences");
}

TEST(SparseGrad, StrictModeKnowsTheHardware) {
  const ChildResult child =
      RunChild("SparseGradChild.DISABLED_Strict", {{"FLASHACL_STRICT", "1"}});
  EXPECT_TRUE(child.ok()) << child.output;
}

// What synchronising says after the call has run.
aclError RunAndSynchronise(SparseBackwardCall& call) {
  for (DeviceTensor* tensor :
       {call.query, call.key, call.value, call.indices, call.grad_out, call.out,
        call.row_max, call.row_sum, call.query_lengths, call.key_lengths,
        call.query_rope, call.key_rope}) {
    tensor->Upload();
  }
  uint64_t size = 0;
  aclOpExecutor* executor = nullptr;
  EXPECT_EQ(call.PhaseOne(&size, &executor), 0);
  const DeviceBytes workspace(size);
  EXPECT_EQ(
      aclnnSparseFlashAttentionGrad(workspace.data(), size, executor, nullptr),
      0);
  return aclrtSynchronizeStream(nullptr);
}

// A child, which SparseGrad.StrictModeLooksAtContents starts.
TEST(SparseGradChild, DISABLED_StrictContents) {
  constexpr aclError kKernelFailed = 507015;
  const auto expect = [](std::vector<double> list, double key_end,
                         aclError status, const char* words) {
    SparseBackwardCall call({.heads = 1, .dim = 512, .rope_dim = 64});
    for (int64_t n = 0; n < call.indices->elements(); ++n) {
      call.indices->SetNth(n, list[static_cast<size_t>(n % 4)]);
    }
    call.key_lengths->SetNth(1, key_end);
    EXPECT_EQ(RunAndSynchronise(call), status);
    if (status == 0) return;
    const char* const message = aclGetRecentErrMsg();
    EXPECT_NE(std::string(message == nullptr ? "" : message).find(words),
              std::string::npos)
        << words;
  };
  expect({3, 0, 1, -1}, 9, 0, "");
  expect({3, 0, 3, -1}, 9, kKernelFailed, "block 3 for the second time");
  expect({3, 5, 0, -1}, 9, kKernelFailed, "block 5, but there are 4");
  expect({3, -1, 0, -1}, 9, kKernelFailed, "0 after the end");
  expect({3, 0, 1, -1}, 10, kKernelFailed, "key lengths[1]: 10");
  expect({3, 0, 1, -1}, 3, kKernelFailed, "key lengths[1]: 3");
}

TEST(SparseGrad, StrictModeLooksAtContents) {
  const ChildResult child = RunChild("SparseGradChild.DISABLED_StrictContents",
                                     {{"FLASHACL_STRICT", "1"}});
  EXPECT_TRUE(child.ok()) << child.output;
}

}  // namespace
}  // namespace flashacl::testing
