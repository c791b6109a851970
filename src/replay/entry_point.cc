// SPDX-License-Identifier: Apache-2.0
#include "replay/entry_point.h"

#include <algorithm>
#include <array>
#include <cstring>
#include <string>
#include <tuple>
#include <type_traits>
#include <utility>

#include "acl/acl.h"
#include "base/str.h"
#include "operator_headers.h"  // made by cmake/entry_points.py

namespace flashacl::replay {
namespace {

template <typename P>
constexpr std::string_view KindOf() {
  using T = std::remove_cv_t<std::remove_pointer_t<P>>;
  if constexpr (std::is_same_v<T, aclTensor>) return "tensor";
  if constexpr (std::is_same_v<T, aclTensorList>) return "tensors";
  if constexpr (std::is_same_v<T, aclIntArray>) return "ints";
  if constexpr (std::is_same_v<T, aclScalar>) return "scalar";
  if constexpr (std::is_same_v<T, char>) return "text";
  if constexpr (std::is_same_v<P, double>) return "real";
  if constexpr (std::is_same_v<P, bool>) return "bool";
  return "int";
}

template <typename P>
P As(const Given& given) {
  if constexpr (std::is_pointer_v<P>) {
    const auto* const at = std::get_if<const void*>(&given);
    return at == nullptr ? nullptr : static_cast<P>(const_cast<void*>(*at));
  } else if constexpr (std::is_same_v<P, double>) {
    const auto* const real = std::get_if<double>(&given);
    return real == nullptr ? 0 : *real;
  } else {
    const auto* const integer = std::get_if<int64_t>(&given);
    return static_cast<P>(integer == nullptr ? 0 : *integer);
  }
}

// What is left of a function's parameters without the last two.
template <typename... P, size_t... kIndex>
constexpr auto KindsOf(std::tuple<P...>*, std::index_sequence<kIndex...>) {
  using All = std::tuple<P...>;
  return std::array<std::string_view, sizeof...(kIndex)>{
      KindOf<std::tuple_element_t<kIndex, All>>()...};
}

template <typename... P>
constexpr auto Kinds(aclnnStatus (*)(P...)) {
  return KindsOf(static_cast<std::tuple<P...>*>(nullptr),
                 std::make_index_sequence<sizeof...(P) - 2>());
}

template <typename... P, size_t... kIndex>
aclnnStatus Call(aclnnStatus (*plan)(P...), std::index_sequence<kIndex...>,
                 std::span<const Given> values, uint64_t* workspace_size,
                 aclOpExecutor** executor) {
  using All = std::tuple<P...>;
  return plan(As<std::tuple_element_t<kIndex, All>>(values[kIndex])...,
              workspace_size, executor);
}

template <auto kPlan, typename... P>
aclnnStatus CallAll(aclnnStatus (*plan)(P...), std::span<const Given> values,
                    uint64_t* workspace_size, aclOpExecutor** executor) {
  return Call(plan, std::make_index_sequence<sizeof...(P) - 2>(), values,
              workspace_size, executor);
}

template <auto kPlan>
aclnnStatus Plan(std::span<const Given> values, uint64_t* workspace_size,
                 aclOpExecutor** executor) {
  return CallAll<kPlan>(kPlan, values, workspace_size, executor);
}

template <auto kPlan>
constexpr auto kKinds = Kinds(kPlan);

#define ENTRY_POINT(name, function) \
  {#function, kKinds<function>, Plan<function>, name},

constexpr EntryPoint kAll[] = {
#include "entry_points.inc"  // made by cmake/entry_points.py
};

}  // namespace

std::string RecentError() {
  const char* const text = aclGetRecentErrMsg();
  const std::string_view all = text == nullptr ? "" : text;
  const size_t begins = all.find("): ");
  const size_t from = begins == std::string_view::npos ? 0 : begins + 3;
  return std::string(all.substr(from, all.find('\n', from) - from));
}

Result<const EntryPoint*> FindEntryPoint(const record::Call& call) {
  const auto* const found = std::ranges::find(
      kAll, std::string_view(call.function), &EntryPoint::function);
  if (found == std::end(kAll)) {
    return Invalid("{}: no such function", call.function);
  }
  const bool same = std::ranges::equal(
      call.parameters, found->kinds, {},
      [](const record::Parameter& one) { return std::string_view(one.kind); });
  if (!same) {
    return Invalid("{}: the record has other parameters than it takes",
                   call.function);
  }
  return found;
}

}  // namespace flashacl::replay
