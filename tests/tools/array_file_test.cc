// SPDX-License-Identifier: Apache-2.0
#include "tools/flashacl/array_file.h"

#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>

#include "arrays/npy.h"
#include "tests/testing/temp_path.h"

namespace flashacl::tool {
namespace {

class ArrayFile : public ::testing::Test {
 protected:
  std::string Write(const std::string& name, std::string_view bytes) {
    const std::string path = testing::TempPath(name);
    std::ofstream(path, std::ios::binary) << bytes;
    paths_.push_back(path);
    return path;
  }
  std::string Write(const std::string& name, const Array& array) {
    const std::vector<std::byte> file = WriteNpy(array);
    return Write(name,
                 {reinterpret_cast<const char*>(file.data()), file.size()});
  }
  void TearDown() override {
    for (const std::string& path : paths_) std::filesystem::remove(path);
  }

  std::vector<std::string> paths_;
};

std::string Refusal(const std::string& text) {
  const Result<Array> array = ReadArrayFile(text, "q");
  return array.ok() ? "" : array.status().message();
}

TEST_F(ArrayFile, MayBeRaw) {
  const std::string path = Write("raw:1.bin", std::string(24, 'a'));
  const Result<Array> array = ReadArrayFile(path + ":bf16:2x3x2", "q");
  ASSERT_TRUE(array.ok()) << array.status().message();
  EXPECT_EQ(array->dtype, DType::kBf16);
  EXPECT_EQ(array->dims, (std::vector<int64_t>{2, 3, 2}));
  EXPECT_EQ(Refusal(path + ":f32:2x3x2"),
            path + ": 24 bytes, expected the 48 of f32 of (2, 3, 2)");
  EXPECT_NE(Refusal(path + ":f33:2x3x2").find("expected X.npy"),
            std::string::npos);
  EXPECT_NE(Refusal(path + ":f32:2x").find("expected X.npy"),
            std::string::npos);
  EXPECT_NE(Refusal(path + ":f32:4000000000x4000000000").find("more than"),
            std::string::npos);
}

TEST_F(ArrayFile, SaysWhatIsWrong) {
  EXPECT_EQ(Refusal("none.npy"), "none.npy: No such file or directory");
  EXPECT_EQ(Refusal("none.npz"), "none.npz: No such file or directory");
  EXPECT_EQ(Refusal("none.pt"), "none.pt: No such file or directory");
  const std::string npy = Write("broken.npy", "PK");
  EXPECT_EQ(Refusal(npy),
            npy + ": npy: the file does not begin as .npy files do");
  const std::string npz = Write("broken.npz", "PK");
  EXPECT_EQ(Refusal(npz),
            npz + ": npz: the file is no zip archive, or ends too early");
  EXPECT_EQ(Refusal("/dev/zero:f32:4"),
            "/dev/zero: not a file that can be read whole");
  // Where there is torch the file is broken, else torch is missing.
  const std::string pt = Write("broken.pt", "PK");
  EXPECT_TRUE(Refusal(pt).starts_with(pt + ": ")) << Refusal(pt);
}

TEST_F(ArrayFile, IsReadByItsName) {
  const Array array{DType::kI8, 1, {3}, std::vector<std::byte>(3)};
  const Result<Array> read = ReadArrayFile(Write("some.npy", array), "q");
  ASSERT_TRUE(read.ok()) << read.status().message();
  EXPECT_EQ(read->dims, array.dims);
}

}  // namespace
}  // namespace flashacl::tool
