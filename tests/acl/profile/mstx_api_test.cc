// SPDX-License-Identifier: Apache-2.0
// The tools extension: numbers, domains, and what the timeline shows.
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "acl/acl.h"
#include "acl/profile/timeline.h"
#include "acl/profile/trace_json.h"
#include "mstx/ms_tools_ext.h"
#include "tests/acl/profile/trace_reader.h"
#include "tests/testing/runtime.h"

namespace flashacl::acl {
namespace {

using ::flashacl::testing::Message;
using ::flashacl::testing::ReadTrace;
using ::flashacl::testing::RuntimeTest;
using ::flashacl::testing::ScopedStream;
using ::flashacl::testing::Succeeds;
using ::flashacl::testing::TemporaryFolder;

class Mstx : public RuntimeTest {
 protected:
  template <typename F>
  ReadTrace Trace(F&& body) {
    const TemporaryFolder folder;
    const int64_t begin_ns = profile::StartRecording();
    body();
    const std::string path = folder / "trace.json";
    EXPECT_TRUE(
        profile::WriteTrace(profile::StopRecording(begin_ns), path).ok());
    return ReadTrace(path);
  }
};

TEST_F(Mstx, NumbersRangesWhetherOrNotAnybodyRecords) {
  const mstxRangeId one = mstxRangeStartA("x", nullptr);
  const mstxRangeId two = mstxRangeStartA("x", nullptr);
  EXPECT_GE(one, 1u);
  EXPECT_EQ(two, one + 1);
  mstxRangeEnd(two);
  mstxRangeEnd(one);
  mstxRangeEnd(one);
  mstxRangeEnd(0);
  mstxMarkA("x", nullptr);
  EXPECT_EQ(aclGetRecentErrMsg(), nullptr);
}

TEST_F(Mstx, SaysWhatIsWrong) {
  mstxDomainHandle_t foreign = reinterpret_cast<mstxDomainHandle_t>(0x1234);
  EXPECT_EQ(mstxRangeStartA(nullptr, nullptr), 0u);
  EXPECT_NE(Message().find("message"), std::string::npos);
  mstxMarkA(nullptr, nullptr);
  EXPECT_NE(Message().find("mstxMarkA"), std::string::npos);
  EXPECT_NE(mstxDomainCreateA("known"), nullptr);
  EXPECT_EQ(mstxDomainRangeStartA(foreign, "x", nullptr), 0u);
  EXPECT_NE(Message().find("mstxDomainCreateA"), std::string::npos);
  EXPECT_EQ(mstxDomainCreateA(nullptr), nullptr);
  EXPECT_NE(Message().find("name"), std::string::npos);
  EXPECT_EQ(mstxMemHeapRegister(nullptr, nullptr), nullptr);
  mstxMemHeapUnregister(nullptr, nullptr);
  mstxMemRegionsRegister(nullptr, nullptr);
  mstxMemRegionsUnregister(nullptr, nullptr);
  EXPECT_EQ(aclGetRecentErrMsg(), nullptr);
}

TEST_F(Mstx, ShowsMarksAndRangesOnThreadsAndStreams) {
  const ScopedStream stream;
  const ReadTrace trace = Trace([&] {
    mstxMarkA("mark", nullptr);
    mstxMarkA("marks", stream);
    const mstxRangeId here = mstxRangeStartA("here", nullptr);
    const mstxRangeId both = mstxRangeStartA("both", stream);
    mstxRangeEnd(here);
    mstxRangeEnd(both);
    EXPECT_TRUE(Succeeds(aclrtSynchronizeStream(stream)));
    // A stream that is none.
    EXPECT_EQ(mstxRangeStartA("x", reinterpret_cast<aclrtStream>(0x1234)), 0u);
    EXPECT_NE(Message().find("stream"), std::string::npos);
  });
  EXPECT_EQ(trace.With("i", "name", "mark").size(), 1u);
  EXPECT_EQ(trace.With("i", "name", "marks").size(), 2u);
  EXPECT_EQ(trace.With("b", "name", "here").size(), 1u);
  EXPECT_EQ(trace.With("e", "name", "here").size(), 1u);
  int of_streams = 0;
  for (const auto& range : trace.With("b", "name", "both")) {
    of_streams += ReadTrace::OfStream(range);
  }
  EXPECT_EQ(of_streams, 1);
  EXPECT_EQ(trace.With("e", "name", "both").size(), 2u);
}

TEST_F(Mstx, DomainsHaveNames) {
  const mstxDomainHandle_t domain = mstxDomainCreateA("loader");
  ASSERT_NE(domain, nullptr);
  EXPECT_EQ(mstxDomainCreateA("loader"), domain);
  EXPECT_NE(mstxDomainCreateA("other"), domain);
  const ReadTrace trace = Trace([&] {
    mstxDomainMarkA(domain, "mark", nullptr);
    mstxDomainRangeEnd(domain, mstxDomainRangeStartA(domain, "range", nullptr));
  });
  mstxDomainDestroy(domain);
  ASSERT_EQ(trace.With("i", "name", "mark").size(), 1u);
  EXPECT_EQ(trace.With("i", "name", "mark")[0]["args"]["domain"], "loader");
  ASSERT_EQ(trace.With("b", "name", "range").size(), 1u);
  EXPECT_EQ(trace.With("b", "name", "range")[0]["args"]["domain"], "loader");
}

}  // namespace
}  // namespace flashacl::acl
