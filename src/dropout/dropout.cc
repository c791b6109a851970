// SPDX-License-Identifier: Apache-2.0
// Runs: units of a mask, and chunks of a walk, for the workers.
#include "dropout/dropout.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>
#include <string>
#include <string_view>
#include <utility>

#include "base/number.h"
#include "base/range.h"
#include "base/str.h"
#include "cpu/streams.h"
#include "dropout/dropout_kernel.h"

namespace flashacl::dropout {
namespace {

using At = std::span<std::byte* const>;
using elementwise::Operand;
using elementwise::Type;
using elementwise::Walk;

// Units that a worker takes at a time: 8 KiB of mask, which takes longer than
// to hand it out.
constexpr int64_t kChunkUnits = 512;

// Elements that a worker takes at a time.
constexpr int64_t kChunkElements = 1 << 15;

// The least number of 23 bits that keeps. prob is what fp32 has of it, as the
// hardware compares.
int32_t Threshold(double prob) {
  const double rounded = static_cast<double>(static_cast<float>(prob));
  return static_cast<int32_t>(std::ceil(rounded * 0x1p23));
}

// A mask's bytes by number.
class Bytes {
 public:
  explicit Bytes(MaskTensor mask) : mask_(std::move(mask)) {
    for (size_t axis = mask_.extents.size(); axis-- > 0;) {
      const int64_t extent = mask_.extents[axis];
      dense_ &= extent == 1 || mask_.strides[axis] == count_;
      count_ *= extent;
    }
  }

  int64_t count() const { return count_; }
  bool dense() const { return dense_; }

  std::byte* Byte(At at, int64_t n) const {
    int64_t place = mask_.offset;
    if (dense_) return at[mask_.argument] + place + n;
    for (size_t axis = mask_.extents.size(); axis-- > 0;) {
      place += n % mask_.extents[axis] * mask_.strides[axis];
      n /= mask_.extents[axis];
    }
    return at[mask_.argument] + place;
  }

 private:
  MaskTensor mask_;
  int64_t count_ = 1;
  bool dense_ = true;
};

int64_t Read(At at, const DeviceNumber& number) {
  return Load<int64_t>(at[number.argument] + number.offset * 8);
}

// What this run draws.
MaskDraw DrawOf(const Generator& generator, At at) {
  const auto& [prob, seed, offset, device_seed, device_offset] = generator;
  MaskDraw draw{static_cast<uint64_t>(seed), static_cast<uint64_t>(offset),
                Threshold(prob)};
  if (device_seed) draw.seed = static_cast<uint64_t>(Read(at, *device_seed));
  if (device_offset) {
    draw.offset += static_cast<uint64_t>(Read(at, *device_offset));
  }
  return draw;
}

// Bytes that lie apart are drawn into a buffer.
void DrawApart(const MaskDraw& draw, const Bytes& mask, At at, Range units) {
  constexpr int64_t kUnits = 64;
  std::byte drawn[kUnits * kUnitBytes];
  for (int64_t n = units.first; n < units.last; n += kUnits) {
    const int64_t count = std::min(kUnits, units.last - n);
    Kernels().draw(draw, n, count, drawn);
    for (int64_t byte = 0; byte < count * kUnitBytes; ++byte) {
      *mask.Byte(at, n * kUnitBytes + byte) = drawn[byte];
    }
  }
}

void DrawMask(const Generator& generator, const Bytes& mask, At at,
              Workers& workers) {
  const MaskDraw draw = DrawOf(generator, at);
  const int64_t units = mask.count() / kUnitBytes;
  workers.ForEach(CeilDiv(units, kChunkUnits), [&](int64_t n) {
    const Range chunk{n * kChunkUnits, std::min((n + 1) * kChunkUnits, units)};
    if (!mask.dense()) return DrawApart(draw, mask, at, chunk);
    Kernels().draw(draw, chunk.first, chunk.size(),
                   mask.Byte(at, chunk.first * kUnitBytes));
  });
}

class Mask final : public Computation {
 public:
  Mask(Generator generator, MaskTensor mask)
      : generator_(std::move(generator)), mask_(std::move(mask)) {}

  std::string_view name() const override { return "dropout/mask"; }

  std::string Describe() const override {
    return Str("{} bytes, prob {}", mask_.count(), generator_.prob);
  }

  Status Run(At at, std::byte* /*workspace*/, Queue& queue) const override {
    return queue.OnHost([&](Workers& workers) -> Status {
      DrawMask(generator_, mask_, at, workers);
      return {};
    });
  }

 private:
  const Generator generator_;
  const Bytes mask_;
};

cpu::ElementFormat FormatOf(Type type, int64_t step) {
  cpu::ElementFormat format;
  format.dtype = type == Type::kF16    ? DType::kF16
                 : type == Type::kBf16 ? DType::kBf16
                 : type == Type::kF64  ? DType::kF64
                                       : DType::kF32;
  format.step = step;
  format.element_bytes = elementwise::SizeOf(type);
  return format;
}

// Numbers of elements in order of the shape, as strides.
elementwise::Axes OrderOf(const std::vector<int64_t>& extents) {
  elementwise::Axes order{};
  int64_t stride = 1;
  for (size_t axis = extents.size(); axis-- > 0;) {
    order[axis] = stride;
    stride *= extents[axis];
  }
  return order;
}

// What a selection walks through: self, bits, out.
Walk WalkOf(const Selection& selection) {
  const elementwise::Axes strides[] = {selection.self.strides,
                                       OrderOf(selection.extents),
                                       selection.out.strides};
  return Walk(selection.extents, strides);
}

// The bits of a block, the first of them lowest.
class BlockBits {
 public:
  static constexpr int64_t kWords = kSelectBlock / 32;

