// SPDX-License-Identifier: Apache-2.0
// The tensors of one computation, dense, and its runs.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "base/half.h"
#include "base/number.h"
#include "base/random.h"
#include "indexer/indexer.h"
#include "plan/host_queue.h"
#include "tests/testing/shuffled_workers.h"

namespace flashacl::indexer {

inline constexpr int64_t kHeads = 3;
inline constexpr int64_t kChannels = 20;
inline constexpr int64_t kWorkers = 64;

// A computation with memory of its own: dense tensors in order of operands.
class Tensors {
 public:
  Tensors(int64_t rows, int64_t keys, int64_t heads = kHeads,
          int64_t channels = kChannels)
      : rows_(rows), keys_(keys), channels_(channels) {
    of_.problem.heads = heads;
    of_.problem.kv_heads = 1;
    of_.problem.qk_dim = channels;
    of_.problem.kv.value_is_key = true;
    of_.problem.lengths.sequences = {{{0, rows}, {0, keys}}};
    of_.problem[Slot::kQuery] =
        DenseSpec(DType::kBf16, {1, rows, heads, channels});
    of_.problem[Slot::kKey] = DenseSpec(DType::kBf16, {1, keys, 1, channels});
    of_.places = {{Slot::kQuery, Add(rows * heads * channels * 2)},
                  {Slot::kKey, Add(keys * channels * 2)}};
    of_.weights = Operand{DenseSpec(DType::kBf16, {1, rows, 1, heads}),
                          Add(rows * heads * 2)};
    of_.causal = true;
    of_.workers = kWorkers;
  }

  const Rows& rows() const { return of_; }

  Operand New(DType dtype, std::array<int64_t, 4> dims) {
    return {DenseSpec(dtype, dims),
            Add(dims[0] * dims[1] * dims[2] * dims[3] * SizeOf(dtype))};
  }
  Operand NewLists(DType dtype, int64_t width) {
    return New(dtype, {1, rows_, 1, width});
  }

  // Gradients in fp32 of new lists of any keys, which are the next argument, of
  // gradients of scores, which come after it, and of all that rows() has.
  Gradient NewGradient(int64_t width) {
    const size_t first = arguments();
    Gradient gradient{.rows = of_};
    gradient.rows.causal = false;
    gradient.indices = NewLists(DType::kI32, width);
    gradient.grad_score = NewLists(DType::kBf16, width);
    gradient.grad_query = New(DType::kF32, of_.problem[Slot::kQuery].dims);
    gradient.grad_key = New(DType::kF32, of_.problem[Slot::kKey].dims);
    gradient.grad_weights = NewLists(DType::kF32, of_.problem.heads);
    FillLists(first, 4);
    FillHalves(first + 1, 5);
    return gradient;
  }

  // Keys move into pages in no order, of which the last may be missing.
  void UsePages(int64_t page_rows, Random& random) {
    const int64_t pages = (keys_ + page_rows - 1) / page_rows;
    of_.problem.kv.rows = KvSource::Rows::kPaged;
    of_.problem.kv.page_rows = page_rows;
    of_.problem[Slot::kKey] =
        DenseSpec(DType::kBf16, {pages, page_rows, 1, channels_});
    memory_[1].resize(static_cast<size_t>(pages * page_rows * channels_ * 2));
    of_.problem[Slot::kBlockTable] = DenseSpec(DType::kI32, {1, pages, 1, 1});
    const size_t table = Add(pages * 4);
    of_.places.push_back({Slot::kBlockTable, table});
    for (int64_t n = 0; n < pages; ++n) {
      const int64_t page = pages - 1 - n;
      const bool missing = page == 0 && random.OneIn(2);
      Store(memory_[table].data() + n * 4,
            static_cast<int32_t>(missing ? -1 : page));
    }
  }

  size_t arguments() const { return memory_.size(); }
  void Put(size_t argument, int64_t n, double value) {
    Store(memory_[argument].data() + 2 * n, Bf16FromF64(value));
  }
  int64_t halves(size_t argument) const {
    return static_cast<int64_t>(memory_[argument].size()) / 2;
  }

  // With bfloat16 in [-1, 1), or with integers of [-2, 2].
  void FillHalves(size_t argument, uint64_t seed, bool exact = false) {
    Random random(seed);
    std::vector<std::byte>& memory = memory_[argument];
    for (size_t n = 0; n < memory.size(); n += 2) {
      const auto whole = static_cast<double>(random.Within(-2, 2));
      const double real = 2 * random.Fraction() - 1;
      Store(memory.data() + n, Bf16FromF64(exact ? whole : real));
    }
  }
  void FillLists(size_t argument, uint64_t seed) {
    Random random(seed);
    for (size_t n = 0; n < memory_[argument].size(); n += 4) {
      Store(memory_[argument].data() + n,
            static_cast<int32_t>(random.Within(0, keys_ - 1)));
    }
  }

  // Element n of a tensor.
  double Half(size_t argument, int64_t n) const {
    return ReadNumber(DType::kBf16, memory_[argument].data() + 2 * n);
  }
  int32_t Index(size_t argument, int64_t n) const {
    return Load<int32_t>(memory_[argument].data() + 4 * n);
  }

  // Of a row of the query and a key.
  double Dot(int64_t row, int64_t head, int64_t key) const {
    double dot = 0;
    for (int64_t d = 0; d < kChannels; ++d) {
      dot += Half(0, (row * kHeads + head) * kChannels + d) *
             Half(1, key * kChannels + d);
    }
    return dot;
  }

  // The memory of the last `results` tensors after a run that finds garbage in
  // all it does not read.
  std::vector<std::vector<std::byte>> Results(const Computation& computation,
                                              int workers, size_t results) {
    std::vector<std::byte*> at;
    for (size_t n = 0; n < memory_.size(); ++n) {
      if (n + results >= memory_.size()) {
        std::ranges::fill(memory_[n], std::byte{0xEE});
      }
      at.push_back(memory_[n].data());
    }
    struct alignas(64) Line {
      std::byte bytes[64];
    };
    std::vector<Line> workspace(
        static_cast<size_t>(computation.workspace_bytes()) / sizeof(Line) + 1);
    for (Line& line : workspace) std::ranges::fill(line.bytes, std::byte{0xFF});
    ShuffledWorkers shuffled(workers, static_cast<uint64_t>(workers));
    HostQueue queue(shuffled);
    EXPECT_TRUE(computation.Run(at, workspace[0].bytes, queue).ok());
    return {memory_.end() - static_cast<int64_t>(results), memory_.end()};
  }

 private:
  size_t Add(int64_t bytes) {
    memory_.emplace_back(static_cast<size_t>(bytes));
    return memory_.size() - 1;
  }

  const int64_t rows_, keys_, channels_;
  Rows of_;
  std::vector<std::vector<std::byte>> memory_;
};

inline void ExpectSameForAnyWorkers(Tensors& tensors,
                                    const Computation& computation,
                                    size_t results) {
  const auto first = tensors.Results(computation, 1, results);
  for (const int workers : {2, 7, 64}) {
    EXPECT_TRUE(tensors.Results(computation, workers, results) == first)
        << workers;
  }
}

}  // namespace flashacl::indexer
