// SPDX-License-Identifier: Apache-2.0
// The report: verdicts, the worst rows with both numbers, and what the cause
// is.
#include "verify/check/tensor_check.h"

#include <gtest/gtest.h>

#include <array>
#include <cmath>
#include <string>

#include "backends.h"
#include "base/random.h"
#include "base/str.h"
#include "problem/notation.h"
#include "tests/verify/causes/plain_attention.h"
#include "verify/check/user_results.h"
#include "verify/verify.h"

namespace flashacl {
namespace {

constexpr char kLine[] = "fwd f32 h=2 d=4 q=2x3 k=2x5";

// Element [row, head, channel] of the two sequences of three rows.
double& At(PlainAttention& of, int64_t row, int64_t head, int64_t channel) {
  return of["out"].values[static_cast<size_t>((row * 2 + head) * 4 + channel)];
}

bool Says(const TensorCheck& check, const std::string& text) {
  return Describe(check).find(text) != std::string::npos;
}

TEST(TensorCheck, NamesTheRowTheHeadAndBothNumbers) {
  PlainAttention wrong(kLine);
  wrong.Run();
  At(wrong, 4, 1, 2) = 77;  // row 1 of sequence 1
  const Result<TensorCheck> check = wrong.Check();
  ASSERT_TRUE(check.ok()) << check.status().message();
  const CheckedResult& result = check->results[0];
  EXPECT_EQ(result.judgement.rows, 12);
  EXPECT_EQ(result.judgement.wrong_rows, 1);
  EXPECT_TRUE(Says(*check, "npu: WRONG in 1 of 12 rows")) << Describe(*check);
  EXPECT_TRUE(Says(*check, "sequence 0: right")) << Describe(*check);
  EXPECT_TRUE(Says(*check, "sequence 1: WRONG in heads 1; right in 0"))
      << Describe(*check);
  EXPECT_TRUE(Says(*check, "sequence 1 head 1 row 1 channel 2: 77 is not"))
      << Describe(*check);
}

TEST(TensorCheck, TellsRowsThatNobodyWroteAndNaN) {
  PlainAttention wrong(kLine);
  wrong.Run();
  for (int64_t d = 0; d < 4; ++d) At(wrong, 0, 0, d) = 0;
  At(wrong, 1, 0, 3) = std::nan("");
  const Result<TensorCheck> check = wrong.Check();
  ASSERT_TRUE(check.ok()) << check.status().message();
  EXPECT_EQ(check->results[0].wrong_zeros, 1);
  EXPECT_EQ(check->results[0].wrong_specials, 1);
  EXPECT_TRUE(Says(*check, "1 of the wrong rows are all 0"));
  EXPECT_TRUE(Says(*check, "1 of the wrong rows have a NaN or an infinity"));
}

TEST(TensorCheck, SaysTheCauseAndHowSureItIs) {
  PlainAttention wrong("fwd bf16 h=4/2 d=32 q=9 k=40");
  wrong.scale = 1;
  wrong.Run();
  const Result<TensorCheck> check = wrong.Check();
  ASSERT_TRUE(check.ok()) << check.status().message();
  EXPECT_TRUE(Says(*check, "cause, sure: scale forgotten")) << Describe(*check);
}

// A line of random sizes, with sequences that have more rows than keys and
// none.
std::string RandomLine(Random& random, std::string_view direction,
                       std::string_view fields) {
  const char* const dtypes[] = {"f32", "f16", "bf16"};
  const int64_t kv_heads = random.Within(1, 3);
  std::vector<int64_t> rows;
  std::vector<int64_t> keys;
  for (int64_t n = random.Within(1, 3); n > 0; --n) {
    rows.push_back(random.Within(2, 20));
    const bool none = n > 1 && random.OneIn(4);
    keys.push_back(none ? 0 : random.Within(1, 30));
  }
  return Str("{} {} h={}/{} d={} q={} k={}{} {}", direction,
             dtypes[random.Within(0, 2)], kv_heads * random.Within(1, 3),
             kv_heads, random.Within(4, 40), Join(rows, ","), Join(keys, ","),
             random.OneIn(2) ? " causal" : "", fields);
}

// Number n of a result is off by a share that no rounding explains.
void Break(double& number) {
  const bool none = !std::isfinite(number) || std::fabs(number) > 1e30;
  number = none ? 0.25 : number + (std::fabs(number) + 1) * 0x1p-8;
}

TEST(TensorCheck, JudgesWhatSoftmaxLeavesOfRows) {
  constexpr uint64_t kLines = 20;
  for (uint64_t seed = 1; seed <= kLines; ++seed) {
    Random random(seed);
    const std::string line = RandomLine(random, "fwd", "stats lse");
    SCOPED_TRACE(line);
    PlainAttention plain(line, seed);
    plain.Run();
    for (double& x : plain["out"].values) x = std::isnan(x) ? 0 : x;
    const Result<TensorCheck> right = plain.Check("TND:rows");
    ASSERT_TRUE(right.ok()) << right.status().message();
    EXPECT_TRUE(right->right()) << Describe(*right);
    for (const auto& [name, slot] : {std::pair{"max", Slot::kRowMax},
                                     {"sum", Slot::kRowSum},
                                     {"lse", Slot::kLse}}) {
      std::vector<double>& values = plain[name].values;
      const auto last = static_cast<int64_t>(values.size()) - 1;
      double& number = values[static_cast<size_t>(random.Within(0, last))];
      const double was = number;
      Break(number);
      // Alone, and with all others.
      for (const std::string_view only : {std::string_view(name), {}}) {
        const Result<TensorCheck> wrong = plain.Check("TND:rows", only);
        ASSERT_TRUE(wrong.ok()) << wrong.status().message();
        EXPECT_EQ(wrong->results[0].judgement.wrong_rows, 1)
            << name << "\n"
            << Describe(*wrong);
        EXPECT_TRUE(Says(*wrong, Str("    {} sequence", Name(slot))))
            << Describe(*wrong);
      }
      number = was;
    }
  }
}

// Inputs and results of the reference, as if somebody had brought them.
struct Brought {
  explicit Brought(const AttentionProblem& problem)
      : sample(ReferenceRun(CpuBackend(), problem, 5)) {}

