// SPDX-License-Identifier: Apache-2.0
// Decoding and encoding of elements, and where key rows are.
#include "reference/rows.h"

#include <algorithm>
#include <bit>
#include <optional>

#include "base/number.h"
#include "plan/sequences.h"
#include "problem/element_walk.h"

namespace flashacl::reference {
namespace {

// Number `n` of an element.
double Decode(DType dtype, const std::byte* at, int64_t n) {
  if (dtype == DType::kI4x8) return ReadFourBits(at, n);
  if (dtype != DType::kU64) return ReadNumber(dtype, at);
  // The pattern of an f32 in the low half, of which 19 bits count.
  const auto bits = static_cast<uint32_t>(Load<uint64_t>(at));
  return std::bit_cast<float>(bits & 0xFFFFE000u);
}

// Row and leading index of column j in key-like tensors.
struct Place {
  int64_t outer = 0;
  int64_t row = 0;
};

std::optional<Place> PlaceOf(const Operands& operands, int64_t sequence,
                             int64_t j) {
  const KvSource& kv = operands.problem.kv;
  const Sequence& extent = operands.sequence(sequence);
  if (kv.rows != KvSource::Rows::kPaged) {
    if (j < extent.prefix) return Place{0, j};
    return Place{sequence, extent.keys.first + j - extent.prefix};
  }
  const Tensor table = operands.tensor(Slot::kBlockTable);
  const int64_t page =
      table.LoadInteger(table.spec.At(sequence, j / kv.page_rows));
  if (page < 0 || page >= operands.problem[Slot::kKey].dims[0]) return {};
  return Place{page, j % kv.page_rows};
}

// The tensor in `slot`, or the sequence's own of a list.
Tensor OwnTensor(const Operands& operands, Slot slot, int64_t sequence) {
  const KvSource& kv = operands.problem.kv;
  const bool rope = slot == Slot::kKeyRope;
  if (kv.rows != KvSource::Rows::kList || rope) return operands.tensor(slot);
  const size_t b = static_cast<size_t>(sequence);
  Tensor own = slot == Slot::kKey
                   ? Tensor{kv.key_list[b], operands.bindings.key_list[b]}
                   : Tensor{kv.value_list[b], operands.bindings.value_list[b]};
  own.spec.strides[0] = 0;  // there is one sequence in it, whatever its number
  return own;
}

struct QuantParams {
  Tensor scale;
  Tensor offset;
  Tensor row_scale;
  Tensor row_offset;
};

// Of column j, which is at `place`.
struct Column {
  int64_t sequence;
  int64_t kv_head;
  int64_t j;
  Place place;
};

// The scale or offset by row.
double FactorOf(const Operands& operands, const Tensor& factor,
                const Column& column) {
  const TensorSpec& spec = factor.spec;
  if (operands.problem.kv.row_scales_in_pages) {
    return factor.Load(
        spec.At(column.place.outer, column.place.row, column.kv_head));
  }
  const int64_t first = spec.placement == Placement::kTensorRows
                            ? operands.sequence(column.sequence).keys.first
                            : 0;
  return factor.Load(
      spec.At(column.sequence, first + column.j, column.kv_head));
}

// x_hat = scale * (x + offset), channel by channel or of the whole row.
void Dequantise(const Operands& operands, const QuantParams& quant,
                const Column& column, std::span<double> row) {
  const int64_t kv_head = column.kv_head;
  if (quant.row_scale.present()) {
    const double scale = FactorOf(operands, quant.row_scale, column);
    const double offset = quant.row_offset.present()
                              ? FactorOf(operands, quant.row_offset, column)
                              : 0.0;
    for (double& x : row) x = scale * (x + offset);
  }
  if (!quant.scale.present()) return;
  for (size_t d = 0; d < row.size(); ++d) {
    const int64_t channel = static_cast<int64_t>(d);
    const double offset =
        quant.offset.present()
            ? quant.offset.Load(quant.offset.spec.At(kv_head, channel))
            : 0.0;
    row[d] = quant.scale.Load(quant.scale.spec.At(kv_head, channel)) *
             (row[d] + offset);
  }
}

}  // namespace

double Tensor::Load(int64_t offset) const {
  double value = 0;
  LoadRow(offset, {&value, 1});
  return value;
}

int64_t Tensor::LoadInteger(int64_t offset) const {
  const std::byte* at = base + offset * SizeOf(spec.dtype);
  return ReadIndex(spec.dtype, at);
}

void Tensor::Store(int64_t offset, double value) const {
  WriteNumber(spec.dtype, base + offset * SizeOf(spec.dtype), value);
}

void Tensor::LoadRow(int64_t offset, std::span<double> row) const {
  const int64_t bytes = SizeOf(spec.dtype);
  const int64_t numbers = NumbersOf(spec.dtype);
  const std::byte* const first = base + offset * bytes;
  for (size_t d = 0; d < row.size(); ++d) {
    const int64_t channel = static_cast<int64_t>(d);
    row[d] =
        Decode(spec.dtype, first + spec.ChannelAt(channel / numbers) * bytes,
               channel % numbers);
  }
}

void Tensor::StoreRow(int64_t offset, std::span<const double> row) const {
  for (size_t d = 0; d < row.size(); ++d) {
    Store(offset + spec.ChannelAt(static_cast<int64_t>(d)), row[d]);
  }
}

void Tensor::Fill(double value, int64_t end) const {
  ForEachElement(spec, end, [&](int64_t offset) { Store(offset, value); });
}

Operands::Operands(const AttentionProblem& given, const Bindings& addresses)
    : problem(given),
      bindings(addresses),
      sequences(ResolveSequences(given, addresses)),
      mask(given[Slot::kMask], sequences),
      bias(given[Slot::kBias], sequences),
      keep(given[Slot::kKeep], sequences),
      row_max(given[Slot::kRowMax], sequences),
      row_sum(given[Slot::kRowSum], sequences),
      lse(given[Slot::kLse], sequences) {}

int64_t Operands::OffsetOf(const Tensor& tensor, const Row& row) const {
  return tensor.spec.At(row.sequence,
                        sequence(row.sequence).queries.first + row.i, row.head);
}

void Operands::LoadRow(Slot slot, const Row& row,
                       std::span<double> channels) const {
  const Tensor from = tensor(slot);
  if (from.present()) from.LoadRow(OffsetOf(from, row), channels);
}

void Operands::StoreRow(Slot slot, const Row& row,
                        std::span<const double> channels) const {
  const Tensor to = tensor(slot);
  if (to.present()) to.StoreRow(OffsetOf(to, row), channels);
}

Row RowOfGroup(const AttentionProblem& problem, int64_t sequence,
               int64_t kv_head, int64_t number) {
  const int64_t group = problem.group();
  return {sequence, kv_head, kv_head * group + number % group, number / group};
}

GridPlane PlaneOf(const Grid& grid, const Row& row) {
  return grid.present() ? grid.Plane(row.sequence, row.head) : GridPlane{};
}

void ForPieces(Workers& workers, int64_t count, FunctionRef<void(Range)> body) {
  constexpr int64_t kMaxPieces = 64;
  constexpr int64_t kMinSize = 16;  // less is not worth a worker's waking
  const int64_t size = std::max(CeilDiv(count, kMaxPieces), kMinSize);
  workers.ForEach(CeilDiv(count, size), [&](int64_t n) {
    body({n * size, std::min(count, (n + 1) * size)});
  });
}

void LoadQuery(const Operands& operands, const Row& row,
               std::span<double> query) {
  const size_t qk_dim = static_cast<size_t>(operands.problem.qk_dim);
  operands.LoadRow(Slot::kQuery, row, query.first(qk_dim));
  double scale = 1;
  operands.LoadRow(Slot::kQueryRowScale, row, {&scale, 1});
  for (double& x : query.first(qk_dim)) x *= scale;
  operands.LoadRow(Slot::kQueryRope, row, query.subspan(qk_dim));
}

KeyValues::KeyValues(const AttentionProblem& problem, WorkspaceLayout& layout)
    : key_dim_(problem.score_dim()),
      value_dim_(problem.v_dim),
      value_stride_(problem.kv.value_is_key ? key_dim_ : value_dim_) {
  const int64_t columns = problem.lengths.max_columns();
  key_region_ = layout.Reserve<double>("keys", columns * key_dim_);
  value_region_ = problem.kv.value_is_key
                      ? key_region_
                      : layout.Reserve<double>("values", columns * value_dim_);
  exists_region_ = layout.Reserve<uint8_t>("columns that exist", columns);
}

void KeyValues::Attach(std::byte* workspace) {
  keys_ = key_region_.In(workspace);
  values_ = value_region_.In(workspace);
  exists_ = exists_region_.In(workspace);
}

void KeyValues::Load(const Operands& operands, int64_t sequence,
                     int64_t kv_head, Workers& workers) {
  const AttentionProblem& problem = operands.problem;
  const Tensor keys = OwnTensor(operands, Slot::kKey, sequence);
  const Tensor ropes = OwnTensor(operands, Slot::kKeyRope, sequence);
  const Tensor values = problem.kv.value_is_key
                            ? Tensor{}
                            : OwnTensor(operands, Slot::kValue, sequence);
  const QuantParams key_quant{operands.tensor(Slot::kKeyScale),
                              operands.tensor(Slot::kKeyOffset),
                              operands.tensor(Slot::kKeyRowScale),
                              operands.tensor(Slot::kKeyRowOffset)};
  const QuantParams value_quant{operands.tensor(Slot::kValueScale),
                                operands.tensor(Slot::kValueOffset),
                                operands.tensor(Slot::kValueRowScale),
                                operands.tensor(Slot::kValueRowOffset)};
  const Tensor key_prefix = operands.tensor(Slot::kKeyPrefix);
  const Tensor value_prefix = operands.tensor(Slot::kValuePrefix);
  const size_t qk_dim = static_cast<size_t>(problem.qk_dim);
  const int64_t columns = operands.sequence(sequence).columns();
  const int64_t prefix = operands.sequence(sequence).prefix;

  const auto load = [&](int64_t j) {
    const std::optional<Place> place = PlaceOf(operands, sequence, j);
    exists_[static_cast<size_t>(j)] = place.has_value() ? 1 : 0;
    if (!place) return;
    const auto from = [&](const Tensor& tensor, std::span<double> row) {
      tensor.LoadRow(tensor.spec.At(place->outer, place->row, kv_head), row);
    };
    const Column column{sequence, kv_head, j, *place};
    const std::span<double> key = RowOf(keys_, j, key_dim_);
    from(j < prefix ? key_prefix : keys, key.first(qk_dim));
    Dequantise(operands, key_quant, column, key.first(qk_dim));
    if (ropes.present()) from(ropes, key.subspan(qk_dim));
    if (!values.present()) return;
    const std::span<double> value = RowOf(values_, j, value_dim_);
    from(j < prefix ? value_prefix : values, value);
    Dequantise(operands, value_quant, column, value);
  };
  ForPieces(workers, columns, [&](Range piece) {
    for (int64_t j = piece.first; j < piece.last; ++j) load(j);
  });
}

std::span<const double> KeyValues::key(int64_t j) const {
  return RowOf(keys_, j, key_dim_);
}

std::span<const double> KeyValues::value(int64_t j) const {
  return values_.subspan(static_cast<size_t>(j * value_stride_),
                         static_cast<size_t>(value_dim_));
}

}  // namespace flashacl::reference
