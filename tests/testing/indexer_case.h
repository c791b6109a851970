// SPDX-License-Identifier: Apache-2.0
// Random calls of the lightning indexer and its gradient, and what they must
// give, in fp64: by the formula, with bounds that follow from roundings.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "base/random.h"
#include "tests/testing/elementwise_call.h"
#include "tests/testing/random_tensors.h"

namespace flashacl::testing {

// A number, and how far rounding may take fp32 from it.
struct Bounded {
  double value = 0;
  double error = 0;
};

// A sequence: its rows of the query's tensor, and its keys. Rows are counted
// through all axes before heads.
struct IndexedSequence {
  int64_t first_row = 0;
  int64_t rows = 0;
  std::vector<int64_t> keys;  // rows of the key's tensor; -1: in no page
};

class IndexerCase {
 public:
  enum class Direction : uint8_t { kForward, kBackward };

  // With `exact` numbers nothing is rounded, and many scores are equal.
  IndexerCase(uint64_t seed, Direction direction, bool exact);

  // The problem in one line.
  std::string ToString() const;

  // Runs, and compares every element of every tensor.
  void CheckSelection();
  void CheckGradient();

  // Of the gradient's call, in fp64: sum_{t, u} dy[t, u] score(t, j), with the
  // inputs moved by `step` in some direction, and what the call's results say
  // its derivative is.
  Bounded Derivative(Random& random);
  double LossAt(double step) const;

 private:
  struct Numbers {
    std::vector<double> query, key, weights, grad_scores;
  };

  void MakeSequences();
  void MakePages();
  void MakeTensors();
  void FillRow(ElementTensor& tensor, int64_t row, int64_t count);
  double Number();
  ElementTensor* New(aclDataType type, std::vector<int64_t> dims);
  ElementTensor* NewInts(std::vector<int64_t> dims,
                         const std::vector<int64_t>& values);
  std::vector<int64_t> RowDims(std::vector<int64_t> last) const;
  void MakeForwardCall();
  void MakeBackwardCall();

  int64_t Seen(const IndexedSequence& sequence, int64_t row) const;
  Bounded DotOf(int64_t row, int64_t head, int64_t key) const;
  Bounded ScoreOf(int64_t row, int64_t key) const;
  void CheckRow(const IndexedSequence& sequence, int64_t row);
  void CheckList(const std::vector<Bounded>& scores, int64_t row,
                 int64_t visible);
  void CheckValues(const std::vector<Bounded>& scores, int64_t row);
  void ExpectBlank(int64_t row);
  int64_t Index(int64_t row, int64_t u) const;

  // What counts of a row's list: columns, and their places.
  std::vector<std::pair<int64_t, int64_t>> ListOf(
      const IndexedSequence& sequence, int64_t row) const;
  void AddRow(const IndexedSequence& sequence, int64_t row);
  void ReadNumbers();
  bool Owned(int64_t row) const;

  Random random_;
  const Direction direction_;
  const bool exact_;
  bool packed_ = false, paged_ = false, causal_ = false, values_ = false;
  bool flat_lists_ = false;
  int64_t batch_ = 1, heads_ = 1, channels_ = 1, width_ = 1;
  int64_t rows_ = 0, key_rows_ = 0;            // of tensors, in all
  int64_t sequence_rows_ = 0, page_rows_ = 0;  // of one
  std::vector<int64_t> query_dims_, key_dims_;
  aclDataType type_ = ACL_FLOAT16, weight_type_ = ACL_FLOAT16;
  std::vector<IndexedSequence> sequences_;
  RandomTensors tensors_{random_};
  ElementTensor *query_ = nullptr, *key_ = nullptr, *weights_ = nullptr;
  ElementTensor *query_lengths_ = nullptr, *key_lengths_ = nullptr;
  ElementTensor *table_ = nullptr, *indices_ = nullptr, *scores_ = nullptr;
  std::vector<const ElementTensor*> results_;
  ElementwiseCall call_;
  Numbers numbers_, direction_of_;
  std::vector<std::vector<Bounded>> grads_;  // of query, key, weights
  std::vector<int64_t> key_terms_;           // of each key's gradient
};

// One by its seed, as CheckRandomCalls takes it.
template <IndexerCase::Direction kDirection, bool kExact>
struct SeededIndexerCase : IndexerCase {
  explicit SeededIndexerCase(uint64_t seed)
      : IndexerCase(seed, kDirection, kExact) {}

  void Check() {
    if (kDirection == Direction::kForward) {
      CheckSelection();
    } else {
      CheckGradient();
    }
  }
};

}  // namespace flashacl::testing
