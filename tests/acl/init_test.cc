// SPDX-License-Identifier: Apache-2.0
// aclInit and aclFinalize: the counting, the configuration file, callbacks, and
// what strict mode says about leaks. Each test has a process of its own, as the
// first aclInit can only happen once.
#include "acl/init.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <fstream>
#include <string>
#include <thread>
#include <vector>

#include "acl/acl.h"
#include "tests/testing/child.h"
#include "tests/testing/runtime.h"

namespace flashacl::acl {
namespace {

using ::flashacl::testing::FailsWith;
using ::flashacl::testing::Message;
using ::flashacl::testing::RunChild;
using ::flashacl::testing::Succeeds;

// A file that is gone with its scope.
class File {
 public:
  explicit File(const std::string& text)
      : path_(::testing::TempDir() + "/flashacl_" + std::to_string(getpid()) +
              "_" + std::to_string(next_++) + ".json") {
    std::ofstream(path_) << text;
  }
  ~File() { unlink(path_.c_str()); }
  const char* path() const { return path_.c_str(); }

 private:
  static inline int next_ = 0;
  const std::string path_;
};

// A test, and its body behind this: a disabled one, which the first runs in a
// child.
#define IN_CHILD(name, ...)                                                \
  TEST(Init, name) {                                                       \
    const auto child = RunChild("InitChild.DISABLED_" #name, __VA_ARGS__); \
    EXPECT_TRUE(child.ok()) << child.output;                               \
  }                                                                        \
  TEST(InitChild, DISABLED_##name)

IN_CHILD(Counts, {}) {
  EXPECT_TRUE(Succeeds(aclFinalize()));  // without any aclInit
  EXPECT_TRUE(FailsWith(100037, aclFinalizeReference(nullptr)));
  EXPECT_TRUE(Succeeds(aclInit(nullptr)));
  EXPECT_TRUE(FailsWith(100002, aclInit(nullptr)));
  EXPECT_TRUE(FailsWith(100002, aclInit("/no/such/file")));
  uint64_t left = 99;
  EXPECT_TRUE(Succeeds(aclFinalizeReference(&left)));
  EXPECT_EQ(left, 2u);
  EXPECT_TRUE(Succeeds(aclFinalizeReference(nullptr)));
  EXPECT_TRUE(Succeeds(aclFinalizeReference(&left)));
  EXPECT_EQ(left, 0u);
  left = 99;
  EXPECT_TRUE(FailsWith(100037, aclFinalizeReference(&left)));
  EXPECT_EQ(left, 99u);
  EXPECT_TRUE(Succeeds(aclInit("")));
  EXPECT_TRUE(FailsWith(100002, aclInit("")));
  EXPECT_TRUE(Succeeds(aclFinalize()));  // whatever the count
  EXPECT_TRUE(FailsWith(100037, aclFinalize()));
}

IN_CHILD(ChecksTheFile, {}) {
  EXPECT_TRUE(FailsWith(100003, aclInit("/no/such/file"), "/no/such/file"));
  EXPECT_TRUE(FailsWith(100003, aclInit("/")));
  const File bad("{");
  EXPECT_TRUE(FailsWith(100006, aclInit(bad.path())));
  const File device(R"({"defaultDevice":{"default_device":"77"}})");
  EXPECT_TRUE(FailsWith(107001, aclInit(device.path())));
  const File good(R"({"unknown": [1, 2]})");
  EXPECT_TRUE(Succeeds(aclInit(good.path())));
  EXPECT_TRUE(Succeeds(aclFinalize()));
  EXPECT_TRUE(FailsWith(100000, aclInit(nullptr)));
  const File same(R"({"unknown": [1, 2]})");
  EXPECT_TRUE(Succeeds(aclInit(same.path())));
}

IN_CHILD(NeedsNoInit, {}) {
  EXPECT_TRUE(Succeeds(aclrtSetDevice(0)));
  aclrtStream stream = nullptr;
  EXPECT_TRUE(Succeeds(aclrtCreateStream(&stream)));
  EXPECT_TRUE(Succeeds(aclrtDestroyStream(stream)));
}

IN_CHILD(CreatesNoContext, {}) {
  EXPECT_TRUE(Succeeds(aclInit(nullptr)));
  aclrtContext context = nullptr;
  EXPECT_TRUE(FailsWith(107002, aclrtGetCurrentContext(&context)));
}

IN_CHILD(MessagesOfTheProcess, {}) {
  const File file(R"({"err_msg_mode":"1"})");
  EXPECT_TRUE(Succeeds(aclInit(file.path())));
  std::thread([] { aclrtSetDevice(-5); }).join();
  EXPECT_NE(Message().find("-5"), std::string::npos);
}

IN_CHILD(DefaultDevice, {}) {
  const File file(R"({"defaultDevice":{"default_device":"0"}})");
  EXPECT_TRUE(Succeeds(aclInit(file.path())));
  std::thread([] {
    int32_t device = -1;
    EXPECT_TRUE(Succeeds(aclrtGetDevice(&device)));
    EXPECT_EQ(device, 0);
    aclrtStream stream = nullptr;
    EXPECT_TRUE(Succeeds(aclrtCreateStream(&stream)));
    EXPECT_TRUE(Succeeds(aclrtSynchronizeStream(nullptr)));
    EXPECT_TRUE(Succeeds(aclrtDestroyStream(stream)));
  }).join();
  EXPECT_TRUE(Succeeds(aclrtResetDevice(0)));
}

std::vector<std::string> called;

aclError OnInit(const char* text, size_t size, void* name) {
  called.push_back(std::string(static_cast<const char*>(name)) + "<" +
                   std::string(text, size) + ">");
  return 1;  // ignored
}
aclError OnFinalize(void* name) {
  called.push_back(static_cast<const char*>(name));
  return 1;  // ignored
}

IN_CHILD(CallsBack, {}) {
  char a[] = "a", b[] = "b", c[] = "c";
  const auto type = ACL_REG_TYPE_ACL_MODEL;
  EXPECT_TRUE(FailsWith(100000, aclInitCallbackRegister(type, nullptr, a)));
  EXPECT_TRUE(FailsWith(100000, aclFinalizeCallbackRegister(type, nullptr, a)));
  EXPECT_TRUE(FailsWith(
      100000, aclInitCallbackRegister(static_cast<aclRegisterCallbackType>(99),
                                      OnInit, a)));
  EXPECT_TRUE(FailsWith(100000, aclInitCallbackUnRegister(type, OnInit)));
  EXPECT_TRUE(Succeeds(aclInitCallbackRegister(type, OnInit, a)));
  EXPECT_TRUE(Succeeds(aclFinalizeCallbackRegister(type, OnFinalize, c)));
  const File file("{}");
  EXPECT_TRUE(Succeeds(aclInit(file.path())));
  EXPECT_EQ(called, std::vector<std::string>{"a<{}>"});
  // At once when already initialised.
  EXPECT_TRUE(Succeeds(aclInitCallbackRegister(ACL_REG_TYPE_OTHER, OnInit, b)));
  EXPECT_TRUE(Succeeds(aclFinalize()));
  EXPECT_EQ(called, (std::vector<std::string>{"a<{}>", "b<{}>", "c"}));
  called.clear();
  EXPECT_TRUE(Succeeds(aclInitCallbackUnRegister(type, OnInit)));
  EXPECT_TRUE(Succeeds(aclFinalizeCallbackUnRegister(type, OnFinalize)));
  EXPECT_TRUE(
      FailsWith(100000, aclFinalizeCallbackUnRegister(type, OnFinalize)));
  EXPECT_TRUE(Succeeds(aclInit(file.path())));
  EXPECT_TRUE(Succeeds(aclFinalize()));
  EXPECT_EQ(called, std::vector<std::string>{"b<{}>"});
}

int finalized = 0;

IN_CHILD(StrictModeListsLeaks, {{"FLASHACL_STRICT", "1"}}) {
  AddLeakReporter([](std::string* text) { *text += "2 apples"; });
  AddFinalizer([] { ++finalized; });
  EXPECT_TRUE(Succeeds(aclInit(nullptr)));
  EXPECT_TRUE(Succeeds(aclrtSetDevice(0)));
  aclrtEvent events[3];
  for (aclrtEvent& event : events) {
    EXPECT_TRUE(Succeeds(aclrtCreateEvent(&event)));
  }
  EXPECT_TRUE(Succeeds(aclrtDestroyEvent(events[0])));
  EXPECT_TRUE(Succeeds(aclrtResetDevice(0)));
  EXPECT_TRUE(Succeeds(aclFinalize()));
  const std::string message = Message();
  EXPECT_NE(message.find("not released: 2 events, 2 apples."),
            std::string::npos)
      << message;
  EXPECT_EQ(finalized, 1);
}

TEST(Init, FrameworksKeepWhatTheyHave) {
  const auto child =
      RunChild("InitChild.DISABLED_Framework",
               {{"FLASHACL_STRICT", "exit"}, {"FLASHACL_HOST_ACCESS", "1"}});
  EXPECT_TRUE(child.ok()) << child.output;
}
TEST(InitChild, DISABLED_Framework) {
  AddLeakReporter([](std::string* text) { *text += "2 apples"; });
  EXPECT_TRUE(Succeeds(aclInit(nullptr)));
  EXPECT_TRUE(Succeeds(aclrtSetDevice(0)));
  EXPECT_TRUE(Succeeds(aclFinalize()));
  EXPECT_EQ(aclGetRecentErrMsg(), nullptr);
}

IN_CHILD(TolerantModeLeaksSilently, {{"FLASHACL_STRICT", "0"}}) {
  AddLeakReporter([](std::string* text) { *text += "2 apples"; });
  EXPECT_TRUE(Succeeds(aclInit(nullptr)));
  EXPECT_TRUE(Succeeds(aclrtSetDevice(0)));
  EXPECT_TRUE(Succeeds(aclFinalize()));
  EXPECT_EQ(aclGetRecentErrMsg(), nullptr);
}

}  // namespace
}  // namespace flashacl::acl
