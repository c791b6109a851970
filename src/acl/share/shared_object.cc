// SPDX-License-Identifier: Apache-2.0
#include "acl/share/shared_object.h"

#include <dirent.h>
#include <fcntl.h>
#include <sys/mman.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <charconv>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <ctime>
#include <mutex>
#include <utility>
#include <vector>

#include "acl/init.h"
#include "base/fork.h"
#include "base/once.h"

namespace flashacl::acl {
namespace {

// Changes with the layout of the page.
constexpr uint64_t kMagic = 0x464c'4153'4841'0002;
constexpr const char* kFolder = "/dev/shm/";
constexpr const char* kPrefix = "flashacl-";
constexpr size_t kDigits = 16;
// How long a page may take from its name to its magic.
constexpr time_t kSecondsToMake = 10;

// Allocates nothing, as names must go where there is no memory, too.
struct Path {
  char text[64];

  explicit Path(uint64_t number) {
    std::snprintf(text, sizeof text, "%s%s%0*llx", kFolder, kPrefix,
                  static_cast<int>(kDigits),
                  static_cast<unsigned long long>(number));
  }
};

uint64_t RandomNumber() {
  uint64_t number = 0;
  while (number == 0) {
    if (getrandom(&number, sizeof number, 0) != sizeof number) return 0;
  }
  return number;
}

SharePage* Map(int file) {
  void* const at = mmap(nullptr, SharePage::kBytes, PROT_READ | PROT_WRITE,
                        MAP_SHARED, file, 0);
  return at == MAP_FAILED ? nullptr : static_cast<SharePage*>(at);
}

// Room is taken now: a full folder must not be found out by a signal.
bool TakeRoom(int file) {
  int error = EINTR;  // timers of the program may interrupt it
  while (error == EINTR) error = posix_fallocate(file, 0, SharePage::kBytes);
  if (error != 0) errno = error;
  return error == 0;
}

SharePage* NewPage(uint64_t number) {
  const Path path(number);
  const int file =
      open(path.text, O_CREAT | O_EXCL | O_RDWR | O_CLOEXEC | O_NOFOLLOW,
           S_IRUSR | S_IWUSR);
  if (file < 0) return nullptr;
  SharePage* const page = TakeRoom(file) ? Map(file) : nullptr;
  const int error = errno;
  close(file);
  if (page == nullptr) unlink(path.text);
  errno = error;
  return page;
}

// An object of this user, or -1: what others put there is not ours to read.
int OpenPage(const char* path, int how, struct stat* facts) {
  // Without waiting: others may have put a pipe there.
  const int file = open(path, how | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK);
  if (file < 0) return -1;
  if (fstat(file, facts) == 0 && S_ISREG(facts->st_mode) &&
      facts->st_uid == geteuid()) {
    return file;
  }
  close(file);
  return -1;
}

SharePage* FindPage(uint64_t number) {
  struct stat facts {};
  const int file = OpenPage(Path(number).text, O_RDWR, &facts);
  if (file < 0) return nullptr;
  SharePage* page = nullptr;
  if (facts.st_size == SharePage::kBytes) page = Map(file);
  close(file);
  if (page == nullptr) return nullptr;
  if (page->magic.load(std::memory_order_acquire) == kMagic &&
      page->number == number) {
    return page;
  }
  munmap(page, SharePage::kBytes);
  return nullptr;
}

void InitMutex(pthread_mutex_t* mutex) {
  pthread_mutexattr_t attributes;
  pthread_mutexattr_init(&attributes);
  pthread_mutexattr_setpshared(&attributes, PTHREAD_PROCESS_SHARED);
  pthread_mutexattr_setrobust(&attributes, PTHREAD_MUTEX_ROBUST);
  pthread_mutex_init(mutex, &attributes);
  pthread_mutexattr_destroy(&attributes);
}

// What a page says before its mutex, as read from a file.
struct Prefix {
  uint64_t magic = 0;
  ProcessId owner;
};

bool ReadPrefix(int file, Prefix* prefix) {
  return pread(file, &prefix->magic, sizeof prefix->magic,
               offsetof(SharePage, magic)) == sizeof prefix->magic &&
         pread(file, &prefix->owner, sizeof prefix->owner,
               offsetof(SharePage, owner)) == sizeof prefix->owner;
}

bool IsLeftover(int file, const struct stat& facts) {
  Prefix prefix;
  if (ReadPrefix(file, &prefix) && prefix.magic != 0) {
    return prefix.magic == kMagic && !IsAlive(prefix.owner);
  }
  return time(nullptr) - facts.st_ctime > kSecondsToMake;
}

}  // namespace

// The objects of this process, for names must not stay when it ends.
struct OwnObjects {
  ProcessMutex mutex;
  std::vector<SharedObject*> all;

