// SPDX-License-Identifier: Apache-2.0
// Query, key and value of a training call.
#include "ops/training_rows.h"

#include <algorithm>

#include "ops/canonical.h"

namespace flashacl::ops {
namespace {

// The ranges of the documents' tables.
constexpr int64_t kMaxTokens = int64_t{1} << 20;
constexpr int64_t kMaxHeads = 256;
constexpr int64_t kMaxPackedForward = 2048;
constexpr int64_t kMaxPackedWithPrefix = 1024;
constexpr int64_t kMaxSequences = int64_t{2} << 20;
constexpr int64_t kMaxDenseWithPrefix = 2048;
constexpr int64_t kMaxForwardDim = 512;
constexpr int64_t kMaxBackwardDim = 768;

struct Limit {
  std::string_view name;
  std::string_view what;
  int64_t value;
  int64_t most;
};

int64_t MaxSequences(const Training& training) {
  if (!training.prefix.empty()) {
    return training.packed() ? kMaxPackedWithPrefix : kMaxDenseWithPrefix;
  }
  const bool forward = training.packed() && !training.backward;
  return forward ? kMaxPackedForward : kMaxSequences;
}

Status CheckSequences(const TrainingRows& rows, const Training& training) {
  for (int64_t b = 0; b < training.batch.count(); ++b) {
    const Sequence& s = training.batch.sequences[static_cast<size_t>(b)];
    const bool needs_keys = training.packed() && !training.backward;
    if (needs_keys && s.rows() > 0 && s.columns() == 0) {
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
  if (!training.backward && rows.of_value.dim != rows.of_key.dim) {
    return Contradiction(
        "value: head dim {} differs from head dim {} of {}, which the hardware "
        "does not support",
        rows.of_value.dim, rows.of_key.dim, rows.key_name);
  }
  return {};
}

// How many heads of query's dim the last axis of key has.
Result<int64_t> FoldedKeyHeads(const TrainingRows& rows, int64_t head_num) {
  const int64_t width = rows.key.dims[rows.key.rank - 1];
  const int64_t dim = rows.of_query.dim;
  if (dim == 0 && width == 0) return head_num;
  if (dim > 0 && width % dim == 0) return width / dim;
  return Invalid(
      "{}: last axis {} of layout {} is not a multiple of query's "
      "head dim {} / headNum {} = {}",
      rows.key_name, width, rows.layout.name, Product(dim, head_num), head_num,
      dim);
}

Status CheckHeadDims(const TrainingRows& rows) {
  const int64_t dim = rows.of_query.dim;
  if (rows.of_key.dim != dim) {
    return Invalid("{}: head dim {} does not match query head dim {}",
                   rows.key_name, rows.of_key.dim, dim);
  }
  if (rows.of_value.dim > dim) {
    return Invalid("value: head dim {} is greater than query head dim {}",
                   rows.of_value.dim, dim);
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

Result<const Layout*> ReadDenseLayout(std::string_view name) {
  for (const Layout* layout : {&kBsh, &kSbh, &kBsnd, &kBnsd}) {
    if (layout->name == name) return layout;
  }
  return Invalid(
      "inputLayout: \"{}\", expected \"BSH\", \"SBH\", \"BSND\" or \"BNSD\"",
      name);
}

Extents ExtentsOf(const acl::Tensor& tensor, const Layout& layout,
                  int64_t heads) {
  const TensorSpec spec =
      Canonical(tensor, layout, std::max<int64_t>(heads, 1), 1);
  Extents extents{spec.dims[0], spec.dims[1], spec.dims[2], spec.dims[3]};
  if (layout.folded_heads) extents.heads = heads;
  return extents;
}

Status ReadExtents(TrainingRows& rows, int64_t head_num) {
  const Layout& layout = rows.layout;
  FLASHACL_RETURN_IF_ERROR(CheckRank("query", rows.query, layout, head_num));
  FLASHACL_RETURN_IF_ERROR(CheckRank(rows.key_name, rows.key, layout, 1));
  FLASHACL_RETURN_IF_ERROR(CheckRank("value", rows.value, layout, 1));
  rows.of_query = ExtentsOf(rows.query, layout, head_num);
  int64_t kv_heads = 1;  // not folded: key says how many
  if (layout.folded_heads) {
    const Result<int64_t> folded = FoldedKeyHeads(rows, head_num);
    if (!folded.ok()) return folded.status();
    kv_heads = *folded;
    FLASHACL_RETURN_IF_ERROR(
        CheckRank("value", rows.value, layout, std::max<int64_t>(kv_heads, 1)));
  }
  rows.of_key = ExtentsOf(rows.key, layout, kv_heads);
  rows.of_value = ExtentsOf(rows.value, layout, kv_heads);
  // No heads of keys: what is folded does not say their dim.
  if (kv_heads == 0) rows.of_key.dim = rows.of_value.dim = rows.of_query.dim;
  return CheckHeadDims(rows);
}

Status CheckHeadCounts(const TrainingRows& rows, int64_t head_num) {
  const Extents& query = rows.of_query;
  const Extents& key = rows.of_key;
  const Extents& value = rows.of_value;
  if (query.heads != head_num) {
    return Contradiction("headNum: {} does not match the {} heads of query",
                         head_num, query.heads);
  }
  if (key.sequences != query.sequences || value.sequences != query.sequences) {
    const bool of_key = key.sequences != query.sequences;
    return Contradiction("{}: {} sequences do not match the {} of query",
                         of_key ? rows.key_name : "value",
                         of_key ? key.sequences : value.sequences,
                         query.sequences);
  }
  if (value.heads != key.heads) {
    return Contradiction("value: {} heads do not match the {} heads of {}",
                         value.heads, key.heads, rows.key_name);
  }
  if (key.heads > 0 && head_num % key.heads != 0) {
    return Contradiction("{}: {} heads do not divide the {} heads of query",
                         rows.key_name, key.heads, head_num);
  }
  if (value.rows != key.rows) {
    return Contradiction("value: {} rows do not match the {} rows of {}",
                         value.rows, key.rows, rows.key_name);
  }
  return {};
}

TensorSpec QueryLike(const acl::Tensor& tensor, const Training& training) {
  return Canonical(tensor, *training.layout, training.head_num,
                   training.batch.count());
}

TensorSpec KeyLike(const acl::Tensor& tensor, const Extents& extents,
                   const Training& training) {
  TensorSpec spec =
      Canonical(tensor, *training.layout, std::max<int64_t>(extents.heads, 1),
                training.batch.count());
  if (extents.heads > 0) return spec;
  spec.dims[1] = 0;
  spec.dims[2] = 1;
  spec.dims[3] = extents.dim;
  return spec;
}

TensorSpec HeadSpec(const acl::Tensor& tensor) {
  return Strided(tensor, {0, kOne, kOne, kOne}, {tensor.dims[0], 1, 1, 1});
}

Result<Batch> ReadBatch(const TrainingRows& rows, const ArrayPair& ends) {
  const Extents& query = rows.of_query;
  Batch batch;
  if (rows.layout.name == kTnd.name) {
    Result<Batch> packed =
        ReadPacked(ends.queries, ends.keys, {query.rows, rows.of_key.rows});
    if (!packed.ok()) return packed.status();
    batch = *std::move(packed);
  } else if (query.sequences > kMaxSequences) {
    return Contradiction("query: {} sequences, expected at most {}",
                         query.sequences, kMaxSequences);
  } else {
    batch = DenseBatch(query.sequences, query.rows, rows.of_key.rows);
  }
  if (rows.key.empty()) ForgetKeys(batch);
  return batch;
}

void StateRows(const TrainingRows& rows, const Training& training,
               AttentionProblem& problem) {
  problem.heads = training.head_num;
  problem.kv_heads = std::max<int64_t>(rows.of_key.heads, 1);
  problem.qk_dim = rows.of_query.dim;
  problem.v_dim = rows.of_value.dim;
  problem[Slot::kQuery] = QueryLike(rows.query, training);
  problem[Slot::kKey] = KeyLike(rows.key, rows.of_key, training);
  problem[Slot::kValue] = KeyLike(rows.value, rows.of_value, training);
}

Status CheckHardwareLimits(const TrainingRows& rows, const Training& training) {
  const Limit limits[] = {
      {"query", "head dim", rows.of_query.dim,
       training.backward ? kMaxBackwardDim : kMaxForwardDim},
      {"query", "rows", rows.of_query.rows, kMaxTokens},
      {rows.key_name, "rows", rows.of_key.rows, kMaxTokens},
      {"headNum", "heads", training.head_num, kMaxHeads},
      {training.packed() ? "actualSeqQLenOptional" : "query", "sequences",
       training.batch.count(), MaxSequences(training)},
  };
  for (const Limit& limit : limits) {
    if (limit.value <= limit.most) continue;
    return Contradiction("{}: {} {}, the hardware supports at most {}",
                         limit.name, limit.value, limit.what, limit.most);
  }
  return CheckSequences(rows, training);
}

}  // namespace flashacl::ops
