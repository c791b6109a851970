// SPDX-License-Identifier: Apache-2.0
// Which rows and keys are which sequence's in fused inference.
#include <algorithm>
#include <string_view>
#include <vector>

#include "acl/environment.h"
#include "ops/fused_infer.h"
#include "ops/inference_lengths.h"

namespace flashacl::ops {
namespace {

using Call = FusedInferCall;

constexpr std::string_view kOfQueries = "actualSeqLengths";
constexpr std::string_view kOfKeys = "actualSeqLengthsKv";

// The numbers of a side; where only their count is known, each is `most`.
Result<std::vector<int64_t>> ReadNumbers(const Call& call,
                                         std::string_view name,
                                         const aclIntArray* array,
                                         int64_t most) {
  Result<std::vector<int64_t>> numbers = acl::ReadArray(name, array);
  if (numbers.ok() && call.fused.any_lengths) {
    std::ranges::fill(*numbers, most);
  }
  return numbers;
}

// Cuts one side of padded sequences, which are whole, to their lengths.
Status Cut(Call& call, std::string_view name, const aclIntArray* array,
           Range Sequence::*side) {
  const auto lengths = ReadLengths(name, array, call.count());
  if (!lengths.ok()) return lengths.status();
  if (call.fused.any_lengths) return {};
  for (size_t b = 0; b < lengths->size(); ++b) {
    Range& range = call.sequences[b].*side;
    const int64_t length = (*lengths)[b];
    if (length < 0 || length > range.last) {
      return Contradiction("{}: {} for sequence {}, expected 0 to {}{}", name,
                           length, b, range.last,
                           acl::IfTwoOfInt32(length, range.last));
    }
    range.last = length;
  }
  return {};
}

bool IsEmpty(std::string_view name, const aclIntArray* array) {
  const auto numbers = acl::ReadArray(name, array);
  return !numbers.ok() || numbers->empty();
}

Status ReadPadded(Call& call) {
  const InferenceArgs& args = call.args;
  call.sequences.resize(static_cast<size_t>(call.query.dims[0]));
  for (size_t b = 0; b < call.sequences.size(); ++b) {
    call.sequences[b] = {{0, call.query.dims[1]}, {0, call.cache.Room(b)}};
  }
  if (!call.decode) {
    FLASHACL_RETURN_IF_ERROR(
        Cut(call, kOfQueries, args.actualSeqLengths, &Sequence::queries));
  }
  call.has_key_lengths = !IsEmpty(kOfKeys, args.actualSeqLengthsKv);
  if (call.paged() && !call.has_key_lengths) {
    return Contradiction("{}: absent, but needed with pages", kOfKeys);
  }
  return Cut(call, kOfKeys, args.actualSeqLengthsKv, &Sequence::keys);
}

// Where packed sequences end. The last may end before the rows do, `spare`
// permitting.
Result<std::vector<Range>> ReadEnds(const Call& call, std::string_view name,
                                    const aclIntArray* array, int64_t rows,
                                    bool spare) {
  const auto ends = ReadNumbers(call, name, array, rows);
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
  if (before != rows && !spare) {
    return Contradiction("{}: the last sequence ends at {}, expected {} rows",
                         name, before, rows);
  }
  return ranges;
}

// Keys of packed sequences in pages: a length each, no ends.
Result<std::vector<Range>> ReadPagedKeys(const Call& call, size_t sequences) {
  const int64_t room = call.cache.max_columns;
  const auto lengths =
      ReadNumbers(call, kOfKeys, call.args.actualSeqLengthsKv, room);
  if (!lengths.ok()) return lengths.status();
  if (lengths->empty()) {
    return Contradiction("{}: absent, but needed with pages", kOfKeys);
  }
  std::vector<Range> ranges;
  for (const int64_t length : *lengths) {
    if (length < 0 || length > room) {
      return Contradiction("{}: {} for sequence {}, expected 0 to {}{}",
                           kOfKeys, length, ranges.size(), room,
                           acl::IfTwoOfInt32(length, room));
    }
    ranges.push_back({0, length});
  }
  if (ranges.size() == sequences) return ranges;
  return Contradiction("{}: {} sequences, {} has {}", kOfKeys, ranges.size(),
                       kOfQueries, sequences);
}

Status ReadPacked(Call& call) {
  const bool spare = !acl::TheEnvironment().strict;
  const auto queries = ReadEnds(call, kOfQueries, call.args.actualSeqLengths,
                                call.query.dims[1], spare);
  if (!queries.ok()) return queries.status();
  const auto keys = call.paged()
                        ? ReadPagedKeys(call, queries->size())
                        : ReadEnds(call, kOfKeys, call.args.actualSeqLengthsKv,
                                   call.cache.key.dims[1], false);
  if (!keys.ok()) return keys.status();
  if (queries->size() != keys->size()) {
    return Contradiction("{}: {} sequences, {} has {}", kOfKeys, keys->size(),
                         kOfQueries, queries->size());
  }
  if (call.paged() &&
      call.cache.block_table.dims[0] < static_cast<int64_t>(queries->size())) {
    return Contradiction(
        "blockTable: shape {}, expected [{} or more, blocks of a sequence]",
        ShapeText(call[Call::kBlockTable]), queries->size());
  }
  call.has_key_lengths = true;
  for (size_t b = 0; b < queries->size(); ++b) {
    call.sequences.push_back({(*queries)[b], (*keys)[b]});
  }
  for (TensorSpec* spec : {&call.query, &call.query_rope}) {
    spec->dims[0] = call.count();
  }
  if (call.paged()) return {};
  for (TensorSpec* spec :
       {&call.cache.key, &call.cache.value, &call.key_rope}) {
    spec->dims[0] = call.count();
  }
  return {};
}

Status CheckNumber(const Call& call, int row) {
  if (call[row].elements() == 1) return {};
  return Contradiction("{}: shape {}, expected one number", call.name(row),
                       ShapeText(call[row]));
}

// Left padding of prefill: refused wherever it has no meaning.
Status CheckPadding(const Call& call) {
  for (const int row : {Call::kQueryPadding, Call::kKvPadding}) {
    if (!call.has(row)) continue;
    FLASHACL_RETURN_IF_ERROR(CheckNumber(call, row));
    const auto refuse = [&](std::string_view what) {
      return Contradiction("{}: given with {}", call.name(row), what);
    };
    if (call.packed() || call.Is(kNsd)) return refuse("a packed layout");
    if (!call.has_plain_results()) {
      return refuse("a layout of results of its own");
    }
    if (call.paged()) return refuse("pages");
    if (call.cache.source.rows == KvSource::Rows::kList) return refuse("lists");
    if (call.roped()) return refuse("rope");
    if (call.prefix > 0) return refuse("a shared prefix");
    if (call.int4()) return refuse("INT4 keys");
  }
  return {};
}

// The side's length array decides whether padding is on the left at all.
Status ReadPadding(Call& call) {
  const bool strided = call.cache.source.rows == KvSource::Rows::kStrided;
  if (call.decode) {
    call.left_padded =
        call.has(Call::kKvPadding) && call.has_key_lengths && strided;
    if (!call.left_padded) return {};
    if (call.prefix > 0 || call.int4()) {
      return Contradiction("kvPaddingSize: given with {}",
                           call.int4() ? "INT4 keys" : "a shared prefix");
    }
    return CheckNumber(call, Call::kKvPadding);
  }
  FLASHACL_RETURN_IF_ERROR(CheckPadding(call));
  const bool query_lengths = !IsEmpty(kOfQueries, call.args.actualSeqLengths);
  for (const auto& [row, lengths, name] :
       {std::tuple{Call::kQueryPadding, query_lengths, kOfQueries},
        std::tuple{Call::kKvPadding, call.has_key_lengths, kOfKeys}}) {
    if (!call.has(row) || lengths || !acl::TheEnvironment().strict) continue;
    return Contradiction("{}: absent, but needed with {} (strict mode)", name,
                         call.name(row));
  }
  call.queries_left_padded = call.has(Call::kQueryPadding) && query_lengths;
  call.left_padded = call.has(Call::kKvPadding) && call.has_key_lengths;
  return {};
}

}  // namespace

Status ReadFusedLengths(Call& call) {
  FLASHACL_RETURN_IF_ERROR(call.packed() ? ReadPacked(call) : ReadPadded(call));
  for (Sequence& sequence : call.sequences) sequence.prefix = call.prefix;
  return ReadPadding(call);
}

}  // namespace flashacl::ops
