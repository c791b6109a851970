// SPDX-License-Identifier: Apache-2.0
// Labels: places in the streams of a graph that is built by hand, which jumps
// go to; and lists of them, of which a jump chooses.
#pragma once

#include <memory>
#include <mutex>
#include <vector>

#include "acl/graph/jump.h"
#include "acl/handle.h"

namespace flashacl::acl {

class Context;

// Before step `step` of the stream of `binding`; expired if there is none.
struct LabelPlace {
  WeakBinding binding;
  size_t step = 0;
};

class Label {
 public:
  static constexpr HandleKind kHandleKind = HandleKind::kLabel;

  // Ends with its context, if it is not destroyed before. Null if the process
  // has as many as it may have.
  static std::shared_ptr<Label> Create(const std::shared_ptr<Context>& context);
  ~Label();

  void* handle() const { return handle_; }
  std::shared_ptr<Context> context() const { return context_.lock(); }

  // False if it is set, in a graph that lives and a stream bound to that.
  bool Set(LabelPlace place);
  LabelPlace place() const;

  // The handle becomes stale. Graphs keep what they know of it. False if
  // another thread destroyed it first.
  bool Destroy();

 private:
  explicit Label(const std::shared_ptr<Context>& context);

  const std::weak_ptr<Context> context_;
  void* handle_ = nullptr;
  bool counted_ = true;  // among those of the process
  mutable std::mutex mutex_;
  LabelPlace place_;
};

class LabelList {
 public:
  static constexpr HandleKind kHandleKind = HandleKind::kLabelList;

  // Ends with `context`, as above. Null if there are no handles left.
  static std::shared_ptr<LabelList> Create(
      const std::shared_ptr<Context>& context,
      std::vector<std::shared_ptr<Label>> labels);

  void* handle() const { return handle_; }
  const std::vector<std::shared_ptr<Label>>& labels() const { return labels_; }

  bool Destroy();  // as above

 private:
  LabelList(const std::shared_ptr<Context>& context,
            std::vector<std::shared_ptr<Label>> labels)
      : context_(context), labels_(std::move(labels)) {}

  const std::weak_ptr<Context> context_;
  const std::vector<std::shared_ptr<Label>> labels_;
  void* handle_ = nullptr;
};

}  // namespace flashacl::acl
