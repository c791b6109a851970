// SPDX-License-Identifier: Apache-2.0
// What Python sees of the bridge.
#include <torch/csrc/utils/pybind.h>

#include <tuple>
#include <vector>

#include "bridge/collectives.h"
#include "bridge/faces.h"
#include "bridge/install.h"
#include "bridge/keeping.h"
#include "bridge/kept_calls.h"
#include "bridge/operator_info.h"
#include "bridge/queue.h"

namespace flashacl::bridge {
namespace {

using Count = std::tuple<std::string, std::string, uint64_t>;

std::vector<Count> Counts() {
  std::vector<Count> counts;
  for (const auto& info : OperatorInfos()) {
    counts.emplace_back(info->name, ToString(info->way), info->calls.load());
  }
  return counts;
}

void ResetCounts() {
  for (const auto& info : OperatorInfos()) info->calls.store(0);
}

// A CPU tensor over the same memory: for operators that Python composes.
at::Tensor Face(const at::Tensor& npu) {
  TORCH_CHECK(IsNpu(npu), "face: a tensor of device ", npu.device(),
              ", expected one of npu");
  WaitForStream(npu.device().index());
  Faces faces;
  return faces.Face(npu, /*written=*/false);
}

}  // namespace
}  // namespace flashacl::bridge

PYBIND11_MODULE(TORCH_EXTENSION_NAME, m) {
  namespace bridge = flashacl::bridge;
  m.def("install", &bridge::Install);
  m.def("counts", &bridge::Counts);
  m.def("reset_counts", &bridge::ResetCounts);
  m.def("face", &bridge::Face);
  m.def("set_keeping", &bridge::SetKeeping);
  m.def("kept_counts", &bridge::KeptCounts);
  m.def("collectives", &bridge::MakeCollectives);
}
