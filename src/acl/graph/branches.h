// SPDX-License-Identifier: Apache-2.0
// Replays the captured streams of a graph side by side. Needed only where a
// task may wait for another captured stream without the graph knowing, as for a
// value in memory; all other graphs run in the order of submission.
#pragma once

#include <memory>
#include <vector>

#include "acl/acl_base.h"
#include "acl/graph/graph.h"

namespace flashacl::acl {

class Branches {
 public:
  // Whether a graph of these nodes needs branches.
  static bool Needed(const std::vector<Node>& nodes, int branches);

  // Null if there are no handles left. `nodes` outlives this.
  static std::unique_ptr<Branches> Create(
      const std::shared_ptr<Context>& context, const std::vector<Node>& nodes,
      int branches);
  ~Branches();

  // For tasks: runs all, and returns when the last has ended. When the stream
  // is aborted, or a task fails, the others end before their next task.
  aclError Run(Stream& stream, const Graph& root);

 private:
  struct Progress;

  explicit Branches(const std::vector<Node>& nodes) : nodes_(nodes) {}
  aclError RunBranch(int branch, Progress& progress) const;

  const std::vector<Node>& nodes_;
  std::vector<std::vector<int>> of_branch_;  // numbers of its nodes
  std::vector<std::shared_ptr<Stream>> streams_;
};

}  // namespace flashacl::acl
