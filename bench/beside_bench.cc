// SPDX-License-Identifier: Apache-2.0
// Operators beside attention that only memory should limit: bytes that they
// read and write per second, as shares of what as many threads copy with
// memcpy. The two take turns, so that whatever else the machine does happens to
// both; "ratio" is the median over pairs (1: as fast). Drawing masks reads
// nothing and is given in ns per bit. 2,048 tokens with 32 heads of 128
// channels; pages hold 128 rows of 8 such heads, or of one latent and its rope,
// and are in no order.
#include <benchmark/benchmark.h>

#include <algorithm>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <string>
#include <vector>

#include "acl/acl.h"
#include "aclnnop/aclnn_attention_update.h"
#include "aclnnop/aclnn_dropout_do_mask.h"
#include "aclnnop/aclnn_dropout_gen_mask.h"
#include "aclnnop/aclnn_gather_pa_kv_cache.h"
#include "aclnnop/aclnn_ring_attention_update.h"
#include "aclnnop/aclnn_scatter_pa_kv_cache.h"
#include "backends.h"
#include "bench/call.h"
#include "bench/timing.h"
#include "plan/backend.h"

namespace {

using flashacl::bench::Call;
using flashacl::bench::Median;
using flashacl::bench::Seconds;

constexpr int64_t kTokens = 2048, kHeads = 32, kChannels = 128;
constexpr int64_t kRows = kTokens * kHeads;

// Copies half of `bytes`, so that as many are read and written, in memory as
// that of tensors is: of buffers that malloc aligns to 16 bytes, memcpy takes
// twice as long on a Zen 3 as of these, in some processes.
class Copy {
 public:
  explicit Copy(int64_t bytes)
      : half_(bytes / 2), from_(Allocate()), to_(Allocate()) {}
  ~Copy() {
    aclrtFree(from_);
    aclrtFree(to_);
  }
  Copy(const Copy&) = delete;
  Copy& operator=(const Copy&) = delete;

  void Run() {
    constexpr int64_t kPiece = 1 << 18;
    (void)flashacl::CpuBackend().queue->OnHost(
        [&](flashacl::Workers& workers) -> flashacl::Status {
          workers.ForEach((half_ + kPiece - 1) / kPiece, [&](int64_t n) {
            const int64_t first = n * kPiece;
            std::memcpy(to_ + first, from_ + first,
                        static_cast<size_t>(std::min(kPiece, half_ - first)));
          });
          return {};
        });
    benchmark::ClobberMemory();
  }

 private:
  char* Allocate() const {
    void* memory = nullptr;
    const auto size = static_cast<size_t>(half_);
    if (aclrtMalloc(&memory, size, ACL_MEM_MALLOC_HUGE_FIRST) != ACL_SUCCESS) {
      std::abort();
    }
    std::memset(memory, 1, size);
    return static_cast<char*>(memory);
  }

