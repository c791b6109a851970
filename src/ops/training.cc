// SPDX-License-Identifier: Apache-2.0
// What forward and backward read alike.
#include "ops/training.h"

#include <utility>

namespace flashacl::ops {
namespace {

// The first element of a start index list; 0 if there is none.
Result<int64_t> ReadStart(std::string_view name, const aclIntArray* array) {
  const auto values = acl::ReadArray(name, array);
  if (!values.ok()) return values.status();
  if (values->empty()) return int64_t{0};
  const int64_t start = values->front();
  if (start <= -Band::kOpen || start >= Band::kOpen) {
    return Contradiction("{}: {}, expected a position within 2^40", name,
                         start);
  }
  return start;
}

}  // namespace

Training NumbersOf(const acl::Arguments& arguments, const TrainingTable& table,
                   const Layout& layout, const TrainingArgs& a) {
  return {.names = &table.names,
          .backward = table.backward,
          .layout = &layout,
          .head_num = a.head_num,
          .pse = arguments.at(table.pse),
          .drop_mask = arguments.at(table.drop_mask),
          .atten_mask = arguments.at(table.atten_mask),
          .keep_prob = a.keep_prob,
          .pse_type = a.pse_type,
          .sparse_mode = a.sparse_mode,
          .pre_tokens = Tokens(a.pre_tokens),
          .next_tokens = Tokens(a.next_tokens)};
}

Status ReadArrays(const TrainingArgs& a, Training& training) {
  Result<std::vector<int64_t>> prefix =
      acl::ReadArray("prefixOptional", a.prefix);
  if (!prefix.ok()) return prefix.status();
  training.prefix = *std::move(prefix);
  const Result<int64_t> queries =
      ReadStart("qStartIdxOptional", a.starts.queries);
  if (!queries.ok()) return queries.status();
  training.q_start_idx = *queries;
  const Result<int64_t> keys = ReadStart("kvStartIdxOptional", a.starts.keys);
  if (!keys.ok()) return keys.status();
  training.kv_start_idx = *keys;
  return {};
}

void BindPlaces(const acl::Arguments& arguments, std::span<const Place> places,
                acl::Lowered& lowered) {
  for (const auto& [row, slot] : places) {
    if (lowered.problem.has(slot) && arguments.has(row)) {
      lowered.Bind(arguments, row, slot);
    }
  }
}

}  // namespace flashacl::ops
