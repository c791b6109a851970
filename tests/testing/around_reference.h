// SPDX-License-Identifier: Apache-2.0
// Implementations that run the reference and something of a test's own: ways to
// be wrong, slow or counted.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>

#include "plan/host_queue.h"
#include "plan/implementation.h"
#include "reference/reference.h"

namespace flashacl::testing {

// One run of the reference, which has not begun.
struct ReferenceRun {
  const Prepared& reference;
  const Bindings& bindings;
  std::byte* workspace;
  int64_t workspace_bytes;
  Workers& workers;

  const AttentionProblem& problem() const { return reference.problem(); }
  Status Do() const {
    HostQueue queue(workers);
    return reference.Run(bindings, workspace, queue);
  }
};

// Calls kBody(ReferenceRun) for a run, which counts as one at `kGflops`.
template <auto kBody, int kGflops>
class AroundReference final : public HostPrepared {
 public:
  AroundReference(const AttentionProblem& problem, const DeviceInfo& device,
                  WorkspaceLayout& workspace)
      : HostPrepared(problem, kGflops),
        reference_(kReference.prepare(problem, device, workspace)),
        workspace_bytes_(workspace.bytes()) {}

  Status Run(const Bindings& bindings, std::byte* workspace,
             Workers& workers) const override {
    return kBody(ReferenceRun{*reference_, bindings, workspace,
                              workspace_bytes_, workers});
  }

  std::string Describe() const override { return reference_->Describe(); }

 private:
  const std::shared_ptr<const Prepared> reference_;
  const int64_t workspace_bytes_;
};

using PrepareFunction = decltype(Implementation::prepare);

template <auto kBody, int kGflops = 0>
inline constexpr PrepareFunction kAroundReference =
    MakePrepared<AroundReference<kBody, kGflops>>;

}  // namespace flashacl::testing
