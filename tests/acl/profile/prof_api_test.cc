// SPDX-License-Identifier: Apache-2.0
// Profiles: every status of their functions, and the file that a profile ends
// with.
#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <filesystem>
#include <set>
#include <string>
#include <vector>

#include "acl/acl.h"
#include "acl/acl_prof.h"
#include "base/str.h"
#include "tests/acl/profile/trace_reader.h"
#include "tests/testing/fork.h"
#include "tests/testing/runtime.h"

namespace flashacl::acl {
namespace {

using ::flashacl::testing::FailsWith;
using ::flashacl::testing::Message;
using ::flashacl::testing::ReadTrace;
using ::flashacl::testing::RuntimeTest;
using ::flashacl::testing::Succeeds;
using ::flashacl::testing::TemporaryFolder;

class Profile : public RuntimeTest {
 protected:
  void TearDown() override {
    (void)aclprofFinalize();
    (void)Message();
    for (const aclprofConfig* config : configs_) {
      (void)aclprofDestroyConfig(config);
    }
    RuntimeTest::TearDown();
  }

  aclError Init() { return aclprofInit(path_.c_str(), path_.size()); }

  // Destroyed when the test ends.
  const aclprofConfig* Config(std::vector<uint32_t> devices = {0}) {
    const aclprofConfig* made = aclprofCreateConfig(
        devices.data(), static_cast<uint32_t>(devices.size()),
        ACL_AICORE_PIPE_UTILIZATION, nullptr,
        ACL_PROF_ACL_API | ACL_PROF_TASK_TIME);
    EXPECT_NE(made, nullptr) << Message();
    configs_.push_back(made);
    return made;
  }

  // The profiles written since the last question. Their numbers count on from
  // test to test.
  std::vector<std::string> NewFiles() {
    std::vector<std::string> fresh;
    for (const std::string& file : folder_.Files()) {
      if (seen_.insert(file).second) fresh.push_back(file);
    }
    return fresh;
  }
  // The one that must have come.
  ReadTrace NewTrace() {
    const std::vector<std::string> fresh = NewFiles();
    EXPECT_EQ(fresh.size(), 1u);
    if (fresh.empty()) return ReadTrace(folder_.path());
    EXPECT_TRUE(
        fresh[0].starts_with(folder_ / Str("flashacl_trace_{}_", getpid())));
    return ReadTrace(fresh[0]);
  }

  TemporaryFolder folder_;
  const std::string path_ = folder_.path();

