// SPDX-License-Identifier: Apache-2.0
// Where a replay of a graph that is built by hand goes on: the jumps among what
// its streams were given.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string_view>
#include <vector>

#include "acl/acl_base.h"
#include "acl/memory.h"

namespace flashacl::acl {

struct BoundStream;
class Label;

// That a stream is bound to a graph: one object for each time that it is, which
// goes when the stream is unbound or the graph destroyed.
struct Binding {};
using WeakBinding = std::weak_ptr<const Binding>;

// Before step `step` of bound stream `stream`; after its last one it ends.
struct Place {
  int stream = 0;
  size_t step = 0;
  bool operator==(const Place&) const = default;
};

// What becomes of a stream that has come to a jump.
struct Flow {
  std::optional<Place> start = std::nullopt;  // the stream there starts there
  bool ends = false;                          // and this one ends
};

class Jump {
 public:
  virtual ~Jump() = default;

  // Before the first replay: finds the places that it may go to. 107000 if a
  // stream or a label is none of these streams'.
  virtual aclError Resolve(std::span<const BoundStream> streams,
                           std::string_view function) = 0;

  // For tasks. `skips`: work on the device has failed, and what a choice looks
  // at may be such work's.
  virtual Flow Decide(bool skips) const = 0;

  // Whether two streams run after it.
  virtual bool forks() const { return false; }

  std::span<const Place> places() const { return places_; }

 protected:
  std::vector<Place> places_;
};

// The stream ends.
std::shared_ptr<Jump> MakeEnd();

// Another stream starts, and this one goes on.
std::shared_ptr<Jump> MakeActivation(WeakBinding started);

// Two numbers in device memory, of 4 or 8 bytes, at multiples of their size.
struct Comparison {
  const std::byte* left = nullptr;
  const std::byte* right = nullptr;
  int condition = 0;  // an aclrtCondition
  bool wide = false;  // 8 bytes
  BlockUse use = {};

  bool Holds() const;
};

// Another stream starts and this one ends if the comparison holds.
std::shared_ptr<Jump> MakeStreamSwitch(Comparison comparison,
                                       WeakBinding started);

// Goes on at the label whose number is at `index`, or at the last one; there is
// at least one.
std::shared_ptr<Jump> MakeLabelSwitch(
    const std::byte* index, BlockUse use,
    std::vector<std::shared_ptr<Label>> labels);

}  // namespace flashacl::acl
