// SPDX-License-Identifier: Apache-2.0
// Calls of operators as programs make them: tensors in guarded device memory,
// both phases on a stream, results read back. What every call promises is
// expected on the way; what the numbers should be is the test's to say.
#pragma once

#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "acl/acl.h"
#include "aclnn/aclnn_base.h"
#include "base/function_ref.h"
#include "base/random.h"
#include "tests/testing/entry_points.h"
#include "tests/testing/operator_call.h"

namespace flashacl::testing {

// A tensor as aclCreateTensor wants it. No strides: dense.
struct Form {
  aclDataType type = ACL_FLOAT16;
  std::vector<int64_t> dims;
  std::vector<int64_t> strides = {};
  int64_t offset = 0;  // elements before the first
  aclFormat format = ACL_FORMAT_ND;
};

// The same shape in memory that has gaps, and elements before the first: axes
// lie in reverse of `order` (the last of it is the innermost), each stride
// longer than needed.
Form Spread(Form form, std::initializer_list<size_t> order);

// The same of rows of any rank, only if `spread`.
Form MaybeSpread(bool spread, aclDataType type, std::vector<int64_t> dims);

// Device memory and its image on the host. Numbers are put into the image and
// read from it; Upload and Download carry it over. Bytes that are no element,
// among them guards around the memory, are 0xFF: NaN, or an index of -1.
class DeviceTensor {
 public:
  explicit DeviceTensor(Form form);
  ~DeviceTensor();
  DeviceTensor(const DeviceTensor&) = delete;
  DeviceTensor& operator=(const DeviceTensor&) = delete;

  const Form& form() const { return form_; }
  aclTensor* handle() const { return handle_; }
  void* data() const;  // what the handle holds
  int64_t elements() const;

  double Get(std::initializer_list<int64_t> index) const;
  void Set(std::initializer_list<int64_t> index, double value);
  // Element n in order of the shape.
  double Nth(int64_t n) const;
  void SetNth(int64_t n, double value);
  std::vector<double> Values() const;

  void FillWith(double value);
  void Fill(Random& random, double low, double high);  // any number
  void FillIntegers(Random& random, int64_t low, int64_t high);

  void Upload();
  void Download();

  // Every byte of the elements becomes `pattern`.
  void Overwrite(uint8_t pattern);
  // The elements' bytes, in order of the shape.
  std::vector<std::byte> ElementBytes() const;
  // All bytes, guards included; without elements, theirs are 0.
  std::vector<std::byte> Image() const { return image_; }
  std::vector<std::byte> ImageWithoutElements() const;

 private:
  int64_t OffsetOf(std::span<const int64_t> index) const;
  int64_t OffsetOfNth(int64_t n) const;
  std::byte* at(int64_t offset);
  const std::byte* at(int64_t offset) const;

  Form form_;
  int64_t element_bytes_ = 0;
  std::vector<std::byte> image_;
  std::byte* device_ = nullptr;
  aclTensor* handle_ = nullptr;
};

// One place to make calls of one operator from. Owns what it hands out. Needs
// no aclInit; sets device 0.
class Caller {
 public:
  using PhaseOne = FunctionRef<aclnnStatus(uint64_t*, aclOpExecutor**)>;
  using PhaseTwo = aclnnStatus (*)(void*, uint64_t, aclOpExecutor*,
                                   aclrtStream);

  explicit Caller(PhaseTwo phase_two);
  ~Caller();
  Caller(const Caller&) = delete;
  Caller& operator=(const Caller&) = delete;

  DeviceTensor* Input(Form form);
  DeviceTensor* Output(Form form);
  // Another tensor in place of `tensor`, an output if that is one.
  void Replace(DeviceTensor*& tensor, Form form);
  bool IsOutput(const aclTensor* handle) const;
  // Destroys a tensor the calls do not use.
  void Forget(const DeviceTensor* tensor);
  const aclTensorList* List(std::span<DeviceTensor* const> members);
  const aclIntArray* Array(const std::vector<int64_t>& values);

  // Both phases, twice, over outputs and workspace that hold something else
  // each time. Expects success, inputs unchanged, nothing written but the
  // elements of outputs, and the same bits both times, so every element of an
  // output was written. False if phase 1 or 2 failed.
  bool Run(PhaseOne phase_one);

  // Phase 1 alone. Expects `status`, a message with `words` in it, and nothing
  // touched.
  void ExpectFailure(PhaseOne phase_one, aclnnStatus status,
                     std::string_view words);

 private:
  bool RunOnce(PhaseOne phase_one, uint8_t pattern);
  void ExpectOthersUnchanged();

  PhaseTwo phase_two_;
  aclrtStream stream_ = nullptr;
  std::vector<std::unique_ptr<DeviceTensor>> inputs_;
  std::vector<std::unique_ptr<DeviceTensor>> outputs_;
  std::vector<const aclTensorList*> lists_;
  std::vector<const aclIntArray*> arrays_;
  std::vector<std::vector<std::byte>> before_;  // images, inputs first
};

// "aclnnX" for 1, "aclnnXV2" for 2.
std::string VersionName(std::string_view name, int version);

// A call of one operator and where it is made from. What it passes may be
// changed until it is made.
class OperatorFixture {
 public:
  explicit OperatorFixture(std::string_view name, int version = 1)
      : OperatorFixture(EntryPointsOf(VersionName(name, version))) {}
  virtual ~OperatorFixture() = default;

  aclnnStatus PhaseOne(uint64_t* size, aclOpExecutor** executor) {
    return entry_.phase_one(Pass(), size, executor);
  }
  bool Run();
  void ExpectFailure(aclnnStatus status, std::string_view words);
  // What is passed, as data without memory; of a list, its first member as
  // often as it has members.
  OperatorCall AsData();
  // Phase 1 alone succeeds: for what is too large to compute in a test.
  void ExpectPlanned();
  // Nothing to compute: no workspace, and nothing happens.
  void ExpectNothingToDo();

  Caller caller;

 private:
  explicit OperatorFixture(const EntryPoints& entry)
      : caller(entry.phase_two), entry_(entry) {}

  virtual Parameters Pass() = 0;

  const EntryPoints& entry_;
};

// Null for none.
inline const aclTensor* HandleOf(const DeviceTensor* tensor) {
  return tensor == nullptr ? nullptr : tensor->handle();
}

// Passes these tensors next, null for none.
inline void Add(Parameters& parameters,
                std::initializer_list<const DeviceTensor*> tensors) {
  for (const DeviceTensor* tensor : tensors) {
    parameters.tensors.push_back(HandleOf(tensor));
  }
}

// Of terms of fp32, in shares of them, 16 roundings: a sum of n products errs
// like sqrt(n) of them, by 8 for 64 channels, exp by 4 and sums over 20 keys by
// another 4.
inline constexpr double kTermError = 1e-6;

// The same of probs times values, as innerPrecise lets probs be rounded.
double ProbTermError(aclDataType query, bool high_performance);

// Expects the elements to be near `expected` in order of the shape: one
// rounding of the type, plus `term_error` of `scale`, the size of the terms
// that were summed. NaN, infinities and zeros must match exactly where
// `expected` has NaN, infinities, or an exact 0. For INT8, `expected` is what
// was rounded after a factor of up to 100: either neighbour of a near tie will
// do. `errors`: what each element may be off by besides, or none.
void ExpectNear(const DeviceTensor& tensor, std::span<const double> expected,
                double scale = 1.0, double term_error = kTermError,
                std::span<const double> errors = {});

}  // namespace flashacl::testing
