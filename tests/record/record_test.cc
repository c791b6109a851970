// SPDX-License-Identifier: Apache-2.0
// What a record says is what is read from it; what is broken is a message.
#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmath>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <limits>
#include <string>
#include <vector>

#include "record/call.h"
#include "record/call_json.h"
#include "record/digest.h"
#include "record/directory.h"
#include "record/setting.h"

namespace flashacl::record {
namespace {

// A directory for the length of a test.
class RecordTest : public ::testing::Test {
 protected:
  void SetUp() override {
    std::string name = ::testing::TempDir() + "recordXXXXXX";
    ASSERT_NE(mkdtemp(name.data()), nullptr);
    path_ = name;
  }
  void TearDown() override {
    ASSERT_EQ(std::system(("rm -rf " + path_).c_str()), 0);
  }

  std::unique_ptr<Writer> Open(int64_t max_bytes = 1 << 20) const {
    auto opened = Writer::Open(path_, max_bytes);
    EXPECT_TRUE(opened.ok()) << opened.status().message();
    return opened.ok() ? std::move(*opened) : nullptr;
  }

  void WriteFile(const std::string& name, const std::string& text) const {
    std::ofstream(path_ + "/" + name) << text;
  }

  std::string path_;
};

template <typename T>
std::vector<std::byte> Bytes(const std::vector<T>& values) {
  std::vector<std::byte> bytes(values.size() * sizeof(T));
  std::memcpy(bytes.data(), values.data(), bytes.size());
  return bytes;
}

const ElementType& kFloat = *FindElementType("FLOAT");

Contents Stored(const std::vector<std::byte>& bytes) {
  Digest digest = DigestFor(kFloat);
  digest.Add(bytes);
  return {digest.Text(), true, {}};
}

Tensor FloatTensor(int64_t count) {
  Tensor tensor;
  tensor.type = "FLOAT";
  tensor.shape = tensor.storage = {count};
  tensor.strides = {1};
  tensor.bytes = 4 * count;
  return tensor;
}

// One of everything.
Call FullCall() {
  Call call;
  call.number = 7;
  call.process = 4711;
  call.time = "2026-11-23T08:00:00.000001Z";
  call.operation = "anAdd";
  call.function = "anAddGetWorkspaceSize";
  Tensor tensor = FloatTensor(6);
  tensor.shape = {2, 3};
  tensor.strides = {4, 1};
  tensor.bytes = 28;
  tensor.offset = 5;
  tensor.input = tensor.has_data = true;
  tensor.before = {std::string(32, 'a'),
                   true,
                   {6, 1, 2, -0.5, std::numeric_limits<double>::max(), 0.1}};
  call.parameters = {
      {"self", "tensor", tensor},
      {"list", "tensors", std::vector<TensorOrNot>{tensor, std::nullopt}},
      {"none", "tensor", Nothing()},
      {"dead", "tensor", NoObject()},
      {"alpha", "scalar", Scalar{"FLOAT", 0, {0, 0, 128, 63}}},
      {"ends", "ints", std::vector<int64_t>{INT64_MIN, -1, INT64_MAX}},
      {"scale", "real", 0.1},
      {"infinite", "real", -std::numeric_limits<double>::infinity()},
      {"mode", "int", int64_t{-3}},
      {"flag", "bool", true},
      {"layout", "text", std::string("B\"SND\n")},
  };
  call.problem = "fwd f32";
  call.implementation = "cpu/forward";
  call.workspace_bytes = UINT64_MAX;
  call.launch = Answer{507015, "it failed"};
  call.has_workspace = true;
  call.given_workspace = 64;
  call.stream = 3;
  call.microseconds = 12.5;
  return call;
}

TEST(CallJson, KeepsAll) {
  const Call call = FullCall();
  const Result<Call> read = ParseCall(ToJson(call));
  ASSERT_TRUE(read.ok()) << read.status().message();
  EXPECT_TRUE(*read == call) << ToJson(*read);
  EXPECT_TRUE(call.failed());
}

TEST(CallJson, KeepsNan) {
  Call call;
  call.parameters = {{"scale", "real", std::nan("")}};
  const Result<Call> read = ParseCall(ToJson(call));
  ASSERT_TRUE(read.ok());
  EXPECT_TRUE(std::isnan(std::get<double>(read->parameters[0].value)));
}

// Every value in turn is of another kind, or gone.
TEST(CallJson, NamesWhatIsBroken) {
  const std::string json = ToJson(FullCall());
  for (size_t at = 0; at < json.size(); ++at) {
    std::string cut = json.substr(0, at);
    (void)ParseCall(cut);
    std::string changed = json;
    changed[at] = changed[at] == '1' ? '-' : '1';
    const Result<Call> read = ParseCall(changed);
    EXPECT_EQ(read.ok(), read.status().message().empty());
  }
  const Result<Call> array = ParseCall("[]");
  EXPECT_EQ(array.status().message(), "call: expected an object");
  const Result<Call> version = ParseCall(R"({"flashacl_record": 2})");
  EXPECT_EQ(version.status().message(),
            "call.flashacl_record: version 2, expected 1");
}

TEST(CallJson, ViewsLieInTheirBytes) {
  Call call;
  Tensor tensor = FloatTensor(4);
  for (const int64_t stride : {int64_t{2}, int64_t{-1}, INT64_MAX}) {
    tensor.strides = {stride};
    call.parameters = {{"self", "tensor", tensor}};
    EXPECT_FALSE(ParseCall(ToJson(call)).ok()) << stride;
  }
}

TEST(Digest, IsOfTheBytesHoweverTheyCome) {
  std::vector<std::byte> bytes(1000);
  for (size_t n = 0; n < bytes.size(); ++n) bytes[n] = std::byte(n * 7);
  const std::string all = DigestOf(bytes);
  EXPECT_TRUE(IsDigest(all));
  for (const size_t cut : {size_t{1}, size_t{63}, size_t{64}, size_t{500}}) {
    Digest digest;
    digest.Add(std::span(bytes).first(cut));
    digest.Add(std::span(bytes).subspan(cut));
    EXPECT_EQ(digest.Text(), all) << cut;
  }
  for (size_t n = 0; n < bytes.size(); ++n) {
    bytes[n] ^= std::byte{1};
    EXPECT_NE(DigestOf(bytes), all) << n;
    bytes[n] ^= std::byte{1};
  }
  EXPECT_NE(DigestOf(std::span(bytes).first(0)),
            DigestOf(std::vector<std::byte>(1)));
  EXPECT_FALSE(IsDigest("../../../../../../etc/passwd0000"));
}

TEST(Setting, FiltersAreRead) {
  const auto setting = ParseSetting(
      "dir:op=an*Score,calls=3-9,every=2,failed,nan,stats,size=2M");
  ASSERT_TRUE(setting.ok()) << setting.status().message();
  EXPECT_EQ(setting->directory, "dir");
  EXPECT_EQ(setting->max_bytes, 2 << 20);
  EXPECT_TRUE(setting->only_failed && setting->only_bad_numbers);
  EXPECT_TRUE(setting->statistics_only);
  EXPECT_TRUE(setting->Wants("anAttentionScore", 3));
  EXPECT_FALSE(setting->Wants("anAttentionScore", 4));
  EXPECT_TRUE(setting->Wants("anAttentionScore", 5));
  EXPECT_FALSE(setting->Wants("anAttentionScore", 11));
  EXPECT_FALSE(setting->Wants("anAttentionScoreGrad", 3));
  EXPECT_TRUE(ParseSetting("dir").ok());
  for (const char* const wrong :
       {"", ":failed", "dir:", "dir:fail", "dir:calls=0", "dir:calls=5-4",
        "dir:every=x", "dir:size=1T", "dir:op", "dir:size=99999999999G"}) {
    EXPECT_FALSE(ParseSetting(wrong).ok()) << wrong;
  }
}

TEST(Setting, GlobsMatch) {
  EXPECT_TRUE(Matches("*", ""));
  EXPECT_TRUE(Matches("a*b*c", "a12bbxc"));
  EXPECT_TRUE(Matches("?b", "ab"));
  EXPECT_FALSE(Matches("?b", "b"));
  EXPECT_FALSE(Matches("a*b", "acd"));
  EXPECT_FALSE(Matches("", "a"));
}

TEST_F(RecordTest, HoldsCallsAndBytes) {
  const auto bytes = Bytes<float>({1, 2, 3});
  Tensor tensor = FloatTensor(3);
  tensor.before = Stored(bytes);
  Call call;
  call.operation = "anAdd";
  call.parameters = {{"self", "tensor", tensor}};
  const auto writer = Open();
  EXPECT_FALSE(writer->Has(tensor.before->digest));
  EXPECT_TRUE(writer->PutTensor(kFloat, tensor.before->digest, bytes).ok());
  EXPECT_TRUE(writer->Has(tensor.before->digest));
  EXPECT_TRUE(writer->PutCall(call).ok());
  EXPECT_TRUE(writer->PutCall(call).ok());
  EXPECT_TRUE(Open()->PutCall(call).ok());  // of another process
  const auto reader = Reader::Open(path_);
  ASSERT_TRUE(reader.ok());
  EXPECT_EQ(reader->Calls(),
            (std::vector<std::string>{"00000001", "00000002", "00000003"}));
  const auto read = reader->ReadCall("00000003");
  ASSERT_TRUE(read.ok()) << read.status().message();
  EXPECT_TRUE(*read == call);
  const auto again = reader->ReadTensor(tensor, *tensor.before);
  ASSERT_TRUE(again.ok()) << again.status().message();
  EXPECT_EQ(*again, bytes);
}

TEST_F(RecordTest, IsBounded) {
  const auto writer = Open(100);
  const auto bytes = Bytes<float>({1, 2, 3});
  EXPECT_FALSE(writer->PutTensor(kFloat, Stored(bytes).digest, bytes).ok());
  EXPECT_TRUE(writer->full());
  EXPECT_FALSE(writer->Has(Stored(bytes).digest));
}

TEST_F(RecordTest, FollowsNoPathOut) {
  Open();
  WriteFile("outside", "secret");
  ASSERT_EQ(symlink("../outside", (path_ + "/calls/00000001.json").c_str()), 0);
  const auto reader = Reader::Open(path_);
  ASSERT_TRUE(reader.ok());
  EXPECT_FALSE(reader->ReadCall("00000001").ok());
  EXPECT_FALSE(reader->ReadCall("../outside").ok());
  Tensor tensor = FloatTensor(1);
  const Contents outside{"../../outside", true, {}};
  EXPECT_FALSE(reader->ReadTensor(tensor, outside).ok());
  ASSERT_EQ(mkfifo((path_ + "/calls/00000002.json").c_str(), 0600), 0);
  EXPECT_FALSE(reader->ReadCall("00000002").ok());  // and does not wait
  ASSERT_EQ(rename((path_ + "/calls").c_str(), (path_ + "/c").c_str()), 0);
  ASSERT_EQ(symlink("c", (path_ + "/calls").c_str()), 0);
  EXPECT_FALSE(Reader::Open(path_).ok());
}

TEST_F(RecordTest, KnowsBrokenBytes) {
  const auto bytes = Bytes<float>({1, 2, 3});
  const Contents contents = Stored(bytes);
  const auto writer = Open();
  ASSERT_TRUE(writer->PutTensor(kFloat, contents.digest, bytes).ok());
  const auto reader = Reader::Open(path_);
  ASSERT_TRUE(reader.ok());
  EXPECT_FALSE(reader->ReadTensor(FloatTensor(2), contents).ok());
  EXPECT_FALSE(reader->ReadTensor(FloatTensor(1 << 30), contents).ok());
  Tensor other = FloatTensor(3);
  other.type = "INT32";
  EXPECT_FALSE(reader->ReadTensor(other, contents).ok());
  auto changed = bytes;
  changed[5] = std::byte{9};
  ASSERT_TRUE(writer->PutTensor(kFloat, contents.digest, changed).ok());
  const auto read = reader->ReadTensor(FloatTensor(3), contents);
  EXPECT_NE(read.status().message().find("other bytes than its name says"),
            std::string::npos);
}

}  // namespace
}  // namespace flashacl::record
