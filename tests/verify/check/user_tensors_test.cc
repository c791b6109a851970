// SPDX-License-Identifier: Apache-2.0
// Shapes say which axis is which, or the message says why they do not.
#include "verify/check/user_tensors.h"

#include <gtest/gtest.h>

#include "problem/notation.h"
#include "verify/check/operand_rows.h"
#include "verify/check/tensor_layout.h"
#include "verify/check/user_results.h"

namespace flashacl {
namespace {

// Zeros of a shape; elements of two bytes, of which the problem's type is.
class Tensors {
 public:
  Tensors& Add(const std::string& name, std::vector<int64_t> dims,
               DType dtype = DType::kF16) {
    int64_t count = 1;
    for (const int64_t dim : dims) count *= dim;
    bytes_.emplace_back(static_cast<size_t>(count * SizeOf(dtype)));
    tensors_.push_back(
        {name, dtype, SizeOf(dtype), std::move(dims), bytes_.back().data()});
    return *this;
  }

  Result<BoundInputs> Bind(std::string_view line,
                           std::string_view layout = "") const {
    const Result<AttentionProblem> problem = Parse(line);
    EXPECT_TRUE(problem.ok()) << line;
    return BindInputs(*problem, tensors_, layout);
  }

  std::string Refusal(std::string_view line,
                      std::string_view layout = "") const {
    const Result<BoundInputs> bound = Bind(line, layout);
    return bound.ok() ? "" : bound.status().message();
  }

  std::span<const UserTensor> all() const { return tensors_; }

