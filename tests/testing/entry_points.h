// SPDX-License-Identifier: Apache-2.0
// Both phases of every version of every operator, called with whatever a test
// passes: the order of parameters is in one place, the function's type.
#pragma once

#include <cstdint>
#include <initializer_list>
#include <string_view>
#include <vector>

#include "acl/acl.h"
#include "acl/arguments.h"
#include "aclnn/acl_meta.h"

namespace flashacl::testing {

// What one call passes, kind by kind, in order of the parameters. Flags and
// data types are integers.
struct Parameters {
  std::vector<acl::Passed> tensors = {};  // and lists
  std::vector<const aclIntArray*> arrays = {};
  std::vector<double> reals = {};
  std::vector<int64_t> integers = {};
  std::vector<char*> texts = {};
  std::vector<const aclScalar*> scalars = {};
};

struct EntryPoints {
  const char* name;
  aclnnStatus (*phase_one)(const Parameters&, uint64_t*, aclOpExecutor**);
  aclnnStatus (*phase_two)(void*, uint64_t, aclOpExecutor*, aclrtStream);
};

// Of "aclnnX"; "aclnnXMax" has GetMaxWorkspaceSize as its phase 1.
const EntryPoints& EntryPointsOf(std::string_view name);

}  // namespace flashacl::testing
