// SPDX-License-Identifier: Apache-2.0
// What an operator that is no attention asks for. Attention is chosen from a
// table (plan/plan.h); this is made for one call, by whoever lowers it.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>

#include "base/status.h"
#include "plan/backend.h"

namespace flashacl {

// Immutable, holds no address, serves any number of runs, at the same time too.
class Computation {
 public:
  Computation() = default;
  virtual ~Computation() = default;
  Computation(const Computation&) = delete;
  Computation& operator=(const Computation&) = delete;

  // "folder/kind", as implementations of attention are called.
  virtual std::string_view name() const = 0;

  // What is computed, in one line.
  virtual std::string Describe() const = 0;

  virtual int64_t workspace_bytes() const { return 0; }

  // Puts the computation on `queue`, which is one of the backend's; it may not
  // be done when this returns. `at` has the data of every tensor that was
  // passed, in their order; null where there are no elements. `workspace` has
  // workspace_bytes(), aligned to WorkspaceLayout::kAlignmentBytes; null if
  // these are 0.
  virtual Status Run(std::span<std::byte* const> at, std::byte* workspace,
                     Queue& queue) const = 0;
};

}  // namespace flashacl
