// SPDX-License-Identifier: Apache-2.0
// Nodes of a graph that run other graphs, or not: by a cell of device memory
// that tasks before them, or the program, write.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "acl/acl_rt.h"
#include "acl/graph/graph.h"
#include "acl/memory.h"

namespace flashacl::acl {

class Condition {
 public:
  static constexpr HandleKind kHandleKind = HandleKind::kCondition;

  // Each replay of the root starts with `start`, if `assigns`. Null if there is
  // no memory or no handle left.
  static std::shared_ptr<Condition> Create(Graph& root, uint64_t start,
                                           bool assigns);
  ~Condition();

  void* handle() const { return handle_; }
  uint64_t* cell() const { return reinterpret_cast<uint64_t*>(cell_); }
  bool IsOf(const Graph& graph) const { return &graph.root() == root_; }

  // False if a node has it already: each is for one.
  bool Use() { return !used_.exchange(true); }
  void Release() { used_.store(false); }

  void StartReplay() const;
  uint64_t Read() const;

 private:
  Condition(Graph& root, uint64_t start, bool assigns)
      : root_(&root), start_(start), assigns_(assigns) {}

  const Graph* const root_;
  const uint64_t start_;
  const bool assigns_;
  void* handle_ = nullptr;
  std::byte* cell_ = nullptr;
  BlockUse use_;  // the program may free the cell, which replays still read
  std::atomic<bool> used_{false};
};

// The task of a node of `type` (an aclmdlRICondTaskType).
Task RunByCondition(std::shared_ptr<Condition> condition, int type,
                    std::vector<std::shared_ptr<Graph>> children);

}  // namespace flashacl::acl
