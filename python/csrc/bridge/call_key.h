// SPDX-License-Identifier: Apache-2.0
// What a call of an operator of the library depends on, but addresses: planning
// reads no memory, so two calls with one key have one plan.
#pragma once

#include <ATen/core/Tensor.h>
#include <c10/util/SmallVector.h>

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <optional>
#include <string>

namespace flashacl::bridge {

// The values of the C functions' parameters, in the words of this side. A
// tensor that is not there is null.
using TensorArgument = const at::Tensor*;

inline TensorArgument Given(const std::optional<at::Tensor>& tensor) {
  return tensor.has_value() && tensor->defined() ? &*tensor : nullptr;
}

// The tensors of an aclTensorList: here always one.
struct ListOfOne {
  TensorArgument tensor = nullptr;
};

// An aclIntArray; without numbers null, or empty where `empty` says so: the
// adapter passes one or the other.
struct IntegersArgument {
  at::OptionalIntArrayRef numbers;
  bool empty = false;
};

// char*, which the library does not write to; outlives the call.
struct TextArgument {
  const char* text = "";
};

class CallKey {
 public:
  // Of a call of a C function, on a device.
  CallKey(const void* function, int64_t device) {
    Put(reinterpret_cast<int64_t>(function));
    Put(device);
  }

  void Add(TensorArgument tensor) {
    if (tensor == nullptr) return Put(-1);
    const c10::IntArrayRef sizes = tensor->sizes();
    const c10::IntArrayRef strides = tensor->strides();
    Put(static_cast<int64_t>(sizes.size()) * 256 +
        static_cast<int64_t>(tensor->scalar_type()));
    words_.append(sizes.begin(), sizes.end());
    words_.append(strides.begin(), strides.end());
  }

  void Add(const ListOfOne& list) { Add(list.tensor); }

  void Add(const IntegersArgument& integers) {
    if (!integers.numbers.has_value()) return Put(integers.empty ? -2 : -1);
    Put(static_cast<int64_t>(integers.numbers->size()));
    words_.append(integers.numbers->begin(), integers.numbers->end());
    numbers_ += integers.numbers->size();
  }

  // Eight letters to a word, the length before them.
  void Add(const TextArgument& text) {
    const size_t length = std::strlen(text.text);
    Put(static_cast<int64_t>(length));
    for (size_t at = 0; at < length; at += 8) {
      int64_t word = 0;
      std::memcpy(&word, text.text + at, std::min<size_t>(8, length - at));
      Put(word);
    }
  }

  void Add(int64_t number) { Put(number); }
  void Add(bool flag) { Put(flag ? 1 : 0); }

  // Its bits: -0 is not 0.
  void Add(double number) {
    int64_t word = 0;
    std::memcpy(&word, &number, sizeof word);
    Put(word);
  }

  uint64_t Hash() const {
    uint64_t hash = words_.size();
    for (const int64_t word : words_) {
      hash = (hash ^ static_cast<uint64_t>(word)) * 0x9E3779B97F4A7C15u;
      hash ^= hash >> 32;
    }
    return hash;
  }

  // How many numbers there are in lists.
  size_t numbers() const { return numbers_; }

  bool operator==(const CallKey& other) const {
    return words_.size() == other.words_.size() &&
           std::memcmp(words_.data(), other.words_.data(),
                       words_.size() * sizeof(int64_t)) == 0;
  }

 private:
  void Put(int64_t word) { words_.push_back(word); }

  c10::SmallVector<int64_t, 96> words_;
  size_t numbers_ = 0;
};

}  // namespace flashacl::bridge
