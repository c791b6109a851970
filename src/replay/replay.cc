// SPDX-License-Identifier: Apache-2.0
#include "replay/replay.h"

#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstring>
#include <optional>
#include <utility>

#include "acl/acl.h"
#include "acl/backend.h"
#include "base/number.h"
#include "base/str.h"
#include "plan/implementation.h"
#include "replay/entry_point.h"
#include "replay/operands.h"

namespace flashacl::replay {
namespace {

using Kind = Outcome::Kind;
using record::Answer;

// What a run that fails on its stream answers, by the next synchronisation.
constexpr int32_t kRunFailed = 507015;

void Differs(Outcome& outcome, std::string remark) {
  outcome.kind = Kind::kDifferent;
  outcome.remarks.push_back(std::move(remark));
}

void Skip(Outcome& outcome, std::string why) {
  outcome.kind = Kind::kSkipped;
  outcome.remarks.push_back(std::move(why));
}

// Whether the phase answered what it did before.
bool SameAnswer(const Answer& before, const Answer& now, Outcome& outcome) {
  if (before.status == now.status && before.message == now.message) return true;
  const auto text = [](const Answer& answer) {
    return answer.status == 0 ? std::string("success")
                              : Str("{} {}", answer.status, answer.message);
  };
  Differs(outcome,
          Str("answered \"{}\", before \"{}\"", text(now), text(before)));
  return false;
}

// Elements of one tensor whose bits differ.
struct Unequal {
  int64_t count = 0;
  int64_t of = 0;
  int64_t first = -1;
  double greatest = 0;
  bool numbers = true;  // of a type that can be subtracted here
};

Unequal Compare(const record::Tensor& tensor,
                const std::vector<std::byte>& before,
                const std::vector<std::byte>& now) {
  Unequal found;
  const record::ElementType& type = *record::FindElementType(tensor.type);
  const auto size = static_cast<size_t>(std::max(type.bits / 8, 1));
  // Halves of bytes are compared as they lie.
  const bool whole = type.bits < 8;
  const std::vector<int64_t> bytes = {static_cast<int64_t>(before.size())};
  const std::vector<int64_t> together = {1};
  const record::Layout layout =
      whole ? record::Layout{DType::kU8, bytes, together}
            : record::Layout{type.dtype, tensor.shape, tensor.strides};
  found.numbers = !whole && layout.dtype != DType::kNone;
  record::ForRows(layout, [&](int64_t first, int64_t count) {
    for (int64_t n = 0; n < count; ++n, ++found.of) {
      const size_t at = static_cast<size_t>(first + n) * size;
      if (std::memcmp(&before[at], &now[at], size) == 0) continue;
      if (found.count++ == 0) found.first = found.of;
      const double apart = std::abs(ReadNumber(layout.dtype, &before[at]) -
                                    ReadNumber(layout.dtype, &now[at]));
      if (apart > found.greatest) found.greatest = apart;
    }
  });
  return found;
}

Status CompareOutputs(const record::Reader& reader, const Operands& operands,
                      Outcome& outcome) {
  for (const Operand& one : operands.tensors()) {
    const record::Tensor& tensor = *one.tensor;
    if (!tensor.output || !tensor.after.has_value()) continue;
    const Result<std::vector<std::byte>> before =
        reader.ReadTensor(tensor, *tensor.after);
    if (!before.ok()) {
      return Invalid("{}: {}", one.name, before.status().message());
    }
    std::vector<std::byte> now(before->size());
    if (aclrtMemcpy(now.data(), now.size(), one.first, now.size(),
                    ACL_MEMCPY_DEVICE_TO_HOST) != 0) {
      return RuntimeFailure("{}: {}", one.name, RecentError());
    }
    const Unequal unequal = Compare(tensor, *before, now);
    if (unequal.count == 0) continue;
    Differs(outcome,
            Str("{}: {} of {} elements differ, the first of them element {}{}",
                one.name, unequal.count, unequal.of, unequal.first,
                unequal.numbers ? Str(", by at most {}", unequal.greatest)
                                : std::string()));
  }
  return {};
}

struct Planned {
  Answer answer;
  uint64_t workspace_bytes = 0;
  aclOpExecutor* executor = nullptr;
};

Planned Plan(const EntryPoint& entry, const Operands& operands) {
  Planned planned;
  planned.answer.status = entry.plan(
      operands.values(), &planned.workspace_bytes, &planned.executor);
  if (planned.answer.status != 0) planned.answer.message = RecentError();
  return planned;
}

// Both phases and a synchronisation; how long the last two took.
Answer Run(const EntryPoint& entry, const Operands& operands,
           double* microseconds) {
  Planned planned = Plan(entry, operands);
  if (planned.answer.status != 0) return planned.answer;
  const DeviceBlock workspace(std::max<uint64_t>(planned.workspace_bytes, 1));
  const auto start = std::chrono::steady_clock::now();
  Answer answer;
  answer.status = entry.launch(workspace.data(), planned.workspace_bytes,
                               planned.executor, nullptr);
  if (answer.status == 0) answer.status = aclrtSynchronizeStream(nullptr);
  *microseconds = std::chrono::duration<double, std::micro>(
                      std::chrono::steady_clock::now() - start)
                      .count();
  if (answer.status != 0) answer.message = RecentError();
  return answer;
}

// The answer of a run that failed begins with its operator.
Answer Launched(const record::Call& call) {
  Answer answer = *call.launch;
  if (answer.status == kRunFailed) {
    answer.message = Str("{}: {}", call.operation, answer.message);
  }
  return answer;
}

Status RunAll(const record::Reader& reader, const record::Call& call,
              const EntryPoint& entry, const Operands& operands, int repeat,
              Outcome& outcome) {
  std::vector<double> times;
  for (int n = 0; n < std::max(repeat, 1); ++n) {
    FLASHACL_RETURN_IF_ERROR(operands.Upload());
    const Answer answer = Run(entry, operands, &times.emplace_back());
    if (!SameAnswer(Launched(call), answer, outcome)) return {};
    if (answer.status != 0) return {};
    if (n == 0) {
      FLASHACL_RETURN_IF_ERROR(CompareOutputs(reader, operands, outcome));
    }
  }
  std::ranges::nth_element(
      times, times.begin() + static_cast<ptrdiff_t>(times.size() / 2));
  outcome.microseconds = times[times.size() / 2];
  return {};
}

}  // namespace

Status UseImplementation(const std::string& name) {
  const Backend& all = acl::TheBackend();
  const auto found =
      std::ranges::find(all.implementations, name, &Implementation::name);
  if (found == all.implementations.end()) {
    return Invalid("{}: no such implementation", name);
  }
  Backend* const one = new Backend(all);  // as long as the process
  one->implementations = {&*found, 1};
  acl::UseBackend(one);
  return {};
}

Result<Outcome> Replay(const record::Reader& reader, const record::Call& call,
                       const Options& options) {
  Outcome outcome;
  if (call.function == "aclDumpOpTensors") {
    Skip(outcome, "tensors that the program handed over, no call");
    return outcome;
  }
  const Result<const EntryPoint*> entry = FindEntryPoint(call);
  if (!entry.ok()) return entry.status();
  if (aclrtSetDevice(0) != 0) return RuntimeFailure("{}", RecentError());
  const Result<std::unique_ptr<Operands>> operands =
      Operands::Make(reader, call);
  if (!operands.ok()) {
    Skip(outcome, operands.status().message());
    return outcome;
  }
  (void)RecentError();
  if (call.plan.status != 0 || !call.launch.has_value()) {
    const Planned planned = Plan(**entry, **operands);
    if (planned.answer.status == 0) aclDestroyAclOpExecutor(planned.executor);
    SameAnswer(call.plan, planned.answer, outcome);
    return outcome;
  }
  if (call.launch->status != 0 && call.launch->status != kRunFailed) {
    Skip(outcome,
         Str("phase two refused its memory: {}", call.launch->message));
    return outcome;
  }
  FLASHACL_RETURN_IF_ERROR(
      RunAll(reader, call, **entry, **operands, options.repeat, outcome));
  return outcome;
}

}  // namespace flashacl::replay
