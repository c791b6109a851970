// SPDX-License-Identifier: Apache-2.0
// The loop of a serving engine with continuous batching, as vLLM runs it: eight
// requests join, prefill in chunks, decode and leave, over one cache of pages.
//   aclnnScatterPaKvCache            writes each step's keys and values
//   aclnnFusedInferAttentionScoreV3  attends: prefill, decode, or both at once
//   aclnnAttentionUpdate             merges halves of a long context
// There is no model: queries, keys and values are random. Each row of each step
// is compared with dense fp64 attention to its request's own history, so that a
// page of another request, or of one that has left, would be noticed.
#include "aclnnop/aclnn_attention_update.h"
#include "aclnnop/aclnn_fused_infer_attention_score_v3.h"
#include "aclnnop/aclnn_scatter_pa_kv_cache.h"
#include "example.h"

namespace {

const int64_t kHeads = 8, kKeyHeads = 2, kDim = 64;
const int64_t kPageRows = 16, kPages = 64;  // fewer than all requests need
const int64_t kRunning = 4;                 // max_num_seqs
const int64_t kBudget = 128;                // max_num_batched_tokens
const int64_t kLong = 512;  // contexts of so many tokens are attended in halves
const double kScale = 0.125;

typedef example::Host<uint16_t> Bf16;

struct Request {
  int64_t prompt, outputs;
  int64_t computed;            // tokens in the cache (num_computed_tokens)
  std::vector<int32_t> pages;  // its row of the block table
  std::vector<uint16_t> keys, values;  // history, [token, key head, dim]

  Request(int64_t prompt_tokens, int64_t new_tokens)
      : prompt(prompt_tokens), outputs(new_tokens), computed(0) {}
  int64_t total() const { return prompt + outputs; }
};

// What one step computes of one request: the last `tokens` of its tokens.
struct Piece {
  Request* request;
  int64_t tokens;
  int64_t row;  // its first row among those of the step
};
typedef std::vector<Piece> Pieces;

int64_t Up(int64_t count, int64_t unit) { return (count + unit - 1) / unit; }

int64_t Rows(const Pieces& pieces) {
  int64_t rows = 0;
  for (size_t n = 0; n < pieces.size(); ++n) rows += pieces[n].tokens;
  return rows;
}

// Host lengths that the operator copies in its first phase.
class Lengths {
 public:
  explicit Lengths(const std::vector<int64_t>& values)
      : array_(aclCreateIntArray(values.data(), values.size())) {}
  ~Lengths() { aclDestroyIntArray(array_); }
  aclIntArray* array() const { return array_; }

 private:
  Lengths(const Lengths&);
  Lengths& operator=(const Lengths&);
  aclIntArray* array_;
};

// Another shape of a tensor in the same memory: torch's view().
aclTensor* View(const example::Device& of, const std::vector<int64_t>& dims,
                aclDataType type) {
  return aclCreateTensor(dims.data(), dims.size(), type, nullptr, 0,
                         ACL_FORMAT_ND, dims.data(), dims.size(), of.memory());
}

// NaN in all rows: reading a row that nobody wrote would not stay unnoticed.
Bf16 EmptyCache() {
  Bf16 cache({kPages, kPageRows, kKeyHeads, kDim});
  std::fill(cache.values.begin(), cache.values.end(), uint16_t(0x7FC0));
  return cache;
}

example::Host<int8_t> CausalMask() {
  example::Host<int8_t> mask({2048, 2048});
  for (int64_t i = 0; i < 2048; ++i) {
    for (int64_t j = i + 1; j < 2048; ++j) mask.At(i, j) = 1;
  }
  return mask;
}

class Engine {
 public:
  Engine()
      : keys_(EmptyCache(), ACL_BF16),
        values_(EmptyCache(), ACL_BF16),
        mask_(CausalMask(), ACL_BOOL),
        milliseconds(0) {
    // Lists own their tensors, so these get tensors of their own.
    const std::vector<int64_t> dims = {kPages, kPageRows, kKeyHeads * kDim};
    aclTensor* key = View(keys_, dims, ACL_BF16);
    aclTensor* value = View(values_, dims, ACL_BF16);
    key_list_ = aclCreateTensorList(&key, 1);
    value_list_ = aclCreateTensorList(&value, 1);
  }
  ~Engine() {
    aclDestroyTensorList(key_list_);
    aclDestroyTensorList(value_list_);
  }

