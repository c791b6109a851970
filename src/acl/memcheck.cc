// SPDX-License-Identifier: Apache-2.0
#include "acl/memcheck.h"

#include <string>
#include <vector>

#include "acl/environment.h"
#include "acl/error.h"
#include "acl/finding.h"
#include "acl/host_register.h"
#include "acl/quarantine.h"
#include "acl/say.h"
#include "base/str.h"

namespace flashacl::acl {
namespace {

std::vector<ByteRange> RangesOf(const Executor& executor,
                                const void* workspace) {
  std::vector<ByteRange> ranges;
  ranges.reserve(executor.addresses.size() + 1);
  for (const Address& address : executor.addresses) {
    const bool any = address.data != nullptr && address.extent_bytes > 0;
    ranges.push_back(any ? ByteRange{address.data + address.offset_bytes,
                                     static_cast<size_t>(address.extent_bytes)}
                         : ByteRange{});
  }
  ranges.push_back(
      {static_cast<const std::byte*>(workspace), executor.workspace_bytes()});
  return ranges;
}

// The first range that may not be used, and why.
struct Finding {
  size_t range;
  Placement placement;
  Block block = {};
};

std::string Reason(const Finding& finding, const ByteRange& range) {
  const Block& block = finding.block;
  const auto base = static_cast<const void*>(block.base);
  switch (finding.placement) {
    case Placement::kPastEnd:
      return Str(
          "its block of {} bytes ends before: it begins at {}, {} bytes "
          "earlier",
          Grouped(block.size), base,
          Grouped(static_cast<size_t>(range.first - block.base)));
    case Placement::kRunsInto:
      return Str(
          "which no block holds, and which reach the block of {} bytes "
          "at {}",
          Grouped(block.size), base);
    case Placement::kInside:
      return "which are host memory of aclrtMallocHost, expected device memory "
             "or registered host memory";
    case Placement::kUnknown:
      break;
  }
  FreedBlock freed;
  if (FindFreed(range.first, &freed)) return "in " + ToString(freed);
  return "which are no memory of the device and not registered";
}

// Of two arguments. One computation may have its result where an input is,
// element by element; in attention nothing may.
bool MayLieThere(const Executor& executor, const Address& output,
                 const Address& other) {
  const bool same = output.data == other.data &&
                    output.offset_bytes == other.offset_bytes &&
                    output.extent_bytes == other.extent_bytes;
  return same && executor.plan == nullptr;
}

// Of outputs against all other tensors.
Status CheckOverlaps(const Executor& executor) {
  const std::vector<Address>& all = executor.addresses;
  for (size_t n = 0; n < all.size(); ++n) {
    if (!all[n].output || all[n].view.empty()) continue;
    for (size_t m = 0; m < all.size(); ++m) {
      if (m == n || (all[m].output && m < n)) continue;
      const ByteView output = all[n].view.At(all[n].data);
      const ByteView other = all[m].view.At(all[m].data);
      if (!Overlap(output, other)) continue;
      if (MayLieThere(executor, all[n], all[m])) continue;
      return Invalid(
          "{}: its {} bytes at {} overlap those of {}, {} bytes at {}",
          NameOf(executor, n), Grouped(output.bytes()),
          static_cast<const void*>(output.first), NameOf(executor, m),
          Grouped(other.bytes()), static_cast<const void*>(other.first));
    }
  }
  return {};
}

}  // namespace

std::string NameOf(const Executor& executor, size_t address) {
  if (address == executor.addresses.size()) return "workspace";
  const Address& of = executor.addresses[address];
  const Argument& row =
      executor.op->arguments[static_cast<size_t>(of.argument)];
  return row.list ? Str("{}[{}]", row.name, of.member) : std::string(row.name);
}

std::vector<Access> AccessesOf(const Executor& executor,
                               const void* workspace) {
  std::vector<Access> accesses;
  if (!TheEnvironment().strict) return accesses;
  for (size_t n = 0; n < executor.addresses.size(); ++n) {
    const Address& address = executor.addresses[n];
    const ByteView view = address.view.At(address.data);
    if (view.empty()) continue;
    accesses.push_back(
        {NameOf(executor, n), view, address.input, address.output});
  }
  const size_t scratch = executor.workspace_bytes();
  if (workspace == nullptr || scratch == 0) return accesses;
  accesses.push_back({"workspace", ViewOf(workspace, scratch), false, true});
  return accesses;
}

aclError FindDamage(std::string_view function) {
  if (!TheEnvironment().strict) return ACL_SUCCESS;
  const std::string damage = DamageOfAll();
  if (damage.empty()) return ACL_SUCCESS;
  CountFinding();
  return Fail(507015, Title::kRuntime, Str("{}: {}", function, damage));
}

Status UseMemory(const Executor& executor, const void* workspace,
                 BlockUse* use) {
  const bool strict = TheEnvironment().strict;
  const std::vector<ByteRange> ranges = RangesOf(executor, workspace);
  Finding found{ranges.size(), Placement::kInside};
  const auto told = [&](size_t range, Placement at, const Block* block) {
    const bool device =
        at == Placement::kInside && (!strict || block->device());
    if (device || found.range < ranges.size()) return;
    const bool unknown = at == Placement::kUnknown || at == Placement::kInside;
    if (unknown &&
        (!strict || IsRegistered(ranges[range].first, ranges[range].bytes))) {
      return;
    }
    found = {range, at, block == nullptr ? Block{} : *block};
  };
  *use = BlockUse(ranges, told);
  if (found.range == ranges.size()) {
    return strict ? Found(CheckOverlaps(executor)) : Status();
  }
  const ByteRange& range = ranges[found.range];
  return Found(Invalid("{}: needs {} bytes at {}, {}",
                       NameOf(executor, found.range), Grouped(range.bytes),
                       static_cast<const void*>(range.first),
                       Reason(found, range)));
}

}  // namespace flashacl::acl
