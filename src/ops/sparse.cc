// SPDX-License-Identifier: Apache-2.0
// Shapes and places of sparse attention.
#include "ops/sparse.h"

#include <algorithm>
#include <array>
#include <limits>
#include <string>

#include "base/str.h"

namespace flashacl::ops {
namespace {

using acl::Lowered;
using acl::Tensor;

// A plan keeps a range for each sequence.
constexpr int64_t kMaxPlanned = int64_t{1} << 20;

int64_t SequencesOf(const SparseCall& call) {
  return call.packed() ? call[call.table.query_lengths].elements()
                       : call.query().dims[0];
}

Lengths::Device PlaceLengths(const SparseCall& call, const Place& place,
                             bool packed, Lowered& lowered) {
  if (!call.has(place.row)) return Lengths::Device::kNone;
  PlaceAs(call, place,
          Strided(call[place.row], {0, kOne, kOne, kOne},
                  {call.sequences(), 1, 1, 1}),
          lowered);
  return packed ? Lengths::Device::kEnds : Lengths::Device::kCounts;
}

}  // namespace

int64_t SparseCall::sequences() const {
  return std::max(min_sequences, SequencesOf(*this));
}

bool HasRope(const SparseCall& call, int row) {
  if (call.has(row)) return true;
  if (!call.given(row)) return false;
  const Tensor& tensor = call[row];
  return tensor.rank > 1 && tensor.rank == call.query().rank &&
         tensor.dims[tensor.rank - 1] > 0;
}

Status CheckOneType(const SparseCall& call) {
  const aclDataType type = call.query().acl_dtype;
  int row = -1;
  for (const acl::Argument& argument : call.arguments.table()) {
    const Tensor* tensor = call.arguments.at(++row);
    if (argument.dtypes != acl::kHalves || tensor == nullptr) continue;
    if (tensor->acl_dtype == type) continue;
    return Invalid("{}: data type {} does not match query's {}", argument.name,
                   acl::TypeText(tensor->acl_dtype), acl::TypeText(type));
  }
  return {};
}

Status CheckLike(const SparseCall& call, int row, int like, int64_t channels) {
  const Tensor& tensor = call[row];
  const Tensor& model = call[like];
  bool same = tensor.rank == model.rank;
  for (size_t axis = 0; same && axis < tensor.rank; ++axis) {
    const bool last = axis + 1 == tensor.rank && channels >= 0;
    same = tensor.dims[axis] == (last ? channels : model.dims[axis]);
  }
  if (same) return {};
  return Invalid("{}: shape {} does not match {}'s {}{}", call.name(row),
                 ShapeText(tensor), call.name(like), ShapeText(model),
                 channels < 0 ? "" : Str(" with last axis {}", channels));
}

Status CheckKey(const SparseCall& call) {
  FLASHACL_RETURN_IF_ERROR(CheckRank("query", call.query(), call.layout, 1));
  FLASHACL_RETURN_IF_ERROR(CheckRank("key", call.key(), call.key_layout, 1));
  const Tensor& key = call.key();
  const int64_t heads = key.dims[key.rank - 2];
  const int64_t dim = key.dims[key.rank - 1];
  if (heads != 1) {
    return Invalid("key: {} heads, expected 1: all query heads share one",
                   heads);
  }
  if (dim != call.dim()) {
    return Invalid("key: head dim {} does not match query head dim {}", dim,
                   call.dim());
  }
  const int64_t sequences = call.query().dims[0];
  if (!call.packed() && !call.paged && key.dims[0] != sequences) {
    return Invalid("key: batch size {} does not match query's {}", key.dims[0],
                   sequences);
  }
  return {};
}

Result<int64_t> ReadValueDim(const SparseCall& call) {
  const int row = call.table.value;
  if (call.merged) return call.dim();
  const bool like = call[row].rank == call.key().rank;
  const int64_t dim = like ? call.ChannelsOf(row) : call.dim();
  FLASHACL_RETURN_IF_ERROR(CheckLike(call, row, call.table.key, dim));
  return dim;
}

Status CheckRope(const SparseCall& call) {
  const SparseTable& table = call.table;
  if (!call.rope) return {};
  const bool like = call[table.query_rope].rank == call.query().rank;
  const int64_t dim = like ? call.rope_dim() : -1;
  FLASHACL_RETURN_IF_ERROR(CheckLike(call, table.query_rope, table.query, dim));
  return CheckLike(call, table.key_rope, table.key, dim);
}

Status CheckIndices(const SparseCall& call) {
  const Tensor& indices = call[call.table.indices];
  const Tensor& queries = call.query();
  const size_t heads = queries.rank - 2;
  bool fits = indices.rank == queries.rank;
  for (size_t axis = 0; fits && axis < heads; ++axis) {
    fits = indices.dims[axis] == queries.dims[axis];
  }
  if (fits && indices.dims[heads] == 1 && indices.dims[heads + 1] >= 1) {
    return {};
  }
  return Invalid("{}: shape {}, expected query's rows {}, 1, K",
                 call.name(call.table.indices), ShapeText(indices),
                 ShapeText(queries));
}

Status CheckStatistics(const SparseCall& call, int row) {
  const Tensor& tensor = call[row];
  const bool packed = call.packed();
  const int64_t sequences = call.query().dims[0];
  const std::array<int64_t, 4> dense{sequences, 1, call.rows(), call.heads()};
  if (std::ranges::equal(tensor.shape(),
                         std::span(dense).subspan(packed ? 1 : 0))) {
    return {};
  }
  return Invalid("{}: shape {}, expected [{}1, {}, {}]", call.name(row),
                 ShapeText(tensor), packed ? "" : Str("{}, ", sequences),
                 call.rows(), call.heads());
}

Status ReadLayouts(const LayoutText& query_text, const LayoutText& key_text,
                   SparseCall& call) {
  const auto read = [](const char* text) {
    return text == nullptr ? std::string("BSND") : acl::ReadText(text);
  };
  const std::string query = read(query_text.text);
  const std::string key = read(key_text.text);
  if (query != "BSND" && query != "TND") {
    return Invalid("{}: \"{}\", expected BSND or TND", query_text.name, query);
  }
  call.layout = query == "TND" ? kTnd : kBsnd;
  call.paged = key == "PA_BSND";
  if (!call.paged && key != query) {
    return Invalid("{}: \"{}\", expected {} as {}, or PA_BSND", key_text.name,
                   key, query, query_text.name);
  }
  call.key_layout = call.paged ? kBsnd : call.layout;
  return {};
}

Status CheckTokens(std::string_view name, int64_t tokens) {
  if (tokens == std::numeric_limits<int64_t>::max()) return {};
  if (tokens == std::numeric_limits<int32_t>::max()) return {};
  return Invalid("{}: {}, expected 9223372036854775807", name, tokens);
}

Status CheckLengthsGiven(const SparseCall& call) {
  const auto check = [&](int row, bool needed,
                         std::string_view where) -> Status {
    if (!needed || (call.given(row) && call[row].rank > 0)) return {};
    return NullArgument("The {} cannot be nullptr in {}.", call.name(row),
                        where);
  };
  FLASHACL_RETURN_IF_ERROR(
      check(call.table.query_lengths, call.packed(), "layout TND"));
  return check(call.table.key_lengths, call.paged || call.packed_keys(),
               "layouts TND and PA_BSND");
}

Status ReadColumns(int block_table, SparseCall& call) {
  const int64_t rows = call.key_rows();
  call.columns = rows;
  if (!call.paged) return {};
  const Tensor& table = call[block_table];
  if (table.rank != 2 || table.dims[0] < call.sequences()) {
    return Invalid("{}: shape {}, expected [{}, blocks]",
                   call.name(block_table), ShapeText(table), call.sequences());
  }
  if (rows < 1) {
    return Invalid("key: shape {} has blocks of no rows",
                   ShapeText(call.key()));
  }
  if (!__builtin_mul_overflow(table.dims[1], rows, &call.columns)) return {};
  return Invalid("{}: shape {} lists too many blocks", call.name(block_table),
                 ShapeText(table));
}

Status CheckLengths(const SparseCall& call) {
  const SparseTable& table = call.table;
  const int64_t sequences = SequencesOf(call);
  for (const int row : {table.query_lengths, table.key_lengths}) {
    const bool needed = row == table.query_lengths
                            ? call.packed()
                            : call.packed_keys() || call.paged;
    if (!needed && !call.has(row)) continue;
    const Tensor& lengths = call[row];
    if (lengths.rank == 1 && lengths.dims[0] == sequences) continue;
    return Invalid("{}: shape {}, expected [{}]", call.name(row),
                   ShapeText(lengths), sequences);
  }
  const bool none = call.packed() && sequences == 0 && !call.query().empty();
  if (!none && sequences <= kMaxPlanned) return {};
  return Invalid("{}: {} sequences, expected 1 to 2^20",
                 call.name(call.packed() ? table.query_lengths : table.query),
                 sequences);
}

Status CheckLimits(std::span<const SparseLimit> limits) {
  for (const SparseLimit& limit : limits) {
    if (limit.fits) continue;
    return Invalid("{}: {} {}, the NPU takes {}", limit.name, limit.given,
                   limit.unit, limit.takes);
  }
  return {};
}

void PlaceAs(const SparseCall& call, const Place& place, const TensorSpec& spec,
             Lowered& lowered) {
  lowered.problem[place.slot] = spec;
  lowered.uses.push_back(
      {place.row, 0, place.slot, false, call[place.row].offset_bytes()});
}

void PlaceLikeQuery(const SparseCall& call, const Place& place,
                    Lowered& lowered) {
  PlaceAs(call, place,
          Canonical(call[place.row], call.layout, 1, call.sequences()),
          lowered);
}

void PlaceLikeKey(const SparseCall& call, const Place& place,
                  Lowered& lowered) {
  PlaceAs(call, place,
          Canonical(call[place.row], call.key_layout, 1, call.sequences()),
          lowered);
}

void PlaceStatistics(const SparseCall& call, const Place& place,
                     Lowered& lowered) {
  const Tensor& tensor = call[place.row];
  const bool packed = call.packed();
  const size_t axis = packed ? 1 : 2;  // of rows
  TensorSpec spec{.dtype = DType::kF32};
  spec.dims = {call.sequences(), tensor.dims[axis + 1], tensor.dims[axis], 1};
  spec.strides = {packed ? 0 : tensor.strides[0], tensor.strides[axis + 1],
                  tensor.strides[axis], 0};
  if (packed) spec.placement = Placement::kTensorRows;
  PlaceAs(call, place, spec, lowered);
}

void PlacePages(const SparseCall& call, int block_table, Lowered& lowered) {
  KvSource& kv = lowered.problem.kv;
  kv.rows = KvSource::Rows::kPaged;
  kv.page_rows = call.key_rows();
  PlaceAs(call, {block_table, Slot::kBlockTable},
          Strided(call[block_table], {0, 1, kOne, kOne}, {}), lowered);
}

void PlaceProblem(const SparseCall& call, Lowered& lowered) {
  AttentionProblem& problem = lowered.problem;
  problem.heads = call.heads();
  problem.kv_heads = 1;
  problem.qk_dim = call.dim();
  problem.rope_dim = call.rope_dim();
  problem.kv.selection = KvSource::Selection::kTopK;
  // A block of more rows than there are is all of them.
  problem.kv.gather_rows =
      std::min(call.block, std::max<int64_t>(1, call.columns));
  problem.kv.value_is_key = call.merged;
  Lengths& lengths = problem.lengths;
  lengths.sequences.assign(static_cast<size_t>(call.sequences()),
                           {{0, call.rows()}, {0, call.columns}});
  const SparseTable& table = call.table;
  lengths.queries = PlaceLengths(
      call, {table.query_lengths, Slot::kQueryLengths}, call.packed(), lowered);
  lengths.keys = PlaceLengths(call, {table.key_lengths, Slot::kKeyLengths},
                              call.packed_keys(), lowered);
}

}  // namespace flashacl::ops
