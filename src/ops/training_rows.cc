// SPDX-License-Identifier: Apache-2.0
// Query, key and value of a training call.
#include "ops/training_rows.h"

#include <algorithm>

#include "ops/canonical.h"

namespace flashacl::ops {
namespace {

// The ranges of the documents' tables.
constexpr int64_t kMostTokens = int64_t{1} << 20;
constexpr int64_t kMostHeads = 256;
constexpr int64_t kMostSequences = 2048;
constexpr int64_t kMostSequencesWithPrefix = 1024;
constexpr int64_t kMostForwardDim = 512;
constexpr int64_t kMostBackwardDim = 768;

struct Limit {
  std::string_view name;
  std::string_view what;
  int64_t value;
  int64_t most;
};

Status CheckSequences(const TrainingRows& rows, const Training& training) {
  for (int64_t b = 0; b < training.packed.count(); ++b) {
    const Sequence& s = training.packed.sequences[static_cast<size_t>(b)];
    if (s.rows() > 0 && s.columns() == 0 && !training.backward) {
      return Contradiction(
          "actualSeqKvLenOptional: sequence {} has {} queries and no keys, "
          "which the hardware does not support",
          b, s.rows());
    }
    if (training.pse != nullptr && s.rows() == 0) {
      return Contradiction(
          "{}: given, but sequence {} has no queries, which the hardware does "
          "not support",
          training.names->pse, b);
    }
  }
  if (!training.backward && rows.value.dims[2] != rows.key.dims[2]) {
    return Contradiction(
        "value: head dim {} differs from head dim {} of {}, which the hardware "
        "does not support",
        rows.value.dims[2], rows.key.dims[2], rows.key_name);
  }
  return {};
}

}  // namespace

Status CheckTypeOfQuery(const acl::Arguments& args, int query, int row) {
  const acl::Tensor* tensor = args.at(row);
  if (tensor == nullptr || tensor->acl_dtype == args[query].acl_dtype) {
    return {};
  }
  return Invalid("{}: data type {} does not match query data type {}",
                 args.name(row), acl::TypeText(tensor->acl_dtype),
                 acl::TypeText(args[query].acl_dtype));
}

Status CheckHeadDims(const TrainingRows& rows) {
  const int64_t dim = rows.query.dims[2];
  if (rows.key.dims[2] != dim) {
    return Invalid("{}: head dim {} does not match query head dim {}",
                   rows.key_name, rows.key.dims[2], dim);
  }
  if (rows.value.dims[2] > dim) {
    return Invalid("value: head dim {} is greater than query head dim {}",
                   rows.value.dims[2], dim);
  }
  return {};
}

Status CheckHeadCounts(const TrainingRows& rows, int64_t head_num) {
  const auto& key = rows.key.dims;
  const auto& value = rows.value.dims;
  if (rows.query.dims[1] != head_num) {
    return Contradiction("headNum: {} does not match the {} heads of query",
                         head_num, rows.query.dims[1]);
  }
  if (value[1] != key[1]) {
    return Contradiction("value: {} heads do not match the {} heads of {}",
                         value[1], key[1], rows.key_name);
  }
  if (key[1] > 0 && head_num % key[1] != 0) {
    return Contradiction("{}: {} heads do not divide the {} heads of query",
                         rows.key_name, key[1], head_num);
  }
  if (value[0] != key[0]) {
    return Contradiction("value: {} rows do not match the {} rows of {}",
                         value[0], key[0], rows.key_name);
  }
  return {};
}

TensorSpec QueryLike(const acl::Tensor& tensor, const Training& training) {
  return Canonical(tensor, kTnd, training.head_num, training.packed.count());
}

TensorSpec KeyLike(const acl::Tensor& tensor, const Training& training) {
  TensorSpec spec =
      Canonical(tensor, kTnd, training.head_num, training.packed.count());
  if (spec.dims[2] == 0) {
    spec.dims[1] = 0;
    spec.dims[2] = 1;
  }
  return spec;
}

void StateRows(const TrainingRows& rows, const Training& training,
               AttentionProblem& problem) {
  problem.heads = training.head_num;
  problem.kv_heads = std::max<int64_t>(rows.key.dims[1], 1);
  problem.qk_dim = rows.query.dims[2];
  problem.v_dim = rows.value.dims[2];
  problem[Slot::kQuery] = QueryLike(rows.query, training);
  problem[Slot::kKey] = KeyLike(rows.key, training);
  problem[Slot::kValue] = KeyLike(rows.value, training);
}

Status CheckHardwareLimits(const TrainingRows& rows, const Training& training) {
  const bool prefix = !training.prefix.empty();
  const Limit limits[] = {
      {"query", "head dim", rows.query.dims[2],
       training.backward ? kMostBackwardDim : kMostForwardDim},
      {"query", "rows", rows.query.dims[0], kMostTokens},
      {rows.key_name, "rows", rows.key.dims[0], kMostTokens},
      {"headNum", "heads", training.head_num, kMostHeads},
      {"actualSeqQLenOptional", "sequences", training.packed.count(),
       prefix ? kMostSequencesWithPrefix : kMostSequences},
  };
  for (const Limit& limit : limits) {
    if (limit.value <= limit.most) continue;
    return Contradiction("{}: {} {}, the hardware supports at most {}",
                         limit.name, limit.value, limit.what, limit.most);
  }
  return CheckSequences(rows, training);
}

}  // namespace flashacl::ops
