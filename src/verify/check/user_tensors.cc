// SPDX-License-Identifier: Apache-2.0
#include "verify/check/user_tensors.h"

#include <algorithm>
#include <optional>
#include <utility>

#include "base/nearest.h"
#include "base/str.h"
#include "verify/check/tensor_layout.h"
#include "verify/fill.h"

namespace flashacl {
namespace {

using Rows = KvSource::Rows;

struct Input {
  std::string_view name;
  Slot slot;
};

constexpr Input kInputs[] = {{"q", Slot::kQuery},
                             {"q_rope", Slot::kQueryRope},
                             {"k", Slot::kKey},
                             {"k_rope", Slot::kKeyRope},
                             {"v", Slot::kValue},
                             {"k_prefix", Slot::kKeyPrefix},
                             {"v_prefix", Slot::kValuePrefix},
                             {"mask", Slot::kMask},
                             {"bias", Slot::kBias},
                             {"sink", Slot::kSink},
                             {"keep", Slot::kKeep},
                             {"table", Slot::kBlockTable},
                             {"topk", Slot::kTopK},
                             {"k_scale", Slot::kKeyScale},
                             {"k_offset", Slot::kKeyOffset},
                             {"v_scale", Slot::kValueScale},
                             {"v_offset", Slot::kValueOffset},
                             {"k_row_scale", Slot::kKeyRowScale},
                             {"k_row_offset", Slot::kKeyRowOffset},
                             {"v_row_scale", Slot::kValueRowScale},
                             {"v_row_offset", Slot::kValueRowOffset},
                             {"q_row_scale", Slot::kQueryRowScale},
                             {"weight_scale", Slot::kWeightScale},
                             {"out_scale", Slot::kOutScale},
                             {"out_offset", Slot::kOutOffset},
                             {"dout", Slot::kGradOut}};

struct Output {
  std::string_view name;
  Slot slot;
  Slot like;  // the input that it is as large as
};

constexpr Output kForwardResults[] = {{"out", Slot::kOut, Slot::kOut}};
constexpr Output kBackwardResults[] = {
    {"dq", Slot::kGradQuery, Slot::kQuery},
    {"dk", Slot::kGradKey, Slot::kKey},
    {"dv", Slot::kGradValue, Slot::kValue},
    {"dq_rope", Slot::kGradQueryRope, Slot::kQueryRope},
    {"dk_rope", Slot::kGradKeyRope, Slot::kKeyRope}};

std::span<const Output> ResultsOf(Direction direction) {
  if (direction == Direction::kForward) return kForwardResults;
  return kBackwardResults;
}

const UserTensor* Find(std::span<const UserTensor> tensors,
                       std::string_view name) {
  const auto at = std::ranges::find(tensors, name, &UserTensor::name);
  return at == tensors.end() ? nullptr : &*at;
}

bool HasKeyRows(Slot slot) {
  return slot == Slot::kKey || slot == Slot::kKeyRope || slot == Slot::kValue ||
         slot == Slot::kGradKey || slot == Slot::kGradKeyRope ||
         slot == Slot::kGradValue;
}

bool HasQueryRows(Slot slot) {
  return slot == Slot::kQuery || slot == Slot::kQueryRope ||
         slot == Slot::kOut || slot == Slot::kGradOut ||
         slot == Slot::kGradQuery || slot == Slot::kGradQueryRope ||
         slot == Slot::kQueryRowScale || slot == Slot::kTopK;
}

// Slots whose layout is the queries'.
bool HasRows(const AttentionProblem& problem, Slot slot) {
  return HasQueryRows(slot) ||
         (HasKeyRows(slot) && problem.kv.rows != Rows::kPaged);
}

bool IsPlane(const AttentionProblem& problem, Slot slot) {
  return slot == Slot::kMask || slot == Slot::kKeep ||
         (slot == Slot::kBias && !IsAlibi(problem.score.bias) &&
          problem[Slot::kBias].placement != Placement::kDiagonal);
}

int64_t ChannelsOf(const AttentionProblem& problem, Slot slot) {
  switch (slot) {
    case Slot::kQuery:
    case Slot::kKey:
    case Slot::kGradQuery:
    case Slot::kGradKey:
      return problem.qk_dim;
    case Slot::kQueryRope:
    case Slot::kKeyRope:
    case Slot::kGradQueryRope:
    case Slot::kGradKeyRope:
      return problem.rope_dim;
    case Slot::kQueryRowScale:
      return 1;
    case Slot::kTopK:
      return problem[Slot::kTopK].dims[3];
    default:
      return problem.v_dim;
  }
}

// The rope of a slot whose tensor may have it at its end.
std::optional<Slot> RopeOf(Slot slot) {
  switch (slot) {
    case Slot::kQuery:
      return Slot::kQueryRope;
    case Slot::kKey:
      return Slot::kKeyRope;
    case Slot::kGradQuery:
      return Slot::kGradQueryRope;
    case Slot::kGradKey:
      return Slot::kGradKeyRope;
    default:
      return {};
  }
}

RowExtents ExtentsOf(const AttentionProblem& problem, Slot slot) {
  RowExtents extents;
  const Lengths& lengths = problem.lengths;
  const bool keys = HasKeyRows(slot);
  extents.sequences = lengths.count();
  extents.heads =
      keys || slot == Slot::kTopK ? problem.kv_heads : problem.heads;
  extents.channels = ChannelsOf(problem, slot);
  for (const Sequence& sequence : lengths.sequences) {
    const int64_t rows = keys ? sequence.keys.size() : sequence.rows();
    extents.longest = std::max(extents.longest, rows);
    extents.total += rows;
  }
  extents.page_rows = problem.kv.page_rows;
  return extents;
}

class Binder {
 public:
  Binder(const AttentionProblem& problem, std::string_view layout)
      : layout_(layout) {
    bound_.tensors.problem = problem;
  }

