// SPDX-License-Identifier: Apache-2.0
// Lengths of padded sequences, and three ways to say where packed ones are.
#include "ops/inference_lengths.h"

#include <algorithm>

namespace flashacl::ops {
namespace {

constexpr std::string_view kOfQueries = "actualSeqLengths";

// Cuts one side of padded sequences, which are whole, to their lengths, if any.
Status CutSide(InferenceCall& call, std::string_view name,
               const std::vector<int64_t>& lengths, Range Sequence::*side) {
  for (size_t b = 0; b < lengths.size(); ++b) {
    Range& range = call.sequences[b].*side;
    if (lengths[b] < 0 || lengths[b] > range.last) {
      return Contradiction("{}: {} for sequence {}, expected 0 to {}{}", name,
                           lengths[b], b, range.last,
                           acl::IfTwoOfInt32(lengths[b], range.last));
    }
    range.last = lengths[b];
  }
  return {};
}

// Keys are limited by lengths of their own, or not at all.
Status ReadPadded(InferenceCall& call) {
  const int64_t rows = call.query.dims[1];
  call.sequences.resize(static_cast<size_t>(call.query.dims[0]));
  for (size_t b = 0; b < call.sequences.size(); ++b) {
    call.sequences[b] = {{0, rows}, {0, call.cache.Room(b)}};
  }
  const auto of_queries =
      ReadLengths(kOfQueries, call.args.actualSeqLengths, call.count());
  if (!of_queries.ok()) return of_queries.status();
  FLASHACL_RETURN_IF_ERROR(
      CutSide(call, kOfQueries, *of_queries, &Sequence::queries));
  const auto of_keys = ReadLengths(call.key_lengths_name,
                                   call.args.actualSeqLengthsKv, call.count());
  if (!of_keys.ok()) return of_keys.status();
  call.has_key_lengths = !of_keys->empty();
  if (call.paged() && !call.has_key_lengths) {
    return Contradiction("{}: absent, but needed with pages",
                         call.key_lengths_name);
  }
  return CutSide(call, call.key_lengths_name, *of_keys, &Sequence::keys);
}

// SH: sequences of queries and keys lie one after the other.
Status ReadLengthsOfBoth(InferenceCall& call) {
  const int64_t rows = call.query.dims[1];
  if (call.cache.key.dims[1] != rows) {
    return Contradiction("key: {} rows, but query has {} in layout SH",
                         call.cache.key.dims[1], rows);
  }
  Result<std::vector<int64_t>> lengths =
      acl::ReadArray(kOfQueries, call.args.actualSeqLengths);
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
          "actualSeqLengths: {} for sequence {} after {} of {} rows{}", length,
          call.count(), end, rows, acl::IfTwoOfInt32(length, rows));
    }
    const Range range{end, end + length};
    call.sequences.push_back({range, range});
    end += length;
  }
  if (end != rows) {
    return Contradiction("actualSeqLengths: sum {}, expected query's {} rows",
                         end, rows);
  }
  return {};
}

// One side of TND: where sequences end, the last of them with the tensor.
Result<std::vector<Range>> ReadEnds(const InferenceCall& call,
                                    std::string_view name,
                                    const aclIntArray* array, int64_t rows) {
  Result<std::vector<int64_t>> ends = acl::ReadArray(name, array);
  if (!ends.ok()) return ends.status();
  if (ends->empty()) {
    return Contradiction("{}: absent, but needed in layout {}", name,
                         call.layout.name);
  }
  std::vector<Range> ranges;
  int64_t before = 0;
  for (const int64_t end : *ends) {
    if (end < before || end > rows) {
      return Contradiction(
          "{}: sequence {} ends at {}, expected {} to {}, for ends ascend{}",
          name, ranges.size(), end, before, rows, acl::IfTwoOfInt32(end, rows));
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

Status ReadEndsOfBoth(InferenceCall& call) {
  const Result<std::vector<Range>> queries = ReadEnds(
      call, kOfQueries, call.args.actualSeqLengths, call.query.dims[1]);
  if (!queries.ok()) return queries.status();
  const Result<std::vector<Range>> keys =
      ReadEnds(call, call.key_lengths_name, call.args.actualSeqLengthsKv,
               call.cache.key.dims[1]);
  if (!keys.ok()) return keys.status();
  if (queries->size() != keys->size()) {
    return Contradiction(
        "actualSeqLengthsKv: {} sequences, actualSeqLengths has {}",
        keys->size(), queries->size());
  }
  for (size_t b = 0; b < queries->size(); ++b) {
    call.sequences.push_back({(*queries)[b], (*keys)[b]});
  }
  return {};
}

}  // namespace

Result<std::vector<int64_t>> ReadLengths(std::string_view name,
                                         const aclIntArray* array,
                                         int64_t sequences) {
  Result<std::vector<int64_t>> lengths = acl::ReadArray(name, array);
  if (!lengths.ok() || lengths->empty()) return lengths;
  const auto given = static_cast<int64_t>(lengths->size());
  if (given != 1 && given < sequences) {
    return Contradiction("{}: {} numbers for {} sequences, expected 1 or {}",
                         name, given, sequences, sequences);
  }
  lengths->resize(static_cast<size_t>(sequences), lengths->front());
  return lengths;
}

Status ReadSequences(InferenceCall& call) {
  if (!call.packed()) return ReadPadded(call);
  FLASHACL_RETURN_IF_ERROR(call.Is(kSh) ? ReadLengthsOfBoth(call)
                                        : ReadEndsOfBoth(call));
  for (TensorSpec* spec : {&call.query, &call.cache.key, &call.cache.value}) {
    spec->dims[0] = call.count();
  }
  return {};
}

ScoreExtents LongestSequences(const InferenceCall& call) {
  ScoreExtents extents;
  for (const Sequence& sequence : call.sequences) {
    extents.rows = std::max(extents.rows, sequence.rows());
    extents.columns = std::max(extents.columns, sequence.columns());
  }
  return extents;
}

ScoreExtents ExtentsOf(const InferenceCall& call) {
  if (call.packed()) return LongestSequences(call);
  return {call.query.dims[1], call.cache.max_columns};
}

}  // namespace flashacl::ops
