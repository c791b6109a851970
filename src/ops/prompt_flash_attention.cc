// SPDX-License-Identifier: Apache-2.0
// Attention over whole prompts for inference: aclnnPromptFlashAttention.
//   out = softmax(scale * q k^T where the mask and its band let see) v
// docs/operators/prompt_flash_attention.md has the arguments and the limits.
#include <algorithm>
#include <array>
#include <string_view>
#include <vector>

#include "acl/environment.h"
#include "aclnnop/aclnn_prompt_flash_attention.h"
#include "ops/canonical.h"
#include "ops/inference.h"
#include "ops/operators.h"

namespace flashacl::ops {
namespace {

using acl::Argument;
using acl::Arguments;
using acl::Lowered;
using acl::Need;
using acl::Tensor;

enum Row { kQuery, kKey, kValue, kPse, kMask, kOut };

constexpr acl::DTypeSet kRows = acl::kHalves | acl::Bit(DType::kI8);

constexpr Argument kArguments[] = {
    {.name = "query", .need = Need::kRequired, .dtypes = kRows},
    {.name = "key", .need = Need::kRequired, .dtypes = kRows},
    {.name = "value", .need = Need::kRequired, .dtypes = kRows},
    {.name = "pseShift", .need = Need::kIgnored},
    // FLOAT16 passes the type check and is refused later, as on the device.
    {.name = "attenMask", .dtypes = acl::kMaskBytes | acl::Bit(DType::kF16)},
    {.name = "attentionOut",
     .need = Need::kRequired,
     .dtypes = kRows,
     .output = true},
};

struct Args {
  const aclIntArray* actualSeqLengths;
  int64_t numHeads;
  double scaleValue;
  int64_t preTokens;
  int64_t nextTokens;
  const char* inputLayout;
  int64_t numKeyValueHeads;
};

// What is known of a call while it is being lowered.
struct Call {
  const Arguments& arguments;
  const Args& args;
  Layout layout = kBsh;
  Layout out_layout = kBsh;
  int64_t kv_heads = 0;
  std::vector<Sequence> sequences = {};
  TensorSpec query = {};
  TensorSpec key = {};
  TensorSpec value = {};

