// SPDX-License-Identifier: Apache-2.0
// The name of bytes: 128 bits of them, by which they are stored once and found
// broken. No secret: whoever wants two blocks of the same digest makes them.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>

namespace flashacl::record {

class Digest {
 public:
  // In any cuts: the same bytes have the same digest.
  void Add(std::span<const std::byte> bytes);

  // 32 hexadecimal digits. Nothing may be added afterwards.
  std::string Text();

 private:
  static constexpr size_t kBlock = 64;

  void AddBlock(const std::byte* block);

  std::array<uint64_t, 8> lanes_{1, 2, 3, 4, 5, 6, 7, 8};
  std::array<std::byte, kBlock> rest_{};
  size_t rest_bytes_ = 0;
  uint64_t bytes_ = 0;
};

std::string DigestOf(std::span<const std::byte> bytes);

// Whether a text may be one: then it is no path to anywhere else.
bool IsDigest(const std::string& text);

}  // namespace flashacl::record
