// SPDX-License-Identifier: Apache-2.0
#include "tests/testing/locked_backend.h"

#include <sys/mman.h>

#include <algorithm>
#include <chrono>
#include <functional>
#include <mutex>
#include <thread>
#include <utility>
#include <vector>

#include "backends.h"
#include "plan/host_memory.h"
#include "plan/implementation.h"
#include "reference/reference.h"

namespace flashacl::testing {
namespace {

class LockedMemory final : public Memory {
 public:
  // While one lives the pages may be touched.
  class Opened {
   public:
    explicit Opened(LockedMemory& memory) : memory_(memory) {
      const std::lock_guard lock(memory_.mutex_);
      if (memory_.opened_++ == 0) memory_.Protect(PROT_READ | PROT_WRITE);
    }
    ~Opened() {
      const std::lock_guard lock(memory_.mutex_);
      if (--memory_.opened_ == 0) memory_.Protect(PROT_NONE);
    }
    Opened(const Opened&) = delete;
    Opened& operator=(const Opened&) = delete;

   private:
    LockedMemory& memory_;
  };

  // One after the other, and none again: they then close by one call.
  std::shared_ptr<std::byte> Allocate(const MemoryRequest& request) override {
    constexpr size_t kPageBytes = 4096;
    const size_t bytes =
        std::max((request.bytes + request.zeros + kPageBytes - 1) / kPageBytes *
                     kPageBytes,
                 kPageBytes);
    const std::lock_guard lock(mutex_);
    if (first_ == nullptr || bytes > kArenaBytes - used_) return nullptr;
    std::byte* const at = first_ + used_;
    used_ += bytes;
    mprotect(at, bytes, Permission());
    return {at, [bytes](std::byte* base) {
              // Zeros again, and closed to all until somebody opens the rest.
              mmap(base, bytes, PROT_NONE, kMapping | MAP_FIXED, -1, 0);
            }};
  }

  void Copy(std::byte* to, const std::byte* from, size_t bytes) override {
    const Opened opened(*this);
    HostMemory::Get().Copy(to, from, bytes);
  }
  void Fill(std::byte* at, std::byte value, size_t bytes) override {
    const Opened opened(*this);
    HostMemory::Get().Fill(at, value, bytes);
  }
  void FillWords(std::byte* at, uint32_t value, size_t words) override {
    const Opened opened(*this);
    HostMemory::Get().FillWords(at, value, words);
  }
  uint64_t LoadWord(const std::byte* at) override {
    const Opened opened(*this);
    return HostMemory::Get().LoadWord(at);
  }
  void StoreWord(std::byte* at, uint64_t value) override {
    const Opened opened(*this);
    HostMemory::Get().StoreWord(at, value);
  }
  MemoryFile MoveToFile(std::byte* base, size_t bytes) override {
    const Opened opened(*this);
    return HostMemory::Get().MoveToFile(base, bytes);
  }
  bool LeaveFile(std::byte* base, size_t bytes) override {
    const Opened opened(*this);
    return HostMemory::Get().LeaveFile(base, bytes);
  }

 private:
  int Permission() const {
    return opened_ > 0 ? PROT_READ | PROT_WRITE : PROT_NONE;
  }
  void Protect(int permission) { mprotect(first_, used_, permission); }

  static constexpr size_t kArenaBytes = size_t{64} << 30;
  static constexpr int kMapping = MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE;

  static std::byte* Reserve() {
    void* const at = mmap(nullptr, kArenaBytes, PROT_NONE, kMapping, -1, 0);
    return at == MAP_FAILED ? nullptr : static_cast<std::byte*>(at);
  }

  std::byte* const first_ = Reserve();
  std::mutex mutex_;
  size_t used_ = 0;
  int opened_ = 0;
};

LockedMemory& TheMemory() {
  static auto* const memory = new LockedMemory;
  return *memory;
}

// Work is done by threads of the CPU's, or later by one of its own.
class LockedQueue final : public Queue {
 public:
  ~LockedQueue() override { (void)Wait(); }

  Status OnHost(FunctionRef<Status(Workers&)> work) override {
    FLASHACL_RETURN_IF_ERROR(Wait());
    const LockedMemory::Opened opened(TheMemory());
    return CpuBackend().queue->OnHost(work);
  }

  Status Wait() override {
    if (later_.joinable()) later_.join();
    return std::exchange(failure_, {});
  }

  // Starts `work` after what was put here before, and does not wait for it.
  void Later(std::function<Status(Workers&)> work) {
    later_ = std::thread(
        [this, before = std::move(later_), work = std::move(work)]() mutable {
          if (before.joinable()) before.join();
          // Long enough for whoever does not wait to find the memory closed.
          std::this_thread::sleep_for(std::chrono::milliseconds(1));
          const LockedMemory::Opened opened(TheMemory());
          const Status status = CpuBackend().queue->OnHost(work);
          if (failure_.ok()) failure_ = status;
        });
  }

 private:
  std::thread later_;
  Status failure_;  // of what was put here; later_'s until it is joined
};

std::unique_ptr<Queue> MakeQueue() { return std::make_unique<LockedQueue>(); }

// The reference, as a device would run it: put on the queue, and done some time
// later.
class Late final : public Prepared {
 public:
  Late(const AttentionProblem& problem, const DeviceInfo& device,
       WorkspaceLayout& workspace)
      : Prepared(problem),
        reference_(std::dynamic_pointer_cast<const HostPrepared>(
            kReference.prepare(problem, device, workspace))) {}

  Status Run(const Bindings& bindings, std::byte* workspace,
             Queue& queue) const override {
    static_cast<LockedQueue&>(queue).Later(
        [bindings, workspace, reference = reference_](Workers& workers) {
          return reference->Run(bindings, workspace, workers);
        });
    return {};
  }

  std::string Describe() const override { return reference_->Describe(); }

 private:
  const std::shared_ptr<const HostPrepared> reference_;
};

Backend MakeBackend(const std::vector<Implementation>& rows) {
  Backend backend = CpuBackend();
  backend.name = "locked";
  auto* const kept = new Implementation[rows.size()];
  std::ranges::copy(rows, kept);
  backend.implementations = {kept, rows.size()};
  backend.memory = &TheMemory();
  backend.queue = MakeQueue().release();
  backend.make_queue = MakeQueue;
  return backend;
}

}  // namespace

const Backend& LockedBackend() {
  static const auto* const backend = [] {
    const auto rows = CpuBackend().implementations;
    return new Backend(MakeBackend({rows.begin(), rows.end()}));
  }();
  return *backend;
}

const Backend& LateBackend() {
  static const auto* const backend =
      new Backend(MakeBackend({{.name = "locked/late",
                                .supports = kReference.supports,
                                .prepare = MakePrepared<Late>},
                               kReference}));
  return *backend;
}

}  // namespace flashacl::testing
