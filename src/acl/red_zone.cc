// SPDX-License-Identifier: Apache-2.0
#include "acl/red_zone.h"

#include <algorithm>
#include <vector>

#include "base/str.h"

namespace flashacl::acl {
namespace {

// Not NaN: loads of whole vectors may reach the end of a block.
constexpr std::byte kZone{0xA5};

struct Zone {
  std::byte* first;
  size_t bytes;
  std::byte value;
};

std::vector<Zone> ZonesOf(const Block& block) {
  return {{block.base - kFrontZoneBytes, kFrontZoneBytes, kZone},
          {block.base + block.size, block.reserved - block.size, kZone},
          {block.base + block.reserved, kSlackBytes, std::byte{0}}};
}

}  // namespace

void FillNewBlock(Memory& memory, const Block& block) {
  for (const Zone& zone : ZonesOf(block)) {
    memory.Fill(zone.first, zone.value, zone.bytes);
  }
  if (block.device()) memory.Fill(block.base, kNewByte, block.size);
}

std::string DamageAround(Memory& memory, const Block& block) {
  std::string damage;
  std::vector<std::byte> found;
  for (const Zone& zone : ZonesOf(block)) {
    found.resize(zone.bytes);
    memory.Copy(found.data(), zone.first, zone.bytes);
    const auto written = [&](std::byte b) { return b != zone.value; };
    const auto first = std::ranges::find_if(found, written);
    if (first == found.end()) continue;
    const auto count = std::ranges::count_if(found, written);
    memory.Fill(zone.first, zone.value, zone.bytes);
    const auto at = zone.first + (first - found.begin());
    damage += Str("{}{} byte{} from {} on, {} bytes {}",
                  damage.empty() ? "" : " and ", count, count == 1 ? "" : "s",
                  static_cast<const void*>(at),
                  at < block.base ? block.base - at
                                  : at - block.base - int64_t(block.size) + 1,
                  at < block.base ? "before it begins" : "past its end");
  }
  return damage;
}

}  // namespace flashacl::acl