  // Dense; axes that repeat are 1.
  UserTensor Tensor(const char* name, Slot slot) const {
    const TensorSpec& spec = sample->problem()[slot];
    UserTensor tensor{name, spec.dtype, SizeOf(spec.dtype), {}, nullptr};
    const std::array<int64_t, 4> dims = spec.DistinctDims();
    const bool of_heads = slot == Slot::kSink || slot == Slot::kGradSink;
    const bool of_scores = slot == Slot::kBias || slot == Slot::kGradBias;
    // Rows are packed: their first axis is 1.
    tensor.dims.assign(dims.begin() + (of_heads || of_scores ? 0 : 1),
                       dims.begin() + (of_heads ? 1 : 4));
    tensor.data = sample->bindings()[slot];
    return tensor;
  }

  // Of the line's results these.
  Result<TensorCheck> Check(const AttentionProblem& problem,
                            const std::vector<UserTensor>& results,
                            double flops = 4e9) const {
    const Result<BoundInputs> bound = BindInputs(
        problem,
        std::vector{Tensor("q", Slot::kQuery), Tensor("k", Slot::kKey),
                    Tensor("v", Slot::kValue), Tensor("bias", Slot::kBias),
                    Tensor("sink", Slot::kSink),
                    Tensor("dout", Slot::kGradOut)},
        "");
    if (!bound.ok()) return bound.status();
    const Result<TensorSet> set = BindResults(*bound, results, "");
    if (!set.ok()) return set.status();
    Result<TensorCheck> check = Invalid("it did not run");
    (void)CpuBackend().queue->OnHost([&](Workers& workers) -> Status {
      check = CheckTensors(*bound, {{"npu", *set}}, {.flops = flops}, workers);
      return {};
    });
    return check;
  }

