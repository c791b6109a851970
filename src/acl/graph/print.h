// SPDX-License-Identifier: Apache-2.0
// A graph as a file that trace viewers show: one event per node, in the order
// of a replay, and one row per captured or bound stream.
#pragma once

#include <string_view>

#include "acl/acl_base.h"

namespace flashacl::acl {

class Graph;

// With `verbose`, also what operators compute and by which implementation.
// 107000 if the file cannot be written.
aclError PrintJson(const Graph& graph, const char* path, bool verbose,
                   std::string_view function);

}  // namespace flashacl::acl
