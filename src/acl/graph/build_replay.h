// SPDX-License-Identifier: Apache-2.0
// Replays graphs that are built by hand: interprets what each bound stream was
// given. Where only one stream runs at a time, all run on the thread of the
// replay; others side by side.
#pragma once

#include <memory>
#include <vector>

#include "acl/acl_base.h"
#include "acl/graph/build.h"

namespace flashacl::acl {

class SideBySide;

class BuildReplay {
 public:
  // Null if there are no handles left. `bound` outlives this, and all its jumps
  // are resolved.
  static std::unique_ptr<BuildReplay> Create(
      const std::shared_ptr<Context>& context,
      const std::vector<BoundStream>& bound);
  ~BuildReplay();

  // For tasks: runs all, and returns when no stream runs any more.
  aclError Run(Stream& stream, const Graph& root) const;

 private:
  explicit BuildReplay(const std::vector<BoundStream>& bound) : bound_(bound) {}

  aclError RunFrom(Place at, const Graph& root, SideBySide* others) const;
  aclError StartAt(Place at, const Graph& root, SideBySide& others) const;

  const std::vector<BoundStream>& bound_;
  // What each runs on; none where only one runs at a time.
  std::vector<std::shared_ptr<Stream>> streams_;
};

}  // namespace flashacl::acl