  // reshape_and_cache: the step's new rows go to their slots. Engines pad steps
  // to sizes they have captured; padded rows have slot -1 and go nowhere.
  void Write(const Pieces& pieces, const Bf16& key, const Bf16& value) {
    example::Host<int32_t> slots({key.dims[0]});
    std::fill(slots.values.begin(), slots.values.end(), -1);
    for (size_t n = 0; n < pieces.size(); ++n) {
      const Request& request = *pieces[n].request;
      for (int64_t i = 0; i < pieces[n].tokens; ++i) {
        const int64_t token = request.computed - pieces[n].tokens + i;
        const int32_t page =
            request.pages[static_cast<size_t>(token / kPageRows)];
        slots.At(pieces[n].row + i) =
            static_cast<int32_t>(page * kPageRows + token % kPageRows);
      }
    }
    const example::Device keys(key, ACL_BF16), values(value, ACL_BF16),
        slot_mapping(slots, ACL_INT32);
    char norm[] = "Norm", none[] = "None";
    uint64_t size = 0;
    aclOpExecutor* executor = nullptr;
    EXAMPLE_CHECK(aclnnScatterPaKvCacheGetWorkspaceSize(
        keys.tensor(), keys_.tensor(), slot_mapping.tensor(), values.tensor(),
        values_.tensor(), nullptr, nullptr, nullptr, norm, none, nullptr,
        nullptr, &size, &executor));
    milliseconds += session_.Run(aclnnScatterPaKvCache, size, executor);
  }

  // Prefill chunks, alone or with decodes among them: rows are packed (TND),
  // and sparseMode 3 lets row i of q see the first k - q + i + 1 of k keys.
  void Mixed(const Pieces& pieces, Bf16& query, Bf16& out) {
    std::vector<int64_t> ends, lengths;
    for (size_t n = 0; n < pieces.size(); ++n) {
      ends.push_back((n == 0 ? 0 : ends.back()) + pieces[n].tokens);
      lengths.push_back(pieces[n].request->computed);
    }
    const example::Device q(query, ACL_BF16), o(out, ACL_BF16);
    const Lengths query_ends(ends);
    char layout[] = "TND";
    Attend(layout, q.tensor(), query_ends.array(), lengths,
           Table(pieces, false), mask_.tensor(), 3, o.tensor(), nullptr);
    o.CopyTo(out);
  }

  // One token for each request: no mask, as it sees all that is cached.
  void Decode(const Pieces& pieces, Bf16& query, Bf16& out) {
    std::vector<int64_t> lengths;
    for (size_t n = 0; n < pieces.size(); ++n) {
      lengths.push_back(pieces[n].request->computed);
    }
    query.dims = out.dims = {Rows(pieces), 1, kHeads, kDim};
    const example::Device q(query, ACL_BF16), o(out, ACL_BF16);
    char layout[] = "BSND";
    Attend(layout, q.tensor(), nullptr, lengths, Table(pieces, false), nullptr,
           0, o.tensor(), nullptr);
    o.CopyTo(out);
  }

