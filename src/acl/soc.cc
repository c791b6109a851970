// SPDX-License-Identifier: Apache-2.0
#include "acl/soc.h"

#include <algorithm>
#include <array>
#include <cctype>
#include <string>

#include "acl/acl_rt.h"
#include "acl/environment.h"
#include "acl/error.h"
#include "acl/hardware.h"

namespace flashacl::acl {
namespace {

constexpr std::string_view kVendor = "Ascend";

// What follows the vendor's name.
constexpr std::array<std::string_view, 28> kChips = {
    "910PremiumA", "910ProA",  "910A",     "910ProB",  "910B",     "310P1",
    "310P2",       "310P3",    "310P4",    "310P5",    "310P7",    "910B1",
    "910B2",       "910B2C",   "910B3",    "910B4",    "910B4-1",  "310B1",
    "310B2",       "310B3",    "310B4",    "910_9391", "910_9392", "910_9381",
    "910_9382",    "910_9372", "910_9362", "910_9363"};
// Chips whose names programs know by how they begin.
constexpr std::string_view kPrefix = "950";

}  // namespace

bool IsSocName(std::string_view name) {
  if (!name.starts_with(kVendor)) return false;
  name.remove_prefix(kVendor.size());
  if (std::ranges::find(kChips, name) != kChips.end()) return true;
  return name.starts_with(kPrefix) &&
         std::ranges::all_of(name, [](unsigned char c) {
           return std::isalnum(c) != 0 || c == '_' || c == '-';
         });
}

const char* SocName() {
  const std::string& name = TheEnvironment().soc;
  return IsSocName(name) ? name.c_str() : kSocName;
}

aclError RequireSoc(std::string_view function) {
  const std::string& name = TheEnvironment().soc;
  if (name.empty() || IsSocName(name)) return ACL_SUCCESS;
  return Fail(ACL_ERROR_RT_SOC_VERSION, Title::kReason,
              Str("{} failed because FLASHACL_SOC is {}. Expected value: {} in "
                  "front of one of {}, or of a name that begins with {}.",
                  function, name, kVendor, Join(kChips, ", "), kPrefix));
}

}  // namespace flashacl::acl
