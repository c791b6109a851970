// SPDX-License-Identifier: Apache-2.0
// Versions of installed packages, as share/info/<package>/version.info of the
// installation says.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace flashacl::acl {

// The value of the line "version=..." in the package's file below `prefix`;
// empty if there is none.
std::string PackageVersion(const std::string& prefix, std::string_view package);

// Two digits for each of the first three parts: 8.5.1 is 80501000.
int32_t VersionNumber(std::string_view version);

}  // namespace flashacl::acl