  const int64_t half_;
  char* const from_;
  char* const to_;
};

void Compare(benchmark::State& state, Call& call) {
  if (!call.Run()) {
    const char* const message = aclGetRecentErrMsg();
    state.SkipWithError(message == nullptr ? "the call failed" : message);
    return;
  }
  Copy copy(call.bytes());
  copy.Run();
  std::vector<double> ours, ratios;
  for (auto _ : state) {
    const double one = Seconds([&] { call.Run(); });
    const double other = Seconds([&] { copy.Run(); });
    ours.push_back(one);
    ratios.push_back(other / one);
    state.SetIterationTime(one);
  }
  state.counters["ratio"] = Median(ratios);
  state.counters["B/s"] = {static_cast<double>(call.bytes()) / Median(ours),
                           benchmark::Counter::kDefaults,
                           benchmark::Counter::OneK::kIs1000};
}

void AttentionUpdate(benchmark::State& state) {
  const auto type = static_cast<aclDataType>(state.range(0));
  const int64_t parts = state.range(1);
  Call call(aclnnAttentionUpdate);
  for (int64_t n = 0; n < parts; ++n) call.Add(ACL_FLOAT, {kRows}, 1);
  const aclTensorList* const lse = call.TakeList(parts);
  for (int64_t n = 0; n < parts; ++n) call.Add(type, {kRows, kChannels}, 1);
  const aclTensorList* const rows = call.TakeList(parts);
  call.Add(type, {kRows, kChannels}, 1);
  call.Prepare([lse, rows](const std::vector<aclTensor*>& t, uint64_t* size,
                           aclOpExecutor** executor) {
    return aclnnAttentionUpdateGetWorkspaceSize(lse, rows, 0, t[0], nullptr,
                                                size, executor);
  });
  Compare(state, call);
}
BENCHMARK(AttentionUpdate)
    ->ArgNames({"type", "parts"})
    ->ArgsProduct({{ACL_FLOAT, ACL_FLOAT16, ACL_BF16}, {2, 4}})
    ->UseManualTime();

void RingAttentionUpdate(benchmark::State& state) {
  const auto type = static_cast<aclDataType>(state.range(0));
  const bool packed = state.range(1) != 0;
  const std::vector<int64_t> rows =
      packed ? std::vector{kTokens, kHeads, kChannels}
             : std::vector{kTokens, int64_t{1}, kHeads * kChannels};
  const std::vector<int64_t> statistic =
      packed ? std::vector{kTokens, kHeads, int64_t{8}}
             : std::vector{int64_t{1}, kHeads, kTokens, int64_t{8}};
  Call call(aclnnRingAttentionUpdate);
  for (int n = 0; n < 3; ++n) {
    call.Add(type, rows, 1);
    call.Add(ACL_FLOAT, statistic, 1);
    call.Add(ACL_FLOAT, statistic, 1);
  }
  static int64_t ends[] = {0, kTokens / 3, kTokens};
  static const int64_t count = 3;
  static aclTensor* const at = aclCreateTensor(&count, 1, ACL_INT64, nullptr, 0,
                                               ACL_FORMAT_ND, &count, 1, ends);
  call.Prepare([packed](const std::vector<aclTensor*>& t, uint64_t* size,
                        aclOpExecutor** executor) {
    std::string layout = packed ? "TND" : "SBH";
    return aclnnRingAttentionUpdateGetWorkspaceSize(
        t[0], t[1], t[2], t[3], t[4], t[5], at, layout.data(), t[6], t[7], t[8],
        size, executor);
  });
  Compare(state, call);
}
BENCHMARK(RingAttentionUpdate)
    ->ArgNames({"type", "packed"})
    ->ArgsProduct({{ACL_FLOAT, ACL_FLOAT16, ACL_BF16}, {0, 1}})
    ->UseManualTime();

// What a row of a cache is: heads, channels of keys and of values.
struct CachedRow {
  int64_t heads, key_channels, value_channels;
};
constexpr CachedRow kCachedRows[] = {{8, 128, 128}, {1, 512, 64}};
enum PageMode { kByRows, kByHeads, kNz, kNzByHeads };

constexpr int64_t kCachedTokens = 16384, kBlockRows = 128;
constexpr int64_t kBlocks = kCachedTokens / kBlockRows;

std::vector<int64_t> CacheDims(int64_t mode, int64_t heads, int64_t channels) {
  switch (mode) {
    case kByRows:
      return {kBlocks, kBlockRows, heads, channels};
    case kByHeads:
      return {kBlocks, heads, kBlockRows, channels};
    case kNz:
      return {kBlocks, heads * channels / 16, kBlockRows, 16};
    default:
      return {kBlocks, heads, channels / 16, kBlockRows, 16};
  }
}

// Block n of tokens is this block of the cache.
int32_t BlockOf(int64_t n) { return static_cast<int32_t>(n * 37 % kBlocks); }
static_assert(kBlocks % 37 != 0);

aclTensor* Integers(std::vector<int32_t>& values, std::vector<int64_t> dims) {
  return aclCreateTensor(dims.data(), dims.size(), ACL_INT32, nullptr, 0,
                         ACL_FORMAT_ND, dims.data(), dims.size(),
                         values.data());
}

// `shuffled`: neighbours are no neighbours in the cache, as in a step of
// decode.
void ScatterPaKvCache(benchmark::State& state) {
  const int64_t mode = state.range(0);
  const CachedRow& row = kCachedRows[state.range(1)];
  const bool shuffled = state.range(2) != 0;
  static std::vector<int32_t> slots(kCachedTokens);
  for (int64_t n = 0; n < kCachedTokens; ++n) {
    const int64_t token = shuffled ? n * 5003 % kCachedTokens : n;
    slots[static_cast<size_t>(n)] = static_cast<int32_t>(
        BlockOf(token / kBlockRows) * kBlockRows + token % kBlockRows);
  }
  aclTensor* const at = Integers(slots, {kCachedTokens});
  Call call(aclnnScatterPaKvCache);
  call.Add(ACL_FLOAT16, {kCachedTokens, row.heads, row.key_channels}, 1);
  call.Add(ACL_FLOAT16, CacheDims(mode, row.heads, row.key_channels), 2);
  call.Add(ACL_FLOAT16, {kCachedTokens, row.heads, row.value_channels}, 3);
  call.Add(ACL_FLOAT16, CacheDims(mode, row.heads, row.value_channels), 4);
  call.Prepare([mode, at](const std::vector<aclTensor*>& t, uint64_t* size,
                          aclOpExecutor** executor) {
    std::string cache = mode == kNz || mode == kNzByHeads ? "PA_NZ" : "Norm";
    std::string scatter = mode == kByHeads ? "NHSD" : "None";
    return aclnnScatterPaKvCacheGetWorkspaceSize(
        t[0], t[1], at, t[2], t[3], nullptr, nullptr, nullptr, cache.data(),
        scatter.data(), nullptr, nullptr, size, executor);
  });
  Compare(state, call);
  aclDestroyTensor(at);
}
BENCHMARK(ScatterPaKvCache)
    ->ArgNames({"mode", "row", "shuffled"})
    ->ArgsProduct({{kByRows, kByHeads, kNz, kNzByHeads}, {0, 1}, {0, 1}})
    ->UseManualTime();

// Eight sequences.
void GatherPaKvCache(benchmark::State& state) {
  const int64_t mode = state.range(0);
  const CachedRow& row = kCachedRows[state.range(1)];
  constexpr int64_t kSequences = 8;
  static std::vector<int32_t> ids(kBlocks), lengths(kSequences);
  for (int64_t n = 0; n < kBlocks; ++n)
    ids[static_cast<size_t>(n)] = BlockOf(n);
  for (int32_t& length : lengths) length = kCachedTokens / kSequences;
  aclTensor* const tables = Integers(ids, {kSequences, kBlocks / kSequences});
  aclTensor* const rows = Integers(lengths, {kSequences});
  const auto dims = [&](int64_t channels) {
    return mode == kNz ? std::vector{kCachedTokens, row.heads * channels}
                       : std::vector{kCachedTokens, row.heads, channels};
  };
  Call call(aclnnGatherPaKvCache);
  call.Add(ACL_FLOAT16, CacheDims(mode, row.heads, row.key_channels), 1);
  call.Add(ACL_FLOAT16, CacheDims(mode, row.heads, row.value_channels), 2);
  call.Add(ACL_FLOAT16, dims(row.key_channels), 3);
  call.Add(ACL_FLOAT16, dims(row.value_channels), 4);
  call.Prepare([mode, tables, rows](const std::vector<aclTensor*>& t,
                                    uint64_t* size, aclOpExecutor** executor) {
    std::string cache = mode == kNz ? "PA_NZ" : "Norm";
    return aclnnGatherPaKvCacheGetWorkspaceSize(t[0], t[1], tables, rows, t[2],
                                                t[3], nullptr, cache.data(),
                                                false, size, executor);
  });
  Compare(state, call);
  aclDestroyTensor(tables);
  aclDestroyTensor(rows);
}
BENCHMARK(GatherPaKvCache)
    ->ArgNames({"mode", "row"})
    ->ArgsProduct({{kByRows, kNz}, {0, 1}})
    ->UseManualTime();

void DropoutDoMask(benchmark::State& state) {
  const auto type = static_cast<aclDataType>(state.range(0));
  Call call(aclnnDropoutDoMask);
  call.Add(type, {kRows, kChannels}, 1);
  call.Add(ACL_UINT8, {kRows * kChannels / 8}, 1);
  call.Add(type, {kRows, kChannels}, 1);
  call.Prepare([](const std::vector<aclTensor*>& t, uint64_t* size,
                  aclOpExecutor** executor) {
    return aclnnDropoutDoMaskGetWorkspaceSize(t[0], t[1], 0.1, t[2], size,
                                              executor);
  });
  Compare(state, call);
}
BENCHMARK(DropoutDoMask)
    ->ArgName("type")
    ->ArgsProduct({{ACL_FLOAT, ACL_FLOAT16, ACL_BF16}})
    ->UseManualTime();

void DropoutGenMask(benchmark::State& state) {
  const int64_t bits = state.range(0);
  Call call(aclnnDropoutGenMask);
  call.Add(ACL_UINT8, {bits / 8}, 1);
  call.Prepare([bits](const std::vector<aclTensor*>& t, uint64_t* size,
                      aclOpExecutor** executor) {
    const aclIntArray* const shape = aclCreateIntArray(&bits, 1);
    const aclnnStatus status = aclnnDropoutGenMaskGetWorkspaceSize(
        shape, 0.1, 1, 0, t[0], size, executor);
    aclDestroyIntArray(shape);
    return status;
  });
  if (!call.Run()) return state.SkipWithError("the call failed");
  std::vector<double> times;
  for (auto _ : state) times.push_back(Seconds([&] { call.Run(); }));
  state.counters["ns/bit"] = Median(times) / static_cast<double>(bits) * 1e9;
}
BENCHMARK(DropoutGenMask)->ArgName("bits")->Arg(1 << 15)->Arg(1 << 27);

}  // namespace
