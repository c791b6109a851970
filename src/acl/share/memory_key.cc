// SPDX-License-Identifier: Apache-2.0
// aclrtIpcMem*: blocks of aclrtMalloc in several processes. Exporting moves a
// block's bytes to a file and gives that a name; importing maps the file.
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <string_view>
#include <thread>
#include <utility>
#include <vector>

#include "acl/acl_rt.h"
#include "acl/callback.h"
#include "acl/error.h"
#include "acl/memory.h"
#include "acl/share/share_call.h"
#include "acl/share/shared_object.h"
#include "acl/stream.h"
#include "base/fork.h"
#include "base/once.h"
#include "base/str.h"

namespace flashacl::acl {
namespace {

constexpr aclError kBadArgument = ACL_ERROR_RT_PARAM_INVALID;
constexpr aclError kNoSuchKey = ACL_ERROR_RT_DRV_INTERNAL_ERROR;

// Of one block; owned by its file, and ends with it.
struct Export {
  std::shared_ptr<SharedObject> object;
  void* base = nullptr;
  int64_t imports = 0;  // by this process
};

// A file of another process in this one's addresses.
struct Mapping {
  std::shared_ptr<SharedObject> object;
  void* at = nullptr;
  size_t bytes = 0;

  Mapping() = default;
  Mapping(const Mapping&) = delete;
  Mapping& operator=(const Mapping&) = delete;
  ~Mapping() {
    if (at != nullptr) munmap(at, bytes);
  }
};

struct Import {
  std::byte* base = nullptr;
  int64_t count = 0;
};

// By the numbers of their names. A forked child inherits them.
struct Keys {
  ProcessMutex mutex;
  std::map<uint64_t, std::weak_ptr<Export>> exports;
  std::map<uint64_t, Import> imports;
};

Keys& TheKeys() {
  // Programs close keys from exit handlers.
  static constinit MadeOnce<Keys> keys;
  return *keys;
}

// The export that a number names and that still can be imported; or null. Under
// the mutex.
std::shared_ptr<Export> FindExport(Keys& keys, uint64_t number) {
  const auto found = keys.exports.find(number);
  if (found == keys.exports.end()) return nullptr;
  std::shared_ptr<Export> exported = found->second.lock();
  if (exported != nullptr && SharedObject::FindOwn(number) == nullptr) {
    exported = nullptr;  // finalised, or the parent's
  }
  if (exported == nullptr) keys.exports.erase(found);
  return exported;
}

// Returns when nothing that streams have queued by now writes to the block. A
// graph keeps its blocks whether it is replayed or not, so that the use of one
// says less than how far the streams have come: a replay is queued work.
void WaitUntilUnused(const void* base) {
  std::vector<std::pair<std::shared_ptr<Stream>, uint64_t>> queued;
  if (!IsBlockUsed(base)) return;
  for (auto& stream : AllStreams()) {
    if (stream->IsThisThread() || RunsCallbackOf(stream->handle())) continue;
    const uint64_t newest = stream->pushed();
    queued.emplace_back(std::move(stream), newest);
  }
  const auto is_over = [&] {
    return std::ranges::all_of(queued, [](const auto& one) {
      return one.first->finished() >= one.second;
    });
  };
  ReleaseStreams();
  while (IsBlockUsed(base) && !is_over()) {
    std::this_thread::sleep_for(std::chrono::microseconds(200));
  }
}

aclError CheckBlock(std::string_view function, const void* pointer,
                    size_t size) {
  const auto fail = [&](std::string_view expected) {
    return FailValue(kBadArgument, function, "devPtr", Str("{}", pointer),
                     expected);
  };
  Block block;
  if (!FindBlock(pointer, &block) || block.kind == BlockKind::kHost) {
    return fail("what aclrtMalloc returned");
  }
  if (block.kind == BlockKind::kMapped) {
    return fail(
        "what aclrtMalloc returned; physical memory is exported by "
        "aclrtMemExportToShareableHandle");
  }
  if (block.kind == BlockKind::kImported) {
    return fail(
        "what aclrtMalloc returned; imported memory is exported by its owner");
  }
  if (block.base != pointer) return fail("the start of its block");
  if (size > block.reserved) {
    return FailValue(kBadArgument, function, "size", Str("{}", size),
                     Str("at most the {} bytes of the block", block.reserved));
  }
  if (block.size >= kOwnPagesBytes) return ACL_SUCCESS;
  return Fail(ACL_ERROR_RT_FEATURE_NOT_SUPPORT, Title::kNotSupported,
              Str("{} failed because the block has {} bytes: it may share "
                  "memory pages with others, which would be exported with it. "
                  "Export blocks of {} bytes and more.",
                  function, block.size, kOwnPagesBytes));
}

aclError GetExportKey(void* pointer, size_t size, char* key, size_t length,
                      uint64_t flags) {
  constexpr std::string_view kName = "aclrtIpcMemGetExportKey";
  if (pointer == nullptr) return FailNull(kName, "devPtr");
  if (key == nullptr) return FailNull(kName, "key");
  if (size == 0)
    return FailValue(kBadArgument, kName, "size", "0", "more than 0");
  if (const aclError error = CheckNameBuffer(kName, length)) return error;
  if (flags > ACL_RT_IPC_MEM_EXPORT_FLAG_DISABLE_PID_VALIDATION) {
    return FailValue(kBadArgument, kName, "flags", Str("{}", flags), "0 or 1");
  }
  if (const aclError error = CheckBlock(kName, pointer, size)) return error;
  // Once it lies in a file, nothing moves any more.
  if (!IsBlockInFile(pointer)) WaitUntilUnused(pointer);
  Keys& keys = TheKeys();
  std::lock_guard lock(keys.mutex);
  const auto file = MoveBlockToFile(pointer);
  if (file == nullptr) return FailToShare(kName);
  auto exported = std::const_pointer_cast<Export>(
      std::static_pointer_cast<const Export>(file->exported));
  if (exported != nullptr &&
      FindExport(keys, exported->object->number()) == nullptr) {
    exported = nullptr;  // closed since
  }
  if (exported == nullptr) {
    RemoveShareLeftovers();
    // Of blocks that were freed with their keys open.
    std::erase_if(keys.exports,
                  [](const auto& entry) { return entry.second.expired(); });
    Block block;
    FindBlock(pointer, &block);
    exported = std::make_shared<Export>();
    exported->base = pointer;
    exported->object = SharedObject::Create(
        ShareKind::kMemory,
        {file->file, block.device_id, file->offset, block.size, file->bytes});
    if (exported->object == nullptr) return FailToShare(kName);
    keys.exports[exported->object->number()] = exported;
    file->exported = exported;
  }
  if (flags != 0) exported->object->AllowAll();
  WriteName(exported->object->number(), key);
  return ACL_SUCCESS;
}

aclError SetImportPid(const char* key, const int32_t* pids, size_t count) {
  constexpr std::string_view kName = "aclrtIpcMemSetImportPid";
  if (key == nullptr) return FailNull(kName, "key");
  if (pids == nullptr) return FailNull(kName, "pid");
  if (count == 0)
    return FailValue(kBadArgument, kName, "num", "0", "more than 0");
  const auto object = SharedObject::FindOwn(NumberOf(key));
  if (object == nullptr || object->kind() != ShareKind::kMemory) {
    return FailValue(kBadArgument, kName, "key", Shown(key),
                     "a key of memory that this process has exported");
  }
  return AllowProcesses(kName, *object, pids, count);
}

// Maps another process's file, and adds the block that is in it.
aclError MapFile(std::string_view function, const char* key,
                 std::shared_ptr<SharedObject> object, std::byte** base) {
  const SharedFile file = object->file();
  const int opened = object->OpenFile();
  if (opened < 0) {
    return FailToOpen(ShareOpening::kUnknown, function, "key", Shown(key),
                      kNoSuchKey);
  }
  struct Closing {
    int file;
    ~Closing() { close(file); }
  } closing{opened};
  auto mapping = std::make_shared<Mapping>();
  void* const at =
      mmap(nullptr, file.mapped, PROT_READ | PROT_WRITE, MAP_SHARED, opened, 0);
  if (at == MAP_FAILED) {
    return Fail(ACL_ERROR_RT_MEMORY_ALLOCATION, Title::kRuntime,
                Str("{} failed because the system refuses the mapping of {} "
                    "bytes",
                    function, file.mapped));
  }
  mapping->at = at;
  mapping->bytes = file.mapped;
  mapping->object = std::move(object);
  *base = static_cast<std::byte*>(at) + file.offset;
  AddMapped(*base,
            {.size = file.size,
             .reserved = file.size,
             .kind = BlockKind::kImported,
             .device_id = file.device_id},
            std::move(mapping));
  return ACL_SUCCESS;
}

aclError ImportMemoryByKey(void** pointer, const char* key, uint64_t flags) {
  constexpr std::string_view kName = "aclrtIpcMemImportByKey";
  if (pointer == nullptr) return FailNull(kName, "devPtr");
  if (key == nullptr) return FailNull(kName, "key");
  if (flags > ACL_RT_IPC_MEM_IMPORT_FLAG_ENABLE_PEER_ACCESS) {
    return FailValue(kBadArgument, kName, "flags", Str("{}", flags), "0 or 1");
  }
  const uint64_t number = NumberOf(key);
  Keys& keys = TheKeys();
  std::lock_guard lock(keys.mutex);
  if (const auto own = FindExport(keys, number)) {
    ++own->imports;
    *pointer = own->base;
    return ACL_SUCCESS;
  }
  const auto before = keys.imports.find(number);
  if (before != keys.imports.end()) {
    ++before->second.count;
    *pointer = before->second.base;
    return ACL_SUCCESS;
  }
  std::shared_ptr<SharedObject> object;
  const ShareOpening opening =
      SharedObject::Open(number, ShareKind::kMemory, &object);
  if (opening != ShareOpening::kOpened) {
    return FailToOpen(opening, kName, "key", Shown(key), kNoSuchKey);
  }
  // An entry that is not whole must not be found by the next call.
  struct Unfinished {
    Keys& keys;
    uint64_t number;
    bool done = false;
    ~Unfinished() {
      if (!done) keys.imports.erase(number);
    }
  } unfinished{keys, number};
  Import& import = keys.imports[number];
  const aclError error = MapFile(kName, key, std::move(object), &import.base);
  if (error != ACL_SUCCESS) return error;
  unfinished.done = true;
  import.count = 1;
  *pointer = import.base;
  return ACL_SUCCESS;
}

aclError Close(const char* key) {
  constexpr std::string_view kName = "aclrtIpcMemClose";
  if (key == nullptr) return FailNull(kName, "key");
  const uint64_t number = NumberOf(key);
  Keys& keys = TheKeys();
  std::lock_guard lock(keys.mutex);
  if (const auto own = FindExport(keys, number)) {
    if (own->imports > 0) {
      --own->imports;
    } else {
      own->object->Unlink();
      keys.exports.erase(number);
    }
    return ACL_SUCCESS;
  }
  const auto import = keys.imports.find(number);
  if (import == keys.imports.end()) {
    return FailValue(kBadArgument, kName, "key", Shown(key),
                     "a key that this process has exported or imported, and "
                     "not closed");
  }
  if (--import->second.count > 0) return ACL_SUCCESS;
  size_t size = 0;
  RemoveMapped(import->second.base, BlockKind::kImported, &size);
  keys.imports.erase(import);
  return ACL_SUCCESS;
}

}  // namespace
}  // namespace flashacl::acl

namespace acl = flashacl::acl;

extern "C" {

aclError aclrtIpcMemGetExportKey(void* devPtr, size_t size, char* key,
                                 size_t len, uint64_t flags) {
  return acl::GuardRuntime(
      [&] { return acl::GetExportKey(devPtr, size, key, len, flags); });
}

aclError aclrtIpcMemSetImportPid(const char* key, int32_t* pid, size_t num) {
  return acl::GuardRuntime([&] { return acl::SetImportPid(key, pid, num); });
}

aclError aclrtIpcMemImportByKey(void** devPtr, const char* key,
                                uint64_t flags) {
  return acl::GuardRuntime(
      [&] { return acl::ImportMemoryByKey(devPtr, key, flags); });
}

aclError aclrtIpcMemClose(const char* key) {
  return acl::GuardRuntime([&] { return acl::Close(key); });
}

}  // extern "C"
