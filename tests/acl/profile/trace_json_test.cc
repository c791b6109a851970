// SPDX-License-Identifier: Apache-2.0
#include "acl/profile/trace_json.h"

#include <gtest/gtest.h>
#include <sys/stat.h>

#include <string>
#include <vector>

#include "acl/profile/output_file.h"
#include "tests/acl/profile/trace_reader.h"

namespace flashacl::acl::profile {
namespace {

using ::flashacl::testing::Json;
using ::flashacl::testing::ReadTrace;
using ::flashacl::testing::TemporaryFolder;

std::string Quoted(std::string_view text) {
  std::string out;
  AppendString(text, out);
  return out;
}

TEST(AppendString, EscapesWhatJsonEscapes) {
  EXPECT_EQ(Quoted(""), "\"\"");
  EXPECT_EQ(Quoted("plain /"), "\"plain /\"");
  EXPECT_EQ(Quoted("\"\\"), R"("\"\\")");
  EXPECT_EQ(Quoted("\n\x1f"), R"("\u000a\u001f")");
  EXPECT_EQ(Quoted(std::string_view("\0", 1)), R"("\u0000")");
}

// Every byte after every byte, and longer ones at the ends of their ranges:
// what comes out is JSON, and what was UTF-8 is what it was.
TEST(AppendString, IsUtf8WhateverComes) {
  std::vector<std::string> texts = {
      "\xC2\x80",         "\xDF\xBF",         "\xE0\xA0\x80",
      "\xE0\x9F\xBF",     "\xED\x9F\xBF",     "\xED\xA0\x80",
      "\xEF\xBF\xBF",     "\xF0\x90\x80\x80", "\xF0\x8F\xBF\xBF",
      "\xF4\x8F\xBF\xBF", "\xF4\x90\x80\x80", "\xE2\x82",
      "\xF0\x9F\x98"};
  for (int a = 0; a < 256; ++a) {
    for (int b = 0; b < 256; ++b) {
      texts.push_back({static_cast<char>(a), static_cast<char>(b)});
    }
  }
  for (const std::string& text : texts) {
    const Json read = Json::parse(Quoted(text), nullptr, false);
    ASSERT_TRUE(read.is_string()) << Quoted(text);
    const std::string expected = Json::parse(
        Json(text).dump(-1, ' ', false, Json::error_handler_t::replace));
    if (expected == text) {
      EXPECT_EQ(read.get<std::string>(), text);
    } else {
      EXPECT_NE(read.get<std::string>().find("\xEF\xBF\xBD"),
                std::string::npos);
    }
  }
}

// A chunk of one stream, and one of one thread.
Recorded Some() {
  auto thread = std::make_shared<Chunk>(Track{.thread = 7});
  auto stream =
      std::make_shared<Chunk>(Track{.thread = 8, .stream = 3, .device = 1});
  // Inner before outer, as they end.
  thread->Add({.name = "aclInner", .begin_ns = 1'234'567, .end_ns = 1'234'569});
  thread->Add({.kind = Kind::kSubmission,
               .stream = 3,
               .task = 9,
               .begin_ns = 1'234'567,
               .end_ns = 1'234'567});
  thread->Add({.name = "aclOuter", .begin_ns = 1'234'567, .end_ns = 1'300'000});
  stream->Add({.kind = Kind::kRun,
               .stream = 3,
               .task = 9,
               .name = "aclOuter",
               .begin_ns = 1'300'000,
               .end_ns = 1'400'001});
  // Submitted before the profile.
  stream->Add({.kind = Kind::kRun,
               .stream = 3,
               .task = 8,
               .begin_ns = 1'250'000,
               .end_ns = 1'260'000});
  stream->Add({.kind = Kind::kRange,
               .task = 77,
               .begin_ns = 1'200'000,
               .end_ns = 1'400'000,
               .said = std::make_shared<const Said>(Said{"range", "d", "x"})});
  return {{thread, stream}, 5};
}

TEST(WriteTrace, WritesWhatWasRecorded) {
  const TemporaryFolder folder;
  ASSERT_TRUE(WriteTrace(Some(), folder / "t.json").ok());
  const ReadTrace trace(folder / "t.json");
  EXPECT_EQ(trace.dropped(), 5);
  const Json inner = trace.Named("aclInner").at(0);
  EXPECT_EQ(ReadTrace::Begin(inner), 1'234'567);
  EXPECT_EQ(ReadTrace::End(inner), 1'234'569);
  EXPECT_EQ(inner["tid"], 7);
  const Json run = trace.Named("aclOuter").at(1);
  EXPECT_EQ(run["pid"], inner["pid"].get<int64_t>() + kStreamsOfProcess);
  EXPECT_EQ(run["tid"], RowOfStream(3));
  EXPECT_EQ(trace.With("s", "id", "0x300000009").size(), 1u);
  EXPECT_EQ(trace.With("f", "cat", "submission").size(), 1u);
  EXPECT_EQ(trace.Named("task").size(), 1u);
  for (const char* phase : {"b", "e"}) {
    const auto range = trace.With(phase, "id", "0x4d");
    ASSERT_EQ(range.size(), 1u);
    EXPECT_EQ(range[0]["name"], "range");
  }
  const Json begin = trace.With("b", "id", "0x4d").at(0);
  EXPECT_EQ(begin["args"]["domain"], "d");
  EXPECT_EQ(begin["args"]["detail"], "x");
  const auto names = trace.With("M", "name", "thread_name");
  ASSERT_EQ(names.size(), 2u);
  EXPECT_EQ(names[1]["args"]["name"], "stream 3, device 1");
}

TEST(WriteTrace, LeavesOutOtherTimes) {
  const TemporaryFolder folder;
  Recorded recorded = Some();
  recorded.begin_ns = 1'234'568;
  recorded.end_ns = 1'400'000;
  ASSERT_TRUE(WriteTrace(recorded, folder / "t.json").ok());
  const ReadTrace trace(folder / "t.json");
  EXPECT_EQ(trace.With("X", "cat", "call").size(), 0u);
  EXPECT_EQ(trace.Named("task").size(), 1u);
}

TEST(WriteTrace, WritesAnEmptyOne) {
  const TemporaryFolder folder;
  ASSERT_TRUE(WriteTrace({}, folder / "t.json").ok());
  EXPECT_EQ(ReadTrace(folder / "t.json").With("X", "ph", "X").size(), 0u);
}

TEST(WriteTrace, SaysWhyItCannot) {
  const Status none = WriteTrace(Some(), "/no/such/folder/t.json");
  EXPECT_EQ(none.code(), Code::kRuntime);
  EXPECT_NE(none.message().find("/no/such/folder/t.json"), std::string::npos);
  EXPECT_NE(none.message().find("No such file"), std::string::npos);
  const Status full = WriteTrace(Some(), "/dev/full");
  EXPECT_NE(full.message().find("No space left"), std::string::npos);
}

TEST(OutputFile, WritesMoreThanItKeeps) {
  const TemporaryFolder folder;
  {
    OutputFile file(folder / "x");
    for (int n = 0; n < 1000; ++n) {
      file.text() += std::string(1000, static_cast<char>('a' + n % 26));
      file.Flush();
      EXPECT_LE(file.text().size(), size_t{1} << 17);
    }
    EXPECT_EQ(file.Close(), 0);
    EXPECT_EQ(file.Close(), 0);
  }
  struct stat about {};
  ASSERT_EQ(stat((folder / "x").c_str(), &about), 0);
  EXPECT_EQ(about.st_size, 1000 * 1000);
}

}  // namespace
}  // namespace flashacl::acl::profile