  void Unlink(SharedObject& object) {
    const bool linked = std::exchange(object.is_linked_, false);
    if (linked && object.IsOfThisProcess()) unlink(Path(object.number()).text);
  }

  void UnlinkAll() {
    std::lock_guard lock(mutex);
    for (SharedObject* object : all) Unlink(*object);
  }

  static OwnObjects& Get() {
    static constinit MadeOnce<OwnObjects> own;
    return own.Get([] {
      const auto unlink_all = [] { Get().UnlinkAll(); };
      AddFinalizer(unlink_all);
      std::atexit(unlink_all);
      return OwnObjects();
    });
  }

  std::shared_ptr<SharedObject> Find(uint64_t number) {
    std::lock_guard lock(mutex);
    for (SharedObject* object : all) {
      if (object->number() == number && object->is_linked_ &&
          object->IsOfThisProcess()) {
        // Null where its last owner is just letting go of it.
        return object->weak_from_this().lock();
      }
    }
    return nullptr;
  }
};

std::string ShareName(uint64_t number) {
  return Path(number).text + std::strlen(kFolder);
}

bool ParseShareName(std::string_view text, uint64_t* number) {
  const std::string_view prefix = kPrefix;
  if (text.size() != prefix.size() + kDigits || !text.starts_with(prefix)) {
    return false;
  }
  const char* const end = text.data() + text.size();
  const auto parsed =
      std::from_chars(text.data() + prefix.size(), end, *number, 16);
  return parsed.ec == std::errc() && parsed.ptr == end;
}

std::shared_ptr<SharedObject> SharedObject::Create(ShareKind kind,
                                                   const SharedFile& file) {
  OwnObjects& own = OwnObjects::Get();
  std::shared_ptr<SharedObject> object(new SharedObject);
  struct stat facts {};
  if (file.file >= 0 && fstat(file.file, &facts) != 0) return nullptr;
  const uint64_t number = RandomNumber();
  if (number == 0) return nullptr;
  SharePage* const page = object->page_ = NewPage(number);
  if (page == nullptr) return nullptr;
  page->number = number;
  object->is_own_ = object->is_linked_ = true;
  page->kind = kind;
  page->owner = object->self_;
  page->file = file;
  page->file_device = facts.st_dev;
  page->file_inode = facts.st_ino;
  InitMutex(&page->mutex);
  object->BeginUse();
  std::lock_guard lock(own.mutex);
  own.all.push_back(object.get());
  page->magic.store(kMagic, std::memory_order_release);
  return object;
}

ShareOpening SharedObject::Open(uint64_t number, ShareKind kind,
                                std::shared_ptr<SharedObject>* object) {
  std::shared_ptr<SharedObject> opened(new SharedObject);
  SharePage* const page = opened->page_ = FindPage(number);
  if (page == nullptr || page->kind != kind || !IsAlive(page->owner)) {
    return ShareOpening::kUnknown;
  }
  if (!opened->Admits(opened->self_.pid)) return ShareOpening::kNotListed;
  if (!opened->BeginUse()) return ShareOpening::kFull;
  *object = std::move(opened);
  return ShareOpening::kOpened;
}

std::shared_ptr<SharedObject> SharedObject::FindOwn(uint64_t number) {
  return OwnObjects::Get().Find(number);
}

// A forked child inherits objects, and leaves them to its parent.
bool SharedObject::IsOfThisProcess() const { return self_.pid == getpid(); }

SharedObject::~SharedObject() {
  if (page_ == nullptr) return;
  OwnObjects& own = OwnObjects::Get();
  {
    std::lock_guard lock(own.mutex);
    own.Unlink(*this);
    std::erase(own.all, this);
  }
  if (is_user_ && IsOfThisProcess()) {
    ShareLock lock(*page_);
    const auto found = std::ranges::find(page_->users, self_);
    if (found != page_->users.end()) *found = {};
  }
  munmap(page_, SharePage::kBytes);
}

bool SharedObject::Allow(std::span<const int32_t> pids) {
  ShareLock lock(*page_);
  for (const int32_t pid : pids) {
    if (std::ranges::find(page_->listed, pid) != page_->listed.end()) continue;
    const auto free = std::ranges::find(page_->listed, 0);
    if (free == page_->listed.end()) return false;
    *free = pid;
  }
  return true;
}

bool SharedObject::Admits(int32_t pid) const {
  if (page_->is_for_all.load() != 0 || page_->owner == self_) return true;
  // Numbers of another namespace are those of others there.
  if (page_->owner.space != self_.space) return false;
  ShareLock lock(*page_);
  return std::ranges::find(page_->listed, pid) != page_->listed.end();
}

bool SharedObject::BeginUse() {
  ShareLock lock(*page_);
  auto free = std::ranges::find(page_->users, ProcessId());
  if (free == page_->users.end()) {
    free = std::ranges::find_if(
        page_->users, [](const ProcessId& user) { return !IsAlive(user); });
  }
  if (free == page_->users.end()) return false;
  *free = self_;
  is_user_ = true;
  return true;
}

void SharedObject::Unlink() {
  OwnObjects& own = OwnObjects::Get();
  std::lock_guard lock(own.mutex);
  own.Unlink(*this);
}

bool SharedObject::CanBeOpened() const {
  OwnObjects& own = OwnObjects::Get();
  std::lock_guard lock(own.mutex);
  return is_linked_ || !is_own_;
}

// The system lets a user's processes open each other's files by this path.
int SharedObject::OpenFile() const {
  const SharedFile& described = page_->file;
  if (described.size == 0 || described.offset > described.mapped ||
      described.size > described.mapped - described.offset) {
    return -1;
  }
  // There the number is another process's, or none's.
  if (page_->owner.space != self_.space) return -1;
  char path[64];
  std::snprintf(path, sizeof path, "/proc/%d/fd/%d",
                static_cast<int>(page_->owner.pid),
                static_cast<int>(page_->file.file));
  const int file = open(path, O_RDWR | O_CLOEXEC);
  if (file < 0) return -1;
  struct stat facts {};
  if (fstat(file, &facts) == 0 && facts.st_dev == page_->file_device &&
      facts.st_ino == page_->file_inode &&
      facts.st_size >= static_cast<off_t>(page_->file.mapped)) {
    return file;
  }
  close(file);
  return -1;
}

bool SharedObject::IsAbandoned() const {
  std::array<ProcessId, kShareUsers> users;
  {
    ShareLock lock(*page_);
    users = page_->users;
  }
  bool one_ended = false;
  for (const ProcessId& user : users) {
    if (user == ProcessId() || user == self_) continue;
    if (IsAlive(user)) return false;
    one_ended = true;
  }
  return one_ended;
}

void RemoveShareLeftovers() {
  const std::unique_ptr<DIR, int (*)(DIR*)> folder(opendir(kFolder), &closedir);
  if (folder == nullptr) return;
  while (const dirent* entry = readdir(folder.get())) {
    uint64_t number = 0;
    if (!ParseShareName(entry->d_name, &number)) continue;
    const Path path(number);
    struct stat facts {};
    const int file = OpenPage(path.text, O_RDONLY, &facts);
    if (file < 0) continue;
    if (IsLeftover(file, facts)) unlink(path.text);
    close(file);
  }
}

}  // namespace flashacl::acl
