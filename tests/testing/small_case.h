// SPDX-License-Identifier: Apache-2.0
// A problem whose numbers a test puts in and takes out as doubles, run on the
// reference; in fp64 from end to end where a law must hold to the last digits.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "base/random.h"
#include "plan/backend.h"
#include "plan/bindings.h"
#include "problem/attention_problem.h"

namespace flashacl {

// The same problem with every float tensor in fp64, which the reference
// computes although no problem may ask for it.
AttentionProblem InDoubles(AttentionProblem problem);

// The forward problem whose results a backward problem takes.
AttentionProblem ForwardTwin(AttentionProblem backward);

class SmallCase {
 public:
  // Memory for every tensor: 0, in results 77.
  explicit SmallCase(AttentionProblem problem);
  SmallCase(SmallCase&&) = default;  // a copy would have another's addresses

  const AttentionProblem& problem() const { return problem_; }
  const Bindings& bindings() const { return bindings_; }

  // Elements in memory order from the first; keep bits as bytes.
  int64_t count(Slot slot) const;
  void Set(Slot slot, const std::vector<double>& values);
  std::vector<double> Get(Slot slot) const;
  double Get(Slot slot, int64_t offset) const;
  void Put(Slot slot, int64_t offset, double value);
  const std::vector<std::byte>& bytes(Slot slot) const { return memory(slot); }

  // kList: the tensor of one sequence.
  void SetList(Slot slot, int64_t sequence, const std::vector<double>& values);

  // Where the row of key column j is, whatever the source: element d of kKey,
  // kKeyRope or kValue.
  struct Column {
    int64_t sequence, j, kv_head;
  };
  double GetKey(Slot slot, const Column& column, int64_t d) const;
  void PutKey(Slot slot, const Column& column, int64_t d, double value);

  // One element of the grid in a slot; keep bits one by one.
  struct Cell {
    int64_t sequence, head, i, j;
  };
  double GetCell(Slot slot, const Cell& cell) const;
  void PutCell(Slot slot, const Cell& cell, double value);

  // Everything an implementation reads, at random but valid.
  void FillInputs(Random& random);

  // Takes over whatever slots both have.
  void CopyInputs(const SmallCase& from);
  void Copy(Slot slot, const SmallCase& from);

  // On the reference; with one worker, or with those given.
  void Run();
  void Run(Workers& workers);

 private:
  using Bytes = std::vector<std::byte>;

  Bytes& memory(Slot slot) { return memory_[static_cast<size_t>(slot)]; }
  const Bytes& memory(Slot slot) const {
    return memory_[static_cast<size_t>(slot)];
  }
  void Bind();
  bool InPrefix(const Column& column) const;
  static Slot PrefixOf(Slot slot);
  bool InList(Slot slot) const;  // of keys and values; ropes are not
  int64_t OffsetOf(Slot slot, const Column& column, int64_t d) const;
  int64_t OffsetOf(Slot slot, const Cell& cell) const;
  void FillSlot(Slot slot, Random& random);
  void FillPages(Random& random);
  void FillTopK(Random& random);
  void FillLengths(Slot slot, Random& random);

  AttentionProblem problem_;
  std::array<Bytes, kSlots> memory_;
  std::vector<Bytes> key_list_;
  std::vector<Bytes> value_list_;
  Bindings bindings_;
};

// Runs the forward twin of a backward case on its inputs, puts the results
// where backward takes them, and returns the twin.
SmallCase RunForwardTwin(SmallCase& backward);

}  // namespace flashacl
