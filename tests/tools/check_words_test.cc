// SPDX-License-Identifier: Apache-2.0
#include "tools/flashacl/check_words.h"

#include <gtest/gtest.h>

#include <cstring>
#include <filesystem>
#include <fstream>

#include "arrays/npy.h"
#include "problem/notation.h"
#include "tests/testing/temp_path.h"

namespace flashacl::tool {
namespace {

class CheckWords : public ::testing::Test {
 protected:
  void SetUp() override {
    path_ = testing::TempPath("check_words_test.bin");
    const int64_t numbers[] = {3, 5, 9};
    std::string bytes(sizeof(numbers), '\0');
    std::memcpy(bytes.data(), numbers, sizeof(numbers));
    std::ofstream(path_, std::ios::binary) << bytes;
    file_ = path_ + ":f32:1x3x2";
    lengths_ = path_ + ":i64:3";
  }
  void TearDown() override { std::filesystem::remove(path_); }

  // The line that words say.
  static std::string Line(const std::vector<std::string>& words) {
    const Result<CheckQuestion> question = ReadQuestion(words);
    return question.ok() ? ToString(question->problem)
                         : question.status().message();
  }

  std::string path_, file_, lengths_;
};

TEST_F(CheckWords, TellsLengthsFromTensors) {
  EXPECT_EQ(Line({"fwd", "f32", "h=1", "d=2", "q=2x4", "k=2x4", "q=" + file_,
                  "out=" + file_}),
            "fwd f32 h=1 d=2 q=2x4 k=2x4");
  EXPECT_EQ(Line({"fwd f32 h=1 d=2", "q=@" + lengths_, "k=@" + lengths_,
                  "out=" + file_}),
            "fwd f32 h=1 d=2 q=3,5,9 k=3,5,9");
  EXPECT_EQ(Line({"fwd f32 h=1 d=2", "q=@" + lengths_ + ":ends",
                  "k=@" + lengths_ + ":ends", "out=" + file_}),
            "fwd f32 h=1 d=2 q=3,2,4 k=3,2,4");
  EXPECT_EQ(Line({"fwd f32 h=1 d=2 k=4", "q=@" + file_, "out=" + file_}),
            file_ +
                ": expected integers on one axis, a length of each "
                "sequence");
}

// Of a record the rest is known.
TEST_F(CheckWords, TakesResultsAlone) {
  const auto read = [](const std::vector<std::string>& words,
                       Direction direction) {
    return ReadResults(words, direction);
  };
  const auto forward =
      read({"out=" + file_, "gpu=" + file_}, Direction::kForward);
  ASSERT_TRUE(forward.ok()) << forward.status().message();
  ASSERT_EQ(forward->size(), 2u);
  EXPECT_EQ((*forward)[1].arrays[0].name, "out");
  const auto backward =
      read({"gpu.dq=" + file_, "gpu.dk=" + file_}, Direction::kBackward);
  ASSERT_TRUE(backward.ok()) << backward.status().message();
  ASSERT_EQ(backward->size(), 1u);
  EXPECT_EQ((*backward)[0].arrays.size(), 2u);
  EXPECT_TRUE(read({}, Direction::kForward).ok());
  EXPECT_NE(read({"q=" + file_}, Direction::kForward)
                .status()
                .message()
                .find("the record has its own tensors"),
            std::string::npos);
  EXPECT_NE(read({"causal"}, Direction::kForward)
                .status()
                .message()
                .find("the record"),
            std::string::npos);
}

TEST_F(CheckWords, KnowsWhoseResultsAre) {
  const Result<CheckQuestion> forward =
      ReadQuestion({"fwd f32 h=1 d=2 q=3 k=3", "q=" + file_, "out=" + file_,
                    "gpu=" + file_, "layout=TND"});
  ASSERT_TRUE(forward.ok()) << forward.status().message();
  ASSERT_EQ(forward->results.size(), 2u);
  EXPECT_EQ(forward->results[0].name, "out=" + file_);
  EXPECT_EQ(forward->results[1].name, "gpu=" + file_);
  EXPECT_EQ(forward->results[1].arrays[0].name, "out");
  EXPECT_EQ(forward->layout, "TND");
  const Result<CheckQuestion> backward =
      ReadQuestion({"bwd f32 h=1 d=2 q=3 k=3", "dq=" + file_, "dk=" + file_,
                    "gpu.dq=" + file_});
  ASSERT_TRUE(backward.ok()) << backward.status().message();
  ASSERT_EQ(backward->results.size(), 2u);
  EXPECT_EQ(backward->results[0].arrays.size(), 2u);
  EXPECT_EQ(backward->results[1].name, "gpu");
}

TEST_F(CheckWords, KeepsSomebodysResultsTogether) {
  const Result<CheckQuestion> question =
      ReadQuestion({"fwd f32 h=1 d=2 q=3 k=3", "lse=" + file_, "out=" + file_,
                    "gpu=" + file_, "gpu.max=" + file_});
  ASSERT_TRUE(question.ok()) << question.status().message();
  ASSERT_EQ(question->results.size(), 2u);
  EXPECT_EQ(question->results[0].name, "lse=" + file_ + " out=" + file_);
  EXPECT_EQ(question->results[1].name, "gpu=" + file_ + " gpu.max=" + file_);
  EXPECT_EQ(question->results[1].arrays[1].name, "max");
}

TEST_F(CheckWords, FindsTheFilesOfADump) {
  const std::string call = testing::TempPath("NPU.npu_fusion_attention.0");
  std::vector<std::string> files;
  const Array array{DType::kF32, 4, {1, 3, 2}, std::vector<std::byte>(24)};
  for (const char* name : {".forward.input.0", ".forward.input.1",
                           ".forward.input.2", ".forward.output.0"}) {
    files.push_back(call + name + ".npy");
    const std::vector<std::byte> bytes = WriteNpy(array);
    std::ofstream(files.back(), std::ios::binary)
        .write(reinterpret_cast<const char*>(bytes.data()),
               static_cast<std::streamsize>(bytes.size()));
  }
  const Result<CheckQuestion> question =
      ReadQuestion({"fwd f32 h=1 d=2 q=3 k=3", "dump=" + call});
  ASSERT_TRUE(question.ok()) << question.status().message();
  EXPECT_EQ(question->inputs.size(), 3u);
  EXPECT_EQ(question->results.size(), 1u);
  std::filesystem::remove(files[2]);
  EXPECT_NE(Line({"fwd f32 h=1 d=2 q=3 k=3", "dump=" + call})
                .find("input.2.pt is there, for v"),
            std::string::npos);
  for (const std::string& file : files) std::filesystem::remove(file);
}

TEST_F(CheckWords, AddsWhatTensorsSay) {
  EXPECT_EQ(Line({"fwd f32 h=1 d=2 q=3 k=3", "bias=" + file_, "sink=" + file_,
                  "out=" + file_}),
            "fwd f32 h=1 d=2 q=3 k=3 bias sink");
  EXPECT_EQ(Line({"fwd f32 h=1 d=2 q=3 k=3", "sum=" + file_}),
            "fwd f32 h=1 d=2 q=3 k=3 stats");
  EXPECT_EQ(
      Line({"fwd f32 h=1 d=2 q=3 k=3", "gpu.max=" + file_, "gpu.lse=" + file_}),
      "fwd f32 h=1 d=2 q=3 k=3 stats lse");
  EXPECT_EQ(Line({"fwd f32 h=1 d=2 q=3 k=3 lse", "lse=" + file_}),
            "fwd f32 h=1 d=2 q=3 k=3 lse");
}

TEST_F(CheckWords, SaysWhatIsMissing) {
  EXPECT_EQ(Line({"fwd f32 h=1 d=2 q=3 k=3", "q=" + file_}),
            "no result to check: out=FILE, max=FILE, sum=FILE, lse=FILE");
  EXPECT_EQ(
      Line({"fwd f32 h=1 d=2 q=3 k=3", "gpu=" + file_, "gpu.out=" + file_}),
      "gpu.out: gpu has two results out");
  EXPECT_EQ(Line({"fwd f32 h=1 d=2 q=3 k=3", "out=" + file_, "out=" + file_}),
            "out: given twice");
  EXPECT_NE(Line({"bwd f32 h=1 d=2 q=3 k=3", "dp=" + file_})
                .find("dp: neither a tensor nor a result"),
            std::string::npos);
  EXPECT_NE(Line({"fwd f32 h=1 d=2 q=3 l=3", "out=" + file_})
                .find("line ends: expected k="),
            std::string::npos);
}

}  // namespace
}  // namespace flashacl::tool
