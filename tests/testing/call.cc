// SPDX-License-Identifier: Apache-2.0
// Guarded tensors and both phases of a call.
#include "tests/testing/call.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>
#include <string>

#include "base/number.h"
#include "tests/testing/rounding.h"

namespace flashacl::testing {
namespace {

constexpr size_t kGuardBytes = 128;
constexpr std::byte kBlank{0xFF};

DType DTypeOf(aclDataType type) {
  switch (type) {
    case ACL_FLOAT:
      return DType::kF32;
    case ACL_FLOAT16:
      return DType::kF16;
    case ACL_BF16:
      return DType::kBf16;
    case ACL_INT8:
      return DType::kI8;
    case ACL_UINT8:
      return DType::kU8;
    case ACL_BOOL:
      return DType::kBool;
    case ACL_INT32:
      return DType::kI32;
    case ACL_INT64:
      return DType::kI64;
    case ACL_UINT64:
      return DType::kU64;
    case ACL_DOUBLE:
      return DType::kF64;
    default:
      return DType::kNone;
  }
}

int64_t BytesOf(aclDataType type) {
  const int64_t bytes = SizeOf(DTypeOf(type));
  return bytes == 0 ? 8 : bytes;  // of a type that only has to be refused
}

std::vector<int64_t> DenseStrides(const std::vector<int64_t>& dims) {
  std::vector<int64_t> strides(dims.size(), 1);
  for (size_t axis = dims.size(); axis-- > 1;) {
    strides[axis - 1] = strides[axis] * std::max<int64_t>(dims[axis], 1);
  }
  return strides;
}

bool AnyEmpty(const std::vector<int64_t>& dims) {
  return std::ranges::count(dims, 0) > 0;
}

// From the first element of the storage to after the last of the view.
int64_t Span(const Form& form) {
  if (AnyEmpty(form.dims)) return form.offset;
  int64_t last = form.offset;
  for (size_t axis = 0; axis < form.dims.size(); ++axis) {
    last += (form.dims[axis] - 1) * form.strides[axis];
  }
  return last + 1;
}

// A message of the thread, taken so that the next call starts without one.
std::string TakeMessage() {
  const char* message = aclGetRecentErrMsg();
  return message == nullptr ? std::string() : std::string(message);
}

}  // namespace

Form Spread(Form form, std::initializer_list<size_t> order) {
  form.strides.assign(form.dims.size(), 0);
  int64_t stride = 1;
  for (auto axis = std::rbegin(order); axis != std::rend(order); ++axis) {
    form.strides[*axis] = stride;
    stride = stride * std::max<int64_t>(form.dims[*axis], 1) + 3;
  }
  form.offset = 5;
  return form;
}

Form MaybeSpread(bool spread, aclDataType type, std::vector<int64_t> dims) {
  Form form{.type = type, .dims = std::move(dims)};
  if (!spread) return form;
  switch (form.dims.size()) {
    case 1:
      return Spread(std::move(form), {0});
    case 2:
      return Spread(std::move(form), {1, 0});
    case 3:
      return Spread(std::move(form), {1, 0, 2});
    default:
      return Spread(std::move(form), {2, 0, 1, 3});
  }
}

DeviceTensor::DeviceTensor(Form form) : form_(std::move(form)) {
  if (form_.strides.empty()) form_.strides = DenseStrides(form_.dims);
  element_bytes_ = BytesOf(form_.type);
  const int64_t span = Span(form_);
  image_.assign(static_cast<size_t>(span * element_bytes_) + 2 * kGuardBytes,
                kBlank);
  void* memory = nullptr;
  EXPECT_EQ(aclrtMalloc(&memory, image_.size(), ACL_MEM_MALLOC_HUGE_FIRST), 0);
  device_ = static_cast<std::byte*>(memory);
  handle_ = aclCreateTensor(form_.dims.data(), form_.dims.size(), form_.type,
                            form_.strides.data(), form_.offset, form_.format,
                            &span, 1, data());
  EXPECT_NE(handle_, nullptr);
  FillWith(0);
}

DeviceTensor::~DeviceTensor() {
  aclDestroyTensor(handle_);
  aclrtFree(device_);
}

void* DeviceTensor::data() const { return device_ + kGuardBytes; }

int64_t DeviceTensor::elements() const {
  int64_t count = 1;
  for (const int64_t dim : form_.dims) count *= dim;
  return count;
}

int64_t DeviceTensor::OffsetOf(std::span<const int64_t> index) const {
  int64_t offset = form_.offset;
  for (size_t axis = 0; axis < index.size(); ++axis) {
    offset += index[axis] * form_.strides[axis];
  }
  return offset;
}

int64_t DeviceTensor::OffsetOfNth(int64_t n) const {
  int64_t offset = form_.offset;
  for (size_t axis = form_.dims.size(); axis-- > 0;) {
    offset += n % form_.dims[axis] * form_.strides[axis];
    n /= form_.dims[axis];
  }
  return offset;
}

std::byte* DeviceTensor::at(int64_t offset) {
  return image_.data() + kGuardBytes + offset * element_bytes_;
}

const std::byte* DeviceTensor::at(int64_t offset) const {
  return image_.data() + kGuardBytes + offset * element_bytes_;
}

double DeviceTensor::Get(std::initializer_list<int64_t> index) const {
  return ReadNumber(DTypeOf(form_.type),
                    at(OffsetOf({index.begin(), index.size()})));
}

void DeviceTensor::Set(std::initializer_list<int64_t> index, double value) {
  WriteNumber(DTypeOf(form_.type), at(OffsetOf({index.begin(), index.size()})),
              value);
}

double DeviceTensor::Nth(int64_t n) const {
  return ReadNumber(DTypeOf(form_.type), at(OffsetOfNth(n)));
}

void DeviceTensor::SetNth(int64_t n, double value) {
  WriteNumber(DTypeOf(form_.type), at(OffsetOfNth(n)), value);
}

std::vector<double> DeviceTensor::Values() const {
  std::vector<double> values(static_cast<size_t>(elements()));
  for (size_t n = 0; n < values.size(); ++n) {
    values[n] = Nth(static_cast<int64_t>(n));
  }
  return values;
}

void DeviceTensor::FillWith(double value) {
  // With all strides 0, the first element is every element.
  const bool one = std::ranges::count(form_.strides, 0) ==
                   static_cast<ptrdiff_t>(form_.strides.size());
  const int64_t count = one ? std::min<int64_t>(elements(), 1) : elements();
  for (int64_t n = 0; n < count; ++n) SetNth(n, value);
}

void DeviceTensor::Fill(Random& random, double low, double high) {
  for (int64_t n = 0; n < elements(); ++n) {
    SetNth(n, low + (high - low) * random.Fraction());
  }
}

void DeviceTensor::FillIntegers(Random& random, int64_t low, int64_t high) {
  for (int64_t n = 0; n < elements(); ++n) {
    SetNth(n, static_cast<double>(random.Within(low, high)));
  }
}

void DeviceTensor::Upload() {
  EXPECT_EQ(aclrtMemcpy(device_, image_.size(), image_.data(), image_.size(),
                        ACL_MEMCPY_HOST_TO_DEVICE),
            0);
}

void DeviceTensor::Download() {
  EXPECT_EQ(aclrtMemcpy(image_.data(), image_.size(), device_, image_.size(),
                        ACL_MEMCPY_DEVICE_TO_HOST),
            0);
}

void DeviceTensor::Overwrite(uint8_t pattern) {
  for (int64_t n = 0; n < elements(); ++n) {
    std::memset(at(OffsetOfNth(n)), pattern,
                static_cast<size_t>(element_bytes_));
  }
}

std::vector<std::byte> DeviceTensor::ElementBytes() const {
  std::vector<std::byte> bytes;
  bytes.reserve(static_cast<size_t>(elements() * element_bytes_));
  for (int64_t n = 0; n < elements(); ++n) {
    const std::byte* element = at(OffsetOfNth(n));
    bytes.insert(bytes.end(), element, element + element_bytes_);
  }
  return bytes;
}

std::vector<std::byte> DeviceTensor::ImageWithoutElements() const {
  std::vector<std::byte> image = image_;
  for (int64_t n = 0; n < elements(); ++n) {
    std::memset(image.data() + (at(OffsetOfNth(n)) - image_.data()), 0,
                static_cast<size_t>(element_bytes_));
  }
  return image;
}

Caller::Caller(PhaseTwo phase_two) : phase_two_(phase_two) {
  EXPECT_EQ(aclrtSetDevice(0), 0);
  EXPECT_EQ(aclrtCreateStream(&stream_), 0);
}

Caller::~Caller() {
  EXPECT_EQ(aclrtDestroyStream(stream_), 0);
  for (const aclTensorList* list : lists_) {
    // Destroys the members too; destroying those again is forgiven.
    EXPECT_EQ(aclDestroyTensorList(list), 0);
  }
  for (const aclIntArray* array : arrays_) {
    EXPECT_EQ(aclDestroyIntArray(array), 0);
  }
  inputs_.clear();
  outputs_.clear();
  EXPECT_EQ(aclrtResetDevice(0), 0);
}

DeviceTensor* Caller::Input(Form form) {
  inputs_.push_back(std::make_unique<DeviceTensor>(std::move(form)));
  return inputs_.back().get();
}

DeviceTensor* Caller::Output(Form form) {
  outputs_.push_back(std::make_unique<DeviceTensor>(std::move(form)));
  return outputs_.back().get();
}

void Caller::Replace(DeviceTensor*& tensor, Form form) {
  const DeviceTensor* const before = tensor;
  const bool output = std::ranges::any_of(
      outputs_, [&](const auto& owned) { return owned.get() == before; });
  tensor = output ? Output(std::move(form)) : Input(std::move(form));
  if (before != nullptr) Forget(before);
}

void Caller::Forget(const DeviceTensor* tensor) {
  const auto same = [&](const std::unique_ptr<DeviceTensor>& owned) {
    return owned.get() == tensor;
  };
  std::erase_if(inputs_, same);
  std::erase_if(outputs_, same);
}

bool Caller::IsOutput(const aclTensor* handle) const {
  return handle != nullptr &&
         std::ranges::any_of(outputs_, [&](const auto& output) {
           return output->handle() == handle;
         });
}

const aclTensorList* Caller::List(std::span<DeviceTensor* const> members) {
  std::vector<const aclTensor*> handles;
  for (DeviceTensor* member : members) handles.push_back(HandleOf(member));
  lists_.push_back(aclCreateTensorList(handles.data(), handles.size()));
  return lists_.back();
}

const aclIntArray* Caller::Array(const std::vector<int64_t>& values) {
  arrays_.push_back(aclCreateIntArray(values.data(), values.size()));
  return arrays_.back();
}

void Caller::ExpectOthersUnchanged() {
  size_t n = 0;
  for (const auto& input : inputs_) {
    input->Download();
    EXPECT_EQ(input->Image(), before_[n]) << "input " << n << " was written to";
    ++n;
  }
  for (const auto& output : outputs_) {
    output->Download();
    EXPECT_EQ(output->ImageWithoutElements(), before_[n])
        << "output " << n - inputs_.size()
        << " was written to beside its elements";
    ++n;
  }
}

bool Caller::RunOnce(PhaseOne phase_one, uint8_t pattern) {
  before_.clear();
  for (const auto& input : inputs_) {
    input->Upload();
    before_.push_back(input->Image());
  }
  for (const auto& output : outputs_) {
    output->Overwrite(pattern);
    output->Upload();
    before_.push_back(output->ImageWithoutElements());
  }
  uint64_t size = 0;
  aclOpExecutor* executor = nullptr;
  const aclnnStatus planned = phase_one(&size, &executor);
  EXPECT_EQ(planned, 0) << TakeMessage();
  if (planned != 0) return false;
  EXPECT_NE(executor, nullptr);

  std::vector<std::byte> workspace(size + kGuardBytes, std::byte{pattern});
  void* memory = nullptr;
  EXPECT_EQ(aclrtMalloc(&memory, workspace.size(), ACL_MEM_MALLOC_HUGE_FIRST),
            0);
  EXPECT_EQ(aclrtMemset(memory, workspace.size(), pattern, workspace.size()),
            0);
  const aclnnStatus launched =
      phase_two_(size == 0 ? nullptr : memory, size, executor, stream_);
  EXPECT_EQ(launched, 0) << TakeMessage();
  EXPECT_EQ(aclrtSynchronizeStream(stream_), 0) << TakeMessage();
  EXPECT_EQ(aclrtMemcpy(workspace.data(), workspace.size(), memory,
                        workspace.size(), ACL_MEMCPY_DEVICE_TO_HOST),
            0);
  EXPECT_TRUE(std::all_of(workspace.begin() + static_cast<ptrdiff_t>(size),
                          workspace.end(),
                          [&](std::byte b) { return b == std::byte{pattern}; }))
      << "written after the workspace";
  EXPECT_EQ(aclrtFree(memory), 0);
  ExpectOthersUnchanged();
  return launched == 0;
}

bool Caller::Run(PhaseOne phase_one) {
  if (!RunOnce(phase_one, 0xFF)) return false;
  std::vector<std::vector<std::byte>> first;
  for (const auto& output : outputs_) {
    first.push_back(output->ElementBytes());
  }
  if (!RunOnce(phase_one, 0x5A)) return false;
  for (size_t n = 0; n < outputs_.size(); ++n) {
    EXPECT_EQ(outputs_[n]->ElementBytes(), first[n])
        << "output " << n << " differs between two runs";
  }
  return true;
}

void Caller::ExpectFailure(PhaseOne phase_one, aclnnStatus status,
                           std::string_view words) {
  before_.clear();
  for (const auto& input : inputs_) {
    input->Upload();
    before_.push_back(input->Image());
  }
  std::vector<std::vector<std::byte>> results;
  for (const auto& output : outputs_) {
    output->Overwrite(0x5A);
    output->Upload();
    before_.push_back(output->ImageWithoutElements());
    results.push_back(output->ElementBytes());
  }
  TakeMessage();
  constexpr uint64_t kUntouched = 0x0123456789ABCDEF;
  uint64_t size = kUntouched;
  int nobody = 0;
  auto* const unset = reinterpret_cast<aclOpExecutor*>(&nobody);
  aclOpExecutor* executor = unset;
  EXPECT_EQ(phase_one(&size, &executor), status);
  const std::string message = TakeMessage();
  EXPECT_NE(message.find(words), std::string::npos)
      << "the message \"" << message << "\" does not say \"" << words << "\"";
  EXPECT_FALSE(message.empty());
  EXPECT_EQ(size, kUntouched);
  EXPECT_EQ(executor, unset);
  ExpectOthersUnchanged();
  for (size_t n = 0; n < outputs_.size(); ++n) {
    EXPECT_EQ(outputs_[n]->ElementBytes(), results[n])
        << "output " << n << " was written to by a call that failed";
  }
}

bool OperatorFixture::Run() {
  return caller.Run([this](uint64_t* size, aclOpExecutor** executor) {
    return PhaseOne(size, executor);
  });
}

void OperatorFixture::ExpectFailure(aclnnStatus status,
                                    std::string_view words) {
  caller.ExpectFailure(
      [this](uint64_t* size, aclOpExecutor** executor) {
        return PhaseOne(size, executor);
      },
      status, words);
}

void OperatorFixture::ExpectPlanned() {
  uint64_t size = 0;
  aclOpExecutor* executor = nullptr;
  EXPECT_EQ(PhaseOne(&size, &executor), 0) << TakeMessage();
  EXPECT_EQ(aclDestroyAclOpExecutor(executor), 0);
}

void OperatorFixture::ExpectNothingToDo() {
  uint64_t size = 7;
  aclOpExecutor* executor = nullptr;
  ASSERT_EQ(PhaseOne(&size, &executor), 0) << TakeMessage();
  EXPECT_EQ(size, 0u);
  ASSERT_NE(executor, nullptr);
  EXPECT_EQ(entry_.phase_two(nullptr, 0, executor, nullptr), 0);
}

std::string VersionName(std::string_view name, int version) {
  return std::string(name) + (version > 1 ? "V" + std::to_string(version) : "");
}

double ProbTermError(aclDataType query, bool high_performance) {
  return kTermError +
         (high_performance && query == ACL_BF16 ? kBf16Roundoff : 0);
}

void ExpectNear(const DeviceTensor& tensor, std::span<const double> expected,
                double scale, double term_error,
                std::span<const double> errors) {
  ASSERT_EQ(static_cast<size_t>(tensor.elements()), expected.size());
  ASSERT_TRUE(errors.empty() || errors.size() == expected.size());
  const aclDataType type = tensor.form().type;
  const double rounding = type == ACL_BF16      ? kBf16Roundoff
                          : type == ACL_FLOAT16 ? 0x1p-11
                                                : kRoundoff;
  const double least = type == ACL_FLOAT16 ? 0x1p-25 : 0.0;  // subnormals
  int reported = 0;
  for (size_t n = 0; n < expected.size() && reported < 5; ++n) {
    const double got = tensor.Nth(static_cast<int64_t>(n));
    const double want = expected[n];
    const double slack = rounding * std::fabs(want) + least +
                         term_error * scale + (errors.empty() ? 0 : errors[n]);
    const bool near =
        type == ACL_INT8 ? std::fabs(got - std::clamp(want, -128.0, 127.0)) <=
                               0.5 + 100 * term_error * scale +
                                   (errors.empty() ? 0 : errors[n])
        : std::isnan(want)              ? std::isnan(got)
        : std::isinf(want) || want == 0 ? got == want
                                        : std::fabs(got - want) <= slack;
    if (near) continue;
    ++reported;
    ADD_FAILURE() << "element " << n << " is " << got << ", expected " << want
                  << " within " << slack;
  }
}

}  // namespace flashacl::testing
