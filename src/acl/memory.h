// SPDX-License-Identifier: Apache-2.0
// The memory the runtime has handed out. Law: blocks never overlap, and an
// address belongs to a block if it lies in the block's reserved bytes.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "acl/call_site.h"
#include "base/function_ref.h"
#include "plan/backend.h"

namespace flashacl::acl {

enum class BlockKind : uint8_t {
  kDevice,    // aclrtMalloc and its relatives
  kHost,      // aclrtMallocHost
  kMapped,    // physical memory mapped at a reserved address
  kImported,  // memory of another process
};

// One block. Also readable are kSlackBytes zeros after the reserved bytes, so
// that a kernel may load whole vectors at the end.
struct Block {
  std::byte* base = nullptr;
  size_t size = 0;      // asked for
  size_t reserved = 0;  // may be used; what exceeds `size` starts as zeros
  BlockKind kind = BlockKind::kDevice;
  bool huge = false;  // pages of 2 MiB, as far as the system has them
  int32_t device_id = 0;
  CallSite made = {};

  bool device() const { return kind != BlockKind::kHost; }
};

inline constexpr size_t kSlackBytes = 64;
inline constexpr size_t kHugePageBytes = size_t{2} << 20;

// The block an address lies in. Mapped blocks that follow each other without a
// gap count as one from the first of them that holds the address. Thread-safe.
bool FindBlock(const void* address, Block* block);

// Bytes that work is given; none where `first` is null.
struct ByteRange {
  const std::byte* first = nullptr;
  size_t bytes = 0;
};

// Where a range lies. Blocks end where their reserved bytes do; in strict mode,
// where those do that were asked for.
enum class Placement : uint8_t {
  kInside,    // of one block, or of mapped ones without a gap
  kPastEnd,   // begins in a block that ends too early, or right after it
  kRunsInto,  // begins in no block, and reaches one
  kUnknown,   // touches no block
};

// Keeps the memory of blocks alive: one that is freed meanwhile is gone at
// once for everyone who asks, but released only when the last use ends.
// Addresses that are null or in no block are skipped.
class BlockUse {
 public:
  // Is told of each range where it lies, with the block, if any. Must not ask
  // for memory's blocks, whose lock is held.
  using Told = FunctionRef<void(size_t range, Placement, const Block*)>;

  BlockUse() = default;
  explicit BlockUse(std::span<const void* const> addresses);
  BlockUse(std::span<const ByteRange> ranges, Told told);

 private:
  void Keep(const std::shared_ptr<const void>& allocation);

  std::shared_ptr<const void> first_;  // here, as most tasks use one block
  std::vector<std::shared_ptr<const void>> others_;
};

// `reserved` is at least `size`; `base` is chosen. `function` is the program's.
struct BlockRequest {
  size_t size = 0;
  size_t reserved = 0;
  BlockKind kind = BlockKind::kDevice;
  bool huge = false;
  int32_t device_id = 0;
  std::string_view function = {};
};

// Aligned to 64 bytes, or to a huge page where it has some. Null if the system
// or the device has no such memory left.
std::byte* AllocateBlock(const BlockRequest& request);

// Adds memory that is mapped at the request's base, and owned by `owner` as
// long as work uses it; false if it overlaps a block. RemoveMapped takes one of
// `kind` away by its base address; false if there is none.
bool AddMapped(std::byte* base, const BlockRequest& request,
               std::shared_ptr<const void> owner);
bool RemoveMapped(const void* base, BlockKind kind, size_t* size);

enum class FreeResult : uint8_t {
  kFreed,
  kUnknown,   // in no block
  kInterior,  // in a block, not at its base
  kKind,      // a block of another kind
  kInUse,     // by queued work or a graph, which strict mode does not forgive
};
FreeResult FreeBlock(const void* base, BlockKind kind,
                     std::string_view function = {});

// What was written around the block at `base`, or around any block, and strict
// mode can see; "" if nothing was. Each is told once.
std::string DamageOf(const void* base);
std::string DamageOfAll();

// Device blocks of this size and more have pages of their own, which can become
// those of a file.
inline constexpr size_t kOwnPagesBytes = size_t{64} << 10;

// The file of a block's bytes, closed when the block is released.
struct BlockFile : MemoryFile {
  std::shared_ptr<const void> exported;  // goes with it; under its user's lock

  // Of a block whose pages the system does not take from the file.
  std::shared_ptr<const void> never_released;
  std::shared_ptr<BlockFile> itself;

  explicit BlockFile(const MemoryFile& from) : MemoryFile(from) {}
  ~BlockFile();
  BlockFile(const BlockFile&) = delete;
  BlockFile& operator=(const BlockFile&) = delete;
};

// Moves the bytes of a device block of kOwnPagesBytes or more to a file, once;
// addresses stay. Nobody may write there meanwhile. Null if there is no such
// block, or if the system refuses; then errno says why.
std::shared_ptr<BlockFile> MoveBlockToFile(const void* base);
bool IsBlockInFile(const void* base);  // after that

// Whether queued or running work uses the block an address lies in.
bool IsBlockUsed(const void* address);

// Bytes the device has in all, and those no block has taken. The total is 64
// GiB, or what this machine has if that is less.
size_t DeviceBytes();
size_t FreeDeviceBytes();

// Bytes that blocks and physical memory have taken, now and at most so far.
size_t TakenDeviceBytes();
size_t PeakDeviceBytes();

// Physical memory (see vmm.cc) takes from the device too: false if there is not
// enough.
bool TakeDeviceBytes(size_t bytes);
void ReturnDeviceBytes(size_t bytes);

// "3 device blocks (264208 bytes)", or nothing. Strict mode knows who made
// each: the largest few in lines of their own.
void AppendMemoryLeaks(std::string* text);
std::string LeakedBlocks();

}  // namespace flashacl::acl