  // Context parallelism: each half of the pages is attended to on its own, on
  // another device perhaps, and leaves the log-sum-exp of its scores.
  void DecodeInHalves(const Pieces& pieces, Bf16& query, Bf16& out) {
    const int64_t requests = Rows(pieces), rows = requests * kHeads;
    query.dims = out.dims = {requests, 1, kHeads, kDim};
    const example::Host<float> no_lse({requests, kHeads, 1, 1});
    const example::Device q(query, ACL_BF16), o(out, ACL_BF16),
        first(out, ACL_BF16), second(out, ACL_BF16),
        first_lse(no_lse, ACL_FLOAT), second_lse(no_lse, ACL_FLOAT);
    std::vector<int64_t> before, after;
    for (size_t n = 0; n < pieces.size(); ++n) {
      before.push_back(Half(*pieces[n].request) * kPageRows);
      after.push_back(pieces[n].request->computed - before.back());
    }
    char layout[] = "BSND";
    Attend(layout, q.tensor(), nullptr, before, Table(pieces, false), nullptr,
           0, first.tensor(), first_lse.tensor());
    Attend(layout, q.tensor(), nullptr, after, Table(pieces, true), nullptr, 0,
           second.tensor(), second_lse.tensor());

    // The merge knows rows alone, one for each request and head.
    aclTensor* lses[] = {View(first_lse, {rows}, ACL_FLOAT),
                         View(second_lse, {rows}, ACL_FLOAT)};
    aclTensor* parts[] = {View(first, {rows, kDim}, ACL_BF16),
                          View(second, {rows, kDim}, ACL_BF16)};
    aclTensorList* lse_list = aclCreateTensorList(lses, 2);
    aclTensorList* part_list = aclCreateTensorList(parts, 2);
    aclTensor* merged = View(o, {rows, kDim}, ACL_BF16);
    uint64_t size = 0;
    aclOpExecutor* executor = nullptr;
    EXAMPLE_CHECK(aclnnAttentionUpdateGetWorkspaceSize(
        lse_list, part_list, 0, merged, nullptr, &size, &executor));
    milliseconds += session_.Run(aclnnAttentionUpdate, size, executor);
    aclDestroyTensor(merged);
    aclDestroyTensorList(part_list);
    aclDestroyTensorList(lse_list);
    o.CopyTo(out);
  }

 private:
  static int64_t Half(const Request& request) {
    return Up(request.computed, kPageRows) / 2;
  }

  // Rows are as long as the longest; -1 where a request has no such page.
  static example::Host<int32_t> Table(const Pieces& pieces, bool second_half) {
    int64_t columns = 1;
    for (size_t n = 0; n < pieces.size(); ++n) {
      columns = std::max(columns, Up(pieces[n].request->computed, kPageRows));
    }
    const int64_t requests = static_cast<int64_t>(pieces.size());
    example::Host<int32_t> table({requests, columns});
    std::fill(table.values.begin(), table.values.end(), -1);
    for (int64_t n = 0; n < requests; ++n) {
      const Request& request = *pieces[static_cast<size_t>(n)].request;
      const int64_t from = second_half ? Half(request) : 0;
      for (int64_t p = from; p < Up(request.computed, kPageRows); ++p) {
        table.At(n, p - from) = request.pages[static_cast<size_t>(p)];
      }
    }
    return table;
  }

  void Attend(char* layout, const aclTensor* query, const aclIntArray* ends,
              const std::vector<int64_t>& key_lengths,
              const example::Host<int32_t>& block_table, const aclTensor* mask,
              int64_t sparse_mode, const aclTensor* out, const aclTensor* lse) {
    const Lengths lengths(key_lengths);
    const example::Device table(block_table, ACL_INT32);
    uint64_t size = 0;
    aclOpExecutor* executor = nullptr;
    EXAMPLE_CHECK(aclnnFusedInferAttentionScoreV3GetWorkspaceSize(
        query, key_list_, value_list_, nullptr, mask, ends, lengths.array(),
        nullptr, nullptr, nullptr, nullptr, nullptr, nullptr, nullptr,
        table.tensor(), nullptr, nullptr, nullptr, nullptr, nullptr, nullptr,
        nullptr, nullptr, nullptr, nullptr, nullptr, nullptr, kHeads, kScale,
        2147483647, 2147483647, layout, kKeyHeads, sparse_mode, 0, kPageRows, 0,
        lse != nullptr, 0, 0, out, lse, &size, &executor));
    milliseconds +=
        session_.Run(aclnnFusedInferAttentionScoreV3, size, executor);
  }

  example::Session session_;
  const example::Device keys_, values_, mask_;
  aclTensorList *key_list_, *value_list_;

