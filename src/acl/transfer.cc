// SPDX-License-Identifier: Apache-2.0
// Checking, locating and making copies.
#include "acl/transfer.h"

#include <algorithm>
#include <cstdint>
#include <utility>
#include <vector>

#include "acl/backend.h"
#include "acl/environment.h"
#include "acl/error.h"
#include "acl/finding.h"
#include "acl/host_register.h"
#include "acl/initcheck.h"
#include "acl/memory.h"
#include "acl/stream.h"
#include "base/str.h"

namespace flashacl::acl {
namespace {

constexpr aclError kBad = ACL_ERROR_RT_PARAM_INVALID;

// Bytes from the first row's start to the last row's end; false if no address
// space has so many.
bool Extent(size_t pitch, const Transfer& transfer, size_t* bytes) {
  return !__builtin_mul_overflow(pitch, transfer.height - 1, bytes) &&
         !__builtin_add_overflow(*bytes, transfer.width, bytes);
}

size_t OffsetIn(const Block& block, const void* address) {
  return static_cast<size_t>(static_cast<const std::byte*>(address) -
                             block.base);
}

aclError FailPast(std::string_view function, std::string_view verb,
                  size_t bytes, const Block& block, size_t offset) {
  return Fail(kBad, Title::kReason,
              Str("{} failed because of a {} of {} bytes at offset {} of a "
                  "{}-byte allocation",
                  function, verb, bytes, offset, block.size));
}

aclError CheckWriteInto(std::string_view function, const Block& block,
                        const void* dst, size_t bytes) {
  const size_t offset = OffsetIn(block, dst);
  const size_t end = TheEnvironment().strict ? block.size : block.reserved;
  if (offset <= end && bytes <= end - offset) return ACL_SUCCESS;
  CountFinding();
  return FailPast(function, "write", bytes, block, offset);
}

// What kind says of one side: +1 device, -1 host, 0 nothing.
int Claim(int kind, bool source) {
  switch (kind) {
    case ACL_MEMCPY_HOST_TO_HOST:
      return -1;
    case ACL_MEMCPY_HOST_TO_DEVICE:
    case ACL_MEMCPY_HOST_TO_BUF_TO_DEVICE:
      return source ? -1 : 1;
    case ACL_MEMCPY_DEVICE_TO_HOST:
      return source ? 1 : -1;
    case ACL_MEMCPY_DEVICE_TO_DEVICE:
      return 1;
    default:
      return 0;
  }
}

aclError CheckClaim(std::string_view function, int kind, bool source,
                    bool device) {
  const int claim = Claim(kind, source);
  if (claim == 0 || (claim > 0) == device) return ACL_SUCCESS;
  CountFinding();
  return Fail(
      kBad, Title::kReason,
      Str("{} failed because {} is {} memory, which kind {} says it is "
          "not",
          function, source ? "src" : "dst", device ? "device" : "host", kind));
}

bool IsPageable(const void* address, size_t bytes) {
  Block block;
  return !FindBlock(address, &block) && !IsRegistered(address, bytes);
}

// Rows that touch each other are one row.
Transfer Joined(Transfer transfer) {
  if (transfer.dst_pitch == transfer.width &&
      transfer.src_pitch == transfer.width) {
    transfer.width *= transfer.height;
    transfer.height = 1;
  }
  return transfer;
}

}  // namespace

aclError CheckWrite(std::string_view function, const void* dst, size_t bytes) {
  Block block;
  if (!FindBlock(dst, &block)) {
    if (reinterpret_cast<uintptr_t>(dst) + bytes < bytes) {
      return FailValue(kBad, function, "count", Str("{}", bytes),
                       "fewer bytes than there are from the address on");
    }
    return ACL_SUCCESS;
  }
  return CheckWriteInto(function, block, dst, bytes);
}

aclError Check(std::string_view function, int kind, Transfer* transfer) {
  size_t written = 0;
  size_t read = 0;
  if (!Extent(transfer->dst_pitch, *transfer, &written) ||
      !Extent(transfer->src_pitch, *transfer, &read)) {
    return FailValue(kBad, function, "height", Str("{}", transfer->height),
                     "rows that fit into memory");
  }
  *transfer = Joined(*transfer);
  const bool strict = TheEnvironment().strict;
  Block dst;
  Block src;
  const bool dst_known = FindBlock(transfer->dst, &dst);
  const bool src_known = FindBlock(transfer->src, &src);
  if (strict) {
    aclError error =
        CheckClaim(function, kind, false, dst_known && dst.device());
    if (error != 0) return error;
    error = CheckClaim(function, kind, true, src_known && src.device());
    if (error != 0) return error;
  }
  if (dst_known) {
    const aclError error =
        CheckWriteInto(function, dst, transfer->dst, written);
    if (error != 0) return error;
  }
  if (!src_known) return ACL_SUCCESS;
  const size_t offset = OffsetIn(src, transfer->src);
  const size_t end = strict ? src.size : src.reserved;
  if (strict && (offset > end || read > end - offset)) {
    CountFinding();
    return FailPast(function, "read", read, src, offset);
  }
  transfer->readable = end - offset;
  return ACL_SUCCESS;
}

void Locate(Transfer* transfer) {
  const size_t rows = transfer->height - 1;
  transfer->waits =
      IsPageable(transfer->dst, rows * transfer->dst_pitch + transfer->width) ||
      IsPageable(transfer->src, rows * transfer->src_pitch + transfer->width);
}

namespace {

constexpr aclError kRaced = 507015;

aclError FailRace(std::string_view function, std::string_view race) {
  if (race.empty()) return ACL_SUCCESS;
  CountFinding();
  return Fail(kRaced, Title::kRuntime, Str("{}: {}", function, race));
}

// Rows of `width` bytes.
ByteView RowsOf(const std::byte* first, size_t pitch,
                const Transfer& transfer) {
  ByteView view = ViewOf(first, transfer.width);
  if (transfer.height == 1) return view;
  view.rank = 1;
  view.dims[0] = static_cast<int64_t>(transfer.height);
  view.strides[0] = static_cast<int64_t>(pitch);
  return view;
}

// Copies of bytes that nobody wrote are fine: who computes with them is told.
std::string Note(std::string_view function, const Transfer& transfer) {
  if (!TheEnvironment().strict) return {};
  const ByteView to = RowsOf(transfer.dst, transfer.dst_pitch, transfer);
  NoteWritten(to);
  const Access accesses[] = {
      {"src", RowsOf(transfer.src, transfer.src_pitch, transfer), true, false},
      {"dst", to, false, true}};
  return NoteAccesses(function, accesses);
}

void CopyRows(const Transfer& transfer) {
  profile::NoteBytes(transfer.width * transfer.height);
  Memory& memory = DeviceMemory();
  std::byte* dst = transfer.dst;
  const std::byte* src = transfer.src;
  size_t left = transfer.readable;
  for (size_t row = 0; row < transfer.height; ++row) {
    const size_t bytes = std::min(transfer.width, left);
    if (bytes > 0) memory.Copy(dst, src, bytes);
    if (bytes < transfer.width) {
      memory.Fill(dst + bytes, std::byte{0}, transfer.width - bytes);
    }
    left -= std::min(left, transfer.src_pitch);
    dst += transfer.dst_pitch;
    src += transfer.src_pitch;
  }
}

}  // namespace

aclError NoteFill(std::string_view function, const void* at, size_t bytes) {
  if (!TheEnvironment().strict) return ACL_SUCCESS;
  const Access access{"the filled bytes", ViewOf(at, bytes), false, true};
  NoteWritten(access.view);
  return FailRace(function, NoteAccesses(function, {&access, 1}));
}

aclError Run(std::string_view function, const Transfer& transfer) {
  const std::string race = Note(function, transfer);
  if (race.empty()) CopyRows(transfer);
  return FailRace(function, race);
}

aclError Submit(std::string_view function, std::span<const Transfer> transfers,
                aclrtStream stream) {
  std::vector<const void*> addresses;
  addresses.reserve(2 * transfers.size());
  bool waits = false;
  for (const Transfer& transfer : transfers) {
    addresses.push_back(transfer.dst);
    addresses.push_back(transfer.src);
    waits = waits || transfer.waits;
  }
  // Made beforehand: where the second of two captures throws, GCC 11 forgets
  // the first.
  std::vector<Transfer> own(transfers.begin(), transfers.end());
  BlockUse blocks(addresses);
  Task task = [list = std::move(own), use = std::move(blocks),
               function]() -> aclError {
    aclError error = ACL_SUCCESS;
    for (const Transfer& transfer : list) {
      if (const aclError raced = Run(function, transfer); raced != 0) {
        error = raced;
      }
    }
    return error;
  };
  return waits ? EnqueueAndWait(stream, std::move(task), function)
               : Enqueue(stream, std::move(task), function);
}

}  // namespace flashacl::acl
