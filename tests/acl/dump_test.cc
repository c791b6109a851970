// SPDX-License-Identifier: Apache-2.0
// CANN's dumps are records. Each is a process of its own, which initialises
// and sets what is recorded; what it wrote is read here.
#include "acl/dump.h"

#include <gtest/gtest.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "acl/acl.h"
#include "acl/acl_dump.h"
#include "acl/dump_config.h"
#include "acl/recording.h"
#include "record/directory.h"
#include "tests/testing/child.h"
#include "tests/testing/misuse.h"
#include "tests/testing/runtime.h"
#include "tests/testing/temp_path.h"

namespace flashacl::testing {
namespace {

namespace fs = std::filesystem;

using acl::ParseDump;
using acl::RecordingSetting;

RecordingSetting Parsed(const std::string& dump) {
  const auto read = ParseDump(R"({"dump":)" + dump + "}");
  EXPECT_TRUE(read.ok()) << read.status().message();
  return read.ok() && read->has_value() ? **read : RecordingSetting();
}

TEST(Dump, SettingsMeanWhatTheyMeanInCann) {
  const RecordingSetting usual = Parsed(R"({"dump_path":"/tmp"})");
  EXPECT_EQ(usual.directory, "/tmp");
  EXPECT_FALSE(usual.operators);  // dump_op_switch is "off"
  EXPECT_FALSE(usual.inputs);     // dump_mode is "output"
  EXPECT_TRUE(usual.outputs);
  EXPECT_FALSE(usual.statistics_only);
  const RecordingSetting all = Parsed(
      R"({"dump_path":"d","dump_op_switch":"on","dump_mode":"all",
          "dump_data":"stats","dump_list":[],"dump_step":"0|3-5",
          "dump_level":"op","dump_stats":["Max"]})");
  EXPECT_TRUE(all.operators && all.inputs && all.outputs);
  EXPECT_TRUE(all.statistics_only);
  const RecordingSetting input =
      Parsed(R"({"dump_path":"d","dump_mode":"input"})");
  EXPECT_TRUE(input.inputs && !input.outputs);
  const RecordingSetting overflow =
      Parsed(R"({"dump_path":"d","dump_debug":"on"})");
  EXPECT_TRUE(overflow.operators && overflow.only_bad_numbers);
  EXPECT_TRUE(overflow.inputs && overflow.outputs);
  const RecordingSetting failed =
      Parsed(R"({"dump_scene":"aic_err_brief_dump"})");
  EXPECT_TRUE(failed.operators && failed.only_failed);
  EXPECT_EQ(failed.directory, ".");
  EXPECT_FALSE(Parsed(R"({"dump_path":"d","dump_scene":"watcher"})").operators);
}

TEST(Dump, IsAbsentWhereNothingIsAskedFor) {
  for (const char* text : {"{}", R"({"dump":{}})", R"({"profiler":{}})"}) {
    const auto read = ParseDump(text);
    ASSERT_TRUE(read.ok()) << text;
    EXPECT_FALSE(read->has_value()) << text;
  }
}

TEST(Dump, WrongSettingsAreNamed) {
  const std::pair<const char*, const char*> wrong[] = {
      {"1", "dump is number, expected an object"},
      {R"({"dump_mode":"all"})", "dump.dump_path is missing"},
      {R"({"dump_path":7})", "dump.dump_path is 7, expected a text"},
      {R"({"dump_path":"d","dump_mode":"Al"})",
       R"(dump.dump_mode is "Al", expected "output", "input" or "all")"},
      {R"({"dump_path":"d","dump_op_switch":true})",
       "dump.dump_op_switch is true, expected a text"},
      {R"({"dump_path":"d","dump_data":"max"})", R"("tensor" or "stats")"},
      {R"({"dump_path":"d","dump_debug":"yes"})", R"("off" or "on")"},
      {R"({"dump_path":"d","dump_level":"x"})", R"("op" or "kernel")"},
      {R"({"dump_path":"d","dump_scene":"all"})", "\"watcher\""},
      {R"({"dump_path":"d","dump_step":"3-"})", "numbers and ranges"},
      {R"({"dump_path":"d","dump_list":"x"})", "a list of objects"},
      {R"({"dump_path":"d","dump_list":[1]})", "a list of objects"},
      {R"({"dump_path":"d","dump_stats":"Max"})", "expected a list"}};
  for (const auto& [dump, words] : wrong) {
    const auto read = ParseDump(std::string(R"({"dump":)") + dump + "}");
    ASSERT_FALSE(read.ok()) << dump;
    EXPECT_NE(read.status().message().find(words), std::string::npos)
        << read.status().message();
  }
}

// A child's directory, given by name: that of the parent.
std::string Given() { return std::getenv("FLASHACL_TEST_DIRECTORY"); }

// A configuration file whose dump goes to that directory.
std::string FileOf(const std::string& dump) {
  const std::string path = Given() + "/acl.json";
  std::ofstream(path) << R"({"dump":{"dump_path":")" << Given() << R"(/d",)"
                      << dump << "}}";
  return path;
}

int AddNow() {
  Scene scene;
  const int status = AddOn(scene, scene.stream);
  EXPECT_TRUE(Succeeds(aclrtSynchronizeStream(scene.stream)));
  return status;
}

constexpr const char* kEverything =
    R"("dump_op_switch":"on","dump_mode":"all")";

TEST(DumpChild, DISABLED_OfInit) {
  ASSERT_TRUE(Succeeds(aclInit(FileOf(kEverything).c_str())));
  ASSERT_TRUE(Succeeds(aclrtSetDevice(0)));
  EXPECT_EQ(AddNow(), 0);
  EXPECT_TRUE(FailsWith(100044, aclmdlInitDump(), "the file of aclInit"));
  EXPECT_TRUE(FailsWith(
      100044, aclopStartDumpArgs(ACL_OP_DUMP_OP_AICORE_ARGS, "/tmp")));
  EXPECT_TRUE(Succeeds(aclFinalize()));
  ASSERT_TRUE(Succeeds(aclrtSetDevice(0)));
  EXPECT_EQ(AddNow(), 0);  // it is over
}

TEST(DumpChild, DISABLED_Outputs) {
  ASSERT_TRUE(Succeeds(aclInit(FileOf(R"("dump_op_switch":"on")").c_str())));
  ASSERT_TRUE(Succeeds(aclrtSetDevice(0)));
  EXPECT_EQ(AddNow(), 0);
}

TEST(DumpChild, DISABLED_OfModels) {
  ASSERT_TRUE(Succeeds(aclInit(FileOf(R"("dump_mode":"all")").c_str())));
  ASSERT_TRUE(Succeeds(aclrtSetDevice(0)));
  EXPECT_EQ(AddNow(), 0);  // dump_op_switch is off
  Scene scene;
  const float numbers[] = {1, 2, 3, 4};
  EXPECT_TRUE(Succeeds(
      aclrtMemcpy(scene.a, 16, numbers, 16, ACL_MEMCPY_HOST_TO_DEVICE)));
  aclTensor* tensors[] = {Floats(scene.a, {4}), Floats(scene.out, {2, 2})};
  EXPECT_TRUE(
      Succeeds(aclDumpOpTensors("Own", "own_3", tensors, 1, 1, scene.stream)));
  // In the order of the stream.
  EXPECT_TRUE(Succeeds(aclrtMemcpyAsync(
      scene.a, 16, scene.b, 16, ACL_MEMCPY_DEVICE_TO_DEVICE, scene.stream)));
  EXPECT_TRUE(Succeeds(aclrtSynchronizeStream(scene.stream)));
  for (aclTensor* tensor : tensors) aclDestroyTensor(tensor);
}

TEST(DumpChild, DISABLED_SetTwice) {
  ASSERT_TRUE(Succeeds(aclInit(nullptr)));
  ASSERT_TRUE(Succeeds(aclrtSetDevice(0)));
  const std::string path = FileOf(kEverything);
  EXPECT_TRUE(FailsWith(100045, aclmdlSetDump(path.c_str())));
  EXPECT_TRUE(FailsWith(100045, aclmdlFinalizeDump()));
  EXPECT_TRUE(Succeeds(aclmdlInitDump()));
  EXPECT_TRUE(FailsWith(100002, aclmdlInitDump(), "aclmdlFinalizeDump ends"));
  EXPECT_TRUE(FailsWith(100000, aclmdlSetDump(nullptr), "dumpCfgPath"));
  EXPECT_TRUE(FailsWith(100003, aclmdlSetDump("/nowhere")));
  EXPECT_EQ(AddNow(), 0);  // nothing is set
  EXPECT_TRUE(Succeeds(aclmdlSetDump(path.c_str())));
  EXPECT_EQ(AddNow(), 0);
  EXPECT_TRUE(FailsWith(100044,
                        aclopStartDumpArgs(ACL_OP_DUMP_OP_AICORE_ARGS, "/tmp"),
                        "aclmdlSetDump"));
  // The newest settings count: only calls that fail.
  EXPECT_TRUE(Succeeds(
      aclmdlSetDump(FileOf(R"("dump_scene":"lite_exception")").c_str())));
  EXPECT_EQ(AddNow(), 0);
  aclTensor* const t = Floats(nullptr, {4});
  uint64_t size = 0;
  aclOpExecutor* executor = nullptr;
  EXPECT_NE(aclnnAddGetWorkspaceSize(t, t, nullptr, t, &size, &executor), 0);
  aclDestroyTensor(t);
  EXPECT_TRUE(Succeeds(aclmdlFinalizeDump()));
  EXPECT_EQ(AddNow(), 0);
  EXPECT_TRUE(Succeeds(aclmdlInitDump()));  // once more
  EXPECT_TRUE(Succeeds(aclmdlSetDump(FileOf(kEverything).c_str())));
  EXPECT_EQ(AddNow(), 0);
  EXPECT_TRUE(Succeeds(aclFinalize()));
}

TEST(DumpChild, DISABLED_Arguments) {
  constexpr uint32_t kType = ACL_OP_DUMP_OP_AICORE_ARGS;
  ASSERT_TRUE(Succeeds(aclrtSetDevice(0)));
  EXPECT_TRUE(FailsWith(100000, aclopStartDumpArgs(2, "/tmp"), "dumpType"));
  EXPECT_TRUE(FailsWith(100000, aclopStartDumpArgs(kType, nullptr), "path"));
  EXPECT_TRUE(
      FailsWith(100000, aclopStartDumpArgs(kType, "/nowhere/to/go"), "path"));
  EXPECT_TRUE(FailsWith(100045, aclopStopDumpArgs(kType)));
  const std::string directory = Given() + "/d";
  EXPECT_TRUE(Succeeds(aclopStartDumpArgs(kType, directory.c_str())));
  EXPECT_TRUE(FailsWith(100044, aclopStartDumpArgs(kType, "/tmp")));
  EXPECT_EQ(AddNow(), 0);
  EXPECT_TRUE(FailsWith(100000, aclopStopDumpArgs(7), "dumpType"));
  EXPECT_TRUE(Succeeds(aclopStopDumpArgs(kType)));
  EXPECT_EQ(AddNow(), 0);
}

struct Records {
  std::vector<record::Call> calls;
  size_t files = 0;  // of tensors' bytes

