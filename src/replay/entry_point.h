// SPDX-License-Identifier: Apache-2.0
// Functions of operators by name, called with values that are known only when
// the program runs.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "aclnn/aclnn_base.h"
#include "base/status.h"
#include "record/call.h"

namespace flashacl::replay {

// One value, as the function takes it: a handle or a text by its pointer.
using Given = std::variant<const void*, double, int64_t>;

struct EntryPoint {
  std::string_view function;
  std::span<const std::string_view> kinds;  // of its parameters but the last
  aclnnStatus (*plan)(std::span<const Given> values, uint64_t* workspace_size,
                      aclOpExecutor** executor);
  aclnnStatus (*launch)(void* workspace, uint64_t workspace_size,
                        aclOpExecutor* executor, aclrtStream stream);
};

// Fails unless there is such a function with such parameters.
Result<const EntryPoint*> FindEntryPoint(const record::Call& call);

// What the calling thread's last failure said, without the heading, which has
// the time; it is said once.
std::string RecentError();

}  // namespace flashacl::replay
