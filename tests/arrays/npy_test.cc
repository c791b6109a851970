// SPDX-License-Identifier: Apache-2.0
#include "arrays/npy.h"

#include <gtest/gtest.h>

#include <cstring>
#include <string>
#include <string_view>

#include "arrays/array.h"
#include "base/number.h"

namespace flashacl {
namespace {

std::vector<std::byte> Bytes(std::string_view text) {
  std::vector<std::byte> bytes(text.size());
  std::memcpy(bytes.data(), text.data(), text.size());
  return bytes;
}

// A file of version 1 with this dictionary and these elements.
std::vector<std::byte> File(std::string_view header,
                            std::string_view elements) {
  std::string file = std::string("\x93NUMPY\x01", 7) + '\0';
  file += static_cast<char>(header.size());
  file += '\0';
  file += header;
  file += elements;
  return Bytes(file);
}

std::string Refusal(const std::vector<std::byte>& file) {
  const Result<Array> array = ParseNpy(file);
  return array.ok() ? "" : array.status().message();
}

Array Numbers(DType dtype, std::vector<int64_t> dims) {
  Array array{dtype, SizeOf(dtype), std::move(dims), {}};
  int64_t count = 1;
  for (const int64_t dim : array.dims) count *= dim;
  array.bytes.resize(static_cast<size_t>(count * array.element_bytes));
  for (size_t n = 0; n < array.bytes.size(); ++n) {
    array.bytes[n] = static_cast<std::byte>(n * 7);
  }
  return array;
}

// Of more elements than any machine has: only ParseNpy wants to see them.
TEST(Npy, HeadersAreReadAlone) {
  for (const auto& dims : {std::vector<int64_t>{},
                           {0},
                           {7},
                           {int64_t{1} << 40},
                           {int64_t{1} << 40, 3}}) {
    const std::string written = WriteNpyHeader("<f4", dims);
    EXPECT_EQ(written.size() % 64, 0u);
    const Result<NpyHeader> header = ParseNpyHeader(written + "elements");
    ASSERT_TRUE(header.ok()) << header.status().message();
    EXPECT_EQ(header->descr, "<f4");
    EXPECT_EQ(header->dims, dims);
    EXPECT_FALSE(header->fortran);
    EXPECT_EQ(header->offset, written.size());
    for (size_t cut = 0; cut < written.size(); ++cut) {
      EXPECT_FALSE(ParseNpyHeader(written.substr(0, cut)).ok()) << cut;
    }
  }
}

TEST(Npy, WhatIsWrittenIsReadAgain) {
  for (const DType dtype :
       {DType::kF32, DType::kF16, DType::kF64, DType::kBool, DType::kI8,
        DType::kU8, DType::kI32, DType::kI64, DType::kU64}) {
    for (const auto& dims : {std::vector<int64_t>{},
                             {5},
                             {2, 3, 4},
                             {2, 0, 4},
                             {1, 1, 1, 1, 1, 2}}) {
      const Array array = Numbers(dtype, dims);
      const std::vector<std::byte> file = WriteNpy(array);
      EXPECT_EQ((file.size() - array.bytes.size()) % 64, 0u);
      const Result<Array> read = ParseNpy(file);
      ASSERT_TRUE(read.ok()) << read.status().message();
      EXPECT_EQ(read->dtype, dtype);
      EXPECT_EQ(read->dims, dims);
      EXPECT_EQ(read->bytes, array.bytes);
    }
  }
}

TEST(Npy, TwoBytesOfAnythingKeepTheirBits) {
  const Array array{DType::kNone, 2, {2}, Bytes("abcd")};
  for (const auto& file :
       {WriteNpy(array),
        File("{'descr': '<u2', 'fortran_order': False, 'shape': (2,)}",
             "abcd")}) {
    const Result<Array> read = ParseNpy(file);
    ASSERT_TRUE(read.ok()) << read.status().message();
    EXPECT_EQ(read->dtype, DType::kNone);
    EXPECT_EQ(read->element_bytes, 2);
    EXPECT_EQ(read->bytes, array.bytes);
  }
}

TEST(Npy, TheLastAxisBecomesDense) {
  const Result<Array> read = ParseNpy(File(
      "{'descr': '|i1', 'fortran_order': True, 'shape': (2, 3), }", "abcdef"));
  ASSERT_TRUE(read.ok()) << read.status().message();
  EXPECT_EQ(read->bytes, Bytes("acebdf"));
}

TEST(Npy, TheLastByteMayBeFirst) {
  const Result<Array> read = ParseNpy(
      File("{'shape': (2,), 'fortran_order': False, 'descr': '>i4'}  \n",
           std::string_view("\0\0\1\2\0\0\0\3", 8)));
  ASSERT_TRUE(read.ok()) << read.status().message();
  EXPECT_EQ(ReadIndex(DType::kI32, read->bytes.data()), 258);
  EXPECT_EQ(ReadIndex(DType::kI32, read->bytes.data() + 4), 3);
}

TEST(Npy, SaysWhatIsBroken) {
  EXPECT_EQ(Refusal(Bytes("PK")),
            "npy: the file does not begin as .npy files do");
  EXPECT_EQ(Refusal(Bytes("\x93NUMPY\x04_____")),
            "npy: version 4, expected 1 to 3");
  EXPECT_EQ(Refusal(Bytes("\x93NUMPY\x01\x01\xff\xff{")),
            "npy: the file ends inside of its header");
  EXPECT_EQ(
      Refusal(File("{'descr': '<c8', 'fortran_order': False, 'shape': (1,)}",
                   "12345678")),
      "npy: elements of type '<c8', expected floats, integers, bool, or V2 "
      "for bf16");
  EXPECT_EQ(
      Refusal(File("{'descr': '<f4', 'fortran_order': False, 'shape': (3,)}",
                   "12345678")),
      "npy: 8 bytes of elements, expected the 12 of shape (3)");
  EXPECT_EQ(
      Refusal(
          File("{'descr': '<f4', 'fortran_order': False, 'shape': (-3,)}", "")),
      "shape: an axis of -3 elements");
  EXPECT_EQ(Refusal(File("{'descr': '<f4', 'fortran_order': False, 'shape': "
                         "(4000000000, 4000000000, 4000000000)}",
                         "")),
            "shape: more than 68719476736 bytes");
  for (const std::string_view header :
       {"{'descr': '<f4', 'fortran_order': False}", "{}", "{'descr': [",
        "{'descr': '<f4', 'fortran_order': 0, 'shape': ()}",
        "{'descr': '<f4', 'fortran_order': False, 'shape': (1,2"}) {
    EXPECT_NE(Refusal(File(header, "")).find("header is not"),
              std::string::npos)
        << header;
  }
}

}  // namespace
}  // namespace flashacl
