// SPDX-License-Identifier: Apache-2.0
// The library of include/flashacl/check.h, which is none of the runtime's: the
// reference computes, on threads of its own.
#include "flashacl/check.h"

#include <algorithm>
#include <atomic>
#include <cstring>
#include <string_view>
#include <thread>
#include <vector>

#include "base/contain.h"
#include "base/str.h"
#include "problem/notation.h"
#include "verify/check/tensor_check.h"
#include "verify/check/user_results.h"

namespace flashacl {
namespace {

class Threads final : public Workers {
 public:
  void ForEach(int64_t count, FunctionRef<void(int64_t)> body) override {
    std::atomic<int64_t> next{0};
    const auto work = [&] {
      for (int64_t n = next++; n < count; n = next++) body(n);
    };
    std::vector<std::jthread> others;
    const int64_t most = std::min<int64_t>(count, this->count());
    for (int64_t n = 1; n < most; ++n) others.emplace_back(work);
    work();
  }
  int count() const override {
    return static_cast<int>(std::max(1u, std::thread::hardware_concurrency()));
  }
};

struct Question {
  std::vector<UserTensor> inputs;
  std::vector<UserTensor> results;
};

Result<Question> Sort(Direction direction, const flashaclCheckTensor* tensors,
                      size_t count) {
  const std::vector<std::string_view> results = ResultNames(direction);
  Question question;
  for (size_t n = 0; n < count; ++n) {
    const flashaclCheckTensor& from = tensors[n];
    const bool shaped = from.dims != nullptr || from.dimCount == 0;
    if (from.name == nullptr || from.dtype == nullptr || !shaped ||
        from.data == nullptr) {
      return NullArgument("tensor {}: no name, dtype, dims or data", n);
    }
    const DType dtype = ParseDType(from.dtype);
    if (dtype == DType::kNone) {
      return Invalid(
          "{}: dtype {}, expected f32, f16, bf16, f64, bool, i8, "
          "u8, i32 or i64",
          from.name, from.dtype);
    }
    UserTensor tensor{from.name, dtype, SizeOf(dtype), {}, nullptr};
    if (from.dimCount > 0) {
      tensor.dims.assign(from.dims, from.dims + from.dimCount);
    }
    if (std::ranges::any_of(tensor.dims, [](int64_t x) { return x < 0; })) {
      return Invalid("{}: ({}) has a negative axis", from.name,
                     Join(tensor.dims, ", "));
    }
    tensor.data = static_cast<const std::byte*>(from.data);
    const bool result = std::ranges::count(results, tensor.name) > 0;
    (result ? question.results : question.inputs).push_back(tensor);
  }
  if (question.results.empty()) {
    return NullArgument("no result to check: {}", Join(results, ", "));
  }
  return question;
}

Result<TensorCheck> Ask(const char* line, const char* layout,
                        const flashaclCheckTensor* tensors, size_t count) {
  if (line == nullptr) return NullArgument("line: null");
  if (tensors == nullptr) return NullArgument("tensors: null");
  const Result<AttentionProblem> problem = Parse(line);
  if (!problem.ok()) return problem.status();
  const Result<Question> question = Sort(problem->direction, tensors, count);
  if (!question.ok()) return question.status();
  const Result<BoundInputs> inputs =
      BindInputs(*problem, question->inputs, layout == nullptr ? "" : layout);
  if (!inputs.ok()) return inputs.status();
  const Result<TensorSet> set = BindResults(*inputs, question->results, "");
  if (!set.ok()) return set.status();
  Threads threads;
  return CheckTensors(*inputs, {{"result", *set}}, {}, threads);
}

void Tell(std::string_view report, char* text, size_t size) {
  if (text == nullptr || size == 0) return;
  const size_t length = std::min(report.size(), size - 1);
  std::memcpy(text, report.data(), length);
  text[length] = '\0';
}

}  // namespace
}  // namespace flashacl

extern "C" __attribute__((visibility("default"))) flashaclCheckVerdict
flashaclCheck(const char* line, const char* layout,
              const flashaclCheckTensor* tensors, size_t tensorCount,
              char* text, size_t textSize) {
  const auto judge = [&] {
    const flashacl::Result<flashacl::TensorCheck> check =
        flashacl::Ask(line, layout, tensors, tensorCount);
    flashacl::Tell(
        check.ok() ? flashacl::Describe(*check) : check.status().message(),
        text, textSize);
    if (!check.ok()) return FLASHACL_CHECK_MISTAKE;
    return check->right() ? FLASHACL_CHECK_RIGHT : FLASHACL_CHECK_WRONG;
  };
  return flashacl::Contain(judge, [&](bool no_memory) {
    flashacl::Tell(no_memory ? "no memory" : "no threads", text, textSize);
    return FLASHACL_CHECK_MISTAKE;
  });
}
