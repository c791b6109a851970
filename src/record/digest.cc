// SPDX-License-Identifier: Apache-2.0
#include "record/digest.h"

#include <algorithm>
#include <cstring>

#include "base/number.h"
#include "base/str.h"

namespace flashacl::record {
namespace {

// Odd, without a pattern: the fractions of the roots of 2 and 3, made odd.
constexpr uint64_t kFirst = 0x6A09E667F3BCC909u;
constexpr uint64_t kSecond = 0xBB67AE8584CAA73Bu;

// Every bit of the product's halves depends on all lower ones of the factors.
uint64_t Mixed(uint64_t a, uint64_t b) {
  const auto product = static_cast<unsigned __int128>(a ^ kFirst) * (b | 1);
  return static_cast<uint64_t>(product) ^ static_cast<uint64_t>(product >> 64);
}

}  // namespace

void Digest::AddBlock(const std::byte* block) {
  for (size_t n = 0; n < lanes_.size(); ++n) {
    const uint64_t word = Load<uint64_t>(block + 8 * n);
    lanes_[n] = Mixed(lanes_[n] ^ word, kSecond + 2 * n) + word;
  }
}

void Digest::Add(std::span<const std::byte> bytes) {
  bytes_ += bytes.size();
  while (!bytes.empty()) {
    if (rest_bytes_ == 0 && bytes.size() >= kBlock) {
      AddBlock(bytes.data());
      bytes = bytes.subspan(kBlock);
      continue;
    }
    const size_t taken = std::min(bytes.size(), kBlock - rest_bytes_);
    std::memcpy(rest_.data() + rest_bytes_, bytes.data(), taken);
    rest_bytes_ += taken;
    bytes = bytes.subspan(taken);
    if (rest_bytes_ < kBlock) continue;
    AddBlock(rest_.data());
    rest_bytes_ = 0;
  }
}

std::string Digest::Text() {
  std::fill(rest_.begin() + static_cast<ptrdiff_t>(rest_bytes_), rest_.end(),
            std::byte{0});
  AddBlock(rest_.data());
  uint64_t high = bytes_;
  uint64_t low = ~bytes_;
  for (size_t n = 0; n < lanes_.size(); ++n) {
    high = Mixed(high ^ lanes_[n], kFirst);
    low = Mixed(low + lanes_[n], kSecond ^ high);
  }
  return Str("{:016x}{:016x}", high, low);
}

std::string DigestOf(std::span<const std::byte> bytes) {
  Digest digest;
  digest.Add(bytes);
  return digest.Text();
}

bool IsDigest(const std::string& text) {
  return text.size() == 32 && std::ranges::all_of(text, [](char c) {
           return ('0' <= c && c <= '9') || ('a' <= c && c <= 'f');
         });
}

}  // namespace flashacl::record
