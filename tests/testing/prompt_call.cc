// SPDX-License-Identifier: Apache-2.0
// Building prefill calls, and their answers by definition.
#include "tests/testing/prompt_call.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>

#include "base/str.h"

namespace flashacl::testing {
namespace {

struct Rows {
  int64_t sequences, rows, heads, dim;
};

std::vector<int64_t> Dims(std::string_view layout, const Rows& r) {
  if (layout == "BSH") return {r.sequences, r.rows, r.heads * r.dim};
  if (layout == "BSND") return {r.sequences, r.rows, r.heads, r.dim};
  if (layout == "NSD") return {r.heads, r.rows, r.dim};
  if (layout == "SH") return {r.rows, r.heads * r.dim};
  return {r.sequences, r.heads, r.rows, r.dim};
}

std::string_view InLayout(std::string_view layout) {
  return layout == "BNSD_BSND" ? "BNSD" : layout;
}

std::string_view OutLayout(std::string_view layout) {
  return layout == "BNSD_BSND" ? "BSND" : layout;
}

// Row s of sequence b; with SH, of all rows.
struct At {
  int64_t b, s, n, d, dim;
};

int64_t NumberOf(std::string_view layout, const std::vector<int64_t>& dims,
                 const At& at) {
  if (dims.size() == 1) return 0;  // one element is all there is
  if (layout == "BSH") {
    return (at.b * dims[1] + at.s) * dims[2] + at.n * at.dim + at.d;
  }
  if (layout == "BSND") {
    return ((at.b * dims[1] + at.s) * dims[2] + at.n) * dims[3] + at.d;
  }
  if (layout == "NSD") return (at.n * dims[1] + at.s) * dims[2] + at.d;
  if (layout == "SH") return at.s * dims[1] + at.n * at.dim + at.d;
  return ((at.b * dims[1] + at.n) * dims[2] + at.s) * dims[3] + at.d;
}

std::vector<int64_t> MaskDims(const PromptCase& c) {
  int64_t rows = c.rows;
  int64_t columns = c.columns;
  if (c.layout == "SH" && !c.lengths.empty()) {
    rows = columns = *std::ranges::max_element(c.lengths);
  }
  const int64_t s1 = rows + c.more_rows;
  const int64_t s2 = columns + c.more_columns;
  switch (c.mask) {
    case PromptMask::k13:
      return {1, s1, s2};
    case PromptMask::kB3:
      return {c.sequences, s1, s2};
    case PromptMask::k114:
      return {1, 1, s1, s2};
    case PromptMask::kB14:
      return {c.sequences, 1, s1, s2};
    default:
      return {s1, s2};
  }
}

Form FormOf(const PromptCase& c, aclDataType type, std::vector<int64_t> dims) {
  Form form{.type = type, .dims = std::move(dims)};
  if (!c.spread) return form;
  switch (form.dims.size()) {
    case 2:
      return Spread(std::move(form), {1, 0});
    case 3:
      return Spread(std::move(form), {1, 0, 2});
    default:
      return Spread(std::move(form), {2, 0, 1, 3});
  }
}

}  // namespace

std::string ToString(const PromptCase& c) {
  return Str(
      "type {} {} B {} N {}/{} S {}/{} D {}/{} mask {} of type {} +{}+{} "
      "tokens "
      "{} {} lengths [{}] spread {}",
      static_cast<int>(c.type), c.layout, c.sequences, c.heads, c.kv_heads,
      c.rows, c.columns, c.dim, c.v_dim, static_cast<int>(c.mask),
      static_cast<int>(c.mask_type), c.more_rows, c.more_columns, c.pre_tokens,
      c.next_tokens, Join(c.lengths, ", "), c.spread);
}

PromptCase RandomPromptCase(Random& random) {
  static constexpr const char* kLayouts[] = {"BSH",       "BSND", "BNSD",
                                             "BNSD_BSND", "NSD",  "SH"};
  static constexpr aclDataType kMasks[] = {ACL_BOOL, ACL_INT8, ACL_UINT8};
  PromptCase c;
  c.type = random.OneIn(2) ? ACL_FLOAT16 : ACL_BF16;
  c.layout = kLayouts[random.Within(0, 5)];
  c.sequences = c.layout == "NSD" ? 1 : random.Within(1, 4);
  c.kv_heads = random.Within(1, 3);
  c.heads = c.kv_heads * random.Within(1, 4);
  c.rows = random.Within(1, 9);
  c.columns = random.OneIn(12) ? 0 : random.Within(1, 20);
  c.dim = random.OneIn(2) ? random.Within(1, 40) : 16 * random.Within(1, 4);
  c.v_dim = random.OneIn(2) ? c.dim : random.Within(1, 40);
  c.scale = random.OneIn(8) ? -0.5 : 0.2;
  c.spread = random.OneIn(3);
  const bool packed = c.layout == "SH";
  if (packed || random.OneIn(2)) {
    for (int64_t b = 0; b < c.sequences; ++b) {
      c.lengths.push_back(random.OneIn(5) ? 0 : random.Within(0, c.rows));
    }
    if (!packed && random.OneIn(4)) c.lengths.resize(1);
    if (!packed && c.lengths.size() > 1 && random.OneIn(4)) {
      c.lengths.push_back(99);  // surplus
    }
  }
  if (packed) {
    c.lengths.back() += 1;
    c.rows = 0;
    for (const int64_t length : c.lengths) c.rows += length;
    c.columns = c.rows;
    if (c.sequences == 1 && random.OneIn(3)) c.lengths.clear();
  }
  if (random.OneIn(4)) return c;
  c.mask = static_cast<PromptMask>(random.Within(1, 5));
  c.mask_type = kMasks[random.Within(0, 2)];
  c.more_rows = random.OneIn(3) ? random.Within(1, 4) : 0;
  c.more_columns = random.OneIn(3) ? random.Within(1, 12) : 0;
  c.next_tokens = random.OneIn(2) ? 2147483647 : random.Within(0, 4);
  c.pre_tokens = random.OneIn(2) ? 2147483647 : random.Within(0, 6);
  if (c.lengths.empty() && c.columns > 3 && c.rows > 2 && random.OneIn(3)) {
    const bool next = random.OneIn(2);
    c.pre_tokens = next ? 7 : -random.Within(1, 2);
    c.next_tokens = next ? -random.Within(1, 2) : 5;
  }
  return c;
}

PromptCall::PromptCall(const PromptCase& c, uint64_t seed) : asked(c) {
  Random random(seed);
  const std::string_view in = InLayout(c.layout);
  const auto input = [&](const Rows& rows) {
    DeviceTensor* tensor = caller.Input(FormOf(c, c.type, Dims(in, rows)));
    tensor->Fill(random, -2, 2);
    return tensor;
  };
  query = input({c.sequences, c.rows, c.heads, c.dim});
  key = input({c.sequences, c.columns, c.kv_heads, c.dim});
  value = input({c.sequences, c.columns, c.kv_heads, c.v_dim});
  out = caller.Output(FormOf(
      c, c.type,
      Dims(OutLayout(c.layout), {c.sequences, c.rows, c.heads, c.v_dim})));
  if (c.mask != PromptMask::kNone) {
    mask = caller.Input(FormOf(c, c.mask_type, MaskDims(c)));
    for (int64_t n = 0; n < mask->elements(); ++n) {
      mask->SetNth(n, random.OneIn(3) ? 1 : 0);
    }
  }
  if (!c.lengths.empty()) lengths = caller.Array(c.lengths);
  heads = c.heads;
  kv_heads = c.kv_heads == c.heads ? 0 : c.kv_heads;
  pre_tokens = c.pre_tokens;
  next_tokens = c.next_tokens;
  layout_text_.assign(c.layout.begin(), c.layout.end());
  layout_text_.push_back('\0');
  layout = layout_text_.data();
}

aclnnStatus PromptCall::PhaseOne(uint64_t* size, aclOpExecutor** executor) {
  return aclnnPromptFlashAttentionGetWorkspaceSize(
      HandleOf(query), HandleOf(key), HandleOf(value), HandleOf(pse),
      HandleOf(mask), lengths, heads, asked.scale, pre_tokens, next_tokens,
      layout, kv_heads, HandleOf(out), size, executor);
}

bool PromptCall::Run() {
  return caller.Run([this](uint64_t* size, aclOpExecutor** executor) {
    return PhaseOne(size, executor);
  });
}

void PromptCall::ExpectFailure(aclnnStatus status, std::string_view words) {
  caller.ExpectFailure(
      [this](uint64_t* size, aclOpExecutor** executor) {
        return PhaseOne(size, executor);
      },
      status, words);
}

void PromptCall::ExpectAsDocumented() {
  if (Run()) ExpectNear(*out, Expected(), 4.0);
}

// Without a mask everything; with one, what is 0 in it inside of the band that
// is measured from the top left corner.
bool PromptCall::Sees(int64_t b, int64_t i, int64_t j) const {
  if (mask == nullptr) return true;
  const std::vector<int64_t>& dims = mask->form().dims;
  const size_t rank = dims.size();
  const int64_t plane = rank == 2 || dims[0] == 1 ? 0 : b;
  const int64_t n = (plane * dims[rank - 2] + i) * dims[rank - 1] + j;
  return mask->Nth(n) == 0 && i - pre_tokens <= j && j <= i + next_tokens;
}

std::vector<double> PromptCall::Expected() const {
  const PromptCase& c = asked;
  const std::string_view in = InLayout(c.layout);
  const bool packed = c.layout == "SH";
  std::vector<double> expected(static_cast<size_t>(out->elements()), 0.0);
  int64_t start = 0;  // of the sequence, for SH
  for (int64_t b = 0; b < c.sequences; ++b) {
    const size_t own = c.lengths.size() == 1 ? 0 : static_cast<size_t>(b);
    const int64_t rows = c.lengths.empty() ? c.rows : c.lengths[own];
    const int64_t columns = packed ? rows : c.columns;
    for (int64_t n = 0; n < c.heads * rows; ++n) {
      const int64_t h = n / rows;
      const int64_t i = n % rows;
      const int64_t g = h / (c.heads / c.kv_heads);
      const auto number = [&](const DeviceTensor* tensor, int64_t s, int64_t e,
                              int64_t head, int64_t dim) {
        return tensor->Nth(
            NumberOf(in, tensor->form().dims, {b, start + s, head, e, dim}));
      };
      std::vector<double> scores(static_cast<size_t>(columns));
      double max = -std::numeric_limits<double>::infinity();
      for (int64_t j = 0; j < columns; ++j) {
        double dot = 0;
        for (int64_t e = 0; e < c.dim; ++e) {
          dot += number(query, i, e, h, c.dim) * number(key, j, e, g, c.dim);
        }
        double& score = scores[static_cast<size_t>(j)];
        score = Sees(b, i, j) ? dot * static_cast<float>(c.scale)
                              : -std::numeric_limits<double>::infinity();
        max = std::max(max, score);
      }
      if (std::isinf(max)) continue;  // sees nothing: 0
      double sum = 0;
      for (const double score : scores) sum += std::exp(score - max);
      for (int64_t e = 0; e < c.v_dim; ++e) {
        double total = 0;
        for (int64_t j = 0; j < columns; ++j) {
          total += std::exp(scores[static_cast<size_t>(j)] - max) *
                   number(value, j, e, g, c.v_dim);
        }
        expected[static_cast<size_t>(
            NumberOf(OutLayout(c.layout), out->form().dims,
                     {b, start + i, h, e, c.v_dim}))] = total / sum;
      }
    }
    if (packed) start += rows;
  }
  return expected;
}

}  // namespace flashacl::testing
