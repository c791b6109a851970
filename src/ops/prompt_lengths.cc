// SPDX-License-Identifier: Apache-2.0
// Lengths of padded sequences, and three ways to say where packed ones are.
#include "ops/prompt_lengths.h"

#include <algorithm>

#include "ops/inference.h"

namespace flashacl::ops {
namespace {

constexpr std::string_view kOfQueries = "actualSeqLengths";
constexpr std::string_view kOfKeys = "actualSeqLengthsKv";

// One side of padded sequences.
Status ReadPaddedSide(Prompt& prompt, std::string_view name,
                      const aclIntArray* array, Range Sequence::*side) {
  Result<std::vector<int64_t>> lengths =
      ReadLengths(name, array, prompt.query.dims[0]);
  if (!lengths.ok()) return lengths.status();
  for (size_t b = 0; b < lengths->size(); ++b) {
    const int64_t length = (*lengths)[b];
    Range& range = prompt.sequences[b].*side;
    if (length < 0 || length > range.last) {
      return Contradiction("{}: {} for sequence {}, expected 0 to {}", name,
                           length, b, range.last);
    }
    range.last = length;
  }
  return {};
}

// Keys are limited by lengths of their own, or not at all.
Status ReadPadded(Prompt& prompt) {
  const Sequence whole{{0, prompt.query.dims[1]}, {0, prompt.key.dims[1]}};
  prompt.sequences.assign(static_cast<size_t>(prompt.query.dims[0]), whole);
  FLASHACL_RETURN_IF_ERROR(ReadPaddedSide(
      prompt, kOfQueries, prompt.args.actualSeqLengths, &Sequence::queries));
  return ReadPaddedSide(prompt, kOfKeys, prompt.args.actualSeqLengthsKv,
                        &Sequence::keys);
}

// SH: sequences of queries and keys lie one behind the other.
Status ReadLengthsOfBoth(Prompt& prompt) {
  const int64_t rows = prompt.query.dims[1];
  if (prompt.key.dims[1] != rows) {
    return Contradiction("key: {} rows, but query has {} in layout SH",
                         prompt.key.dims[1], rows);
  }
  Result<std::vector<int64_t>> lengths =
      acl::ReadArray(kOfQueries, prompt.args.actualSeqLengths);
  if (!lengths.ok()) return lengths.status();
  if (lengths->empty()) lengths->push_back(rows);
  if (lengths->size() > 128) {
    return Contradiction(
        "actualSeqLengths: {} sequences, expected at most 128 in layout SH",
        lengths->size());
  }
  int64_t end = 0;
  for (const int64_t length : *lengths) {
    if (length < 0 || length > rows - end) {
      return Contradiction(
          "actualSeqLengths: {} for sequence {} behind {} of {} rows", length,
          prompt.count(), end, rows);
    }
    const Range range{end, end + length};
    prompt.sequences.push_back({range, range});
    end += length;
  }
  if (end != rows) {
    return Contradiction("actualSeqLengths: sum {}, expected query's {} rows",
                         end, rows);
  }
  return {};
}

// One side of TND: where sequences end, the last of them with the tensor.
Result<std::vector<Range>> ReadEnds(const Prompt& prompt, std::string_view name,
                                    const aclIntArray* array, int64_t rows) {
  Result<std::vector<int64_t>> ends = acl::ReadArray(name, array);
  if (!ends.ok()) return ends.status();
  if (ends->empty()) {
    return Contradiction("{}: absent, but needed in layout {}", name,
                         prompt.layout.name);
  }
  std::vector<Range> ranges;
  int64_t before = 0;
  for (const int64_t end : *ends) {
    if (end < before || end > rows) {
      return Contradiction(
          "{}: sequence {} ends at {}, expected {} to {}, for ends ascend",
          name, ranges.size(), end, before, rows);
    }
    ranges.push_back({before, end});
    before = end;
  }
  if (before != rows) {
    return Contradiction("{}: the last sequence ends at {}, expected {} rows",
                         name, before, rows);
  }
  return ranges;
}

Status ReadEndsOfBoth(Prompt& prompt) {
  const Result<std::vector<Range>> queries = ReadEnds(
      prompt, kOfQueries, prompt.args.actualSeqLengths, prompt.query.dims[1]);
  if (!queries.ok()) return queries.status();
  const Result<std::vector<Range>> keys = ReadEnds(
      prompt, kOfKeys, prompt.args.actualSeqLengthsKv, prompt.key.dims[1]);
  if (!keys.ok()) return keys.status();
  if (queries->size() != keys->size()) {
    return Contradiction(
        "actualSeqLengthsKv: {} sequences, actualSeqLengths has {}",
        keys->size(), queries->size());
  }
  for (size_t b = 0; b < queries->size(); ++b) {
    prompt.sequences.push_back({(*queries)[b], (*keys)[b]});
  }
  return {};
}

}  // namespace

Status ReadSequences(Prompt& prompt) {
  if (!prompt.packed()) return ReadPadded(prompt);
  FLASHACL_RETURN_IF_ERROR(prompt.Is(kSh) ? ReadLengthsOfBoth(prompt)
                                          : ReadEndsOfBoth(prompt));
  for (TensorSpec* spec : {&prompt.query, &prompt.key, &prompt.value}) {
    spec->dims[0] = prompt.count();
  }
  return {};
}

ScoreExtents ExtentsOf(const Prompt& prompt) {
  if (!prompt.packed()) return {prompt.query.dims[1], prompt.key.dims[1]};
  ScoreExtents extents;
  for (const Sequence& sequence : prompt.sequences) {
    extents.rows = std::max(extents.rows, sequence.rows());
    extents.columns = std::max(extents.columns, sequence.columns());
  }
  return extents;
}

}  // namespace flashacl::ops
