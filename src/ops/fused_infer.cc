// SPDX-License-Identifier: Apache-2.0
// The lowering of fused inference, step by step.
//   out = softmax(scale * q k^T + pse where mask and band let see) v
// where a sink is one more score, and
//   lse = ln(sum of exp(scores)), +inf where a row sees no key.
// docs/operators/fused_infer_attention_score.md has the arguments and limits.
#include "ops/fused_infer.h"

#include <string_view>

#include "acl/environment.h"

namespace flashacl::ops {
namespace {

using acl::Arguments;
using acl::Entry;
using acl::Lowered;
using acl::Tensor;
using Call = FusedInferCall;

Status DoesNotGo(const Call& call, int row) {
  return Contradiction("{}: data type {} does not go with query's {}",
                       call.name(row), acl::TypeText(call[row].acl_dtype),
                       acl::TypeText(call[Call::kQuery].acl_dtype));
}

// Types that may stand together, beyond what the table says of each; keys' are
// checked with their shapes.
Status CheckTypes(const Call& call) {
  const DType query = call[Call::kQuery].dtype();
  const bool int8 = query == DType::kI8;
  const DType out = call[Call::kOut].dtype();
  const DType wide = call.query_scaled_by_row() ? DType::kBf16
                     : int8                     ? DType::kF16
                                                : query;
  if (out != wide && out != DType::kI8) return DoesNotGo(call, Call::kOut);
  if (call.has(Call::kPse) && call[Call::kPse].dtype() != wide) {
    return DoesNotGo(call, Call::kPse);
  }
  for (const int row : {Call::kQueryRope, Call::kKeyRope}) {
    if (call.has(row) && call[row].dtype() != wide) {
      return DoesNotGo(call, row);
    }
  }
  if (!call.has(Call::kSink)) return {};
  const DType sink = call[Call::kSink].dtype();
  const bool fits =
      sink == DType::kBf16 || (sink == DType::kF16 && sink == query);
  return fits ? Status() : DoesNotGo(call, Call::kSink);
}

Status CheckAttributes(const Call& call) {
  const FusedInferArgs& args = call.fused;
  const int64_t most_precise = acl::TheEnvironment().strict ? 3 : 4;
  if (args.innerPrecise < 0 || args.innerPrecise > most_precise) {
    return Contradiction("innerPrecise: {}, expected 0 to {}",
                         args.innerPrecise, most_precise);
  }
  if (args.pseType != 0) {
    return Contradiction("pseType: {}, expected 0", args.pseType);
  }
  if (!call.has(Call::kKeyRopeAntiquantScale)) return {};
  return Contradiction("keyRopeAntiquantScale: given, expected none");
}

// INT8 queries are those of a prompt, or of latent decode.
Status CheckInt8(const Call& call) {
  if (!call.int8() || call.query_scaled_by_row()) return {};
  const auto refuse = [](std::string_view what) {
    return Contradiction("query: data type INT8 does not go with {}", what);
  };
  if (call.roped()) return refuse("rope without dequantScaleQuery");
  if (call.query.dims[1] == 1) return refuse("one row per sequence");
  if (call.packed() || call.Is(kNsd)) {
    return refuse(Str("layout {}", call.layout.name));
  }
  return {};
}

Status PlaceSink(const Call& call, Lowered& lowered) {
  if (!call.has(Call::kSink)) return {};
  const Tensor& sink = call[Call::kSink];
  if (sink.rank != 1 || sink.dims[0] != call.args.numHeads) {
    return Contradiction("learnableSink: shape {}, expected [{}]",
                         ShapeText(sink), call.args.numHeads);
  }
  lowered.problem[Slot::kSink] = Strided(sink, {0, kOne, kOne, kOne}, {});
  lowered.Bind(call.arguments, Call::kSink, Slot::kSink);
  return {};
}

void PlaceRope(const Call& call, Lowered& lowered) {
  if (!call.roped()) return;
  AttentionProblem& problem = lowered.problem;
  problem.rope_dim = call.query_rope.dims[3];
  problem[Slot::kQueryRope] = call.query_rope;
  problem[Slot::kKeyRope] = call.key_rope;
  lowered.Bind(call.arguments, Call::kQueryRope, Slot::kQueryRope);
  lowered.Bind(call.arguments, Call::kKeyRope, Slot::kKeyRope);
}

// The prefix counts as keys of every sequence.
void PlacePrefix(const Call& call, Lowered& lowered) {
  if (call.prefix == 0) return;
  lowered.problem[Slot::kKeyPrefix] = call.key_prefix;
  lowered.problem[Slot::kValuePrefix] = call.value_prefix;
  lowered.Bind(call.arguments, Call::kKeyPrefix, Slot::kKeyPrefix);
  lowered.Bind(call.arguments, Call::kValuePrefix, Slot::kValuePrefix);
}

// Of prompts a row without keys is a byte of 0, not the 0 an offset makes:
// leave it to whoever clears the rows that no sequence owns.
void ForgetRowsWithoutKeys(const Call& call, Lowered& lowered) {
  if (!call.int8_out() || call.decode) return;
  for (Sequence& sequence : lowered.problem.lengths.sequences) {
    if (sequence.columns() == 0) sequence.queries.last = sequence.queries.first;
  }
}

bool AllEmpty(std::span<const Entry> list) {
  for (const Entry& entry : list) {
    if (!entry->empty()) return false;
  }
  return !list.empty();
}

// Everything but the results.
Result<Lowered> LowerInputs(Call& call) {
  FLASHACL_RETURN_IF_ERROR(CheckTypes(call));
  FLASHACL_RETURN_IF_ERROR(CheckAttributes(call));
  FLASHACL_RETURN_IF_ERROR(ReadFusedLayout(call));
  FLASHACL_RETURN_IF_ERROR(ReadFusedQuery(call));
  FLASHACL_RETURN_IF_ERROR(ReadFusedKeys(call));
  FLASHACL_RETURN_IF_ERROR(CheckInt8(call));
  FLASHACL_RETURN_IF_ERROR(ReadFusedLengths(call));
  Lowered lowered;
  FLASHACL_RETURN_IF_ERROR(LowerFusedMask(call, lowered));
  PlaceQuery(call, lowered);
  PlaceKeys(call, lowered);
  FLASHACL_RETURN_IF_ERROR(LowerFusedScales(call, lowered));
  FLASHACL_RETURN_IF_ERROR(PlaceSink(call, lowered));
  PlaceRope(call, lowered);
  PlacePrefix(call, lowered);
  ForgetRowsWithoutKeys(call, lowered);
  FLASHACL_RETURN_IF_ERROR(CheckFusedStrictly(call));
  return lowered;
}

}  // namespace

Result<Lowered> LowerFusedInfer(const Arguments& arguments,
                                const FusedInferArgs& args) {
  Call call{{.arguments = arguments,
             .args = args,
             .key_lengths_name = "actualSeqLengthsKv"},
            args};
  if (args.inputLayout == nullptr) {
    return NullArgument("The inputLayout cannot be nullptr.");
  }
  const bool lse = args.softmaxLseFlag;
  if (lse && arguments.given(Call::kLse) == nullptr) {
    return NullArgument(
        "The softmaxLse cannot be nullptr with softmaxLseFlag.");
  }
  const bool no_lse = !lse || arguments.given(Call::kLse)->empty();
  if (arguments[Call::kOut].empty() && no_lse) {
    Lowered lowered;
    lowered.nothing = true;
    return lowered;
  }
  FLASHACL_RETURN_IF_ERROR(arguments.CheckTypes());
  if (AllEmpty(arguments.list(Call::kKey)) && !arguments[Call::kOut].empty() &&
      !(lse && no_lse)) {
    return WithoutKeys(call);
  }
  Result<Lowered> lowered = LowerInputs(call);
  if (!lowered.ok()) return lowered;
  FLASHACL_RETURN_IF_ERROR(LowerFusedResults(call, *lowered));
  return lowered;
}

}  // namespace flashacl::ops
