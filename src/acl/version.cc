// SPDX-License-Identifier: Apache-2.0
#include "acl/version.h"

#include <dlfcn.h>
#include <limits.h>
#include <stdlib.h>

#include <algorithm>
#include <array>
#include <cctype>
#include <cstring>
#include <fstream>

#include "acl/acl_rt.h"
#include "acl/environment.h"
#include "acl/error.h"
#include "acl/raw_enum.h"
#include "base/str.h"

namespace flashacl::acl {
namespace {

// By aclCANNPackageName.
constexpr const char* kPackages[] = {"cann",       "runtime", "compiler",
                                     "hccl",       "toolkit", "opp",
                                     "opp_kernel", "driver"};

// The installation this library is in: <prefix>/lib64/libascendcl.so. Empty if
// the system cannot tell.
std::string OwnPrefix() {
  Dl_info info = {};
  if (dladdr(reinterpret_cast<const void*>(&OwnPrefix), &info) == 0 ||
      info.dli_fname == nullptr) {
    return {};
  }
  char path[PATH_MAX];
  if (realpath(info.dli_fname, path) == nullptr) return {};
  std::string prefix = path;
  for (int up = 0; up < 2; ++up) {
    const size_t slash = prefix.rfind('/');
    if (slash == std::string::npos) return {};
    prefix.resize(slash);
  }
  return prefix;
}

std::string FindVersion(std::string_view package) {
  for (const std::string& prefix : {OwnPrefix(), TheEnvironment().home_path}) {
    if (prefix.empty()) continue;
    std::string version = PackageVersion(prefix, package);
    if (!version.empty()) return version;
  }
  return {};
}

// Texts are cut to what fits, and always end.
template <size_t kSize>
void CopyText(std::string_view text, char (&to)[kSize]) {
  const size_t length = std::min(text.size(), kSize - 1);
  std::memcpy(to, text.data(), length);
  to[length] = '\0';
}

// Part `i` of "8.5.0.alpha001"; empty if there are fewer.
std::string_view Part(std::string_view version, int i) {
  for (; i > 0; --i) {
    const size_t dot = version.find('.');
    if (dot == std::string_view::npos) return {};
    version.remove_prefix(dot + 1);
  }
  return version.substr(0, version.find('.'));
}

aclError FailPackage(std::string_view function, std::string_view package) {
  return Fail(ACL_ERROR_INVALID_FILE, Title::kFile,
              Str("{} failed because share/info/{}/version.info says no "
                  "version",
                  function, package));
}

aclError GetText(char* package, char* text) {
  constexpr std::string_view kFunction = "aclsysGetVersionStr";
  if (package == nullptr) return FailNull(kFunction, "pkgName");
  if (text == nullptr) return FailNull(kFunction, "versionStr");
  const std::string version = FindVersion(package);
  if (version.empty()) return FailPackage(kFunction, package);
  char cut[ACL_PKG_VERSION_MAX_SIZE];
  CopyText(version, cut);
  std::memcpy(text, cut, std::strlen(cut) + 1);
  return ACL_SUCCESS;
}

aclError GetNumber(char* package, int32_t* number) {
  constexpr std::string_view kFunction = "aclsysGetVersionNum";
  if (package == nullptr) return FailNull(kFunction, "pkgName");
  if (number == nullptr) return FailNull(kFunction, "versionNum");
  const std::string version = FindVersion(package);
  if (version.empty()) return FailPackage(kFunction, package);
  *number = VersionNumber(version);
  return ACL_SUCCESS;
}

aclError GetParts(int name, aclCANNPackageVersion* answer) {
  constexpr std::string_view kFunction = "aclsysGetCANNVersion";
  if (answer == nullptr) return FailNull(kFunction, "version");
  if (name < 0 || static_cast<size_t>(name) >= std::size(kPackages)) {
    return FailValue(ACL_ERROR_INVALID_PARAM, kFunction, "name",
                     std::to_string(name), "0 to 7");
  }
  const std::string version = FindVersion(kPackages[name]);
  if (version.empty()) return FailPackage(kFunction, kPackages[name]);
  *answer = {};
  CopyText(version, answer->version);
  CopyText(Part(version, 0), answer->majorVersion);
  CopyText(Part(version, 1), answer->minorVersion);
  CopyText(Part(version, 2), answer->releaseVersion);
  CopyText(Part(version, 3), answer->patchVersion);
  return ACL_SUCCESS;
}

}  // namespace

std::string PackageVersion(const std::string& prefix,
                           std::string_view package) {
  // A name, not a path to somewhere else.
  const bool plain =
      !package.empty() &&
      std::all_of(package.begin(), package.end(), [](unsigned char c) {
        return std::isalnum(c) != 0 || c == '_' || c == '-';
      });
  if (!plain) return {};
  std::ifstream file(Str("{}/share/info/{}/version.info", prefix, package));
  constexpr std::string_view kKey = "version=";  // or "Version="
  for (std::string line; std::getline(file, line);) {
    const bool found = line.size() >= kKey.size() &&
                       std::equal(kKey.begin(), kKey.end(), line.begin(),
                                  [](char key, unsigned char c) {
                                    return key == std::tolower(c);
                                  });
    if (!found) continue;
    line.erase(0, kKey.size());
    line.erase(line.find_last_not_of(" \t\r") + 1);
    return line;
  }
  return {};
}

int32_t VersionNumber(std::string_view version) {
  constexpr std::array<int32_t, 3> kUnits = {10000000, 100000, 1000};
  int32_t number = 0;
  for (size_t i = 0; i < kUnits.size(); ++i) {
    const std::string_view part = Part(version, static_cast<int>(i));
    int32_t digits = 0;
    for (char c : part) {
      if (c < '0' || c > '9') break;
      digits = std::min(99, digits * 10 + (c - '0'));
    }
    number += digits * kUnits[i];
  }
  return number;
}

}  // namespace flashacl::acl

namespace acl = flashacl::acl;

extern "C" {

aclError aclsysGetVersionStr(char* pkgName, char* versionStr) {
  return acl::GuardRuntime([&] { return acl::GetText(pkgName, versionStr); });
}

aclError aclsysGetVersionNum(char* pkgName, int32_t* versionNum) {
  return acl::GuardRuntime([&] { return acl::GetNumber(pkgName, versionNum); });
}

aclError aclsysGetCANNVersion(aclCANNPackageName name,
                              aclCANNPackageVersion* version) {
  return acl::GuardRuntime(
      [&] { return acl::GetParts(acl::Raw(name), version); });
}

}  // extern "C"
