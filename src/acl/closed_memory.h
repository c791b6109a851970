// SPDX-License-Identifier: Apache-2.0
// Strict mode closes device memory to the program: the pages of a block open
// while queued, running or captured work uses it, and while the runtime itself
// reads or writes there. Who touches it else is told which block that is, and
// ends by the signal, as a host does that follows an address of a device.
#pragma once

#include <cstddef>
#include <memory>

#include "acl/memory.h"
#include "plan/backend.h"

namespace flashacl::acl {

// FLASHACL_HOST_ACCESS=1, as a bridge sets it that runs other operators on
// device memory; read anew, and by the first allocation.
bool HostTouchesDevice();

// Whether device memory is closed at all: in strict mode, unless the program is
// one that runs operators of its own on it (FLASHACL_HOST_ACCESS=1).
bool ClosesDeviceMemory();

// The host's memory, with the blocks at its addresses open meanwhile.
Memory& OpeningMemory();

// Whether a backend's memory is that of the host, by either name.
bool IsHostMemory(const Memory& memory);

// The pages of a new block of such memory, closed while nobody uses them.
class Door {
 public:
  // Null where the block stays open.
  static std::unique_ptr<Door> Of(const Block& block);
  ~Door();  // opens for good
  Door(const Door&) = delete;
  Door& operator=(const Door&) = delete;

  // Open from the first use on until the last one leaves.
  void Use();
  void Leave();

  const Block& block() const { return block_; }

 private:
  friend struct Doors;
  explicit Door(const Block& block) : block_(block) {}
  void SetClosed(bool closed) const;

  const Block block_;
  int uses_ = 0;
};

// The block whose closed pages an address lies in, at most a page outside of
// it; false if there is none.
bool FindClosed(const void* address, Block* block);

}  // namespace flashacl::acl
