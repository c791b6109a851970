// SPDX-License-Identifier: Apache-2.0
#include "tools/flashacl/check_case.h"

#include <sys/stat.h>

#include <algorithm>
#include <cstring>
#include <utility>

#include "base/str.h"
#include "record/statistics.h"
#include "replay/recorded_attention.h"
#include "verify/check/tensor_layout.h"
#include "verify/check/user_results.h"

namespace flashacl::tool {
namespace {

UserTensor TensorOf(const NamedArray& one) {
  return {one.name, one.array.dtype, one.array.element_bytes, one.array.dims,
          one.array.bytes.data()};
}

std::vector<UserTensor> TensorsOf(const std::vector<NamedArray>& arrays) {
  std::vector<UserTensor> tensors;
  for (const NamedArray& one : arrays) tensors.push_back(TensorOf(one));
  return tensors;
}

// Dense elements to where the strides of the record's tensor have them.
std::vector<std::byte> Spread(const std::vector<std::byte>& dense,
                              const record::Tensor& tensor, DType dtype) {
  std::vector<std::byte> spread(static_cast<size_t>(tensor.bytes));
  const auto size = static_cast<size_t>(SizeOf(dtype));
  const std::byte* from = dense.data();
  record::ForRows(
      {dtype, tensor.shape, tensor.strides}, [&](int64_t first, int64_t count) {
        const size_t bytes = static_cast<size_t>(count) * size;
        std::memcpy(&spread[static_cast<size_t>(first) * size], from, bytes);
        from += bytes;
      });
  return spread;
}

// One file as one of the record's results.
Status BindOther(const replay::RecordedAttention& attention,
                 const NamedArray& array, std::vector<std::string>& notes,
                 TensorSet& set) {
  const std::optional<Slot> slot =
      ResultSlot(attention.problem.direction, array.name);
  const auto found = std::ranges::find_if(
      attention.results, [&](const replay::RecordedResult& one) {
        return slot.has_value() && one.slot == *slot;
      });
  if (found == attention.results.end()) {
    return Contradiction("{}: the record has no such result", array.name);
  }
  const record::Tensor& tensor = *found->tensor;
  if (array.array.dims != tensor.shape) {
    return Invalid("{}: ({}), expected ({}) as {} of the record has",
                   array.name, Join(array.array.dims, ", "),
                   Join(tensor.shape, ", "), found->name);
  }
  const TensorSpec& spec = attention.problem[*slot];
  Result<std::vector<std::byte>> dense =
      ConvertElements(TensorOf(array), spec.dtype, notes);
  if (!dense.ok()) return dense.status();
  set.Bind(*slot, spec, Spread(*dense, tensor, spec.dtype));
  set.bindings[*slot] += found->offset_bytes;
  return {};
}

// The problem and its inputs, without results.
TensorSet InputsOf(const replay::RecordedAttention& attention) {
  TensorSet set{attention.problem, attention.bindings, attention.memory};
  for (const replay::RecordedResult& one : attention.results) {
    set.bindings[one.slot] = nullptr;
  }
  return set;
}

}  // namespace

Result<CheckCase> CaseOf(const CheckQuestion& question) {
  Result<BoundInputs> inputs =
      BindInputs(question.problem, TensorsOf(question.inputs), question.layout);
  if (!inputs.ok()) return inputs.status();
  CheckCase made{std::move(*inputs), {}};
  for (const NamedResults& results : question.results) {
    Result<TensorSet> set = BindResults(made.inputs, TensorsOf(results.arrays),
                                        results.name + ": ");
    if (!set.ok()) return set.status();
    made.candidates.push_back({results.name, std::move(*set)});
  }
  return made;
}

bool NamesRecord(const std::string& word) {
  if (word.find_first_of("= ") != std::string::npos) return false;
  struct stat facts {};
  return word.find('/') != std::string::npos ||
         (stat(word.c_str(), &facts) == 0 && S_ISDIR(facts.st_mode));
}

Result<CheckCase> CaseOf(const record::Reader& reader, const record::Call& call,
                         const std::vector<std::string>& words,
                         const Python& python) {
  const Result<replay::RecordedAttention> attention =
      replay::ReadAttention(reader, call);
  if (!attention.ok()) return attention.status();
  const Result<std::vector<NamedResults>> others =
      ReadResults(words, attention->problem.direction, python);
  if (!others.ok()) return others.status();
  CheckCase made;
  made.inputs.tensors = InputsOf(*attention);
  made.inputs.layout = "as recorded";
  if (!attention->others.empty()) {
    made.inputs.notes.push_back(
        Str("not checked: {}", Join(attention->others, ", ")));
  }
  TensorSet own = made.inputs.tensors;
  own.bindings = attention->bindings;
  made.candidates.push_back({"recorded", std::move(own)});
  for (const NamedResults& other : *others) {
    TensorSet set = made.inputs.tensors;
    for (const NamedArray& array : other.arrays) {
      const Status bound = BindOther(*attention, array, made.inputs.notes, set);
      if (!bound.ok()) {
        return Status(bound.code(), Str("{}: {}", other.name, bound.message()));
      }
    }
    made.candidates.push_back({other.name, std::move(set)});
  }
  return made;
}

}  // namespace flashacl::tool
