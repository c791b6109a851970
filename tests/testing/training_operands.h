// SPDX-License-Identifier: Apache-2.0
// The operands of a random call for training, and what the documents say about
// one score and one row of the forward.
#pragma once

#include <algorithm>
#include <cstdint>
#include <optional>
#include <utility>
#include <vector>

#include "tests/testing/training_oracle.h"

namespace flashacl::testing {

int64_t Sum(const std::vector<int64_t>& lengths);
bool Compressed(const TrainingCase& c);  // its pse

// `form` in memory with gaps and axes in another order, if the case asks for
// it.
Form MaybeSpread(const TrainingCase& c, Form form);

// The same for what must keep its order: every second element of memory.
Form MaybeSpaced(const TrainingCase& c, Form form);

std::optional<Form> MaskOf(const TrainingCase& c);
std::optional<Form> PseOf(const TrainingCase& c);
std::optional<Form> DropOf(const TrainingCase& c);

// What tolerances are measured by.
double ScaleOf(const TrainingCase& c);

// The operands of a call and what the documents say about one score.
struct Operands {
  const TrainingCase& c;
  DeviceTensor *query, *key, *value;
  DeviceTensor *query_rope = nullptr, *key_rope = nullptr;
  DeviceTensor *pse, *drop, *mask;
  DeviceTensor* sink = nullptr;
  bool backward = false;

  const TrainingSizes& sizes() const { return c.sizes; }
  int64_t rows(size_t b) const { return c.sizes.rows[b]; }
  int64_t columns(size_t b) const { return c.sizes.columns[b]; }
  int64_t kv_head(int64_t n) const;
  int64_t FirstRow(size_t b) const { return Before(c.sizes.rows, b); }
  int64_t FirstColumn(size_t b) const { return Before(c.sizes.columns, b); }

  // Where the `dim` channels of head n of a row start, or of the head of keys
  // that it shares, counted in order of the tensor's shape.
  int64_t QueryAt(size_t b, int64_t n, int64_t i, int64_t dim) const;
  int64_t KeyAt(size_t b, int64_t n, int64_t j, int64_t dim) const;

  // Elements of the per-sequence [N, Sq, Skv] blocks before this one.
  int64_t Index(size_t b, int64_t n, int64_t i, int64_t j) const;

  // The element of a bias that is no slope and not compressed. Of packed
  // sequences, if a row all rows share has as many elements as there are
  // scores, each score has its own.
  int64_t PseIndex(size_t b, int64_t n, int64_t i, int64_t j) const;

  double Distance(size_t b, int64_t i, int64_t j) const;

  // Where in the stored rows diagonal i - j is.
  std::pair<int64_t, int64_t> Stored(int64_t i, int64_t j) const;

  double Pse(size_t b, int64_t n, int64_t i, int64_t j) const;

  double Score(size_t b, int64_t n, int64_t i, int64_t j) const;

  bool Hidden(size_t b, int64_t n, int64_t i, int64_t j) const;

  bool Sees(size_t b, int64_t n, int64_t i, int64_t j) const;

  double Keep(size_t b, int64_t n, int64_t i, int64_t j) const;

  static int64_t Before(const std::vector<int64_t>& lengths, size_t b);
};

// One row of scores and what the forward makes of it.
struct RowResult {
  std::vector<double> scores;  // -inf where unseen
  double max = 0;
  double sum = 0;
  std::vector<double> out;
};

RowResult Forward(const Operands& o, size_t b, int64_t n, int64_t i);

// Calls body(b, n, i) for every row of every head.
template <typename Body>
void ForRows(const TrainingSizes& s, const Body& body) {
  for (size_t b = 0; b < s.rows.size(); ++b) {
    for (int64_t n = 0; n < s.heads; ++n) {
      for (int64_t i = 0; i < s.rows[b]; ++i) body(b, n, i);
    }
  }
}

// Random numbers; NaN after the first `used` rows of packed sequences, which
// belong to none.
void FillRows(const TrainingSizes& sizes, DeviceTensor* tensor, int64_t used,
              Random& random);
void FillOperands(Operands& o, Random& random);

template <typename Call>
void SetCommon(const TrainingCase& c, Call& call) {
  call.attenMask = MaskOf(c);
  call.dropMask = DropOf(c);
  call.prefix = c.prefix;
  call.scaleValue = c.scale;
  call.keepProb = c.keep;
  call.preTokens = c.pre;
  call.nextTokens = c.next;
  call.sparseMode = c.mode;
  call.innerPrecise = c.inner_precise;
}

}  // namespace flashacl::testing