  // `count` bits from number `first` on, `step` apart.
  void Read(const Bytes& mask, At at, Range numbers, int64_t step) {
    std::fill(std::begin(words_), std::end(words_), 0);
    if (step == 1 && mask.dense()) return ReadDense(mask, at, numbers);
    int64_t g = numbers.first;
    for (int64_t n = 0; n < numbers.size(); ++n, g += step) {
      const auto byte = static_cast<uint32_t>(*mask.Byte(at, g / 8));
      words_[n / 32] |= (byte >> (g % 8) & 1u) << (n % 32);
    }
  }

  const uint32_t* words() const { return words_; }

 private:
  void ReadDense(const Bytes& mask, At at, Range numbers) {
    const auto shift = static_cast<uint32_t>(numbers.first % 8);
    const int64_t bytes = CeilDiv(shift + numbers.size(), 8);
    const std::byte* const from = mask.Byte(at, numbers.first / 8);
    if (shift == 0 && std::endian::native == std::endian::little) {
      std::memcpy(words_, from, static_cast<size_t>(bytes));
      return;
    }
    for (int64_t n = 0; n < bytes; ++n) {
      const uint64_t bits = uint64_t{static_cast<uint8_t>(from[n])}
                            << (n % 4 * 8);
      const int64_t word = n / 4;
      // A word's bits go to two words where they do not begin with a byte.
      if (word < kWords) words_[word] |= static_cast<uint32_t>(bits >> shift);
      if (n % 4 == 0 && word > 0 && shift > 0) {
        words_[word - 1] |= static_cast<uint32_t>(bits << (32 - shift));
      }
    }
  }

  uint32_t words_[kWords];
};

// What is computed in place is in the cache when it is written.
bool Streams(const Selection& selection, const Walk& walk) {
  return selection.self.argument != selection.out.argument &&
         cpu::Streams(walk.elements() *
                      elementwise::SizeOf(selection.out.type));
}

void SelectChunk(const Selection& selection, const Walk& walk,
                 const std::optional<Bytes>& mask, At at, Range chunk) {
  const auto& steps = walk.row_steps();
  const int64_t self_bytes = elementwise::SizeOf(selection.self.type);
  const int64_t out_bytes = elementwise::SizeOf(selection.out.type);
  const std::byte* const self =
      at[selection.self.argument] + selection.self.offset * self_bytes;
  std::byte* const out =
      at[selection.out.argument] + selection.out.offset * out_bytes;
  const DropoutKernels kernels = Kernels();
  BlockBits bits{};
  SelectBlock block{.self = FormatOf(selection.self.type, steps[0]),
                    .out = FormatOf(selection.out.type, steps[2]),
                    .bits = bits.words(),
                    .amount = selection.amount,
                    .divides = selection.divides,
                    .streams = Streams(selection, walk)};
  walk.ForRows(chunk, [&](const elementwise::Places& places, int64_t count) {
    for (int64_t n = 0; n < count; n += kSelectBlock) {
      block.count = std::min(kSelectBlock, count - n);
      block.from = self + (places[0] + n * steps[0]) * self_bytes;
      block.to = out + (places[2] + n * steps[2]) * out_bytes;
      const int64_t first = places[1] + n * steps[1];
      if (mask) bits.Read(*mask, at, {first, first + block.count}, steps[1]);
      kernels.select(block);
    }
  });
  if (block.streams) kernels.flush();
}

class Select final : public Computation {
 public:
  Select(std::optional<Generator> generator, Selection selection)
      : generator_(std::move(generator)),
        selection_(std::move(selection)),
        walk_(WalkOf(selection_)) {
    if (selection_.mask) mask_.emplace(*selection_.mask);
  }

  std::string_view name() const override {
    return generator_ ? "dropout/mask and select" : "dropout/select";
  }

  std::string Describe() const override {
    return Str("{} {} {} to {}: [{}]", elementwise::Name(selection_.self.type),
               selection_.divides ? "divided by" : "times", selection_.amount,
               elementwise::Name(selection_.out.type),
               Join(selection_.extents, ", "));
  }

  Status Run(At at, std::byte* /*workspace*/, Queue& queue) const override {
    return queue.OnHost([&](Workers& workers) -> Status {
      if (generator_) DrawMask(*generator_, *mask_, at, workers);
      const int64_t elements = walk_.elements();
      workers.ForEach(CeilDiv(elements, kChunkElements), [&](int64_t n) {
        const Range chunk{n * kChunkElements,
                          std::min((n + 1) * kChunkElements, elements)};
        SelectChunk(selection_, walk_, mask_, at, chunk);
      });
      return {};
    });
  }

 private:
  const std::optional<Generator> generator_;
  const Selection selection_;
  const Walk walk_;
  std::optional<Bytes> mask_;
};

}  // namespace

int64_t MaskBytes(int64_t elements) {
  return (elements / kUnitBits + (elements % kUnitBits != 0)) * kUnitBytes;
}

std::shared_ptr<const Computation> MakeMask(Generator generator,
                                            MaskTensor mask) {
  return std::make_shared<const Mask>(std::move(generator), std::move(mask));
}

std::shared_ptr<const Computation> MakeSelection(Selection selection) {
  return std::make_shared<const Select>(std::nullopt, std::move(selection));
}

std::shared_ptr<const Computation> MakeDropout(Generator generator,
                                               Selection selection) {
  return std::make_shared<const Select>(std::move(generator),
                                        std::move(selection));
}

}  // namespace flashacl::dropout
