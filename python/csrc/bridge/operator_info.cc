// SPDX-License-Identifier: Apache-2.0
#include "bridge/operator_info.h"

#include <array>
#include <string_view>

namespace flashacl::bridge {
namespace {

// Arguments whose tensors PyTorch's devices take from the CPU, too: indices
// may lie anywhere, lengths that a kernel reads on the host must be there.
struct CpuArgument {
  std::string_view op;  // without its overload
  std::string_view argument;
};
constexpr std::array kCpuArguments = {
    CpuArgument{"aten::index", "indices"},
    CpuArgument{"aten::_unsafe_index", "indices"},
    CpuArgument{"aten::index_put", "indices"},
    CpuArgument{"aten::index_put_", "indices"},
    CpuArgument{"aten::_unsafe_index_put", "indices"},
    CpuArgument{"aten::_index_put_impl_", "indices"},
    CpuArgument{"aten::_pack_padded_sequence", "lengths"},
    CpuArgument{"aten::_ctc_loss", "input_lengths"},
    CpuArgument{"aten::_ctc_loss", "target_lengths"},
    CpuArgument{"aten::_ctc_loss_backward", "input_lengths"},
    CpuArgument{"aten::_ctc_loss_backward", "target_lengths"},
};

bool TakesCpu(std::string_view op, std::string_view argument) {
  for (const CpuArgument& known : kCpuArguments) {
    if (known.op == op && known.argument == argument) return true;
  }
  return false;
}

bool HasTag(const c10::OperatorHandle& op, at::Tag tag) {
  for (const at::Tag one : op.getTags()) {
    if (one == tag) return true;
  }
  return false;
}

std::vector<std::unique_ptr<OperatorInfo>>& All() {
  static auto& all = *new std::vector<std::unique_ptr<OperatorInfo>>;
  return all;
}

}  // namespace

OperatorInfo::OperatorInfo(const c10::OperatorHandle& op, Way way)
    : name(op.operator_name().name), way(way) {
  const auto& arguments = op.schema().arguments();
  for (size_t i = 0; i < arguments.size(); ++i) {
    const auto* alias = arguments[i].alias_info();
    written.push_back(alias != nullptr && alias->isWrite());
    takes_cpu.push_back(TakesCpu(name, arguments[i].name()));
    const auto type = arguments[i].type();
    if (type->isSubtypeOf(
            *c10::OptionalType::create(c10::GeneratorType::get()))) {
      generator = static_cast<int>(i);
    }
  }
  random = generator >= 0 || HasTag(op, at::Tag::nondeterministic_seeded);
  all_take_cpu = way == Way::kCopy;
  if (const auto& overload = op.operator_name().overload_name;
      !overload.empty()) {
    name += "." + overload;
  }
}

OperatorInfo& MakeOperatorInfo(const c10::OperatorHandle& op, Way way) {
  All().push_back(std::make_unique<OperatorInfo>(op, way));
  return *All().back();
}

const std::vector<std::unique_ptr<OperatorInfo>>& OperatorInfos() {
  return All();
}

const char* ToString(Way way) {
  switch (way) {
    case Way::kOnFaces:
      return "on_faces";
    case Way::kComposite:
      return "composite";
    case Way::kAutograd:
      return "autograd";
    case Way::kCopy:
      return "copy";
  }
  return "";
}

}  // namespace flashacl::bridge