 private:
  std::vector<std::vector<std::byte>> bytes_;
  std::vector<UserTensor> tensors_;
};

constexpr char kLine[] = "fwd f16 h=4/2 d=32 q=3x10 k=3x20";

TEST(UserTensors, ShapesSayTheLayout) {
  struct Case {
    const char* layout;
    std::vector<int64_t> query, key;
    std::array<int64_t, 4> strides;  // of the query
  };
  for (const Case& one : std::initializer_list<Case>{
           {"BSND", {3, 10, 4, 32}, {3, 20, 2, 32}, {1280, 128, 32, 1}},
           {"BNSD", {3, 4, 10, 32}, {3, 2, 20, 32}, {1280, 32, 320, 1}},
           {"SBND", {10, 3, 4, 32}, {20, 3, 2, 32}, {128, 384, 32, 1}},
           {"BSH", {3, 10, 128}, {3, 20, 64}, {1280, 128, 32, 1}},
           {"SBH", {10, 3, 128}, {20, 3, 64}, {128, 384, 32, 1}},
           {"TND", {30, 4, 32}, {60, 2, 32}, {0, 128, 32, 1}},
           {"NTD", {4, 30, 32}, {2, 60, 32}, {0, 32, 960, 1}},
           {"TH", {30, 128}, {60, 64}, {0, 128, 32, 1}}}) {
    Tensors tensors;
    tensors.Add("q", one.query).Add("k", one.key).Add("v", one.key);
    const Result<BoundInputs> bound = tensors.Bind(kLine);
    ASSERT_TRUE(bound.ok()) << bound.status().message();
    EXPECT_EQ(bound->layout, one.layout);
    const TensorSpec& spec = bound->tensors.problem[Slot::kQuery];
    EXPECT_EQ(spec.strides, one.strides) << one.layout;
    const Sequence& last = bound->tensors.problem.lengths.sequences[2];
    EXPECT_EQ(last.queries.first, one.strides[0] == 0 ? 20 : 0);
    EXPECT_EQ(last.keys.size(), 20);
  }
}

TEST(UserTensors, SequencesMayEndBeforeTheirAxis) {
  Tensors tensors;
  tensors.Add("q", {2, 10, 4, 32}).Add("k", {2, 25, 2, 32});
  tensors.Add("v", {2, 25, 2, 32});
  const auto bound = tensors.Bind("fwd f16 h=4/2 d=32 q=7,10 k=20,3");
  ASSERT_TRUE(bound.ok()) << bound.status().message();
  EXPECT_EQ(bound->layout, "BSND");
}

TEST(UserTensors, AsksWhereShapesAllowSeveral) {
  Tensors tensors;
  tensors.Add("q", {2, 4, 4, 32}).Add("k", {2, 4, 4, 32});
  tensors.Add("v", {2, 4, 4, 32});
  constexpr char kSquare[] = "fwd f16 h=4 d=32 q=2x4 k=2x4";
  EXPECT_EQ(tensors.Refusal(kSquare),
            "q (2, 4, 4, 32), k (2, 4, 4, 32), v (2, 4, 4, 32): BSND or BNSD: "
            "say which, layout=BSND");
  EXPECT_EQ(tensors.Refusal(kSquare, "BNSD"), "");
  EXPECT_EQ(tensors.Refusal(kSquare, "BNDS"),
            "layout: BNDS; did you mean BNSD?; there are BSND, BNSD, SBND, "
            "BSH, SBH, TND, NTD, TH");
}

TEST(UserTensors, SaysWhichShapeFitsNothing) {
  Tensors tensors;
  tensors.Add("q", {3, 10, 4, 32}).Add("k", {3, 21, 4, 32});
  tensors.Add("v", {3, 20, 2, 32});
  const std::string refusal = tensors.Refusal(kLine);
  EXPECT_NE(refusal.find("no layout has all of these shapes"),
            std::string::npos);
  EXPECT_NE(refusal.find("k needs B=3 S=20 T=60 N=2 D=32"), std::string::npos);
}

TEST(UserTensors, SaysWhatIsMissingOrUnknown) {
  Tensors tensors;
  tensors.Add("q", {3, 10, 4, 32}).Add("k", {3, 20, 2, 32});
  EXPECT_EQ(tensors.Refusal(kLine), "v: missing; the line has a tensor value");
  tensors.Add("vv", {3, 20, 2, 32});
  EXPECT_NE(tensors.Refusal(kLine).find("vv: no such tensor"),
            std::string::npos);
  Tensors sinks;
  sinks.Add("sink", {4});
  EXPECT_EQ(sinks.Refusal(kLine),
            "sink: given, but the line has no such tensor: sink");
}

TEST(UserTensors, MasksRepeatAlongAxesOfOne) {
  for (const std::vector<int64_t>& dims : {std::vector<int64_t>{10, 20},
                                           {3, 10, 20},
                                           {3, 4, 10, 20},
                                           {3, 1, 1, 20},
                                           {1, 4, 10, 1}}) {
    Tensors tensors;
    tensors.Add("q", {3, 10, 4, 32}).Add("k", {3, 20, 2, 32});
    tensors.Add("v", {3, 20, 2, 32}).Add("mask", dims, DType::kBool);
    EXPECT_EQ(tensors.Refusal(kLine), "");
  }
  Tensors tensors;
  tensors.Add("q", {3, 10, 4, 32}).Add("k", {3, 20, 2, 32});
  tensors.Add("v", {3, 20, 2, 32}).Add("mask", {10, 19}, DType::kBool);
  EXPECT_EQ(tensors.Refusal(kLine),
            "mask: (10, 19) is not [sequences, heads, rows, columns] of (3, 4, "
            "10, 20), where 1 repeats");
}

TEST(UserTensors, RopesAreTheLastChannelsOrTensors) {
  constexpr char kRopes[] = "fwd f16 h=4/2 d=32+8 q=3x10 k=3x20";
  Tensors inside;
  inside.Add("q", {3, 10, 4, 40}).Add("k", {3, 20, 2, 40});
  inside.Add("v", {3, 20, 2, 32});
  const auto bound = inside.Bind(kRopes);
  ASSERT_TRUE(bound.ok()) << bound.status().message();
  const Bindings& bindings = bound->tensors.bindings;
  EXPECT_EQ(bindings[Slot::kQueryRope] - bindings[Slot::kQuery], 64);
  Tensors apart;
  apart.Add("q", {3, 10, 4, 32}).Add("k", {3, 20, 2, 32});
  apart.Add("v", {3, 20, 2, 32}).Add("q_rope", {3, 10, 4, 8});
  apart.Add("k_rope", {3, 20, 2, 8});
  EXPECT_EQ(apart.Refusal(kRopes), "");
}

TEST(UserTensors, NumbersBecomeTheLinesType) {
  const std::vector<float> values(30 * 4 * 32, 0.1f);
  const auto* const data = reinterpret_cast<const std::byte*>(values.data());
  const std::vector<UserTensor> tensors = {
      {"q", DType::kF32, 4, {30, 4, 32}, data},
      {"k", DType::kF32, 4, {30, 2, 32}, data},
      {"v", DType::kF32, 4, {30, 2, 32}, data}};
  const auto bound =
      BindInputs(*Parse("fwd bf16 h=4/2 d=32 q=30 k=30"), tensors, "");
  ASSERT_TRUE(bound.ok()) << bound.status().message();
  ASSERT_EQ(bound->notes.size(), 3u);
  EXPECT_EQ(bound->notes[0],
            "q: its f32 are rounded to bf16, by 9.8e-05 at most");
  const std::vector<UserTensor> integers = {
      {"q", DType::kI32, 4, {30, 4, 32}, data},
      {"k", DType::kF32, 4, {30, 2, 32}, data},
      {"v", DType::kF32, 4, {30, 2, 32}, data}};
  EXPECT_EQ(BindInputs(*Parse("fwd bf16 h=4/2 d=32 q=30 k=30"), integers, "")
                .status()
                .message(),
            "q: elements of i32, expected bf16");
}

// What follows the layout's name is the order of rows in maxima and sums.
TEST(UserTensors, LayoutsMaySayTheOrderOfRows) {
  constexpr char kStats[] = "fwd f16 h=4/2 d=32 q=3x10 k=3x20 stats";
  Tensors tensors;
  tensors.Add("q", {30, 4, 32}).Add("k", {60, 2, 32}).Add("v", {60, 2, 32});
  for (const char* layout : {"TND:blocks", ":blocks"}) {
    const auto bound = tensors.Bind(kStats, layout);
    ASSERT_TRUE(bound.ok()) << bound.status().message();
    EXPECT_EQ(bound->layout, "TND");
    EXPECT_EQ(bound->row_order, RowOrder::kBlocks);
  }
  EXPECT_EQ(tensors.Bind(kStats, "TND:rows")->row_order, RowOrder::kRows);
  EXPECT_EQ(tensors.Refusal(kStats, "TND:block"),
            "layout: TND:block; orders of rows are :rows and :blocks");
  Tensors dense;
  dense.Add("q", {3, 10, 4, 32}).Add("k", {3, 20, 2, 32});
  dense.Add("v", {3, 20, 2, 32});
  EXPECT_EQ(dense.Refusal(kStats, "BSND:blocks"),
            "layout: BSND:blocks; :blocks is of packed sequences, TND, NTD and "
            "TH");
}

TEST(UserTensors, RowResultsHaveTheirOwnShapesAndType) {
  constexpr char kStats[] = "fwd f16 h=4/2 d=32 q=3x10 k=3x20 stats";
  Tensors tensors;
  tensors.Add("q", {3, 10, 4, 32}).Add("k", {3, 20, 2, 32});
  tensors.Add("v", {3, 20, 2, 32});
  const auto refusal = [&](std::string_view line, std::vector<int64_t> dims,
                           DType dtype) {
    const auto bound = tensors.Bind(line);
    EXPECT_TRUE(bound.ok()) << bound.status().message();
    Tensors results;
    results.Add("max", std::move(dims), dtype);
    const auto set = BindResults(*bound, results.all(), "npu: ");
    return set.ok() ? "" : set.status().message();
  };
  EXPECT_EQ(refusal(kStats, {3, 4, 10, 8}, DType::kF32), "");
  EXPECT_EQ(refusal(kStats, {3, 4, 10, 8}, DType::kI32),
            "npu: max: elements of i32, expected f32");
  EXPECT_EQ(refusal(kStats, {3, 10, 4, 8}, DType::kF32),
            "npu: max: (3, 10, 4, 8) is none of (B, N, S, 8), (B, N, S, 1), "
            "(B, N, S), (B, 1, S, N) with B=3 S=10 T=30 N=4");
  EXPECT_EQ(refusal(kLine, {3, 4, 10, 8}, DType::kF32),
            "npu: max: given, but the line has no such result");
}

TEST(UserTensors, ResultsAreLaidOutAsInputs) {
  Tensors tensors;
  tensors.Add("q", {3, 10, 4, 32}).Add("k", {3, 20, 2, 32});
  tensors.Add("v", {3, 20, 2, 32});
  const auto bound = tensors.Bind(kLine);
  ASSERT_TRUE(bound.ok());
  Tensors out;
  out.Add("out", {3, 4, 10, 32});
  EXPECT_EQ(BindResults(*bound, out.all(), "npu ").status().message(),
            "npu out: (3, 4, 10, 32) is not BSND of B=3 S=10 T=30 N=4 D=32");
  Tensors right;
  right.Add("out", {3, 10, 4, 32});
  EXPECT_TRUE(BindResults(*bound, right.all(), "").ok());
}

}  // namespace
}  // namespace flashacl