 public:
  float milliseconds;  // of all operators together
};

// What is allowed of sum_j p_j |v_j|. The result is rounded to 8 bits once, so
// is each half before a merge: an error of at most 2^-8 each. Arithmetic in
// fp32 (64 products in a score, some hundred keys) adds less than 2^-12.
double Allowed(int roundings) { return roundings / 256.0 + 1 / 4096.0; }

// How far a row of a piece is from the truth, as a share of sum_j p_j |v_j|.
double Distance(const Request& request, int64_t seen, const uint16_t* query,
                const uint16_t* out) {
  double worst = 0;
  std::vector<double> weights(static_cast<size_t>(seen));
  for (int64_t h = 0; h < kHeads; ++h) {
    const int64_t from = h / (kHeads / kKeyHeads) * kDim;
    double sum = 0;
    for (int64_t j = 0; j < seen; ++j) {
      const uint16_t* key =
          &request.keys[static_cast<size_t>(j * kKeyHeads * kDim + from)];
      double score = 0;
      for (int64_t d = 0; d < kDim; ++d) {
        score += double(example::FromBf16(query[h * kDim + d])) *
                 example::FromBf16(key[d]);
      }
      weights[static_cast<size_t>(j)] = std::exp(score * kScale);
      sum += weights[static_cast<size_t>(j)];
    }
    double truth[kDim] = {}, size[kDim] = {};
    for (int64_t j = 0; j < seen; ++j) {
      const uint16_t* value =
          &request.values[static_cast<size_t>(j * kKeyHeads * kDim + from)];
      const double p = weights[static_cast<size_t>(j)] / sum;
      for (int64_t d = 0; d < kDim; ++d) {
        truth[d] += p * example::FromBf16(value[d]);
        size[d] += p * std::fabs(example::FromBf16(value[d]));
      }
    }
    for (int64_t d = 0; d < kDim; ++d) {
      const double distance =
          std::fabs(example::FromBf16(out[h * kDim + d]) - truth[d]) / size[d];
      if (example::IsWorse(distance, worst)) worst = distance;
    }
  }
  return worst;
}

// The queries of some pieces, one after the other, out of those of the step.
Bf16 Packed(const Pieces& pieces, const Bf16& query) {
  Bf16 packed({Rows(pieces), kHeads, kDim});
  uint16_t* to = packed.values.data();
  for (size_t n = 0; n < pieces.size(); ++n) {
    const uint16_t* from = query.values.data() + pieces[n].row * kHeads * kDim;
    to = std::copy(from, from + pieces[n].tokens * kHeads * kDim, to);
  }
  return packed;
}

struct Counts {
  int steps, mixed, decodes, halves, reused;
  int64_t tokens;
  int64_t wrong;  // rows farther from the truth than allowed
  double distance;
};

enum How { kMixed, kDecode, kHalves };

void AttendAndCheck(Engine& engine, const Pieces& pieces, How how,
                    const Bf16& step_query, Counts& counts) {
  if (pieces.empty()) return;
  Bf16 query = Packed(pieces, step_query), out(query.dims);
  if (how == kMixed) engine.Mixed(pieces, query, out), ++counts.mixed;
  if (how == kDecode) engine.Decode(pieces, query, out), ++counts.decodes;
  if (how == kHalves)
    engine.DecodeInHalves(pieces, query, out), ++counts.halves;
  const double allowed = Allowed(how == kHalves ? 2 : 1);
  size_t at = 0;
  for (size_t n = 0; n < pieces.size(); ++n) {
    for (int64_t i = 0; i < pieces[n].tokens; ++i, at += kHeads * kDim) {
      const Request& request = *pieces[n].request;
      const double distance =
          Distance(request, request.computed - pieces[n].tokens + i + 1,
                   &query.values[at], &out.values[at]);
      if (!(distance <= allowed)) ++counts.wrong;
      if (example::IsWorse(distance, counts.distance)) {
        counts.distance = distance;
      }
    }
  }
}

// The step's new rows, padded to a multiple of 16 rows.
void Step(Engine& engine, Pieces& pieces, std::mt19937& random,
          Counts& counts) {
  const int64_t rows = Rows(pieces), padded = Up(rows, 16) * 16;
  const Bf16 query = example::RandomBf16({padded, kHeads, kDim}, random);
  const Bf16 key = example::RandomBf16({padded, kKeyHeads, kDim}, random);
  const Bf16 value = example::RandomBf16({padded, kKeyHeads, kDim}, random);
  Pieces usual, large;
  bool prefills = false;
  for (size_t n = 0; n < pieces.size(); ++n) {
    Request& request = *pieces[n].request;
    const int64_t width = kKeyHeads * kDim, from = pieces[n].row * width;
    const int64_t to = from + pieces[n].tokens * width;
    request.keys.insert(request.keys.end(), key.values.begin() + from,
                        key.values.begin() + to);
    request.values.insert(request.values.end(), value.values.begin() + from,
                          value.values.begin() + to);
    const bool decodes = request.computed >= request.prompt;
    request.computed += pieces[n].tokens;
    prefills = prefills || !decodes;
    const bool in_halves = decodes && request.computed > kLong;
    (in_halves ? large : usual).push_back(pieces[n]);
  }
  engine.Write(pieces, key, value);
  AttendAndCheck(engine, usual, prefills ? kMixed : kDecode, query, counts);
  AttendAndCheck(engine, large, kHalves, query, counts);
  counts.tokens += rows;
  ++counts.steps;
}

// Decodes first, then chunks of prompts, as far as the budget goes.
Pieces Schedule(const std::vector<Request*>& running) {
  Pieces pieces;
  int64_t rows = 0;
  for (int prefill = 0; prefill < 2; ++prefill) {
    for (size_t n = 0; n < running.size(); ++n) {
      Request* const request = running[n];
      const int64_t left = request->prompt - request->computed;
      if ((left > 0) != (prefill == 1) || rows == kBudget) continue;
      const int64_t tokens = left > 0 ? std::min(left, kBudget - rows) : 1;
      pieces.push_back(Piece{request, tokens, rows});
      rows += tokens;
    }
  }
  return pieces;
}

void Serve(Engine& engine, std::vector<Request>& requests, Counts& counts) {
  std::mt19937 random(11);
  std::vector<int32_t> free_pages;
  for (int32_t page = 0; page < kPages; ++page) free_pages.push_back(page);
  std::shuffle(free_pages.begin(), free_pages.end(), random);
  std::vector<bool> used(kPages);
  std::vector<Request*> running;
  size_t next = 0;
  while (next < requests.size() || !running.empty()) {
    // A request joins once there are pages for all its tokens. (vLLM hands them
    // out one by one and preempts a request when there are none.)
    while (next < requests.size() && running.size() < size_t(kRunning)) {
      Request& request = requests[next];
      const size_t need = static_cast<size_t>(Up(request.total(), kPageRows));
      if (need > free_pages.size()) break;
      for (size_t n = 0; n < need; ++n) {
        const int32_t page = free_pages.back();
        free_pages.pop_back();
        counts.reused += used[static_cast<size_t>(page)] ? 1 : 0;
        used[static_cast<size_t>(page)] = true;
        request.pages.push_back(page);
      }
      running.push_back(&request);
      ++next;
    }
    Pieces pieces = Schedule(running);
    Step(engine, pieces, random, counts);
    for (size_t n = running.size(); n-- > 0;) {
      Request& request = *running[n];
      if (request.computed < request.total()) continue;
      free_pages.insert(free_pages.end(), request.pages.begin(),
                        request.pages.end());
      running.erase(running.begin() + static_cast<int64_t>(n));
    }
  }
}

}  // namespace

int main() {
  std::vector<Request> requests = {
      Request(37, 20), Request(200, 12), Request(5, 30), Request(560, 12),
      Request(64, 8),  Request(129, 25), Request(1, 40), Request(150, 10)};
  Counts counts = {};
  Engine engine;
  Serve(engine, requests, counts);
  // A loop that skipped one of its ways would have shown nothing.
  if (counts.mixed == 0 || counts.decodes == 0 || counts.halves == 0 ||
      counts.reused == 0) {
    std::fprintf(stderr, "some kind of step did not happen\n");
    return 1;
  }
  std::printf(
      "%d requests, %d steps: %d mixed, %d decode, %d in halves; %d pages "
      "reused; %.0f tokens per second\n",
      static_cast<int>(requests.size()), counts.steps, counts.mixed,
      counts.decodes, counts.halves, counts.reused,
      1000.0 * double(counts.tokens) / double(engine.milliseconds));
  example::Error error;
  error.Add(1 + counts.distance, 1);
  const double allowed = counts.wrong == 0 ? Allowed(2) : 0;
  return example::Report("aclnnFusedInferAttentionScoreV3", error, allowed,
                         engine.milliseconds);
}
