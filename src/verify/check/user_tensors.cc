// SPDX-License-Identifier: Apache-2.0
#include "verify/check/user_tensors.h"

#include <algorithm>
#include <optional>
#include <utility>

#include "base/nearest.h"
#include "base/str.h"
#include "verify/check/operand_rows.h"
#include "verify/check/tensor_layout.h"
#include "verify/check/user_results.h"
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

const UserTensor* Find(std::span<const UserTensor> tensors,
                       std::string_view name) {
  const auto at = std::ranges::find(tensors, name, &UserTensor::name);
  return at == tensors.end() ? nullptr : &*at;
}

// Slots whose layout is the queries'.
bool HasRows(const AttentionProblem& problem, Slot slot) {
  return HasQueryRows(slot) ||
         (HasKeyRows(slot) && problem.kv.rows != Rows::kPaged);
}

bool IsPlane(const AttentionProblem& problem, Slot slot) {
  return slot == Slot::kMask || slot == Slot::kKeep ||
         (slot == Slot::kBias && IsBiasPlane(problem));
}

class Binder {
 public:
  Binder(const AttentionProblem& problem, std::string_view layout)
      : layout_(layout.substr(0, layout.find(':'))),
        order_(layout.substr(layout_.size())) {
    bound_.tensors.problem = problem;
  }

  Result<BoundInputs> Bind(std::span<const UserTensor> tensors) {
    FLASHACL_RETURN_IF_ERROR(CheckNames(tensors));
    FLASHACL_RETURN_IF_ERROR(ChooseLayout(tensors));
    FLASHACL_RETURN_IF_ERROR(ReadOrder());
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

  Status ReadOrder() {
    if (order_.empty()) return {};
    if (order_ != ":rows" && order_ != ":blocks") {
      return Invalid("layout: {}{}; orders of rows are :rows and :blocks",
                     layout_, order_);
    }
    if (!IsPacked(layout_) && problem().lengths.count() > 1) {
      return Invalid("layout: {}{}; {} is of packed sequences, TND, NTD and TH",
                     layout_, order_, order_);
    }
    bound_.row_order = order_ == ":rows" ? RowOrder::kRows : RowOrder::kBlocks;
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
    if (slot == Slot::kBias && problem().has(Slot::kGradBias)) {
      spec->dtype = problem()[Slot::kGradBias].dtype;
      problem()[Slot::kGradBias] = *spec;
    }
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
  std::string order_;  // what follows it, ":rows"
  BoundInputs bound_;
};

}  // namespace

std::vector<std::string_view> InputNames() {
  std::vector<std::string_view> names;
  for (const Input& input : kInputs) names.push_back(input.name);
  return names;
}

Result<BoundInputs> BindInputs(const AttentionProblem& problem,
                               std::span<const UserTensor> tensors,
                               std::string_view layout) {
  Result<BoundInputs> bound = Binder(problem, layout).Bind(tensors);
  if (!bound.ok()) return bound;
  // Results come later, with strides of their own.
  FLASHACL_RETURN_IF_ERROR(
      CheckProblem(WithAnyResults(bound->tensors.problem)));
  return bound;
}

}  // namespace flashacl
