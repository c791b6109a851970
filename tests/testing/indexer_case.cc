// SPDX-License-Identifier: Apache-2.0
// The calls, their tensors, and the formula.
#include "tests/testing/indexer_case.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>
#include <set>
#include <utility>

#include "base/str.h"
#include "tests/testing/random.h"
#include "tests/testing/rounding.h"

namespace flashacl::testing {
namespace {

constexpr int64_t kAllTokens = std::numeric_limits<int32_t>::max();
constexpr double kInfinity = std::numeric_limits<double>::infinity();

double Relu(double x) { return std::max(x, 0.0); }

}  // namespace

IndexerCase::IndexerCase(uint64_t seed, Direction direction, bool exact)
    : random_(seed), direction_(direction), exact_(exact) {
  const bool forward = direction == Direction::kForward;
  packed_ = random_.OneIn(2);
  paged_ = forward && random_.OneIn(3);
  causal_ = random_.OneIn(2);
  values_ = random_.OneIn(2);
  flat_lists_ = !forward && random_.OneIn(2);
  type_ = OneOf(random_, {ACL_FLOAT16, ACL_BF16});
  weight_type_ = forward && random_.OneIn(2) ? ACL_FLOAT : type_;
  batch_ = random_.Within(1, 3);
  heads_ = Sized(random_, 1, 70);
  channels_ = Sized(random_, 1, 140);
  width_ = Sized(random_, 1, 300);
  MakeSequences();
  MakeTensors();
  if (forward) {
    MakeForwardCall();
  } else {
    MakeBackwardCall();
  }
  ReadNumbers();
}

void IndexerCase::MakeSequences() {
  // Now and then more keys than a worker takes alone, of fewer numbers.
  const bool many = direction_ == Direction::kForward && random_.OneIn(8);
  if (many) {
    heads_ = Sized(random_, 1, 5);
    channels_ = Sized(random_, 1, 9);
  }
  sequence_rows_ = Sized(random_, 1, many ? 3 : 20);
  const int64_t most_keys = Sized(random_, 0, many ? 5000 : 400);
  int64_t keys_before = 0;
  for (int64_t b = 0; b < batch_; ++b) {
    IndexedSequence sequence;
    sequence.rows = random_.Within(0, sequence_rows_);
    sequence.first_row = packed_ ? rows_ : b * sequence_rows_;
    // Lengths are of the forward direction, or of packed ones.
    if (!packed_ && direction_ == Direction::kBackward) {
      sequence.rows = sequence_rows_;
    }
    const bool all = !packed_ && direction_ == Direction::kBackward;
    sequence.keys.resize(
        static_cast<size_t>(all ? most_keys : random_.Within(0, most_keys)));
    const int64_t first = packed_ ? keys_before : b * most_keys;
    std::iota(sequence.keys.begin(), sequence.keys.end(), first);
    keys_before += static_cast<int64_t>(sequence.keys.size());
    rows_ += packed_ ? sequence.rows : sequence_rows_;
    sequences_.push_back(std::move(sequence));
  }
  if (packed_) rows_ += random_.Within(0, 3);  // that are nobody's
  query_dims_ = packed_
                    ? std::vector{rows_, heads_, channels_}
                    : std::vector{batch_, sequence_rows_, heads_, channels_};
  if (paged_) return MakePages();
  key_rows_ = packed_ ? keys_before + random_.Within(0, 3) : batch_ * most_keys;
  key_dims_ = packed_ ? std::vector{key_rows_, int64_t{1}, channels_}
                      : std::vector{batch_, most_keys, int64_t{1}, channels_};
}

void IndexerCase::MakePages() {
  page_rows_ = Sized(random_, 1, 40);
  int64_t columns = 1;
  for (const IndexedSequence& sequence : sequences_) {
    const auto keys = static_cast<int64_t>(sequence.keys.size());
    columns = std::max(columns, CeilDiv(keys, page_rows_));
  }
  const int64_t pages = batch_ * columns;
  std::vector<int64_t> order(static_cast<size_t>(pages));
  std::iota(order.begin(), order.end(), int64_t{0});
  for (size_t n = order.size(); n > 1; --n) {
    std::swap(order[n - 1], order[static_cast<size_t>(random_.Within(
                                0, static_cast<int64_t>(n) - 1))]);
  }
  std::vector<int64_t> entries(order.size(), -7);
  for (int64_t b = 0; b < batch_; ++b) {
    auto& keys = sequences_[static_cast<size_t>(b)].keys;
    for (size_t j = 0; j < keys.size(); ++j) {
      const auto at = static_cast<size_t>(b * columns +
                                          static_cast<int64_t>(j) / page_rows_);
      if (static_cast<int64_t>(j) % page_rows_ == 0) {
        // Entries that name no page hide keys.
        entries[at] = random_.OneIn(10) ? OneOf(random_, {int64_t{-1}, pages})
                                        : order[at];
      }
      const bool hidden = entries[at] < 0 || entries[at] == pages;
      keys[j] = hidden ? -1
                       : entries[at] * page_rows_ +
                             static_cast<int64_t>(j) % page_rows_;
    }
  }
  key_rows_ = pages * page_rows_;
  key_dims_ = {pages, page_rows_, 1, channels_};
  table_ = NewInts({batch_, columns}, entries);
}

ElementTensor* IndexerCase::New(aclDataType type, std::vector<int64_t> dims) {
  return tensors_.New(Form{type, std::move(dims)}, false);
}

ElementTensor* IndexerCase::NewInts(std::vector<int64_t> dims,
                                    const std::vector<int64_t>& values) {
  ElementTensor* const tensor = New(ACL_INT32, std::move(dims));
  for (size_t n = 0; n < values.size(); ++n) {
    tensor->Set(static_cast<int64_t>(n), static_cast<double>(values[n]));
  }
  return tensor;
}

std::vector<int64_t> IndexerCase::RowDims(std::vector<int64_t> last) const {
  std::vector<int64_t> dims =
      packed_ ? std::vector{rows_} : std::vector{batch_, sequence_rows_};
  dims.insert(dims.end(), last.begin(), last.end());
  return dims;
}

double IndexerCase::Number() {
  if (exact_) return static_cast<double>(random_.Within(-2, 2));
  return 2 * random_.Fraction() - 1;
}

void IndexerCase::FillRow(ElementTensor& tensor, int64_t row, int64_t count) {
  for (int64_t n = 0; n < count; ++n) tensor.Set(row * count + n, Number());
}

// Everything that nobody may read stays NaN.
void IndexerCase::MakeTensors() {
  query_ = New(type_, query_dims_);
  key_ = New(type_, key_dims_);
  weights_ = New(weight_type_, RowDims({heads_}));
  std::vector<int64_t> query_lengths, key_lengths;
  int64_t rows = 0, keys = 0;
  bool whole = true;
  for (const IndexedSequence& sequence : sequences_) {
    const auto count = static_cast<int64_t>(sequence.keys.size());
    rows = packed_ ? rows + sequence.rows : sequence.rows;
    keys = packed_ && !paged_ ? keys + count : count;
    query_lengths.push_back(rows);
    key_lengths.push_back(keys);
    whole &= paged_ || packed_ || count == key_dims_[1];
    for (int64_t n = 0; n < sequence.rows; ++n) {
      FillRow(*query_, sequence.first_row + n, heads_ * channels_);
      FillRow(*weights_, sequence.first_row + n, heads_);
    }
    for (const int64_t key : sequence.keys) {
      if (key >= 0) FillRow(*key_, key, channels_);
    }
  }
  const bool dense_backward = !packed_ && direction_ == Direction::kBackward;
  if (dense_backward) return;
  query_lengths_ = NewInts({batch_}, query_lengths);
  if (packed_ || paged_ || !whole || random_.OneIn(2)) {
    key_lengths_ = NewInts({batch_}, key_lengths);
  }
}

void IndexerCase::MakeForwardCall() {
  indices_ = New(ACL_INT32, RowDims({1, width_}));
  scores_ = New(type_, RowDims({1, width_}));
  results_ = {indices_};
  if (values_) results_.push_back(scores_);
  const std::string layout = packed_ ? "TND" : "BSND";
  call_ = {.name = "aclnnLightningIndexer",
           .tensors = {query_, key_, weights_, query_lengths_, key_lengths_,
                       table_, indices_, values_ ? scores_ : nullptr},
           .integers = {width_, causal_ ? 3 : 0, kAllTokens, kAllTokens,
                        values_ ? 1 : 0},
           .texts = {layout, paged_ ? "PA_BSND" : layout},
           .takes_workspace = true};
}

void IndexerCase::MakeBackwardCall() {
  const std::vector<int64_t> last =
      flat_lists_ ? std::vector{width_} : std::vector{int64_t{1}, width_};
  indices_ = New(ACL_INT32, RowDims(last));
  scores_ = New(type_, RowDims(last));
  for (const IndexedSequence& sequence : sequences_) {
    const auto keys = static_cast<int64_t>(sequence.keys.size());
    for (int64_t n = 0; n < sequence.rows; ++n) {
      const int64_t row = sequence.first_row + n;
      // -1 ends a list; now and then an entry names no key, or one twice.
      const int64_t count = random_.Within(0, width_);
      for (int64_t u = 0; u < count; ++u) {
        const int64_t key = random_.OneIn(20) || keys == 0
                                ? keys + random_.Within(0, 2)
                                : random_.Within(0, keys - 1);
        indices_->Set(row * width_ + u, static_cast<double>(key));
        scores_->Set(row * width_ + u, Number());
      }
    }
  }
  ElementTensor* const grad_query = New(type_, query_dims_);
  ElementTensor* const grad_key = New(type_, key_dims_);
  ElementTensor* const grad_weights = New(type_, RowDims({heads_}));
  results_ = {grad_query, grad_key, grad_weights};
  call_ = {
      .name = "aclnnLightningIndexerGrad",
      .tensors = {query_, key_, scores_, indices_, weights_, query_lengths_,
                  key_lengths_, grad_query, grad_key, grad_weights},
      .integers = {0, causal_ ? 3 : 0, 0, 0, 1},
      .texts = {packed_ ? "TND" : "BSND"},
      .takes_workspace = true};
}

std::string IndexerCase::ToString() const {
  std::string text =
      Str("{}{}{}{} {} heads of {}, lists of {};", packed_ ? "TND" : "BSND",
          paged_ ? " PA" : "", causal_ ? " causal" : "", exact_ ? " exact" : "",
          heads_, channels_, width_);
  for (const IndexedSequence& sequence : sequences_) {
    text += Str(" {}x{}", sequence.rows, sequence.keys.size());
  }
  return text;
}

void IndexerCase::ReadNumbers() {
  numbers_.query = query_->Values();
  numbers_.key = key_->Values();
  numbers_.weights = weights_->Values();
  if (direction_ == Direction::kBackward) {
    numbers_.grad_scores = scores_->Values();
  }
}

int64_t IndexerCase::Seen(const IndexedSequence& sequence, int64_t row) const {
  const auto keys = static_cast<int64_t>(sequence.keys.size());
  if (!causal_) return keys;
  const int64_t i = row - sequence.first_row;
  return std::clamp<int64_t>(keys - sequence.rows + i + 1, 0, keys);
}

Bounded IndexerCase::DotOf(int64_t row, int64_t head, int64_t key) const {
  const double* const q =
      numbers_.query.data() + (row * heads_ + head) * channels_;
  const double* const k = numbers_.key.data() + key * channels_;
  double sum = 0, size = 0;
  for (int64_t d = 0; d < channels_; ++d) {
    sum += q[d] * k[d];
    size += std::fabs(q[d] * k[d]);
  }
  return {sum, exact_ ? 0 : SumError(channels_, size)};
}

Bounded IndexerCase::ScoreOf(int64_t row, int64_t key) const {
  Bounded score;
  double size = 0;
  for (int64_t h = 0; h < heads_; ++h) {
    const Bounded dot = DotOf(row, h, key);
    const double weight =
        numbers_.weights[static_cast<size_t>(row * heads_ + h)];
    score.value += weight * Relu(dot.value);
    score.error += std::fabs(weight) * dot.error;
    size += std::fabs(weight) * (Relu(dot.value) + dot.error);
  }
  score.error += exact_ ? 0 : SumError(heads_, size);
  return score;
}

int64_t IndexerCase::Index(int64_t row, int64_t u) const {
  return static_cast<int64_t>(indices_->Get(row * width_ + u).integer);
}

// What is listed is in order, and at least as good as what is not; without
// errors that leaves no choice.
void IndexerCase::CheckList(const std::vector<Bounded>& scores, int64_t row,
                            int64_t visible) {
  const int64_t count = std::min(visible, width_);
  std::set<int64_t> listed;
  const auto may_follow = [&](int64_t first, int64_t next) {
    const Bounded& a = scores[static_cast<size_t>(first)];
    const Bounded& b = scores[static_cast<size_t>(next)];
    if (a.error == 0 && b.error == 0) {
      return a.value > b.value || (a.value == b.value && first < next);
    }
    return a.value + a.error >= b.value - b.error;
  };
  for (int64_t u = 0; u < width_; ++u) {
    const int64_t key = Index(row, u);
    if (u >= count) {
      ASSERT_EQ(key, -1) << "entry " << u;
      continue;
    }
    ASSERT_TRUE(key >= 0 && key < static_cast<int64_t>(scores.size()))
        << "entry " << u << ": " << key;
    ASSERT_NE(scores[static_cast<size_t>(key)].value, -kInfinity) << "hidden";
    ASSERT_TRUE(listed.insert(key).second) << key << " twice";
    if (u > 0) {
      ASSERT_TRUE(may_follow(Index(row, u - 1), key)) << "entry " << u;
    }
  }
  if (count == 0) return;
  int64_t worst = Index(row, count - 1);
  for (const int64_t key : listed) {
    const Bounded& one = scores[static_cast<size_t>(key)];
    const Bounded& last = scores[static_cast<size_t>(worst)];
    if (one.value + one.error < last.value + last.error) worst = key;
  }
  for (size_t key = 0; key < scores.size(); ++key) {
    const auto number = static_cast<int64_t>(key);
    if (listed.contains(number) || scores[key].value == -kInfinity) continue;
    ASSERT_TRUE(may_follow(worst, number)) << key << " is not listed";
  }
}

void IndexerCase::CheckValues(const std::vector<Bounded>& scores, int64_t row) {
  for (int64_t u = 0; u < width_; ++u) {
    const int64_t key = Index(row, u);
    const Bounded score =
        key < 0 ? Bounded{-kInfinity, 0} : scores[static_cast<size_t>(key)];
    ExpectWithin(*scores_, row * width_ + u, score.value, score.error);
  }
}

void IndexerCase::CheckRow(const IndexedSequence& sequence, int64_t row) {
  const int64_t seen = Seen(sequence, row);
  std::vector<Bounded> scores;
  int64_t visible = 0;
  for (int64_t j = 0; j < seen; ++j) {
    const int64_t key = sequence.keys[static_cast<size_t>(j)];
    visible += key < 0 ? 0 : 1;
    scores.push_back(key < 0 ? Bounded{-kInfinity, 0} : ScoreOf(row, key));
  }
  ASSERT_NO_FATAL_FAILURE(CheckList(scores, row, visible));
  if (values_) CheckValues(scores, row);
}

void IndexerCase::ExpectBlank(int64_t row) {
  for (int64_t u = 0; u < width_; ++u) {
    ASSERT_EQ(Index(row, u), -1);
    if (values_) ExpectWithin(*scores_, row * width_ + u, -kInfinity, 0);
  }
}

bool IndexerCase::Owned(int64_t row) const {
  return std::ranges::any_of(sequences_, [row](const IndexedSequence& one) {
    return row >= one.first_row && row < one.first_row + one.rows;
  });
}

void IndexerCase::CheckSelection() {
  tensors_.BeforeCall();
  ASSERT_TRUE(call_.Run());
  for (const IndexedSequence& sequence : sequences_) {
    for (int64_t n = 0; n < sequence.rows; ++n) {
      const int64_t row = sequence.first_row + n;
      ASSERT_NO_FATAL_FAILURE(CheckRow(sequence, row)) << "row " << row;
    }
  }
  for (int64_t row = 0; row < rows_; ++row) {
    if (Owned(row)) continue;
    ASSERT_NO_FATAL_FAILURE(ExpectBlank(row)) << "row " << row;
  }
  tensors_.ExpectOnlyWritten(results_);
}

}  // namespace flashacl::testing
