// SPDX-License-Identifier: Apache-2.0
// A phase one as it was passed and answered, in values of the runtime: texts
// are made of it only for a call that is written down. A program that records
// calls that fail, as PyTorch's adapter does, pays a microsecond for one that
// does not.
#pragma once

#include <cstdint>
#include <ctime>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <type_traits>
#include <variant>
#include <vector>

#include "acl/array.h"
#include "acl/raw_enum.h"
#include "acl/tensor.h"
#include "plan/computation.h"
#include "plan/plan.h"
#include "record/call.h"

namespace flashacl::acl {

enum class PassedKind : uint8_t {
  kTensor,
  kTensors,
  kInts,
  kScalar,
  kText,
  kReal,
  kInt,
  kBool
};

// What was passed for one parameter, as it was then. Its name lives for ever;
// arrays and scalars do not change.
struct PassedValue {
  const char* name = nullptr;
  PassedKind kind = PassedKind::kTensor;
  std::variant<record::Nothing, record::NoObject, Tensor,
               std::vector<std::optional<Tensor>>,
               std::shared_ptr<const IntArray>, std::shared_ptr<const Scalar>,
               std::string, double, int64_t, bool>
      value;

  record::Parameter Describe() const;
};

// A parameter of phase one while that runs. Its name lives for ever.
class Passing {
 public:
  Passing(const char* name, const aclTensor* it)
      : Passing(name, it, PassedKind::kTensor) {}
  Passing(const char* name, const aclTensorList* it)
      : Passing(name, it, PassedKind::kTensors) {}
  Passing(const char* name, const aclIntArray* it)
      : Passing(name, it, PassedKind::kInts) {}
  Passing(const char* name, const aclScalar* it)
      : Passing(name, it, PassedKind::kScalar) {}
  Passing(const char* name, const char* it)
      : Passing(name, it, PassedKind::kText) {}
  Passing(const char* name, double it)
      : name_(name), kind_(PassedKind::kReal), real_(it) {}
  Passing(const char* name, int64_t it)
      : name_(name), kind_(PassedKind::kInt), integer_(it) {}
  Passing(const char* name, bool it)
      : name_(name), kind_(PassedKind::kBool), integer_(it ? 1 : 0) {}
  template <typename E>
  requires std::is_enum_v<E> Passing(const char* name, const E& it)
      : Passing(name, int64_t{Raw(it)}) {}

  PassedValue Copy() const;

 private:
  Passing(const char* name, const void* it, PassedKind kind)
      : name_(name), kind_(kind), pointer_(it) {}

  const char* name_;
  PassedKind kind_;
  const void* pointer_ = nullptr;
  double real_ = 0;
  int64_t integer_ = 0;
};

struct PlannedCall {
  int64_t number = 0;
  int64_t process = 0;
  timespec time{};
  std::string_view operation;  // these two live for ever
  std::string_view function;
  std::vector<PassedValue> parameters;
  record::Answer answer;
  uint64_t workspace_bytes = 0;
  // At most one of these; none: nothing to do, or it failed.
  std::shared_ptr<const Plan> plan;
  std::shared_ptr<const Computation> computation;

  record::Call Describe() const;
};

}  // namespace flashacl::acl
