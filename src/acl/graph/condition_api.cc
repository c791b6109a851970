// SPDX-License-Identifier: Apache-2.0
// The functions of the C API for nodes that run other graphs by a condition.
#include <string_view>
#include <utility>
#include <vector>

#include "acl/graph/condition.h"
#include "acl/graph/lookup.h"
#include "acl/raw_enum.h"

namespace flashacl::acl {
namespace {

std::shared_ptr<Condition> FindCondition(aclmdlRICondHandle handle,
                                         std::string_view function,
                                         aclError* error) {
  auto found = Find<Condition>(handle);
  if (found == nullptr) {
    *error = FailValue(ACL_ERROR_RT_PARAM_INVALID, function, "handle",
                       Str("{}", handle),
                       ExpectedInsteadOf(HandleKind::kCondition, handle));
  }
  return found;
}

aclError Create(aclmdlRI model, uint32_t start, int flag,
                aclmdlRICondHandle* handle) {
  constexpr std::string_view kName = "aclmdlRICondHandleCreate";
  aclError error = ACL_SUCCESS;
  const auto graph = FindGraph(model, kName, &error);
  if (graph == nullptr) return error;
  if (handle == nullptr) return FailNull(kName, "handle");
  if (graph->build() != nullptr) {
    return Fail(ACL_ERROR_RT_FEATURE_NOT_SUPPORT, Title::kNotSupported,
                Str("{} failed because graph {} is built by hand; conditions "
                    "are for captured ones.",
                    kName, graph->id()));
  }
  if (graph->capture() == nullptr) {
    return Fail(ACL_ERROR_RT_PARAM_INVALID, Title::kCallSequence,
                Str("{} failed because graph {} is not being captured.", kName,
                    graph->id()));
  }
  if (flag != 0 && flag != ACL_MODEL_RI_COND_HANDLE_ASSIGN_DEFAULT) {
    return FailValue(ACL_ERROR_RT_PARAM_INVALID, kName, "flag", Str("{}", flag),
                     "0 or 1");
  }
  const auto root = graph->LockRoot();
  const auto made =
      root == nullptr ? nullptr : Condition::Create(*root, start, flag != 0);
  if (made == nullptr) {
    return Fail(ACL_ERROR_RT_MEMORY_ALLOCATION, Title::kRuntime,
                Str("{} failed because the device has no memory, or no "
                    "handles are left.",
                    kName));
  }
  // Whatever fails, no handle stays that nobody owns.
  error = GuardRuntime([&]() -> aclError {
    root->Own(made);
    return ACL_SUCCESS;
  });
  if (error != ACL_SUCCESS) {
    Take<Condition>(made->handle());
    return error;
  }
  *handle = made->handle();
  return ACL_SUCCESS;
}

aclError GetPointer(aclmdlRICondHandle handle, uint64_t** cell) {
  constexpr std::string_view kName = "aclmdlRICondHandleGetCondPtr";
  if (handle == nullptr) return FailNull(kName, "handle");
  if (cell == nullptr) return FailNull(kName, "ptr");
  aclError error = ACL_SUCCESS;
  const auto found = FindCondition(handle, kName, &error);
  if (found == nullptr) return error;
  *cell = found->cell();
  return ACL_SUCCESS;
}

bool SizeIsRight(int type, uint32_t size) {
  switch (type) {
    case ACL_MODEL_RI_COND_TYPE_IF:
      return size == 1 || size == 2;
    case ACL_MODEL_RI_COND_TYPE_WHILE:
      return size == 1;
    default:
      return size > 0;
  }
}

aclError CheckParams(std::string_view function,
                     const aclmdlRICondTaskParams& params, uint32_t flags) {
  const int type = Raw(params.type);
  const auto fail = [&](std::string_view parameter, std::string value,
                        std::string_view expected) {
    return FailValue(ACL_ERROR_RT_PARAM_INVALID, function, parameter,
                     std::move(value), expected);
  };
  if (flags != 0) return fail("flags", Str("{}", flags), "0");
  if (type < ACL_MODEL_RI_COND_TYPE_IF ||
      type > ACL_MODEL_RI_COND_TYPE_SWITCH) {
    return fail("params.type", Str("{}", type), "0, 1 or 2");
  }
  if (params.handle == nullptr) {
    return fail("params.handle", "NULL",
                "a handle of "
                "aclmdlRICondHandleCreate");
  }
  if (params.modelRIArray == nullptr) {
    return fail("params.modelRIArray", "NULL", "room for the graphs");
  }
  if (!SizeIsRight(type, params.size)) {
    return fail("params.size", Str("{}", params.size),
                "1 or 2 for IF, 1 for WHILE, 1 or more for SWITCH");
  }
  return ACL_SUCCESS;
}

// The graphs of a new task; fewer than `size` if there are no handles left.
std::vector<std::shared_ptr<Graph>> MakeChildren(
    const std::shared_ptr<Graph>& root, uint32_t size) {
  std::vector<std::shared_ptr<Graph>> children;
  children.reserve(size);
  const auto context = root->context();
  while (context != nullptr && children.size() < size) {
    auto child = Graph::Create(context, root);
    if (child == nullptr) break;
    children.push_back(std::move(child));
  }
  return children;
}

// What AddTask has done so far, and undoes unless all of it succeeds.
struct Unfinished {
  Condition* condition;
  Graph* parent;
  std::vector<std::shared_ptr<Graph>> children = {};
  bool done = false;