  Result<BoundInputs> Bind(std::span<const UserTensor> tensors) {
    FLASHACL_RETURN_IF_ERROR(CheckNames(tensors));
    FLASHACL_RETURN_IF_ERROR(ChooseLayout(tensors));
    MoveSequences();
    for (const Input& input : kInputs) {
      const UserTensor* const tensor = Find(tensors, input.name);
      if (tensor != nullptr) {
        FLASHACL_RETURN_IF_ERROR(BindOne(*tensor, input.slot, tensors));
      }
    }
    FLASHACL_RETURN_IF_ERROR(CheckAllThere());
    bound_.layout = layout_;
    return std::move(bound_);
  }

 private:
  AttentionProblem& problem() { return bound_.tensors.problem; }

  Status CheckNames(std::span<const UserTensor> tensors) {
    const std::vector<std::string_view> known = InputNames();
    for (const UserTensor& tensor : tensors) {
      const auto* const input =
          std::ranges::find(kInputs, tensor.name, &Input::name);
      if (input == std::end(kInputs)) {
        return Invalid("{}: no such tensor{}; there are {}", tensor.name,
                       DidYouMean(tensor.name, known), Join(known, ", "));
      }
      if (input->slot == Slot::kMask || problem().has(input->slot)) continue;
      return Contradiction("{}: given, but the line has no such tensor: {}",
                           tensor.name, Name(input->slot));
    }
    return {};
  }

  bool RopeInside(Slot slot, std::span<const UserTensor> tensors) {
    const std::optional<Slot> rope = RopeOf(slot);
    if (!rope || problem().rope_dim == 0) return false;
    const auto* const input = std::ranges::find(kInputs, *rope, &Input::slot);
    return Find(tensors, input->name) == nullptr;
  }

  RowExtents Extents(Slot slot, std::span<const UserTensor> tensors) {
    RowExtents extents = ExtentsOf(problem(), slot);
    if (RopeInside(slot, tensors)) extents.channels += problem().rope_dim;
    if (problem()[slot].dtype == DType::kI4x8) extents.channels /= 8;
    return extents;
  }

  // One that fits all tensors with rows.
  Status ChooseLayout(std::span<const UserTensor> tensors) {
    std::vector<RowTensor> rows;
    for (const Input& input : kInputs) {
      const UserTensor* const tensor = Find(tensors, input.name);
      if (tensor == nullptr || !HasRows(problem(), input.slot)) continue;
      // Scales and lists are laid out as queries are, and say nothing new.
      if (input.slot == Slot::kTopK || input.slot == Slot::kQueryRowScale) {
        continue;
      }
      rows.push_back({input.name, tensor->dims, Extents(input.slot, tensors)});
    }
    const Result<std::string> found = FindLayout(rows, layout_);
    if (!found.ok()) return found.status();
    layout_ = *found;
    return {};
  }

