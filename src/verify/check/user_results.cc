// SPDX-License-Identifier: Apache-2.0
#include "verify/check/user_results.h"

#include <algorithm>
#include <string>
#include <utility>

#include "base/str.h"
#include "verify/answer/answer.h"
#include "verify/check/operand_rows.h"
#include "verify/check/row_result_layout.h"
#include "verify/check/tensor_layout.h"
#include "verify/fill.h"

namespace flashacl {
namespace {

struct Output {
  std::string_view name;
  Slot slot;
  Slot like;  // the input whose rows it has
};

constexpr Output kForwardResults[] = {{"out", Slot::kOut, Slot::kQuery},
                                      {"max", Slot::kRowMax, Slot::kQuery},
                                      {"sum", Slot::kRowSum, Slot::kQuery},
                                      {"lse", Slot::kLse, Slot::kQuery}};
constexpr Output kBackwardResults[] = {
    {"dq", Slot::kGradQuery, Slot::kQuery},
    {"dk", Slot::kGradKey, Slot::kKey},
    {"dv", Slot::kGradValue, Slot::kValue},
    {"dq_rope", Slot::kGradQueryRope, Slot::kQueryRope},
    {"dk_rope", Slot::kGradKeyRope, Slot::kKeyRope},
    {"dbias", Slot::kGradBias, Slot::kBias},
    {"dsink", Slot::kGradSink, Slot::kSink}};

std::span<const Output> ResultsOf(Direction direction) {
  if (direction == Direction::kForward) return kForwardResults;
  return kBackwardResults;
}

bool IsThere(std::span<const UserTensor> tensors, std::string_view name) {
  return std::ranges::count(tensors, name, &UserTensor::name) > 0;
}

// Somebody's results, one after the other.
class ResultBinder {
 public:
  ResultBinder(const BoundInputs& inputs, std::span<const UserTensor> results)
      : inputs_(inputs), results_(results), set_(inputs.tensors) {}

  Status Bind(const UserTensor& tensor, const Output& output) {
    if (!problem().has(output.slot)) {
      const bool may = IsOfScores(output.slot) && problem().has(output.like);
      const bool bias = output.slot == Slot::kGradBias;
      return Contradiction(
          "{}: given, but the line has no such result{}", tensor.name,
          may ? Str("; grad:qkv{} asks for it", bias ? "b" : "s") : "");
    }
    if (IsOfScores(output.slot)) return BindLikeInput(tensor, output);
    if (!IsRowResult(output.slot)) return BindRows(tensor, output);
    const Result<TensorSpec> spec = RowResultSpec(
        problem(), output.slot, tensor, {inputs_.layout, inputs_.row_order});
    if (!spec.ok()) return spec.status();
    return BindAs(tensor, output.slot, *spec);
  }

  TensorSet Take() { return std::move(set_); }

 private:
  const AttentionProblem& problem() const { return inputs_.tensors.problem; }

  Status BindAs(const UserTensor& tensor, Slot slot, TensorSpec spec) {
    spec.dtype = problem()[slot].dtype;
    std::vector<std::string> notes;  // roundings of results are their errors
    Result<std::vector<std::byte>> bytes =
        ConvertElements(tensor, spec.dtype, notes);
    if (!bytes.ok()) return bytes.status();
    set_.Bind(slot, spec, std::move(*bytes));
    return {};
  }

  // The problem has the input's spec.
  Status BindLikeInput(const UserTensor& tensor, const Output& output) {
    const TensorSpec& spec = problem()[output.slot];
    int64_t elements = 1;
    for (const int64_t dim : tensor.dims) elements *= dim;
    bool same =
        elements * SizeOf(spec.dtype) == BytesOf(problem(), output.slot);
    if (same && output.slot == Slot::kGradBias && IsBiasPlane(problem())) {
      const Result<TensorSpec> own = PlaneSpec(problem(), tensor);
      if (!own.ok()) return own.status();
      same = own->dims == spec.dims;
    }
    if (!same) {
      return Invalid("{}: ({}) is not the shape of {}", tensor.name,
                     Join(tensor.dims, ", "), output.name.substr(1));
    }
    return BindAs(tensor, output.slot, spec);
  }

  Status BindRows(const UserTensor& tensor, const Output& output) {
    const std::optional<Slot> rope = RopeOf(output.slot);
    RowExtents extents = ExtentsOf(problem(), output.slot);
    const bool rope_inside =
        rope && problem().rope_dim > 0 &&
        !IsThere(results_, std::string(output.name) + "_rope");
    if (rope_inside) extents.channels += problem().rope_dim;
    Result<TensorSpec> spec =
        RowsSpec({tensor.name, tensor.dims, extents}, inputs_.layout);
    if (!spec.ok()) return spec.status();
    if (rope_inside) spec->dims[3] = problem().qk_dim;
    FLASHACL_RETURN_IF_ERROR(BindAs(tensor, output.slot, *spec));
    if (!rope_inside) return {};
    spec->dtype = problem()[output.slot].dtype;
    set_.bindings[*rope] =
        set_.bindings[output.slot] + spec->dims[3] * SizeOf(spec->dtype);
    spec->dims[3] = problem().rope_dim;
    set_.problem[*rope] = *spec;
    return {};
  }

  const BoundInputs& inputs_;
  std::span<const UserTensor> results_;
  TensorSet set_;
};

}  // namespace

std::vector<std::string_view> ResultNames(Direction direction) {
  std::vector<std::string_view> names;
  for (const Output& output : ResultsOf(direction)) {
    names.push_back(output.name);
  }
  return names;
}

std::optional<Slot> ResultSlot(Direction direction, std::string_view name) {
  for (const Output& output : ResultsOf(direction)) {
    if (output.name == name) return output.slot;
  }
  return {};
}

AttentionProblem WithAnyResults(const AttentionProblem& problem) {
  AttentionProblem with = problem;
  for (const Output& output : ResultsOf(problem.direction)) {
    if (!with.has(output.slot) || IsRowResult(output.slot) ||
        IsOfScores(output.slot)) {
      continue;
    }
    const DType dtype = with[output.slot].dtype;
    with[output.slot] = with[output.like];
    with[output.slot].dtype = dtype;
    with[output.slot].dims[3] = ChannelsOf(problem, output.slot);
  }
  if (problem.direction == Direction::kBackward) {
    with[Slot::kOut] = with[Slot::kGradOut];
    for (const Slot slot : {Slot::kRowMax, Slot::kRowSum}) {
      with[slot] = DenseSpec(DType::kF32, {with.lengths.count(), with.heads,
                                           with.lengths.max_rows(), 1});
    }
  }
  return with;
}

Result<TensorSet> BindResults(const BoundInputs& inputs,
                              std::span<const UserTensor> results,
                              std::string_view whose) {
  ResultBinder binder(inputs, results);
  for (const Output& output : ResultsOf(inputs.tensors.problem.direction)) {
    const auto found =
        std::ranges::find(results, output.name, &UserTensor::name);
    if (found == results.end()) continue;
    UserTensor tensor = *found;
    tensor.name = Str("{}{}", whose, output.name);
    FLASHACL_RETURN_IF_ERROR(binder.Bind(tensor, output));
  }
  return binder.Take();
}

}  // namespace flashacl
