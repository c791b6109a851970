// SPDX-License-Identifier: Apache-2.0
#include "acl/call_site.h"

#include <dlfcn.h>
#include <unwind.h>

#include <cstdint>

#include "acl/environment.h"
#include "base/once.h"
#include "base/str.h"

namespace flashacl::acl {
namespace {

std::string_view FileOf(const Dl_info& info) {
  const std::string_view path = info.dli_fname == nullptr ? "" : info.dli_fname;
  return path.substr(path.rfind('/') + 1);
}

bool IsOurs(const Dl_info& info) {
  static constinit MadeOnce<const void* const> base;
  const void* const ours = base.Get([] {
    Dl_info own{};
    dladdr(reinterpret_cast<const void*>(&CallSiteOf), &own);
    return own.dli_fbase;
  });
  return info.dli_fbase == ours;
}

// For each frame, inner ones first: whether to go on.
_Unwind_Reason_Code LookFurther(_Unwind_Context* frame, void* from) {
  // One before: after the call there may be another function.
  const void* const at =
      reinterpret_cast<const std::byte*>(_Unwind_GetIP(frame)) - 1;
  Dl_info info{};
  if (dladdr(at, &info) == 0 || IsOurs(info)) return _URC_NO_REASON;
  *static_cast<const void**>(from) = at;
  return _URC_END_OF_STACK;
}

}  // namespace

CallSite CallSiteOf(std::string_view function) {
  CallSite site{function};
  if (!TheEnvironment().strict) return site;
  // Not backtrace(): under a sanitizer that is a function of the sanitizer's,
  // which would be the first that is not ours.
  _Unwind_Backtrace(LookFurther, &site.from);
  return site;
}

std::string ToString(const CallSite& site) {
  std::string text(site.function);
  Dl_info info{};
  if (site.from == nullptr || dladdr(site.from, &info) == 0) return text;
  const auto offset = reinterpret_cast<uintptr_t>(site.from) -
                      reinterpret_cast<uintptr_t>(info.dli_fbase);
  const std::string place = Str("{}+{:#x}", FileOf(info), offset);
  if (info.dli_sname == nullptr) return text + Str(" in {}", place);
  return text + Str(" in {} ({})", info.dli_sname, place);
}

}  // namespace flashacl::acl