  // Of a packed tensor sequences follow each other; of one with an axis of
  // sequences each begins at row 0.
  void MoveSequences() {
    const bool packed = IsPacked(layout_);
    int64_t rows = 0;
    int64_t keys = 0;
    for (Sequence& sequence : problem().lengths.sequences) {
      const int64_t height = sequence.rows();
      const int64_t width = sequence.keys.size();
      const bool keys_packed = packed && problem().kv.rows != Rows::kPaged;
      sequence.queries = {packed ? rows : 0, (packed ? rows : 0) + height};
      sequence.keys = {keys_packed ? keys : 0,
                       (keys_packed ? keys : 0) + width};
      rows += height;
      keys += width;
    }
  }

  Status BindOne(const UserTensor& tensor, Slot slot,
                 std::span<const UserTensor> tensors) {
    if (IsPlane(problem(), slot)) return BindPlane(tensor, slot);
    const DType dtype = problem()[slot].dtype;
    Result<std::vector<std::byte>> bytes =
        ConvertElements(tensor, dtype, bound_.notes);
    if (!bytes.ok()) return bytes.status();
    const bool paged = HasKeyRows(slot) && problem().kv.rows == Rows::kPaged;
    if (!paged && !HasRows(problem(), slot)) {
      return BindDense(tensor, slot, std::move(*bytes));
    }
    const RowExtents extents = Extents(slot, tensors);
    Result<TensorSpec> spec =
        paged ? PagesSpec(tensor, extents)
              : RowsSpec({tensor.name, tensor.dims, extents}, layout_);
    if (!spec.ok()) return spec.status();
    spec->dtype = dtype;
    BindRows(slot, *spec, std::move(*bytes), RopeInside(slot, tensors));
    return {};
  }

  void BindRows(Slot slot, TensorSpec spec, std::vector<std::byte> bytes,
                bool rope_inside) {
    if (rope_inside) spec.dims[3] = ChannelsOf(problem(), slot);
    bound_.tensors.Bind(slot, spec, std::move(bytes));
    if (!rope_inside) return;
    const Slot rope = *RopeOf(slot);
    bound_.tensors.bindings[rope] =
        bound_.tensors.bindings[slot] + spec.dims[3] * SizeOf(spec.dtype);
    spec.dims[3] = problem().rope_dim;
    problem()[rope] = spec;
  }

  Status BindPlane(const UserTensor& tensor, Slot slot) {
    Result<TensorSpec> spec = PlaneSpec(problem(), tensor);
    if (!spec.ok()) return spec.status();
    if (slot == Slot::kKeep) return BindKeep(tensor, *spec);
    spec->dtype = slot == Slot::kMask ? DType::kU8 : problem()[slot].dtype;
    Result<std::vector<std::byte>> bytes =
        slot == Slot::kMask
            ? Flags(tensor)
            : ConvertElements(tensor, spec->dtype, bound_.notes);
    if (!bytes.ok()) return bytes.status();
    bound_.tensors.Bind(slot, *spec, std::move(*bytes));
    return {};
  }

  // A flag for each score becomes a bit.
  Status BindKeep(const UserTensor& tensor, TensorSpec spec) {
    const Result<std::vector<std::byte>> flags = Flags(tensor);
    if (!flags.ok()) return flags.status();
    std::vector<std::byte> bits(flags->size() / 8 + 1);
    for (size_t n = 0; n < flags->size(); ++n) {
      if ((*flags)[n] == std::byte{0}) continue;
      bits[n / 8] |= static_cast<std::byte>(1u << (n % 8));
    }
    spec.dtype = DType::kU8;
    bound_.tensors.Bind(Slot::kKeep, spec, std::move(bits));
    return {};
  }

