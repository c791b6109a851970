// SPDX-License-Identifier: Apache-2.0
// What a backend must offer: facts about its device, workers to run on, and a
// table of implementations, best first.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/function_ref.h"
#include "base/range.h"
#include "base/status.h"

namespace flashacl {

struct Implementation;

// What planning may know of a device. The number of workers may decide how much
// scratch memory a plan reserves, and nothing else: the answer must not depend
// on it.
struct DeviceInfo {
  std::string name;
  std::vector<std::string> instruction_sets;
  int64_t l1_bytes = 32 << 10;
  int64_t l2_bytes = 512 << 10;
  int64_t l3_bytes = 8 << 20;
  int64_t workers = 1;             // as many as the process may run at a time
  std::string vector_target = {};  // which instructions vector code is run for
};

// Runs independent pieces of work; owned by the backend.
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

// How fast the device is at most: what speeds are fractions of. Each call
// measures anew, for some milliseconds, with all workers at once.
struct Roofs {
  double (*flops)(Workers& workers) = nullptr;           // fp32, per second
  double (*read_bandwidth)(Workers& workers) = nullptr;  // bytes per second
};

struct Backend {
  std::string_view name;
  DeviceInfo device;
  std::span<const Implementation> implementations;  // best first
  Workers* workers = nullptr;
  Roofs roofs = {};
};

}  // namespace flashacl