 private:
  std::vector<const aclprofConfig*> configs_;
  std::set<std::string> seen_;
};

TEST_F(Profile, InitWantsAPathOnce) {
  EXPECT_TRUE(FailsWith(100000, aclprofInit(nullptr, 4), "profilerResultPath"));
  EXPECT_TRUE(FailsWith(100000, aclprofInit("x", 0), "value 0 for parameter"));
  EXPECT_TRUE(FailsWith(100000, aclprofInit("x", 4097), "[1, 4096]"));
  // As long as paths may be for the library; the system's may be shorter.
  const std::string longest = path_ + std::string(4096 - path_.size(), '/');
  EXPECT_TRUE(FailsWith(100004, aclprofInit(longest.c_str(), longest.size()),
                        "too long"));
  EXPECT_TRUE(Succeeds(aclprofInit(longest.c_str(), longest.size() - 1)));
  EXPECT_TRUE(FailsWith(100002, Init(), "was called before"));
  EXPECT_TRUE(Succeeds(aclprofFinalize()));
  EXPECT_TRUE(Succeeds(Init()));
  EXPECT_TRUE(Succeeds(aclprofFinalize()));
  EXPECT_TRUE(FailsWith(100043, aclprofFinalize(), "aclprofInit"));
  EXPECT_TRUE(folder_.Files().empty());
}

TEST_F(Profile, ConfigsAreMadeOfGoodArguments) {
  std::vector<uint32_t> devices(65);
  const auto create = [&](uint32_t* list, uint32_t count, int metric,
                          const void* events) {
    return aclprofCreateConfig(
        list, count, static_cast<aclprofAicoreMetrics>(metric),
        static_cast<const aclprofAicoreEvents*>(events), ~uint64_t{0});
  };
  const auto refuses = [](const aclprofConfig* made, const char* why) {
    EXPECT_EQ(made, nullptr);
    EXPECT_NE(Message().find(why), std::string::npos) << why;
  };
  refuses(create(nullptr, 1, 0, nullptr), "deviceIdList");
  refuses(create(devices.data(), 65, 0, nullptr), "[0, 64]");
  refuses(create(devices.data(), 1, 0, devices.data()), "aicoreEvents");
  refuses(create(devices.data(), 1, 9, nullptr), "aicoreMetrics");
  refuses(create(devices.data(), 1, -1, nullptr), "aicoreMetrics");
  for (const int metric : {0, 1, 2, 3, 4, 5, 6, 7, 8, 0xFF}) {
    for (const uint32_t count : {0u, 1u, 64u}) {
      const aclprofConfig* made =
          create(count == 0 ? nullptr : devices.data(), count, metric, nullptr);
      ASSERT_NE(made, nullptr) << metric << " " << Message();
      EXPECT_TRUE(Succeeds(aclprofDestroyConfig(made)));
      EXPECT_TRUE(
          FailsWith(100000, aclprofDestroyConfig(made), "profilerConfig"));
    }
  }
  EXPECT_TRUE(FailsWith(100000, aclprofDestroyConfig(nullptr), "NULL pointer"));
}

TEST_F(Profile, StartsAndStopsOnce) {
  const aclprofConfig* config = Config();
  EXPECT_TRUE(FailsWith(100043, aclprofStart(config), "aclprofInit"));
  EXPECT_TRUE(FailsWith(100043, aclprofStop(config), "aclprofInit"));
  ASSERT_TRUE(Succeeds(Init()));
  EXPECT_TRUE(FailsWith(100000, aclprofStart(nullptr), "profilerConfig"));
  EXPECT_TRUE(FailsWith(100000, aclprofStop(nullptr), "profilerConfig"));
  EXPECT_TRUE(FailsWith(100043, aclprofStop(config), "device 0"));
  EXPECT_TRUE(Succeeds(aclprofStart(config)));
  EXPECT_TRUE(FailsWith(100042, aclprofStart(config), "device 0"));
  EXPECT_TRUE(FailsWith(100042, aclprofStart(Config({1, 0})), "device 0"));
  EXPECT_TRUE(Succeeds(aclprofStop(config)));
  EXPECT_TRUE(FailsWith(100043, aclprofStop(config), "device 0"));
  const aclprofConfig* host = Config({});
  EXPECT_TRUE(Succeeds(aclprofStart(host)));
  EXPECT_TRUE(FailsWith(100042, aclprofStart(host), "the host"));
  EXPECT_TRUE(Succeeds(aclprofStop(host)));
}

TEST_F(Profile, OptionsAreTaken) {
  const std::string longest(256, 'x');
  const auto set = [&](int type, const char* text, size_t length) {
    return aclprofSetConfig(static_cast<aclprofConfigType>(type), text, length);
  };
  EXPECT_TRUE(FailsWith(100043, set(1, "200MB", 5), "aclprofInit"));
  ASSERT_TRUE(Succeeds(Init()));
  EXPECT_TRUE(FailsWith(100000, set(1, nullptr, 5), "config"));
  EXPECT_TRUE(FailsWith(100000, set(1, longest.c_str(), 257), "configLength"));
  EXPECT_TRUE(FailsWith(100000, set(0, "x", 1), "configType"));
  EXPECT_TRUE(FailsWith(100000, set(17, "x", 1), "configType"));
  EXPECT_TRUE(FailsWith(100000, set(-1, "x", 1), "configType"));
  for (int type = 1; type <= 16; ++type) {
    EXPECT_TRUE(Succeeds(set(type, longest.c_str(), longest.size())));
  }
}

TEST_F(Profile, WritesAFileWhenItStops) {
  ASSERT_TRUE(Succeeds(Init()));
  const aclprofConfig* config = Config();
  EXPECT_TRUE(Succeeds(aclrtSynchronizeDevice()));
  for (int n = 1; n <= 2; ++n) {
    EXPECT_TRUE(Succeeds(aclprofStart(config)));
    for (int i = 0; i < n; ++i) {
      EXPECT_TRUE(Succeeds(aclrtSynchronizeDevice()));
    }
    EXPECT_TRUE(Succeeds(aclprofStop(config)));
    const ReadTrace trace = NewTrace();
    EXPECT_EQ(trace.Named("aclrtSynchronizeDevice").size(),
              static_cast<size_t>(n));
  }
  EXPECT_EQ(folder_.Files().size(), 2u);
}

TEST_F(Profile, LastsUntilItsLastDeviceStops) {
  ASSERT_TRUE(Succeeds(Init()));
  const aclprofConfig* both = Config({0, 1});
  const aclprofConfig* one = Config({1});
  EXPECT_TRUE(Succeeds(aclprofStart(both)));
  EXPECT_TRUE(Succeeds(aclprofStop(one)));
  EXPECT_TRUE(folder_.Files().empty());
  EXPECT_TRUE(FailsWith(100043, aclprofStop(both), "device 1"));
  EXPECT_TRUE(Succeeds(aclrtSynchronizeDevice()));
  EXPECT_TRUE(Succeeds(aclprofStop(Config({0}))));
  EXPECT_EQ(NewTrace().Named("aclrtSynchronizeDevice").size(), 1u);
}

TEST_F(Profile, FinalizingStopsAndWrites) {
  ASSERT_TRUE(Succeeds(Init()));
  EXPECT_TRUE(Succeeds(aclprofStart(Config())));
  EXPECT_TRUE(Succeeds(aclrtSynchronizeDevice()));
  EXPECT_TRUE(Succeeds(aclprofFinalize()));
  EXPECT_EQ(NewTrace().Named("aclrtSynchronizeDevice").size(), 1u);
  // Nothing is started any more.
  ASSERT_TRUE(Succeeds(Init()));
  EXPECT_TRUE(FailsWith(100043, aclprofStop(Config()), "device 0"));
}

TEST_F(Profile, InitMakesItsFolderOrSaysWhyNot) {
  const auto init = [&](const std::string& path) {
    return aclprofInit(path.c_str(), path.size());
  };
  const std::string made = folder_ / "made";
  EXPECT_TRUE(FailsWith(100004, init(made + "/in/it"), "No such file"));
  ASSERT_TRUE(Succeeds(init(made)));
  EXPECT_TRUE(Succeeds(aclprofFinalize()));
  ASSERT_TRUE(Succeeds(init(made)));
  EXPECT_TRUE(Succeeds(aclprofStart(Config())));
  EXPECT_TRUE(Succeeds(aclprofFinalize()));
  std::filesystem::path file;
  for (const auto& one : std::filesystem::directory_iterator(made)) {
    file = one.path();
  }
  EXPECT_TRUE(FailsWith(100004, init(file), "Not a directory"));
  EXPECT_TRUE(FailsWith(100043, aclprofFinalize()));
  std::filesystem::remove_all(made);
}

TEST_F(Profile, SaysThatItCannotBeWritten) {
  const std::string missing = folder_ / "missing";
  ASSERT_TRUE(Succeeds(aclprofInit(missing.c_str(), missing.size())));
  EXPECT_EQ(rmdir(missing.c_str()), 0);
  const aclprofConfig* config = Config();
  EXPECT_TRUE(Succeeds(aclprofStart(config)));
  EXPECT_TRUE(FailsWith(100004, aclprofStop(config), "No such file"));
  // It has ended all the same.
  EXPECT_TRUE(FailsWith(100043, aclprofStop(config), "device 0"));
  EXPECT_TRUE(Succeeds(aclprofStart(config)));
  EXPECT_TRUE(FailsWith(100004, aclprofFinalize(), missing));
  ASSERT_TRUE(Succeeds(Init()));
  EXPECT_TRUE(Succeeds(aclprofStart(config)));
  EXPECT_TRUE(Succeeds(aclprofStop(config)));
}

TEST_F(Profile, SaysThatTheDiskIsFull) {
  ASSERT_TRUE(Succeeds(Init()));
  const aclprofConfig* config = Config();
  // The number of the next file depends on the tests before.
  for (int n = 1; n < 1000; ++n) {
    const std::string file =
        folder_ / Str("flashacl_trace_{}_{}.json", getpid(), n);
    ASSERT_EQ(symlink("/dev/full", file.c_str()), 0);
  }
  EXPECT_TRUE(Succeeds(aclprofStart(config)));
  EXPECT_TRUE(FailsWith(100004, aclprofStop(config), "No space left"));
}

// What was started before a fork is the parent's.
TEST_F(Profile, IsNotInheritedByForkedChildren) {
  ASSERT_TRUE(Succeeds(Init()));
  const aclprofConfig* config = Config();
  EXPECT_TRUE(Succeeds(aclprofStart(config)));
  const pid_t child = testing::Fork();
  if (child == 0) {
    (void)aclrtSetDevice(0);
    EXPECT_TRUE(FailsWith(100043, aclprofStop(config), "aclprofInit"));
    EXPECT_TRUE(Succeeds(Init()));
    EXPECT_TRUE(FailsWith(100000, aclprofStop(config), "in the child"));
    EXPECT_TRUE(Succeeds(aclprofStart(Config())));
    EXPECT_TRUE(Succeeds(aclrtSynchronizeDevice()));
    EXPECT_TRUE(Succeeds(aclprofFinalize()));
    EXPECT_EQ(NewTrace().Named("aclrtSynchronizeDevice").size(), 1u);
    _exit(HasFailure() ? 1 : 0);
  }
  int status = 0;
  waitpid(child, &status, 0);
  EXPECT_TRUE(WIFEXITED(status) && WEXITSTATUS(status) == 0);
  EXPECT_TRUE(Succeeds(aclprofStop(config)));
  EXPECT_EQ(folder_.Files().size(), 2u);
}

}  // namespace
}  // namespace flashacl::acl