  // The n-th tensor of a call, whether in a list or not.
  static std::vector<record::Tensor> TensorsOf(const record::Call& call) {
    std::vector<record::Tensor> tensors;
    record::ForTensors(call, [&](const std::string&, const record::Tensor& t) {
      tensors.push_back(t);
    });
    return tensors;
  }
};

// What the child of this name leaves in its directory.
Records RecordsOf(const std::string& test,
                  std::map<std::string, std::string> environment = {}) {
  const fs::path top = TempPath("dump_" + test);
  fs::create_directories(top);
  environment["FLASHACL_TEST_DIRECTORY"] = top.string();
  const ChildResult child = RunChild("DumpChild.DISABLED_" + test, environment);
  EXPECT_TRUE(child.ok()) << child.output;
  Records records;
  const auto reader = record::Reader::Open((top / "d").string());
  if (reader.ok()) {
    for (const std::string& name : reader->Calls()) {
      auto call = reader->ReadCall(name);
      EXPECT_TRUE(call.ok()) << call.status().message();
      if (call.ok()) records.calls.push_back(*std::move(call));
    }
    for (const auto& file : fs::directory_iterator(top / "d/tensors")) {
      records.files += file.is_regular_file() ? 1 : 0;
    }
  }
  fs::remove_all(top);
  return records;
}

TEST(Dump, TheFileOfInitRecords) {
  const Records records = RecordsOf("OfInit");
  ASSERT_EQ(records.calls.size(), 1u);
  EXPECT_EQ(records.calls[0].operation, "aclnnAdd");
  for (const record::Tensor& t : Records::TensorsOf(records.calls[0])) {
    EXPECT_TRUE(t.before.has_value() && t.before->kept);
    EXPECT_EQ(t.after.has_value(), t.output);
  }
  EXPECT_GT(records.files, 0u);
}

TEST(Dump, ModesChooseContents) {
  const Records records = RecordsOf("Outputs");
  ASSERT_EQ(records.calls.size(), 1u);
  const auto tensors = Records::TensorsOf(records.calls[0]);
  ASSERT_EQ(tensors.size(), 3u);
  for (const record::Tensor& t : tensors) {
    EXPECT_FALSE(t.before.has_value());
    EXPECT_EQ(t.after.has_value(), t.output);
    EXPECT_EQ(t.bytes, 256);
  }
  EXPECT_EQ(records.files, 1u);
}

TEST(Dump, ProgramsHandOverTensorsOfTheirOwn) {
  const Records records = RecordsOf("OfModels");
  ASSERT_EQ(records.calls.size(), 1u);
  const record::Call& call = records.calls[0];
  EXPECT_EQ(call.operation, "Own");
  EXPECT_EQ(call.function, "aclDumpOpTensors");
  EXPECT_EQ(std::get<std::string>(call.parameters[0].value), "own_3");
  const auto tensors = Records::TensorsOf(call);
  ASSERT_EQ(tensors.size(), 2u);
  EXPECT_TRUE(tensors[0].input && !tensors[0].output);
  ASSERT_TRUE(tensors[0].before.has_value());
  EXPECT_EQ(tensors[0].before->statistics.max, 4);
  EXPECT_EQ(tensors[1].shape, (std::vector<int64_t>{2, 2}));
  ASSERT_TRUE(tensors[1].after.has_value());
  EXPECT_EQ(tensors[1].after->statistics.max, 0);
}

TEST(Dump, SettingsCountUntilTheNext) {
  const Records records = RecordsOf("SetTwice");
  ASSERT_EQ(records.calls.size(), 3u);
  EXPECT_EQ(records.calls[0].plan.status, 0);
  EXPECT_NE(records.calls[1].plan.status, 0);  // while only failures counted
  EXPECT_EQ(records.calls[2].plan.status, 0);
}

TEST(Dump, ArgumentsAreRecordedWithoutContents) {
  const Records records = RecordsOf("Arguments");
  ASSERT_EQ(records.calls.size(), 1u);
  for (const record::Tensor& t : Records::TensorsOf(records.calls[0])) {
    EXPECT_EQ(t.shape, (std::vector<int64_t>{64}));
    EXPECT_FALSE(t.before.has_value() || t.after.has_value());
  }
  EXPECT_EQ(records.files, 0u);
}

// FLASHACL_RECORD decides what is recorded, and where.
TEST(Dump, TheEnvironmentComesFirst) {
  const std::string other = TempPath("dump_environment");
  EXPECT_TRUE(RecordsOf("OfInit", {{"FLASHACL_RECORD", other}}).calls.empty());
  const auto reader = record::Reader::Open(other);
  ASSERT_TRUE(reader.ok()) << reader.status().message();
  EXPECT_EQ(reader->Calls().size(), 2u);  // what comes after aclFinalize, too
  fs::remove_all(other);
}

}  // namespace
}  // namespace flashacl::testing
