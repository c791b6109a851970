// SPDX-License-Identifier: Apache-2.0
// Building calls of aclnnFusedInferAttentionScore.
#include "tests/testing/fused_infer_call.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>

#include "tests/testing/inference_layout.h"

namespace flashacl::testing {
namespace {

constexpr double kNan = std::numeric_limits<double>::quiet_NaN();

// The ends that packed sequences have.
std::vector<int64_t> EndsOf(const std::vector<int64_t>& lengths) {
  std::vector<int64_t> ends;
  for (const int64_t length : lengths) {
    ends.push_back((ends.empty() ? 0 : ends.back()) + length);
  }
  return ends;
}

// Shapes of a scale per channel, all [head, channel] in memory.
std::vector<int64_t> ChannelDims(int64_t form, int64_t n, int64_t d) {
  switch (form) {
    case 1:
      return {1, n, 1, d};
    case 2:
      return {1, n, d};
    case 3:
      return {1, n * d};
    case 4:
      return {n, 1, d};
    case 5:
      return {n, d};
    default:
      return {n * d};
  }
}

// The same of keys and values in one, which may also be one number each.
std::vector<int64_t> CombinedDims(int64_t form, int64_t n, int64_t d) {
  switch (form) {
    case 1:
      return {2, n, 1, d};
    case 2:
      return {2, n, d};
    case 3:
      return {2, n * d};
    case 4:
      return {2, 1, n, d};
    default:
      return {2};
  }
}

}  // namespace

FusedInferCall::FusedInferCall(const FusedInferCase& c, uint64_t seed)
    : OperatorFixture("aclnnFusedInferAttentionScore", c.version), asked(c) {
  Random random(seed);
  MakeQuery(random);
  if (c.paged()) MakeTable(random);
  MakeKeys(random);
  if (c.prefix > 0) MakePrefix(random);
  MakeGrids(random);
  MakeOtherScales(random);
  const bool ends = c.packed();
  if (!c.lengths.empty()) {
    lengths = caller.Array(ends ? EndsOf(c.lengths) : c.lengths);
  }
  if (!c.kv_lengths.empty()) {
    kv_lengths =
        caller.Array(ends && !c.paged() ? EndsOf(c.kv_lengths) : c.kv_lengths);
  }
  const auto padding = [&](const std::optional<int64_t>& given) {
    if (!given) return static_cast<DeviceTensor*>(nullptr);
    DeviceTensor* tensor = caller.Input({.type = ACL_INT64, .dims = {1}});
    tensor->SetNth(0, static_cast<double>(*given));
    return tensor;
  };
  query_padding = padding(c.query_padding);
  kv_padding = padding(c.kv_padding);
  heads = c.heads;
  kv_heads = c.kv_heads == c.heads ? 0 : c.kv_heads;
  scale = c.scale;
  pre_tokens = c.pre_tokens;
  next_tokens = c.next_tokens;
  sparse_mode = c.sparse_mode;
  inner_precise = c.inner_precise;
  block_size = c.block_size;
  lse_flag = c.lse ? 1 : 0;
  layout_text_.assign(c.layout.begin(), c.layout.end());
  layout_text_.push_back('\0');
  layout = layout_text_.data();
}

void FusedInferCall::MakeQuery(Random& random) {
  const FusedInferCase& c = asked;
  const bool int8 = c.int8 || c.latent;
  const auto make = [&](aclDataType type, int64_t dim) {
    DeviceTensor* tensor = caller.Input(MaybeSpread(
        c.spread, type,
        DimsIn(c.in(), {c.sequences, c.total_rows(), c.heads, dim})));
    if (type == ACL_INT8) {
      tensor->FillIntegers(random, -128, 127);
      return tensor;
    }
    tensor->FillWith(kNan);
    for (int64_t b = 0; b < c.sequences; ++b) {
      const auto extent = c.ExtentOf(b);
      if (!extent.fits) continue;
      for (int64_t n = 0; n < extent.rows * c.heads * dim; ++n) {
        const At at{b, extent.row + n / (c.heads * dim), n / dim % c.heads,
                    n % dim, dim};
        tensor->SetNth(NumberOf(c.in(), tensor->form().dims, at),
                       4 * random.Fraction() - 2);
      }
    }
    return tensor;
  };
  query = make(int8 ? ACL_INT8 : c.type, c.dim);
  if (c.rope_dim > 0) query_rope = make(c.type, c.rope_dim);
  out = caller.Output(MaybeSpread(
      c.spread, c.out_scales > 0 ? ACL_INT8 : c.type,
      DimsIn(c.out(), {c.sequences, c.total_rows(), c.heads, c.v_dim})));
  const std::vector<int64_t> lse_dims =
      c.packed() ? std::vector<int64_t>{c.total_rows(), c.heads, 1}
                 : std::vector<int64_t>{c.sequences, c.heads, c.rows, 1};
  // Without the flag nobody may write to it.
  const Form form = MaybeSpread(c.spread, ACL_FLOAT, lse_dims);
  lse = c.lse ? caller.Output(form) : caller.Input(form);
}

int64_t FusedInferCall::WidthOf(Side side) const {
  const FusedInferCase& c = asked;
  return side == kKey ? c.dim : side == kValue ? c.v_dim : c.rope_dim;
}

aclDataType FusedInferCall::KeyType(Side side) const {
  const FusedInferCase& c = asked;
  if (side == kRope) return c.type;
  if (c.int8 || c.latent) return ACL_INT8;
  if (c.scales == FusedScales::kNone) return c.type;
  return c.bits == 4 ? ACL_INT32 : ACL_INT8;
}

std::vector<int64_t> FusedInferCall::KeyDims(Side side, int64_t member) const {
  const FusedInferCase& c = asked;
  const aclDataType type = KeyType(side);
  const int64_t width = WidthOf(side) / (type == ACL_INT32 ? 8 : 1);
  const int64_t pages = c.paged() ? c.columns / c.block_size : 0;
  const int64_t blocks = c.sequences * pages + 2;
  const int64_t unit = type == ACL_INT8 ? 32 : type == ACL_INT32 ? 8 : 16;
  switch (c.keys) {
    case FusedKeys::kPagesOfRows:
      return {blocks, c.block_size, c.kv_heads * width};
    case FusedKeys::kPagesOfHeads:
      return {blocks, c.kv_heads, c.block_size, width};
    case FusedKeys::kPagesOfChannels:
      return {blocks, c.kv_heads, width / unit, c.block_size, unit};
    case FusedKeys::kList:
      if (side != kRope) {
        return DimsIn(c.in(), {1, c.own_columns[static_cast<size_t>(member)],
                               c.kv_heads, width});
      }
      [[fallthrough]];
    default:
      return DimsIn(c.in(),
                    {c.sequences, c.total_columns(), c.kv_heads, width});
  }
}

// More pages than needed, in no order; what no sequence reaches is listed as
// one that does not exist.
void FusedInferCall::MakeTable(Random& random) {
  const FusedInferCase& c = asked;
  const int64_t pages = c.columns / c.block_size;
  const int64_t blocks = c.sequences * pages + 2;
  std::vector<int64_t> ids(static_cast<size_t>(blocks));
  for (int64_t n = 0; n < blocks; ++n) ids[static_cast<size_t>(n)] = n;
  for (size_t n = ids.size(); n > 1; --n) {
    std::swap(ids[n - 1], ids[static_cast<size_t>(
                              random.Within(0, static_cast<int64_t>(n) - 1))]);
  }
  block_table =
      caller.Input(MaybeSpread(c.spread, ACL_INT32, {c.sequences, pages}));
  for (int64_t b = 0; b < c.sequences; ++b) {
    const int64_t length = c.ExtentOf(b).columns;
    for (int64_t page = 0; page < pages; ++page) {
      int64_t id = ids[static_cast<size_t>(b * pages + page)];
      if (c.shared_pages && page == 0) id = ids[0];
      const int64_t outside = random.OneIn(2) ? -1 : blocks + page;
      if (c.missing_pages && random.OneIn(4)) id = outside;
      if (page * c.block_size >= length) id = outside;
      block_table->Set({b, page}, static_cast<double>(id));
    }
  }
}

void FusedInferCall::MakeKeys(Random& random) {
  const FusedInferCase& c = asked;
  const auto make = [&](Side side, int64_t member) {
    DeviceTensor* tensor = caller.Input(
        MaybeSpread(c.spread, KeyType(side), KeyDims(side, member)));
    if (KeyType(side) == ACL_INT8) {
      tensor->FillIntegers(random, -128, 127);
    } else if (KeyType(side) == ACL_INT32) {
      tensor->FillIntegers(random, std::numeric_limits<int32_t>::min(),
                           std::numeric_limits<int32_t>::max());
    } else {
      tensor->FillWith(kNan);
    }
    return tensor;
  };
  const int64_t members = c.keys == FusedKeys::kList ? c.sequences : 1;
  for (int64_t b = 0; b < members; ++b) {
    keys.push_back(make(kKey, b));
    values.push_back(make(kValue, b));
  }
  if (c.rope_dim > 0) key_rope = make(kRope, 0);
  if (c.scales != FusedScales::kNone) MakeKeyScales(random);
  if (c.latent) MakeLatentScales(random);
  FillRows(kKey, random);
  FillRows(kValue, random);
  if (c.rope_dim > 0) FillRows(kRope, random);
}

// Numbers in place of NaN where a sequence has keys, and for the scales that go
// with rows.
void FusedInferCall::FillRows(Side side, Random& random) {
  const FusedInferCase& c = asked;
  if (KeyType(side) == ACL_INT8 || KeyType(side) == ACL_INT32) return;
  for (int64_t b = 0; b < c.sequences; ++b) {
    const auto extent = c.ExtentOf(b);
    if (!extent.fits) continue;
    for (int64_t t = extent.column; t < extent.column + extent.columns; ++t) {
      for (int64_t n = 0; n < c.kv_heads * WidthOf(side); ++n) {
        const Spot spot =
            SpotOf(side, b, t, n / WidthOf(side), n % WidthOf(side));
        if (spot.tensor == nullptr) break;
        if (!std::isnan(spot.tensor->Nth(spot.n))) continue;
        spot.tensor->SetNth(spot.n, 4 * random.Fraction() - 2);
      }
    }
  }
}

void FusedInferCall::MakePrefix(Random& random) {
  const FusedInferCase& c = asked;
  const auto make = [&](Side side) {
    const int64_t width = WidthOf(side) / (KeyType(side) == ACL_INT32 ? 8 : 1);
    DeviceTensor* tensor = caller.Input(
        MaybeSpread(c.spread, KeyType(side),
                    DimsIn(c.in(), {1, c.prefix, c.kv_heads, width})));
    if (KeyType(side) == ACL_INT8) {
      tensor->FillIntegers(random, -128, 127);
      return tensor;
    }
    if (KeyType(side) == ACL_INT32) {
      tensor->FillIntegers(random, std::numeric_limits<int32_t>::min(),
                           std::numeric_limits<int32_t>::max());
      return tensor;
    }
    tensor->FillWith(kNan);
    return tensor;
  };
  key_prefix = make(kKey);
  value_prefix = make(kValue);
  for (const Side side : {kKey, kValue}) {
    if (KeyType(side) == ACL_INT8 || KeyType(side) == ACL_INT32) continue;
    const int64_t width = WidthOf(side);
    for (int64_t n = 0; n < c.seen_prefix() * c.kv_heads * width; ++n) {
      const Spot spot = PrefixSpot(side, n / (c.kv_heads * width),
                                   n / width % c.kv_heads, n % width);
      spot.tensor->SetNth(spot.n, 4 * random.Fraction() - 2);
    }
  }
  if (c.prefix_length) prefix_length = caller.Array({*c.prefix_length});
}

void FusedInferCall::MakeGrids(Random& random) {
  const FusedInferCase& c = asked;
  const int64_t rows =
      c.longest_rows() > 1 ? c.longest_rows() + c.more_rows : c.longest_rows();
  const int64_t columns =
      c.seen_prefix() + c.longest_columns() + c.more_columns;
  const int64_t planes = c.mask_for_all ? 1 : c.sequences;
  if (c.mask == FusedMask::kSquare) {
    // Nobody reads it, so one element will do, and one that hides everything.
    std::vector<int64_t> dims(c.mask_rank, 1);
    dims[c.mask_rank - 2] = dims[c.mask_rank - 1] = 2048;
    mask = caller.Input({.type = c.mask_type,
                         .dims = dims,
                         .strides = std::vector<int64_t>(c.mask_rank, 0)});
    mask->FillWith(1);
  } else if (c.mask != FusedMask::kNone) {
    std::vector<int64_t> dims{planes, 1, rows, columns};
    if (c.mask_rank == 3) dims = {planes, rows, columns};
    if (c.mask_rank == 2) dims = {rows == 1 ? c.sequences : rows, columns};
    if (c.mask == FusedMask::kTree) {
      dims = {c.sequences, c.rows, c.rows};
      if (c.packed()) {
        dims = {c.more_columns};
        for (const int64_t length : c.lengths) dims[0] += length * length;
      }
    }
    mask = caller.Input(MaybeSpread(c.spread, c.mask_type, dims));
    for (int64_t n = 0; n < mask->elements(); ++n) {
      mask->SetNth(n, random.OneIn(3) ? 1 : 0);
    }
  }
  if (c.pse_sequences > 0) {
    pse = caller.Input(MaybeSpread(c.spread, c.type,
                                   {c.pse_sequences, c.heads, rows, columns}));
    pse->Fill(random, -1, 1);
  }
}

DeviceTensor* FusedInferCall::NewSmall(Random& random, aclDataType type,
                                       std::vector<int64_t> dims, double low,
                                       double high) {
  DeviceTensor* tensor = caller.Input({.type = type, .dims = std::move(dims)});
  tensor->Fill(random, low, high);
  return tensor;
}

void FusedInferCall::MakeLatentScales(Random& random) {
  const FusedInferCase& c = asked;
  key_scale = NewSmall(random, ACL_FLOAT, {1}, 0.001, 0.002);
  value_scale = NewSmall(random, ACL_FLOAT, {1}, 0.005, 0.02);
  std::vector<int64_t> dims = query->form().dims;
  if (c.in() == "BSH") {
    dims.back() = c.heads;  // which are folded with what is dropped elsewhere
  } else {
    dims.pop_back();
  }
  query_scale = caller.Input(MaybeSpread(c.spread, ACL_FLOAT, dims));
  query_scale->FillWith(kNan);
  for (int64_t b = 0; b < c.sequences; ++b) {
    const auto extent = c.ExtentOf(b);
    for (int64_t n = 0; n < extent.rows * c.heads; ++n) {
      query_scale->SetNth(
          QueryScaleSpot(b, extent.row + n / c.heads, n % c.heads),
          0.001 + 0.001 * random.Fraction());
    }
  }
  query_mode = 3;
}

// Those of rows are NaN where a sequence has no key.
void FusedInferCall::MakeKeyScales(Random& random) {
  const FusedInferCase& c = asked;
  const double low = c.bits == 4 ? 0.1 : 0.005;
  const double high = c.bits == 4 ? 0.4 : 0.02;
  const int64_t more = c.total_columns() + c.more_columns;
  const int64_t blocks = c.paged() ? keys[0]->form().dims[0] : 0;
  const auto dims = [&](int64_t mode) -> std::vector<int64_t> {
    switch (mode) {
      case 0:
        if (c.scale_form == 0) return {1};
        return ChannelDims(c.scale_form, c.kv_heads, c.dim);
      case 1:
        if (c.scale_form % 2 == 0) return {c.sequences, more};
        return {1, c.sequences, more};
      case 2:
        return {c.kv_heads};
      case 3:
        return {c.sequences, c.kv_heads, more};
      case 4:
        return {blocks, c.block_size};
      default:
        return {blocks, c.kv_heads, c.block_size};
    }
  };
  const auto make = [&](std::vector<int64_t> shape, int64_t mode, double from,
                        double to) {
    const bool rows = mode == 1 || mode >= 3;
    DeviceTensor* tensor =
        NewSmall(random, rows ? ACL_FLOAT : c.type, std::move(shape), from, to);
    BlankUnused(tensor, mode, c.scales == FusedScales::kCombined ? 2 : 1);
    return tensor;
  };
  if (c.scales == FusedScales::kSeparate) {
    key_mode = c.key_mode;
    value_mode = c.value_mode;
    key_scale = make(dims(key_mode), key_mode, low, high);
    value_scale = make(dims(value_mode), value_mode, low, high);
    if (!c.offsets) return;
    key_offset = make(dims(key_mode), key_mode, -9, 9);
    value_offset = make(dims(value_mode), value_mode, -9, 9);
    return;
  }
  antiquant_mode = c.key_mode;
  const std::vector<int64_t> shape =
      c.key_mode == 1 ? std::vector<int64_t>{2, c.sequences, more}
                      : CombinedDims(c.scale_form % 5, c.kv_heads, c.dim);
  antiquant_scale = make(shape, c.key_mode, low, high);
  if (c.offsets) antiquant_offset = make(shape, c.key_mode, -9, 9);
}

void FusedInferCall::MakeOtherScales(Random& random) {
  const FusedInferCase& c = asked;
  if (c.int8) {
    deq_scale1 = NewSmall(random, ACL_FLOAT, {1}, 0.0002, 0.0005);
    quant_scale1 = NewSmall(random, ACL_FLOAT, {1}, 100, 130);
    deq_scale2 = NewSmall(random, ACL_FLOAT, {1}, 0.00005, 0.0002);
  }
  if (c.sink) sink = NewSmall(random, *c.sink, {c.heads}, -2, 2);
  if (c.out_scales == 0) return;
  const std::vector<int64_t> dims =
      c.out_scales == 1 ? std::vector<int64_t>{1}
                        : std::vector<int64_t>{c.heads, c.v_dim};
  quant_scale2 = NewSmall(random, c.out_scale_type, dims, 20, 90);
  if (c.out_offset) {
    quant_offset2 = NewSmall(random, c.out_scale_type, dims, -9, 9);
  }
}

FusedInferCall::~FusedInferCall() {
  for (const aclTensorList* list : lists_) aclDestroyTensorList(list);
}

// Words of INT4 may also be passed as what they hold.
const aclTensorList* FusedInferCall::ListOf(
    const std::vector<DeviceTensor*>& members) {
  if (!asked.int4) return caller.List(members);
  std::vector<const aclTensor*> handles;
  for (const DeviceTensor* member : members) {
    Form form = member->form();
    form.dims.back() *= 8;
    for (int64_t& stride : form.strides) stride *= 8;
    form.strides.back() = 1;
    handles.push_back(
        aclCreateTensor(form.dims.data(), form.dims.size(), ACL_INT4,
                        form.strides.data(), form.offset * 8, form.format,
                        form.dims.data(), form.dims.size(), member->data()));
  }
  lists_.push_back(aclCreateTensorList(handles.data(), handles.size()));
  return lists_.back();
}

Parameters FusedInferCall::Pass() {
  const int version = asked.version;
  Parameters p{
      .arrays = {lengths, kv_lengths},
      .reals = {scale},
      .integers = {heads, pre_tokens, next_tokens, kv_heads, sparse_mode,
                   inner_precise, block_size, antiquant_mode, lse_flag},
      .texts = {layout}};
  p.tensors = {HandleOf(query),
               null_keys               ? nullptr
               : other_keys != nullptr ? other_keys
                                       : ListOf(keys),
               null_values ? nullptr : ListOf(values)};
  Add(p, {pse, mask, deq_scale1, quant_scale1, deq_scale2, quant_scale2,
          quant_offset2, antiquant_scale, antiquant_offset, block_table,
          query_padding, kv_padding});
  if (version > 1) {
    Add(p, {key_scale, key_offset, value_scale, value_offset, key_prefix,
            value_prefix});
    p.arrays.push_back(prefix_length);
    p.integers.insert(p.integers.end(), {key_mode, value_mode});
  }
  if (version > 2) Add(p, {query_rope, key_rope, key_rope_scale});
  if (version > 3) {
    Add(p, {query_scale, sink});
    p.integers.push_back(query_mode);
  }
  if (version > 4) {
    p.arrays.insert(p.arrays.end(), {query_start, kv_start});
    p.integers.push_back(pse_type);
  }
  Add(p, {out, lse});
  return p;
}

aclnnStatus FusedInferCall::MaxPhaseOne(uint64_t* size,
                                        aclOpExecutor** executor) {
  return EntryPointsOf(
             VersionName("aclnnFusedInferAttentionScore", asked.version) +
             "Max")
      .phase_one(Pass(), size, executor);
}

}  // namespace flashacl::testing