  const Tensor& operator[](int row) const { return arguments[row]; }
  int64_t count() const { return static_cast<int64_t>(sequences.size()); }
  // One row axis for all sequences: SH.
  bool packed() const { return layout.rank == 2; }
};

// A type that passes here has a meaning in some version of this operator.
Status CheckTypes(const Call& call) {
  FLASHACL_RETURN_IF_ERROR(call.arguments.CheckTypes());
  const DType type = call[kQuery].dtype();
  for (const int row : {kKey, kValue}) {
    if (call[row].dtype() == type) continue;
    return Invalid("{}: data type {} does not match query's {}",
                   kArguments[row].name, acl::TypeText(call[row].acl_dtype),
                   acl::TypeText(call[kQuery].acl_dtype));
  }
  const DType out = call[kOut].dtype();
  const bool from_int8 = type == DType::kI8 && out == DType::kF16;
  if (out != type && out != DType::kI8 && !from_int8) {
    return Invalid("attentionOut: data type {} does not go with query's {}",
                   acl::TypeText(call[kOut].acl_dtype),
                   acl::TypeText(call[kQuery].acl_dtype));
  }
  const Tensor* mask = call.arguments.at(kMask);
  if (mask != nullptr && mask->dtype() == DType::kF16 && type == DType::kI8) {
    return Invalid("attenMask: data type FLOAT16 does not go with INT8 query");
  }
  return {};
}

// By prefix: whatever follows a known name is not looked at, except that
// BNSD_BSND is a name of its own.
Status ReadLayout(Call& call) {
  const char* const text = call.args.inputLayout;
  if (StartsWith(text, "TND")) {
    return Contradiction(
        "inputLayout: TND needs lengths of keys, which this version lacks");
  }
  for (const Layout& layout : {kBsh, kBsnd, kBnsd, kNsd, kSh}) {
    if (!StartsWith(text, layout.name)) continue;
    call.layout = call.out_layout = layout;
    if (Equals(text, "BNSD_BSND")) call.out_layout = kBsnd;
    return {};
  }
  return Invalid(
      "inputLayout: \"{}\", expected BSH, BSND, BNSD, BNSD_BSND, NSD or SH",
      acl::ReadText(text));
}

Status CheckDims(const Call& call) {
  if (call.query.dims[3] == 0) {
    return Invalid("query: 0 channels per head in shape {}",
                   ShapeText(call[kQuery]));
  }
  for (const auto& [name, spec] :
       {std::pair<std::string_view, const TensorSpec&>{"query", call.query},
        std::pair<std::string_view, const TensorSpec&>{"value", call.value}}) {
    if (spec.dims[3] <= kMostDim) continue;
    return Invalid("{}: head dim {}, expected at most {}", name, spec.dims[3],
                   kMostDim);
  }
  if (call[kOut].dtype() == DType::kI8 &&
      call.value.dims[3] < call.query.dims[3]) {
    return Invalid("value: head dim {} is less than query's {}",
                   call.value.dims[3], call.query.dims[3]);
  }
  return {};
}

// Ranks, heads and dims; afterwards the three specs say all of the shapes.
Status ReadShapes(Call& call) {
  const int64_t heads = call.args.numHeads;
  for (const int row : {kQuery, kKey, kValue}) {
    FLASHACL_RETURN_IF_ERROR(
        CheckRank(kArguments[row].name, call[row], call.layout, 1));
  }
  FLASHACL_RETURN_IF_ERROR(
      CheckRank("query", call[kQuery], call.layout, heads));
  Result<int64_t> kv_heads = KeyHeads(heads, call.args.numKeyValueHeads);
  if (!kv_heads.ok()) return kv_heads.status();
  call.kv_heads = *kv_heads;
  for (const int row : {kKey, kValue}) {
    FLASHACL_RETURN_IF_ERROR(
        CheckRank(kArguments[row].name, call[row], call.layout, *kv_heads));
  }
  call.query = Canonical(call[kQuery], call.layout, heads, 1);
  call.key = Canonical(call[kKey], call.layout, *kv_heads, 1);
  call.value = Canonical(call[kValue], call.layout, *kv_heads, 1);
  return CheckDims(call);
}

Status CheckShapes(const Call& call) {
  const int64_t dim = call.query.dims[3];
  if (call.query.dims[2] != call.args.numHeads) {
    return Contradiction("numHeads: {}, but query has {} heads",
                         call.args.numHeads, call.query.dims[2]);
  }
  FLASHACL_RETURN_IF_ERROR(CheckExtents(
      "key", call.key,
      {.sequences = call.query.dims[0], .heads = call.kv_heads, .dim = dim}));
  FLASHACL_RETURN_IF_ERROR(CheckExtents("value", call.value,
                                        {.sequences = call.query.dims[0],
                                         .rows = call.key.dims[1],
                                         .heads = call.kv_heads}));
  const int64_t most = dim % 16 == 0 ? kMostSequences : 128;
  if (call.query.dims[0] > most) {
    return Contradiction(
        "query: {} sequences, expected at most {} with head dim {}",
        call.query.dims[0], most, dim);
  }
  return {};
}

// Lengths are those of queries; keys are never limited.
Status ReadSequences(Call& call) {
  const Range columns{0, call.key.dims[1]};
  const int64_t rows = call.query.dims[1];
  Result<std::vector<int64_t>> lengths =
      ReadLengths(call.args.actualSeqLengths, call.query.dims[0]);
  if (!lengths.ok()) return lengths.status();
  call.sequences.assign(static_cast<size_t>(call.query.dims[0]),
                        {{0, rows}, columns});
  for (size_t b = 0; b < lengths->size(); ++b) {
    const int64_t length = (*lengths)[b];
    if (length < 0 || length > rows) {
      return Contradiction(
          "actualSeqLengths: {} for sequence {}, expected 0 to {}", length, b,
          rows);
    }
    call.sequences[b].queries.last = length;
  }
  return {};
}

// SH: sequences of queries and keys lie one behind the other.
Status ReadPackedSequences(Call& call) {
  const int64_t rows = call.query.dims[1];
  if (call.key.dims[1] != rows) {
    return Contradiction("key: {} rows, but query has {} in layout SH",
                         call.key.dims[1], rows);
  }
  Result<std::vector<int64_t>> lengths =
      acl::ReadArray("actualSeqLengths", call.args.actualSeqLengths);
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
          call.count(), end, rows);
    }
    const Range range{end, end + length};
    call.sequences.push_back({range, range});
    end += length;
  }
  if (end != rows) {
    return Contradiction("actualSeqLengths: sum {}, expected query's {} rows",
                         end, rows);
  }
  for (TensorSpec* spec : {&call.query, &call.key, &call.value}) {
    spec->dims[0] = call.count();
  }
  return {};
}

// The longest sequence, where the mask counts rows of sequences.
int64_t MostRows(const Call& call) {
  int64_t most = call.packed() ? 0 : call.query.dims[1];
  for (const Sequence& sequence : call.sequences) {
    most = std::max(most, sequence.rows());
  }
  return most;
}