  ~Unfinished() {
    if (done) return;
    condition->Release();
    parent->Disown(children);
  }
};

aclError AddChildren(Capture& capture, const std::shared_ptr<Stream>& stream,
                     const std::shared_ptr<Condition>& condition,
                     const aclmdlRICondTaskParams& params,
                     std::string_view function) {
  const auto root = capture.graph()->LockRoot();
  if (root == nullptr || !condition->IsOf(*root)) {
    return FailValue(ACL_ERROR_RT_PARAM_INVALID, function, "params.handle",
                     Str("{}", params.handle), "a handle of the same graph");
  }
  if (!condition->Use()) {
    return FailValue(ACL_ERROR_RT_PARAM_INVALID, function, "params.handle",
                     Str("{}", params.handle), "a handle that no task has yet");
  }
  Unfinished unfinished{condition.get(), capture.graph().get()};
  unfinished.children = MakeChildren(root, params.size);
  if (unfinished.children.size() < params.size) {
    return Fail(ACL_ERROR_RT_RESOURCE_ALLOC_FAIL, Title::kRuntime,
                Str("{} failed because there are no handles left.", function));
  }
  capture.graph()->Own(unfinished.children);
  const aclError error = capture.Add(
      *stream,
      {RunByCondition(condition, Raw(params.type), unfinished.children),
       function, TaskKind::kWait});
  if (error != ACL_SUCCESS) return error;
  for (uint32_t i = 0; i < params.size; ++i) {
    params.modelRIArray[i] = unfinished.children[i]->handle();
  }
  unfinished.done = true;
  return ACL_SUCCESS;
}

aclError AddTask(const aclmdlRICondTaskParams& params, aclrtStream stream,
                 uint32_t flags) {
  constexpr std::string_view kName = "aclmdlRIAddCondTask";
  if (aclError error = CheckParams(kName, params, flags)) return error;
  aclError error = ACL_SUCCESS;
  const auto found = FindNamedStream(stream, kName, &error);
  if (found == nullptr) return error;
  const auto capture = FindCapture(*found, kName, &error);
  if (capture == nullptr) return error;
  const auto condition = FindCondition(params.handle, kName, &error);
  if (condition == nullptr) return error;
  return AddChildren(*capture, found, condition, params, kName);
}

}  // namespace
}  // namespace flashacl::acl

namespace a = flashacl::acl;

extern "C" {

aclError aclmdlRICondHandleCreate(aclmdlRI modelRI, uint32_t defaultLaunchValue,
                                  aclmdlRICondHandleFlag flag,
                                  aclmdlRICondHandle* handle) {
  return a::GuardRuntime([&] {
    return a::Create(modelRI, defaultLaunchValue, a::Raw(flag), handle);
  });
}

aclError aclmdlRICondHandleGetCondPtr(aclmdlRICondHandle handle,
                                      uint64_t** ptr) {
  return a::GuardRuntime([&] { return a::GetPointer(handle, ptr); });
}

aclError aclmdlRIAddCondTask(aclmdlRICondTaskParams params, aclrtStream stream,
                             uint32_t flags) {
  return a::GuardRuntime([&] { return a::AddTask(params, stream, flags); });
}

}  // extern "C"
