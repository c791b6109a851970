// SPDX-License-Identifier: Apache-2.0
#include "arrays/npz.h"

#include <gtest/gtest.h>
#include <minizip/zip.h>
#include <zlib.h>

#include <filesystem>
#include <fstream>
#include <iterator>

#include "arrays/npy.h"
#include "tests/testing/temp_path.h"

namespace flashacl {
namespace {

const Array kNumbers{
    DType::kI8, 1, {300}, std::vector<std::byte>(300, std::byte{7})};

// An archive of `kNumbers`, plain and packed.
class Npz : public ::testing::Test {
 protected:
  void SetUp() override {
    path_ = testing::TempPath("npz_test.npz");
    const zipFile archive = zipOpen64(path_.c_str(), APPEND_STATUS_CREATE);
    Add(archive, "plain.npy", 0);
    Add(archive, "packed.npy", Z_DEFLATED);
    ASSERT_EQ(zipClose(archive, nullptr), ZIP_OK);
  }
  void TearDown() override { std::filesystem::remove(path_); }

  static void Add(zipFile archive, const char* name, int method) {
    const std::vector<std::byte> file = WriteNpy(kNumbers);
    zip_fileinfo info{};
    ASSERT_EQ(zipOpenNewFileInZip64(archive, name, &info, nullptr, 0, nullptr,
                                    0, nullptr, method, 6, /*zip64=*/1),
              ZIP_OK);
    ASSERT_EQ(zipWriteInFileInZip(archive, file.data(),
                                  static_cast<unsigned>(file.size())),
              ZIP_OK);
    ASSERT_EQ(zipCloseFileInZip(archive), ZIP_OK);
  }

  std::string path_;
};

TEST_F(Npz, HasArraysByName) {
  const auto names = NamesInNpz(path_);
  ASSERT_TRUE(names.ok()) << names.status().message();
  EXPECT_EQ(*names, (std::vector<std::string>{"plain", "packed"}));
  for (const char* name : {"plain", "packed", "packed.npy"}) {
    const Result<Array> array = ReadNpz(path_, name);
    ASSERT_TRUE(array.ok()) << array.status().message();
    EXPECT_EQ(array->dims, kNumbers.dims);
    EXPECT_EQ(array->bytes, kNumbers.bytes);
  }
  EXPECT_EQ(ReadNpz(path_, "q").status().message(), "npz: no array q in it");
}

// Whatever byte is another, there is an answer; and not the array with other
// numbers, for there is a checksum.
TEST_F(Npz, NoticesChangedBytes) {
  std::ifstream in(path_, std::ios::binary);
  const std::string file{std::istreambuf_iterator<char>(in), {}};
  for (size_t n = 0; n < file.size(); ++n) {
    std::string changed = file;
    changed[n] = static_cast<char>(changed[n] ^ 0x41);
    std::ofstream(path_, std::ios::binary) << changed;
    const Result<Array> array = ReadNpz(path_, "packed");
    if (array.ok()) {
      EXPECT_EQ(array->bytes, kNumbers.bytes) << n;
    } else {
      EXPECT_FALSE(array.status().message().empty());
    }
  }
}

TEST_F(Npz, NoticesThatTheFileEnds) {
  const auto size = std::filesystem::file_size(path_);
  for (const uintmax_t left : {size - 22, size / 2, uintmax_t{0}}) {
    std::filesystem::resize_file(path_, left);
    EXPECT_FALSE(ReadNpz(path_, "plain").ok());
    EXPECT_FALSE(NamesInNpz(path_).ok());
  }
  EXPECT_FALSE(NamesInNpz("no such file").ok());
}

}  // namespace
}  // namespace flashacl
