// SPDX-License-Identifier: Apache-2.0
// The memory of a device that is the host: the heap for small requests, pages
// of their own for large ones.
#pragma once

#include "plan/backend.h"

namespace flashacl {

class HostMemory final : public Memory {
 public:
  // There is but one, which holds nothing.
  static HostMemory& Get();

  std::shared_ptr<std::byte> Allocate(const MemoryRequest& request) override;
  void Copy(std::byte* to, const std::byte* from, size_t bytes) override;
  void Fill(std::byte* at, std::byte value, size_t bytes) override;
  void FillWords(std::byte* at, uint32_t value, size_t words) override;
  uint64_t LoadWord(const std::byte* at) override;
  void StoreWord(std::byte* at, uint64_t value) override;
  MemoryFile MoveToFile(std::byte* base, size_t bytes) override;
  bool LeaveFile(std::byte* base, size_t bytes) override;

  // Lets nobody touch the pages of a request for own pages, or everybody again;
  // false if the system refuses.
  bool SetClosed(std::byte* base, size_t bytes, bool closed);

 private:
  HostMemory() = default;
};

}  // namespace flashacl
