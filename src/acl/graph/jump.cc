// SPDX-License-Identifier: Apache-2.0
#include "acl/graph/jump.h"

#include <algorithm>
#include <utility>

#include "acl/acl_rt.h"
#include "acl/backend.h"
#include "acl/error.h"
#include "acl/graph/build.h"
#include "acl/graph/label.h"

namespace flashacl::acl {
namespace {

// The stream of a binding, at `step`; none if it is not one of these.
std::optional<Place> FindPlace(std::span<const BoundStream> streams,
                               const WeakBinding& binding, size_t step) {
  const auto wanted = binding.lock();
  const auto found = std::ranges::find_if(streams, [&](const BoundStream& one) {
    return wanted != nullptr && one.binding == wanted;
  });
  if (found == streams.end()) return std::nullopt;
  return Place{static_cast<int>(found - streams.begin()), step};
}

// The number of 4 bytes at a multiple of 4. Others may write to memory beside
// it: the word that holds it is loaded whole.
uint32_t LoadHalf(const std::byte* at) {
  const auto address = reinterpret_cast<uintptr_t>(at);
  const size_t beside = address % sizeof(uint64_t);
  const uint64_t word = DeviceMemory().LoadWord(at - beside);
  return static_cast<uint32_t>(word >> (8 * beside));
}

int64_t LoadNumber(const std::byte* at, bool wide) {
  if (wide) return static_cast<int64_t>(DeviceMemory().LoadWord(at));
  return static_cast<int32_t>(LoadHalf(at));
}

class EndJump final : public Jump {
 public:
  aclError Resolve(std::span<const BoundStream>, std::string_view) override {
    return ACL_SUCCESS;
  }
  Flow Decide(bool) const override { return {.ends = true}; }
};

class ToStream : public Jump {
 public:
  explicit ToStream(WeakBinding started) : started_(std::move(started)) {}

  aclError Resolve(std::span<const BoundStream> streams,
                   std::string_view function) override {
    const auto found = FindPlace(streams, started_, 0);
    if (!found.has_value()) {
      return Fail(ACL_ERROR_RT_PARAM_INVALID, Title::kCallSequence,
                  Str("{} failed because a stream that another one starts was "
                      "unbound.",
                      function));
    }
    places_.assign(1, *found);
    return ACL_SUCCESS;
  }

 private:
  const WeakBinding started_;
};

class Activation final : public ToStream {
 public:
  using ToStream::ToStream;
  Flow Decide(bool) const override { return {.start = places_[0]}; }
  bool forks() const override { return true; }
};

class StreamSwitch final : public ToStream {
 public:
  StreamSwitch(Comparison comparison, WeakBinding started)
      : ToStream(std::move(started)), comparison_(std::move(comparison)) {}

  Flow Decide(bool skips) const override {
    if (skips) return {.ends = true};
    if (!comparison_.Holds()) return {};
    return {.start = places_[0], .ends = true};
  }

 private:
  const Comparison comparison_;
};

class LabelSwitch final : public Jump {
 public:
  LabelSwitch(const std::byte* index, BlockUse use,
              std::vector<std::shared_ptr<Label>> labels)
      : index_(index), use_(std::move(use)), labels_(std::move(labels)) {}

  aclError Resolve(std::span<const BoundStream> streams,
                   std::string_view function) override {
    places_.clear();
    for (size_t i = 0; i < labels_.size(); ++i) {
      const LabelPlace at = labels_[i]->place();
      const auto found = FindPlace(streams, at.binding, at.step);
      if (!found.has_value()) {
        return Fail(ACL_ERROR_RT_PARAM_INVALID, Title::kCallSequence,
                    Str("{} failed because label {} of a list that a stream "
                        "chooses from is not set in a stream of the graph.",
                        function, i));
      }
      places_.push_back(*found);
    }
    return ACL_SUCCESS;
  }

  Flow Decide(bool skips) const override {
    if (skips) return {.ends = true};
    const size_t last = places_.size() - 1;
    return {.start = places_[std::min<size_t>(LoadHalf(index_), last)],
            .ends = true};
  }

 private:
  const std::byte* const index_;
  const BlockUse use_;
  const std::vector<std::shared_ptr<Label>> labels_;
};

}  // namespace

bool Comparison::Holds() const {
  const int64_t a = LoadNumber(left, wide);
  const int64_t b = LoadNumber(right, wide);
  switch (condition) {
    case ACL_RT_EQUAL:
      return a == b;
    case ACL_RT_NOT_EQUAL:
      return a != b;
    case ACL_RT_GREATER:
      return a > b;
    case ACL_RT_GREATER_OR_EQUAL:
      return a >= b;
    case ACL_RT_LESS:
      return a < b;
    default:
      return a <= b;
  }
}

std::shared_ptr<Jump> MakeEnd() { return std::make_shared<EndJump>(); }

std::shared_ptr<Jump> MakeActivation(WeakBinding started) {
  return std::make_shared<Activation>(std::move(started));
}

std::shared_ptr<Jump> MakeStreamSwitch(Comparison comparison,
                                       WeakBinding started) {
  return std::make_shared<StreamSwitch>(std::move(comparison),
                                        std::move(started));
}

std::shared_ptr<Jump> MakeLabelSwitch(
    const std::byte* index, BlockUse use,
    std::vector<std::shared_ptr<Label>> labels) {
  return std::make_shared<LabelSwitch>(index, std::move(use),
                                       std::move(labels));
}

}  // namespace flashacl::acl