// [S1, S2] behind leading axes of 1; the first of them may be the sequences.
Result<TensorSpec> MaskGrid(const Call& call, const Tensor& mask) {
  if (mask.dtype() == DType::kF16) {
    return Contradiction(
        "attenMask: data type FLOAT16, expected BOOL, INT8 or UINT8");
  }
  const int64_t rows = MostRows(call);
  const int64_t columns = call.packed() ? rows : call.key.dims[1];
  const int64_t sequences = call.count();
  bool fits = mask.rank >= 2 && mask.rank <= 4;
  if (fits) {
    fits =
        mask.dims[mask.rank - 2] >= rows && mask.dims[mask.rank - 1] >= columns;
    fits = fits &&
           (mask.rank == 2 || mask.dims[0] == 1 || mask.dims[0] == sequences);
    fits = fits && (mask.rank < 4 || mask.dims[1] == 1);
  }
  if (!fits) {
    return Contradiction(
        "attenMask: shape {}, expected [{}, {}] or more behind axes of 1, the "
        "first of which may be {}",
        ShapeText(mask), rows, columns, sequences);
  }
  const int last = static_cast<int>(mask.rank) - 1;
  return Strided(mask, {mask.rank == 2 ? kOne : 0, kOne, last - 1, last},
                 {sequences, call.args.numHeads, 1, 1});
}

// Nobody can tell tokens this far apart from tokens without limit, and their
// sums do not overflow.
int64_t Bounded(int64_t tokens) {
  return std::clamp(tokens, -Band::kOpen, Band::kOpen);
}

// The band must not leave all rows empty. Only looked at with a mask.
Status CheckBand(const Call& call) {
  const int64_t pre = Bounded(call.args.preTokens);
  const int64_t next = Bounded(call.args.nextTokens);
  if ((pre < 0 && next < 0) || -next > pre) {
    return Contradiction("preTokens: {} and nextTokens {} let nothing be seen",
                         call.args.preTokens, call.args.nextTokens);
  }
  for (const Sequence& sequence : call.sequences) {
    if (next < 0 && -next >= sequence.rows()) {
      return Contradiction("nextTokens: {} leaves nothing of {} rows",
                           call.args.nextTokens, sequence.rows());
    }
    if (pre < 0 && -pre >= sequence.columns()) {
      return Contradiction("preTokens: {} leaves nothing of {} keys",
                           call.args.preTokens, sequence.columns());
    }
  }
  return {};
}

// Numbers of 8 bits need scales, which this version cannot be given.
Status CheckQuantisation(const Call& call) {
  if (call[kQuery].dtype() == DType::kI8) {
    return Contradiction(
        "query: data type INT8 needs deqScale1, quantScale1 "
        "and deqScale2, which this version lacks");
  }
  if (call[kOut].dtype() == DType::kI8) {
    return Contradiction(
        "attentionOut: data type INT8 needs quantScale2, "
        "which this version lacks");
  }
  return {};
}

// Documented limits that only cost the NPU a warning. Strict mode only.
Status CheckHardwareLimits(const Call& call) {
  if (!acl::TheEnvironment().strict) return {};
  constexpr int64_t kMostRows = 20971520;
  for (const int64_t rows : {call.query.dims[1], call.key.dims[1]}) {
    if (rows <= kMostRows) continue;
    return Contradiction("query: {} rows of queries or keys, the NPU takes {}",
                         rows, kMostRows);
  }
  const int64_t width = call.args.numHeads * call.query.dims[3];
  const bool wide =
      call.layout.name == kBsh.name || call.layout.name == kBsnd.name;
  if (wide && width >= 65535) {
    return Contradiction(
        "query: {} channels in all heads, the NPU takes less "
        "than 65535 in layout {}",
        width, call.layout.name);
  }
  return {};
}

// As the query, with the value's head dim, in the output's order of axes. One
// element is one element whatever its axes.
Result<TensorSpec> OutSpec(const Call& call) {
  const Tensor& out = call[kOut];
  const int64_t heads = call.args.numHeads;
  const int64_t v_dim = call.value.dims[3];
  std::array<int64_t, 4> dims = call.query.dims;
  dims[3] = v_dim;
  if (out.elements() == 1 && dims == std::array<int64_t, 4>{1, 1, 1, 1}) {
    return TensorSpec{.dtype = out.dtype(), .dims = dims};
  }
  if (static_cast<int>(out.rank) == call.out_layout.rank &&
      (!call.out_layout.folded_heads ||
       out.dims[out.rank - 1] == heads * v_dim)) {
    const TensorSpec spec = Canonical(out, call.out_layout, heads, dims[0]);
    if (spec.dims == dims) return spec;
  }
  return Invalid(
      "attentionOut: shape {}, expected {} rows of {} heads with {} channels "
      "for {} sequences in layout {}",
      ShapeText(out), dims[1], heads, v_dim, dims[0], call.out_layout.name);
}