  Result<Sample> sample;
};

TEST(TensorCheck, JudgesGradientsOfBiasAndSinks) {
  const Result<AttentionProblem> problem =
      Parse("bwd f32 h=4/2 d=8 q=2x5 k=2x7 bias:hij sink grad:qkvbs");
  ASSERT_TRUE(problem.ok()) << problem.status().message();
  const Brought brought(*problem);
  ASSERT_TRUE(brought.sample.ok()) << brought.sample.status().message();
  UserTensor bias = brought.Tensor("dbias", Slot::kGradBias);
  const UserTensor sink = brought.Tensor("dsink", Slot::kGradSink);
  ASSERT_EQ(bias.dims, (std::vector<int64_t>{1, 4, 5, 7}));
  ASSERT_EQ(sink.dims, std::vector<int64_t>{4});
  const Result<TensorCheck> right = brought.Check(*problem, {bias, sink});
  ASSERT_TRUE(right.ok()) << right.status().message();
  EXPECT_TRUE(right->right()) << Describe(*right);
  EXPECT_EQ(right->results[0].judgement.rows, 4 * 5 + 4);
  EXPECT_TRUE(Says(*right, "grad sink: error")) << Describe(*right);

  auto* const numbers =
      reinterpret_cast<float*>(const_cast<std::byte*>(bias.data));
  numbers[(2 * 5 + 3) * 7 + 6] += 1;
  const Result<TensorCheck> wrong = brought.Check(*problem, {bias, sink});
  ASSERT_TRUE(wrong.ok()) << wrong.status().message();
  EXPECT_EQ(wrong->results[0].judgement.wrong_rows, 1);
  EXPECT_TRUE(Says(*wrong, "grad bias sequence 0 head 2 row 3 channel 6"))
      << Describe(*wrong);

  bias.dims = {1, 4, 7, 5};
  EXPECT_EQ(
      brought.Check(*problem, {bias}).status().message(),
      "dbias: (1, 4, 7, 5) is not [sequences, heads, rows, columns] of (2, "
      "4, 5, 7), where 1 repeats");
  UserTensor three = sink;
  three.dims = {3};
  EXPECT_EQ(brought.Check(*problem, {three}).status().message(),
            "dsink: (3) is not the shape of sink");
  const Result<AttentionProblem> fewer =
      Parse("bwd f32 h=4/2 d=8 q=2x5 k=2x7 bias:hij sink grad:qkvs");
  EXPECT_EQ(brought.Check(*fewer, {bias}).status().message(),
            "dbias: given, but the line has no such result; grad:qkvb asks for "
            "it");
}

// Of a problem of which some sequences are left out, nobody knows their sums.
TEST(TensorCheck, SaysWhichSumsItDoesNotCheck) {
  const Result<AttentionProblem> problem =
      Parse("bwd f32 h=4/2 d=8 q=9x5 k=9x7 bias:hij sink grad:qkvbs");
  ASSERT_TRUE(problem.ok()) << problem.status().message();
  const Brought brought(*problem);
  ASSERT_TRUE(brought.sample.ok()) << brought.sample.status().message();
  const Result<TensorCheck> some =
      brought.Check(*problem,
                    {brought.Tensor("dsink", Slot::kGradSink),
                     brought.Tensor("dq", Slot::kGradQuery)},
                    1e4);
  ASSERT_TRUE(some.ok()) << some.status().message();
  EXPECT_LT(some->rows, some->all_rows);
  EXPECT_TRUE(some->right()) << Describe(*some);
  EXPECT_TRUE(Says(*some, "note: npu: grad sink is not checked"))
      << Describe(*some);
}

}  // namespace
}  // namespace flashacl
