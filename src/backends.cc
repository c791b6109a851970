// SPDX-License-Identifier: Apache-2.0
// Tables of implementations, best first; the last row of each is the reference.
#include "backends.h"

#include "cpu/backward/backward.h"
#include "cpu/cpu_info.h"
#include "cpu/decode/decode.h"
#include "cpu/forward/forward.h"
#include "cpu/roof.h"
#include "cpu/thread_pool.h"
#include "cpu/topk/topk_backward.h"
#include "cpu/topk/topk_forward.h"
#include "reference/reference.h"

namespace flashacl {
namespace {

cpu::Pool& CpuPool() {
  static auto* const pool = new cpu::Pool;
  return *pool;
}

}  // namespace

std::span<const Backend> AllBackends() {
  // A copy of the rows rather than references to them: a plan points into the
  // table.
  static const auto* const cpu_rows = new std::vector<Implementation>{
      kCpuDecode,      kCpuForward,      kCpuBackward,
      kCpuTopKForward, kCpuTopKBackward, kReference};
  static const auto* const backends = new std::vector<Backend>{
      {"cpu",
       cpu::DescribeThisCpu(),
       *cpu_rows,
       &CpuPool(),
       {cpu::MeasureFlops, cpu::MeasureReadBandwidth}}};
  return *backends;
}

const Backend& CpuBackend() { return AllBackends().front(); }

void SetWorkerCount(int count) { CpuPool().SetCount(count); }

Status LimitVectorTarget(std::string_view name) {
  return cpu::LimitVectorTarget(name);
}

}  // namespace flashacl
