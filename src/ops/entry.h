// SPDX-License-Identifier: Apache-2.0
// What the entry points of a version are made of: a table of its arguments,
// and what was passed for its rows, in their order.
#pragma once

#include <array>
#include <initializer_list>
#include <memory>
#include <span>
#include <string_view>

#include "acl/executor.h"

namespace flashacl::ops {

// What the call of an operator that is no attention becomes: a computation, or
// null if there is nothing to do.
using MadeComputation = Result<std::shared_ptr<const Computation>>;

// The tensors of one call: a version's parameters, in their order.
using Tensors = std::initializer_list<acl::Passed>;

// Rows of tables. All but MayBeEmpty must be passed.
constexpr acl::Argument Required(std::string_view name,
                                 acl::DTypeSet dtypes = acl::kAnyType) {
  return {.name = name, .need = acl::Need::kRequired, .dtypes = dtypes};
}
constexpr acl::Argument MayBeEmpty(std::string_view name,
                                   acl::DTypeSet dtypes) {
  return {.name = name, .need = acl::Need::kMayBeEmpty, .dtypes = dtypes};
}
constexpr acl::Argument Output(std::string_view name,
                               acl::DTypeSet dtypes = acl::kAnyType) {
  acl::Argument row = Required(name, dtypes);
  row.output = true;
  return row;
}
// A result that lies where an input does.
constexpr acl::Argument InPlace(std::string_view name) {
  acl::Argument row = Output(name);
  row.in_place = true;
  return row;
}

// Where a tensor is in the table, and where it goes in the problem.
struct Place {
  int row;
  Slot slot;
};

// The table of a version that lacks `absent` of what its family has.
template <size_t kRows>
constexpr std::array<acl::Argument, kRows> Without(
    std::array<acl::Argument, kRows> table, std::initializer_list<int> absent) {
  for (const int row : absent) {
    table[static_cast<size_t>(row)].need = acl::Need::kAbsent;
  }
  return table;
}

// The table of a version that never looks at `row`.
template <size_t kRows>
constexpr std::array<acl::Argument, kRows> Ignoring(
    std::array<acl::Argument, kRows> table, int row) {
  table[static_cast<size_t>(row)].need = acl::Need::kIgnored;
  return table;
}

// Phase 1: `lower` makes a problem of tensors and `args`, the rest of a call.
template <typename Args>
aclnnStatus Prepare(const acl::Operator& op, Tensors tensors, const Args& args,
                    Result<acl::Lowered> (*lower)(const acl::Arguments&,
                                                  const Args&),
                    acl::PhaseOne answer) noexcept {
  return acl::Prepare(
      op, std::span(tensors.begin(), tensors.size()),
      [&](const acl::Arguments& arguments) { return lower(arguments, args); },
      answer);
}

// The same of an operator that is no attention.
template <typename Args>
aclnnStatus Prepare(const acl::Operator& op, Tensors tensors, const Args& args,
                    MadeComputation (*lower)(const acl::Arguments&,
                                             const Args&),
                    acl::PhaseOne answer) noexcept {
  return acl::PrepareComputation(
      op, std::span(tensors.begin(), tensors.size()),
      [&](const acl::Arguments& arguments) { return lower(arguments, args); },
      answer);
}

}  // namespace flashacl::ops

// Phase 2 of a version: it is the same for all.
#define FLASHACL_PHASE_TWO(name)                                               \
  extern "C" aclnnStatus name(void* workspace, uint64_t workspace_size,        \
                              aclOpExecutor* executor, aclrtStream stream) {   \
    return flashacl::acl::Launch(workspace, workspace_size, executor, stream); \
  }
