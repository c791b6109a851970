// SPDX-License-Identifier: Apache-2.0
#include "acl/graph/label.h"

#include <atomic>
#include <utility>

#include "acl/context.h"
#include "base/fork.h"

namespace flashacl::acl {
namespace {

constexpr int kLabelsPerProcess = 65535;

std::atomic<int>& LiveLabels() {
  static PerProcess<std::atomic<int>> live;
  return *live;
}

// Gives `made` a handle, and to its context to end. False, and nothing stays,
// if there is none left.
template <typename T>
bool Register(const std::shared_ptr<Context>& context,
              const std::shared_ptr<T>& made, void** handle) {
  *handle = NewHandle(made);
  if (*handle == nullptr) return false;
  struct Unfinished {
    void* handle;
    ~Unfinished() {
      if (handle != nullptr) Take<T>(handle);
    }
  } unfinished{*handle};
  const auto end = [weak = std::weak_ptr<T>(made)] {
    if (const auto owned = weak.lock()) owned->Destroy();
  };
  if (!context->Own(made.get(), end)) return false;
  unfinished.handle = nullptr;
  return true;
}

template <typename T>
bool Unregister(const std::weak_ptr<Context>& context, const T* object,
                void* handle) {
  if (Take<T>(handle) == nullptr) return false;
  if (const auto owner = context.lock()) owner->Disown(object);
  return true;
}

}  // namespace

Label::Label(const std::shared_ptr<Context>& context) : context_(context) {
  LiveLabels().fetch_add(1);
}

std::shared_ptr<Label> Label::Create(const std::shared_ptr<Context>& context) {
  std::shared_ptr<Label> label(new Label(context));
  if (LiveLabels().load() > kLabelsPerProcess) return nullptr;
  return Register(context, label, &label->handle_) ? label : nullptr;
}

Label::~Label() {
  if (counted_) LiveLabels().fetch_sub(1);
}

bool Label::Set(LabelPlace place) {
  std::lock_guard lock(mutex_);
  if (!place_.binding.expired()) return false;
  place_ = std::move(place);
  return true;
}

LabelPlace Label::place() const {
  std::lock_guard lock(mutex_);
  return place_;
}

bool Label::Destroy() {
  if (!Unregister(context_, this, handle_)) return false;
  // Counts no more, though a graph may keep it.
  if (std::exchange(counted_, false)) LiveLabels().fetch_sub(1);
  return true;
}

std::shared_ptr<LabelList> LabelList::Create(
    const std::shared_ptr<Context>& context,
    std::vector<std::shared_ptr<Label>> labels) {
  std::shared_ptr<LabelList> list(new LabelList(context, std::move(labels)));
  return Register(context, list, &list->handle_) ? list : nullptr;
}

bool LabelList::Destroy() { return Unregister(context_, this, handle_); }

}  // namespace flashacl::acl
