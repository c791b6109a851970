// SPDX-License-Identifier: Apache-2.0
// Versions of packages, read from an installation made for the test.
#include "acl/version.h"

#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <string>

#include "acl/acl.h"
#include "tests/testing/child.h"
#include "tests/testing/runtime.h"

namespace flashacl::acl {
namespace {

using ::flashacl::testing::FailsWith;
using ::flashacl::testing::RunChild;
using ::flashacl::testing::Succeeds;

class Prefix {
 public:
  Prefix() {
    std::string name = ::testing::TempDir() + "flashacl_version_XXXXXX";
    path_ = mkdtemp(name.data());
  }
  ~Prefix() { std::filesystem::remove_all(path_); }
  Prefix(const Prefix&) = delete;
  Prefix& operator=(const Prefix&) = delete;

  void Write(const std::string& package, const std::string& text) const {
    const std::string folder = path_ + "/share/info/" + package;
    std::filesystem::create_directories(folder);
    std::ofstream(folder + "/version.info") << text;
  }
  const std::string& path() const { return path_; }

 private:
  std::string path_;
};

TEST(Version, IsTheLineOfTheFile) {
  const Prefix prefix;
  prefix.Write("runtime", "name=x\nversion=8.5.0\nversion=9\n");
  prefix.Write("cann", "Version=8.0.RC1.alpha001 \r\n");
  prefix.Write("empty", "");
  EXPECT_EQ(PackageVersion(prefix.path(), "runtime"), "8.5.0");
  EXPECT_EQ(PackageVersion(prefix.path(), "cann"), "8.0.RC1.alpha001");
  EXPECT_EQ(PackageVersion(prefix.path(), "empty"), "");
  EXPECT_EQ(PackageVersion(prefix.path(), "missing"), "");
  EXPECT_EQ(PackageVersion(prefix.path(), ""), "");
  EXPECT_EQ(PackageVersion(prefix.path() + "/share", "../info/runtime"), "");
}

TEST(Version, AsANumber) {
  EXPECT_EQ(VersionNumber("8.5.1"), 80501000);
  EXPECT_EQ(VersionNumber("8.0.RC1"), 80000000);
  EXPECT_EQ(VersionNumber("99.99.99.99"), 999999000);
  EXPECT_EQ(VersionNumber("999999999999"), 990000000);
  EXPECT_EQ(VersionNumber(""), 0);
}

// A child, which Version.ComesFromTheInstallation starts.
TEST(VersionChild, DISABLED_Installed) {
  char runtime[] = "runtime";
  char text[ACL_PKG_VERSION_MAX_SIZE] = "";
  EXPECT_TRUE(Succeeds(aclsysGetVersionStr(runtime, text)));
  EXPECT_STREQ(text, "8.5.0");
  int32_t number = 0;
  EXPECT_TRUE(Succeeds(aclsysGetVersionNum(runtime, &number)));
  EXPECT_EQ(number, 80500000);
  aclCANNPackageVersion version;
  EXPECT_TRUE(Succeeds(aclsysGetCANNVersion(ACL_PKG_NAME_CANN, &version)));
  EXPECT_STREQ(version.version, "8.0.RC1.alpha001");
  EXPECT_STREQ(version.majorVersion, "8");
  EXPECT_STREQ(version.minorVersion, "0");
  EXPECT_STREQ(version.releaseVersion, "RC1");
  EXPECT_STREQ(version.patchVersion, "alpha001");
  EXPECT_TRUE(FailsWith(
      100003, aclsysGetCANNVersion(ACL_PKG_NAME_HCCL, &version), "hccl"));
}

TEST(Version, ComesFromTheInstallation) {
  const Prefix prefix;
  prefix.Write("runtime", "version=8.5.0\n");
  prefix.Write("cann", "version=8.0.RC1.alpha001\n");
  const auto child = RunChild("VersionChild.DISABLED_Installed",
                              {{"ASCEND_HOME_PATH", prefix.path()}});
  EXPECT_TRUE(child.ok()) << child.output;
}

TEST(Version, EveryCode) {
  char unknown[] = "no_such_package";
  char text[ACL_PKG_VERSION_MAX_SIZE] = "";
  int32_t number = 7;
  aclCANNPackageVersion version;
  EXPECT_TRUE(FailsWith(100000, aclsysGetVersionStr(nullptr, text)));
  EXPECT_TRUE(FailsWith(100000, aclsysGetVersionStr(unknown, nullptr)));
  EXPECT_TRUE(FailsWith(100003, aclsysGetVersionStr(unknown, text), unknown));
  EXPECT_TRUE(FailsWith(100000, aclsysGetVersionNum(nullptr, &number)));
  EXPECT_TRUE(FailsWith(100000, aclsysGetVersionNum(unknown, nullptr)));
  EXPECT_TRUE(FailsWith(100003, aclsysGetVersionNum(unknown, &number)));
  EXPECT_EQ(number, 7);
  EXPECT_TRUE(
      FailsWith(100000, aclsysGetCANNVersion(ACL_PKG_NAME_CANN, nullptr)));
  for (const int bad : {-1, 8}) {
    EXPECT_TRUE(FailsWith(
        100000,
        aclsysGetCANNVersion(static_cast<aclCANNPackageName>(bad), &version)));
  }
}

}  // namespace
}  // namespace flashacl::acl
