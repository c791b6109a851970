// SPDX-License-Identifier: Apache-2.0
// What the calls of a program share: a few handles of every kind, memory to
// copy from and to, somewhere to put answers. Every step of the program takes
// its arguments from here, so that calls meet each other's objects.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "acl/acl.h"
#include "acl/memory.h"
#include "tests/fuzz/bytes.h"

namespace flashacl::testing {

// To add a kind: a line here, and one in kEndings (world.cc).
enum class Kind : uint8_t {
  kGroup,  // of tasks of a graph
  kGraph,
  kTensor,
  kArray,
  kScalar,
  kTensorDesc,
  kDataBuffer,
  kAttributes,
  kDataItem,
  kDataset,
  kDumpOption,
  kProfile,  // of what: a configuration
  kStamp,
  kStepInfo,
  kNotify,
  kCountNotify,
  kEvent,
  kLabel,
  kLabelList,
  kStream,
  kContext,
  kBlock,  // device memory
  kHost,   // pinned memory
  kMapped,
  kReserved,
  kPhysical,
  kCount,
};

class World {
 public:
  explicit World(Bytes& choices) : bytes(choices) {}
  World(const World&) = delete;
  World& operator=(const World&) = delete;
  // Leaves no live object, so that inputs do not depend on each other.
  ~World();

  // An object of this kind that may be live or destroyed; null; now and then
  // one of another kind.
  template <typename T = void*>
  T Get(Kind kind) {
    if (bytes.OneIn(16)) kind = static_cast<Kind>(bytes.Below(kKinds));
    return reinterpret_cast<T>(bytes.Pick(objects_[Index(kind)]));
  }
  // Where a call puts a new one; null now and then. What was there before is
  // remembered.
  void** New(Kind kind) {
    if (bytes.OneIn(16)) return nullptr;
    void*& object = bytes.Pick(objects_[Index(kind)]);
    if (object != nullptr) forgotten_[Index(kind)].push_back(object);
    object = nullptr;
    return &object;
  }
  int Put(Kind kind, const void* object) {
    void** const at = New(kind);
    if (at == nullptr) {
      forgotten_[Index(kind)].push_back(const_cast<void*>(object));
    } else {
      *at = const_cast<void*>(object);
    }
    return 0;
  }
  // The same for a call that says why it made none.
  int PutMade(Kind kind, const void* object) {
    Put(kind, object);
    return object == nullptr ? -1 : 0;
  }

  // Somewhere to put an answer; null now and then.
  template <typename T>
  T* Out() {
    static_assert(sizeof(T) <= sizeof(answer_));
    return bytes.OneIn(16) ? nullptr : reinterpret_cast<T*>(answer_.data());
  }
  // A value to read, of zeros and small numbers.
  template <typename T>
  T* In() {
    T* const value = Out<T>();
    answer_ = {};
    answer_[0] = std::byte{bytes.Next()};
    return value;
  }

  template <typename T>
  T Number() {
    return static_cast<T>(bytes.Number());
  }
  template <typename T>
  T Enum(size_t count) {  // of values 0 to count - 1
    return static_cast<T>(bytes.Below(count));
  }

  size_t Size() {
    constexpr size_t kSizes[] = {0, 1, 31, 64, 4096, size_t{1} << 16};
    return bytes.Pick(kSizes);
  }
  size_t PageSize() {
    return acl::kHugePageBytes * bytes.Below(3) + (bytes.OneIn(8) ? 1 : 0);
  }

  // Memory with all of Size(): a live block, perhaps of less and then not at
  // its end; or the program's own. What is freed is not for anyone to touch,
  // and cannot be told from the program's.
  char* Memory() {
    if (captured_) return own_;
    char* const at = Get<char*>(bytes.OneIn(2) ? Kind::kHost : Kind::kBlock);
    acl::Block block;
    return acl::FindBlock(at, &block) ? at : own_;
  }

  // What a graph uses must stay, so from the first capture on no block is
  // copied from or to.
  void* CapturedStream() {
    captured_ = true;
    return Get(Kind::kStream);
  }

  bool captured() const { return captured_; }

  // Some waits of a program; each may take a second where it goes wrong.
  bool MayWait() { return waits_-- > 0; }

  // What a call gives and others take: a key or a handle, and a number. Null
  // now and then. A text ends within its size.
  static constexpr size_t kTextSize = 128;
  char* Text() { return bytes.OneIn(16) ? nullptr : bytes.Pick(texts_).data(); }
  uint64_t* Word() { return bytes.OneIn(16) ? nullptr : &bytes.Pick(words_); }

  // 70 processes; null now and then.
  int32_t* Processes();

  // Where profiles are written, gone with the program.
  const char* Folder();

  Bytes& bytes;

 private:
  using Characters = std::array<char, kTextSize>;

  static constexpr size_t kKinds = static_cast<size_t>(Kind::kCount);
  static constexpr size_t Index(Kind kind) { return static_cast<size_t>(kind); }
  static void Destroy(Kind kind, void* object);

  static char own_[size_t{1} << 16];
  std::array<std::array<void*, 4>, kKinds> objects_{};
  std::array<std::vector<void*>, kKinds> forgotten_;
  alignas(64) std::array<std::byte, 1024> answer_{};
  std::array<Characters, 4> texts_{};
  std::array<uint64_t, 4> words_{};
  std::string folder_;
  int waits_ = 8;
  bool captured_ = false;
};

}  // namespace flashacl::testing
