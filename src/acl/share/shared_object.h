// SPDX-License-Identifier: Apache-2.0
// What one process shares with others: a page in shared memory, found by a name
// of 64 random bits, that says whose it is, who may use it and who does. Memory
// itself lies in a file of its owner, which the page names.
#pragma once

#include <pthread.h>

#include <array>
#include <atomic>
#include <cerrno>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>

#include "acl/share/process_id.h"

namespace flashacl::acl {

// What callers' buffers for names have room for, with the final zero.
inline constexpr size_t kShareNameBytes = 65;
inline constexpr size_t kShareListed = 64;  // processes a white list holds
inline constexpr size_t kShareUsers = 64;   // uses at a time

// How often who waits for another process looks whether it still runs.
inline constexpr std::chrono::milliseconds kShareLook{400};

enum class ShareKind : uint32_t {
  kMemory = 1,    // of aclrtMalloc
  kPhysical = 2,  // of aclrtMallocPhysical
  kEvent = 3,
  kNotify = 4,
};

// Bytes in an open file of the object's owner.
struct SharedFile {
  int32_t file = -1;
  int32_t device_id = 0;  // that they are memory of
  uint64_t offset = 0;    // of the first byte that is meant
  uint64_t size = 0;      // bytes that are meant
  uint64_t mapped = 0;    // bytes to map from the start of the file
};

// The page. Holds no address; after `magic` is set, only the words and what
// `mutex` guards change.
struct SharePage {
  static constexpr size_t kBytes = 4096;
  static constexpr size_t kWordBytes = 2560;

  std::atomic<uint64_t> magic;
  uint64_t number;
  ShareKind kind;
  std::atomic<uint32_t> is_for_all;  // no white list
  ProcessId owner;
  SharedFile file;
  uint64_t file_device, file_inode;

  pthread_mutex_t mutex;  // outlives who holds it
  std::array<int32_t, kShareListed> listed;
  std::array<ProcessId, kShareUsers> users;

  alignas(64) std::array<std::byte, kWordBytes> words;  // of events, notifies
};
static_assert(sizeof(SharePage) <= SharePage::kBytes);

// Holds the page's mutex, also if who held it last has died.
class ShareLock {
 public:
  explicit ShareLock(SharePage& page) : mutex_(&page.mutex) {
    if (pthread_mutex_lock(mutex_) == EOWNERDEAD) {
      pthread_mutex_consistent(mutex_);  // each change is whole at any moment
    }
  }
  ~ShareLock() { pthread_mutex_unlock(mutex_); }
  ShareLock(const ShareLock&) = delete;
  ShareLock& operator=(const ShareLock&) = delete;

 private:
  pthread_mutex_t* const mutex_;
};

enum class ShareOpening : uint8_t {
  kOpened,
  kUnknown,    // nothing of this name and kind, or its owner has ended
  kNotListed,  // the calling process is not on the white list
  kFull,       // all uses are taken
};

class SharedObject : public std::enable_shared_from_this<SharedObject> {
 public:
  // Made by this process, with words of zeros. Null if the system refuses, and
  // errno says why.
  static std::shared_ptr<SharedObject> Create(ShareKind kind,
                                              const SharedFile& file = {});
  static ShareOpening Open(uint64_t number, ShareKind kind,
                           std::shared_ptr<SharedObject>* object);

  // One that this process has created and not unlinked; or null.
  static std::shared_ptr<SharedObject> FindOwn(uint64_t number);

  // Unlinks what this process created, and ends its use.
  ~SharedObject();

  uint64_t number() const { return page_->number; }
  ShareKind kind() const { return page_->kind; }
  const SharedFile& file() const { return page_->file; }
  SharePage& page() const { return *page_; }
  template <typename Words>
  Words& words() const {
    static_assert(sizeof(Words) <= SharePage::kWordBytes);
    return *reinterpret_cast<Words*>(page_->words.data());
  }

  // Adds to the white list; false if it is full, or ends it.
  bool Allow(std::span<const int32_t> pids);
  void AllowAll() { page_->is_for_all.store(1); }

  // From now on nobody opens it; those who have go on. Only where this process
  // created it.
  void Unlink();

  // False if this process created it and has unlinked it, as aclFinalize does
  // to all. Of others' objects this process does not know.
  bool CanBeOpened() const;

  // The owner's file, for this process to close; -1 if it is gone, or if the
  // owner is in another pid namespace.
  int OpenFile() const;

  // Whether a process ended without ending its use, and no other is left.
  bool IsAbandoned() const;

 private:
  SharedObject() = default;

  bool IsOfThisProcess() const;
  bool Admits(int32_t pid) const;
  bool BeginUse();

  friend struct OwnObjects;

  SharePage* page_ = nullptr;
  const ProcessId self_ = ThisProcess();
  bool is_own_ = false;     // created by that process
  bool is_linked_ = false;  // by it
  bool is_user_ = false;
};

// "flashacl-" and 16 digits.
std::string ShareName(uint64_t number);

// False if the text is no such name; it need not end within `text`.
bool ParseShareName(std::string_view text, uint64_t* number);

// Removes the names of objects whose owners have ended.
void RemoveShareLeftovers();

}  // namespace flashacl::acl