Result<Lowered> LowerChecked(const Call& call, const TensorSpec& mask,
                             const TensorSpec& out) {
  Lowered lowered;
  AttentionProblem& problem = lowered.problem;
  problem.heads = call.args.numHeads;
  problem.kv_heads = call.kv_heads;
  problem.qk_dim = call.query.dims[3];
  problem.v_dim = call.value.dims[3];
  problem.lengths.sequences = call.sequences;
  problem.score.scale = static_cast<float>(call.args.scaleValue);
  problem[Slot::kQuery] = call.query;
  problem[Slot::kKey] = call.key;
  problem[Slot::kValue] = call.value;
  problem[Slot::kOut] = out;
  lowered.Bind(call.arguments, kQuery, Slot::kQuery);
  lowered.Bind(call.arguments, kKey, Slot::kKey);
  lowered.Bind(call.arguments, kValue, Slot::kValue);
  lowered.Bind(call.arguments, kOut, Slot::kOut);
  if (mask.present()) {
    problem.mask.rules = {
        TopLeftBand(-Bounded(call.args.preTokens), call.args.nextTokens)};
    problem[Slot::kMask] = mask;
    lowered.Bind(call.arguments, kMask, Slot::kMask);
  }
  return lowered;
}

Result<Lowered> Lower(const Arguments& arguments, const Args& args) {
  Call call{arguments, args};
  if (args.inputLayout == nullptr) {
    return NullArgument("The inputLayout cannot be nullptr.");
  }
  if (arguments[kOut].empty()) {
    Lowered lowered;
    lowered.nothing = true;
    return lowered;
  }
  FLASHACL_RETURN_IF_ERROR(CheckTypes(call));
  if (args.numHeads <= 0) {
    return Invalid("numHeads: {}, expected at least 1", args.numHeads);
  }
  FLASHACL_RETURN_IF_ERROR(ReadLayout(call));
  FLASHACL_RETURN_IF_ERROR(ReadShapes(call));
  FLASHACL_RETURN_IF_ERROR(CheckShapes(call));
  FLASHACL_RETURN_IF_ERROR(call.packed() ? ReadPackedSequences(call)
                                         : ReadSequences(call));
  TensorSpec mask;
  if (arguments.has(kMask)) {
    Result<TensorSpec> grid = MaskGrid(call, arguments[kMask]);
    if (!grid.ok()) return grid.status();
    mask = *grid;
    FLASHACL_RETURN_IF_ERROR(CheckBand(call));
  }
  FLASHACL_RETURN_IF_ERROR(CheckQuantisation(call));
  FLASHACL_RETURN_IF_ERROR(CheckHardwareLimits(call));
  Result<TensorSpec> out = OutSpec(call);
  if (!out.ok()) return out.status();
  return LowerChecked(call, mask, *out);
}

}  // namespace

const acl::Operator kPromptFlashAttention{"aclnnPromptFlashAttention",
                                          kArguments, 561103};

}  // namespace flashacl::ops

extern "C" aclnnStatus aclnnPromptFlashAttentionGetWorkspaceSize(
    const aclTensor* query, const aclTensor* key, const aclTensor* value,
    const aclTensor* pseShift, const aclTensor* attenMask,
    const aclIntArray* actualSeqLengths, int64_t numHeads, double scaleValue,
    int64_t preTokens, int64_t nextTokens, char* inputLayout,
    int64_t numKeyValueHeads, const aclTensor* attentionOut,
    uint64_t* workspaceSize, aclOpExecutor** executor) {
  using namespace flashacl;
  const ops::Args args{actualSeqLengths, numHeads,   scaleValue,
                       preTokens,        nextTokens, inputLayout,
                       numKeyValueHeads};
  const std::array<acl::Passed, 6> passed{query,    key,       value,
                                          pseShift, attenMask, attentionOut};
  return acl::Prepare(
      ops::kPromptFlashAttention, passed,
      [&](const acl::Arguments& a) { return ops::Lower(a, args); },
      {workspaceSize, executor});
}

extern "C" aclnnStatus aclnnPromptFlashAttention(void* workspace,
                                                 uint64_t workspaceSize,
                                                 aclOpExecutor* executor,
                                                 const aclrtStream stream) {
  return flashacl::acl::Launch(workspace, workspaceSize, executor, stream);
}
