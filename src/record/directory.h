// SPDX-License-Identifier: Apache-2.0
// Where calls are kept: DIRECTORY/calls/00000001.json and on, and the bytes of
// tensors, each once, as DIRECTORY/tensors/DIGEST.npy. Every file appears
// whole or not at all, and tensors before the calls that name them, so that
// what a crash leaves can be read.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "base/status.h"
#include "record/call.h"
#include "record/digest.h"

namespace flashacl::record {

// Of an open file or directory; closes it.
class Descriptor {
 public:
  explicit Descriptor(int number = -1) : number_(number) {}
  ~Descriptor();
  Descriptor(Descriptor&& other) noexcept;
  Descriptor& operator=(Descriptor&& other) noexcept;

  int number() const { return number_; }
  bool open() const { return number_ >= 0; }

 private:
  int number_;
};

// The digest of a tensor's bytes: the same bytes of another type are another
// file.
Digest DigestFor(const ElementType& type);

// One thread at a time uses it. Files that other processes put there stay.
class Writer {
 public:
  // Makes the directory if there is none.
  static Result<std::unique_ptr<Writer>> Open(const std::string& path,
                                              int64_t max_bytes);

  bool Has(const std::string& digest) const;
  Status PutTensor(const ElementType& type, const std::string& digest,
                   std::span<const std::byte> bytes);
  Status PutCall(const Call& call);

  // Whether the last thing that was put did not fit.
  bool full() const { return full_; }

 private:
  Writer(Descriptor calls, Descriptor tensors, int64_t bytes_left);

  // Takes from what is left; false, and nothing, if that is too much.
  bool Reserve(size_t bytes);
  Status WriteFile(const Descriptor& in, const std::string& name,
                   std::string_view head, std::span<const std::byte> rest);

  const Descriptor calls_;
  const Descriptor tensors_;
  int64_t bytes_left_;
  int64_t next_call_ = 1;
  bool full_ = false;
};

// Reads what anybody may have written. Needs no more memory than the files
// that it reads have bytes, and follows no link out of the directory.
class Reader {
 public:
  static Result<Reader> Open(const std::string& path);

  // The calls' names, in order: "00000001".
  std::vector<std::string> Calls() const;
  Result<Call> ReadCall(const std::string& name) const;
  // Of a tensor's contents that are kept.
  Result<std::vector<std::byte>> ReadTensor(const Tensor& tensor,
                                            const Contents& contents) const;

 private:
  Reader(Descriptor calls, Descriptor tensors);

  Descriptor calls_;
  Descriptor tensors_;
};

// "00000001" of a call's number in the directory; whether a text is one.
std::string CallName(int64_t number);
bool IsCallName(std::string_view name);

}  // namespace flashacl::record
