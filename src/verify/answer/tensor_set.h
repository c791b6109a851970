// SPDX-License-Identifier: Apache-2.0
// A problem with tensors that somebody brought: strides are the tensors' own,
// and what bindings point to lives as long as any copy does.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

#include "plan/bindings.h"
#include "problem/attention_problem.h"

namespace flashacl {

struct TensorSet {
  AttentionProblem problem;
  Bindings bindings;
  std::vector<std::shared_ptr<const std::vector<std::byte>>> memory;

  // Binds a slot to bytes, which it keeps.
  void Bind(Slot slot, const TensorSpec& spec, std::vector<std::byte> bytes) {
    memory.push_back(
        std::make_shared<const std::vector<std::byte>>(std::move(bytes)));
    problem[slot] = spec;
    // Nobody writes there: results are kept apart.
    bindings[slot] = const_cast<std::byte*>(memory.back()->data());
  }
  void Drop(Slot slot) {
    problem[slot] = {};
    bindings[slot] = nullptr;
  }
};

}  // namespace flashacl
