// SPDX-License-Identifier: Apache-2.0
// What a backend must offer: facts about its device, its memory, queues that
// work is put on, and a table of implementations, best first.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/function_ref.h"
#include "base/range.h"
#include "base/status.h"

namespace flashacl {

struct Implementation;

// From how many bytes on results are too much for caches: more than most
// processors have for a core and less than any has in all.
inline constexpr int64_t kStreamedBytes = 8 << 20;

// What planning may know of a device. The number of workers may decide how much
// scratch memory a plan reserves, and who computes what; no bit of the answer
// may depend on it.
struct DeviceInfo {
  std::string name;
  std::vector<std::string> instruction_sets;
  int64_t l1_bytes = 32 << 10;
  int64_t l2_bytes = 512 << 10;
  int64_t l3_bytes = 8 << 20;
  int64_t workers = 1;             // as many as the process may run at a time
  std::string vector_target = {};  // which instructions vector code is run for
  std::vector<std::string> compiled_targets = {};  // and could be, best first
  // Outputs and gradients of so many bytes and more, of tiles, are stored past
  // the caches. Tests take less.
  int64_t streamed_bytes = kStreamedBytes;
};

// `bytes` of anything, then `zeros` of zeros.
struct MemoryRequest {
  size_t bytes = 0;
  size_t zeros = 0;
  bool huge_pages = false;  // as far as the system has them
  bool own_pages = false;   // no page holds bytes of another request
};

// An open file that holds bytes from `offset` on, and is `bytes` long; -1: the
// system refuses, and errno says why.
struct MemoryFile {
  int file = -1;
  size_t offset = 0;
  size_t bytes = 0;
};

// The memory of a device. Its addresses are numbers to the host, which reads
// and writes there only through this, or on a queue. Any number of threads may
// call.
class Memory {
 public:
  virtual ~Memory() = default;

  // Aligned to 64 bytes, or to a huge page where it has some; goes back when
  // its last owner lets go. Null if there is not so much memory left.
  virtual std::shared_ptr<std::byte> Allocate(const MemoryRequest& request) = 0;

  // Each is done when it returns, and waits for no queue. What it touches may
  // be the host's, too, and the sides of a copy may overlap.
  virtual void Copy(std::byte* to, const std::byte* from, size_t bytes) = 0;
  virtual void Fill(std::byte* at, std::byte value, size_t bytes) = 0;
  virtual void FillWords(std::byte* at, uint32_t value, size_t words) = 0;

  // One word at an address that is a multiple of its size, whole and in one
  // order with the words that other threads load and store so.
  virtual uint64_t LoadWord(const std::byte* at) = 0;
  virtual void StoreWord(std::byte* at, uint64_t value) = 0;

  // Moves all of a request for own pages into a file that other processes can
  // map, for the caller to close; addresses and bytes stay as they are. Nobody
  // may write there meanwhile. LeaveFile comes before the request goes back;
  // where that fails, it must never.
  virtual MemoryFile MoveToFile(std::byte* base, size_t bytes) = 0;
  virtual bool LeaveFile(std::byte* base, size_t bytes) = 0;
};

// Runs independent pieces of work on the host.
class Workers {
 public:
  virtual ~Workers() = default;

  // Calls body(n) once for every n in [0, count), on any worker in any order,
  // and returns when all are done. Bodies must not throw.
  virtual void ForEach(int64_t count, FunctionRef<void(int64_t)> body) = 0;

  virtual int count() const = 0;
};

// Where runs are put, one after the other. One thread at a time uses a queue.
class Queue {
 public:
  virtual ~Queue() = default;

  // Calls `work` once all that was put here before is done, where the host may
  // touch device memory, with workers that may, too. Returns what it returns,
  // when it is done; fails without a call where the device is lost.
  virtual Status OnHost(FunctionRef<Status(Workers& workers)> work) = 0;

  // Returns when all that was put here is done; the first failure of it.
  virtual Status Wait() = 0;
};

// How many workers a queue lends to work on the host.
inline int WorkersOf(Queue& queue) {
  int count = 0;
  (void)queue.OnHost([&](Workers& workers) -> Status {
    count = workers.count();
    return {};
  });
  return count;
}

struct Backend {
  std::string_view name;
  DeviceInfo device;
  std::span<const Implementation> implementations;  // best first
  Memory* memory = nullptr;
  Queue* queue = nullptr;  // for one thread that waits for each run
  // For every stream its own: work on two queues may be done at once.
  std::unique_ptr<Queue> (*make_queue)() = nullptr;
};

}  // namespace flashacl