  Status BindDense(const UserTensor& tensor, Slot slot,
                   std::vector<std::byte> bytes) {
    TensorSpec spec = problem()[slot];
    if (slot == Slot::kBlockTable && tensor.dims.size() == 2) {
      // As many columns as the table has, which may be more than needed.
      spec = DenseSpec(spec.dtype, {tensor.dims[0], tensor.dims[1], 1, 1});
    }
    AttentionProblem wanted = problem();
    wanted[slot] = spec;
    const int64_t needed = BytesOf(wanted, slot);
    if (static_cast<int64_t>(bytes.size()) != needed) {
      return Invalid("{}: ({}) are {} elements, expected {}", tensor.name,
                     Join(tensor.dims, ", "),
                     static_cast<int64_t>(bytes.size()) / SizeOf(spec.dtype),
                     needed / SizeOf(spec.dtype));
    }
    bound_.tensors.Bind(slot, spec, std::move(bytes));
    return {};
  }

  Status CheckAllThere() {
    for (const Input& input : kInputs) {
      if (!problem().has(input.slot) ||
          bound_.tensors.bindings[input.slot] != nullptr) {
        continue;
      }
      return NullArgument("{}: missing; the line has a tensor {}", input.name,
                          Name(input.slot));
    }
    if (problem().kv.rows == Rows::kList) {
      return Unsupported("list: lists of keys are not checked");
    }
    return {};
  }

  std::string layout_;
  BoundInputs bound_;
};

}  // namespace

std::vector<std::string_view> InputNames() {
  std::vector<std::string_view> names;
  for (const Input& input : kInputs) names.push_back(input.name);
  return names;
}

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

Result<BoundInputs> BindInputs(const AttentionProblem& problem,
                               std::span<const UserTensor> tensors,
                               std::string_view layout) {
  Result<BoundInputs> bound = Binder(problem, layout).Bind(tensors);
  if (!bound.ok()) return bound;
  AttentionProblem checked = bound->tensors.problem;
  // Results come later, with strides of their own; any will do here.
  for (const Output& output : ResultsOf(problem.direction)) {
    if (!checked.has(output.slot)) continue;
    const Slot like = output.slot == Slot::kOut ? Slot::kQuery : output.like;
    const DType dtype = checked[output.slot].dtype;
    checked[output.slot] = checked[like];
    checked[output.slot].dtype = dtype;
    checked[output.slot].dims[3] = ChannelsOf(problem, output.slot);
  }
  if (problem.direction == Direction::kBackward) {
    checked[Slot::kOut] = checked[Slot::kGradOut];
    for (const Slot slot : {Slot::kRowMax, Slot::kRowSum}) {
      checked[slot] =
          DenseSpec(DType::kF32, {checked.lengths.count(), checked.heads,
                                  checked.lengths.max_rows(), 1});
    }
  }
  FLASHACL_RETURN_IF_ERROR(CheckProblem(checked));
  return bound;
}

Result<TensorSet> BindResults(const BoundInputs& inputs,
                              std::span<const UserTensor> results,
                              std::string_view whose) {
  TensorSet set = inputs.tensors;
  const AttentionProblem& problem = inputs.tensors.problem;
  std::vector<std::string> notes;
  for (const Output& output : ResultsOf(problem.direction)) {
    const UserTensor* const tensor = Find(results, output.name);
    if (tensor == nullptr) continue;
    const std::string name = Str("{}{}", whose, output.name);
    if (!problem.has(output.slot)) {
      return Contradiction("{}: given, but the line has no such result", name);
    }
    const std::optional<Slot> rope = RopeOf(output.slot);
    RowExtents extents = ExtentsOf(problem, output.slot);
    const bool rope_inside =
        rope && problem.rope_dim > 0 &&
        std::ranges::none_of(results, [&](const UserTensor& one) {
          return one.name == std::string(output.name) + "_rope";
        });
    if (rope_inside) extents.channels += problem.rope_dim;
    Result<TensorSpec> spec =
        RowsSpec({name, tensor->dims, extents}, inputs.layout);
    if (!spec.ok()) return spec.status();
    spec->dtype = problem[output.slot].dtype;
    Result<std::vector<std::byte>> bytes =
        ConvertElements(*tensor, spec->dtype, notes);
    if (!bytes.ok()) return bytes.status();
    if (rope_inside) spec->dims[3] = problem.qk_dim;
    set.Bind(output.slot, *spec, std::move(*bytes));
    if (!rope_inside) continue;
    set.bindings[*rope] =
        set.bindings[output.slot] + spec->dims[3] * SizeOf(spec->dtype);
    spec->dims[3] = problem.rope_dim;
    set.problem[*rope] = *spec;
  }
  return set;
}

}  // namespace flashacl
