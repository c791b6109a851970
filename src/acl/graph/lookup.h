// SPDX-License-Identifier: Apache-2.0
// What the functions of the C API for graphs begin with.
#pragma once

#include <memory>
#include <string_view>

#include "acl/acl_rt.h"
#include "acl/error.h"
#include "acl/graph/capture.h"
#include "acl/graph/graph.h"
#include "acl/stream.h"

namespace flashacl::acl {

// A graph of the caller; null is 100000, anything that is none 107000.
std::shared_ptr<Graph> FindGraph(aclmdlRI graph, std::string_view function,
                                 aclError* error);

// 0, or 107026 while it is captured; 507011 for one that is built by hand and
// is not complete.
aclError RequireWhole(const Graph& graph, std::string_view function);

// FindGraph and RequireWhole.
std::shared_ptr<Graph> FindWholeGraph(aclmdlRI graph, std::string_view function,
                                      aclError* error);

// A stream of the caller that is not the default one by null, which is 100000.
std::shared_ptr<Stream> FindNamedStream(aclrtStream stream,
                                        std::string_view function,
                                        aclError* error);

// The capture of a stream; 107029 if there is none.
std::shared_ptr<Capture> FindCapture(const Stream& stream,
                                     std::string_view function,
                                     aclError* error);

// 0, or 207000: a child runs and ends with its parent only.
aclError RequireRoot(const Graph& graph, std::string_view function);

}  // namespace flashacl::acl
