// SPDX-License-Identifier: Apache-2.0
// Philox 4x32-10 and masks made of it, as they are defined: one word, one bit
// at a time.
#pragma once

#include <array>
#include <cmath>
#include <cstdint>
#include <vector>

namespace flashacl::testing {

using PhiloxWords = std::array<uint32_t, 4>;

inline PhiloxWords Philox(PhiloxWords counter, std::array<uint32_t, 2> key) {
  for (int round = 0; round < 10; ++round) {
    const uint64_t one = uint64_t{0xD2511F53} * counter[0];
    const uint64_t two = uint64_t{0xCD9E8D57} * counter[2];
    counter = {static_cast<uint32_t>(two >> 32) ^ counter[1] ^ key[0],
               static_cast<uint32_t>(two),
               static_cast<uint32_t>(one >> 32) ^ counter[3] ^ key[1],
               static_cast<uint32_t>(one)};
    key[0] += 0x9E3779B9;
    key[1] += 0xBB67AE85;
  }
  return counter;
}

// What a mask is a function of.
struct PhiloxMask {
  uint64_t seed = 0;
  uint64_t offset = 0;
  double prob = 0;

  bool Keeps(uint64_t g) const {
    const uint64_t block = g / 4;
    const PhiloxWords words = Philox(
        {static_cast<uint32_t>(block), static_cast<uint32_t>(block >> 32),
         static_cast<uint32_t>(offset), static_cast<uint32_t>(offset >> 32)},
        {static_cast<uint32_t>(seed), static_cast<uint32_t>(seed >> 32)});
    const float u = static_cast<float>(words[g % 4] & 0x7FFFFF) * 0x1p-23f;
    return u >= static_cast<float>(prob);
  }

  // Of the elements [0, n), and of those up to the next multiple of 128.
  std::vector<uint8_t> Bytes(int64_t n) const {
    std::vector<uint8_t> bytes(static_cast<size_t>((n + 127) / 128 * 16));
    for (uint64_t g = 0; g < bytes.size() * 8; ++g) {
      bytes[g / 8] |= static_cast<uint8_t>(Keeps(g) << (g % 8));
    }
    return bytes;
  }
};

}  // namespace flashacl::testing
