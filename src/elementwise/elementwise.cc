// SPDX-License-Identifier: Apache-2.0
// A run: chunks of the walk for the workers; of a chunk, row by row, blocks
// that are brought to the type of the arithmetic, combined, and brought to the
// type of the result. What has the right type and lies densely is used where it
// is.
#include "elementwise/elementwise.h"

#include <algorithm>
#include <string>
#include <string_view>
#include <utility>

#include "base/check.h"
#include "base/range.h"
#include "base/str.h"

namespace flashacl::elementwise {
namespace {

// Elements that a worker takes at a time: 128 KiB of fp32, which takes longer
// than to hand it out.
constexpr int64_t kChunk = 1 << 15;

// Elements of a block. Three buffers of the widest type are 12 KiB and stay in
// L1.
constexpr int64_t kBlock = 512;

struct Buffer {
  alignas(64) std::byte bytes[kBlock * 8];
};

// Brings one input to the type of the arithmetic.
struct Input {
  ConvertLoop convert = nullptr;
  int64_t step = 1;
  int64_t bytes = 1;  // of an element
  bool direct = false;

  // `count` elements from `from`, in place or in `buffer`.
  const std::byte* Read(const std::byte* from, Buffer& buffer,
                        int64_t count) const {
    if (direct) return from;
    convert({from, step}, {buffer.bytes, 1}, count);
    return buffer.bytes;
  }
};

// Brings results to the type of out.
struct Output {
  ConvertLoop round = nullptr;  // to 16 bits first; null: not
  ConvertLoop convert = nullptr;
  int64_t step = 1;
  int64_t bytes = 1;
  bool direct = false;

  void Write(Buffer& results, Buffer& rounded, std::byte* to,
             int64_t count) const {
    const std::byte* from = results.bytes;
    if (round != nullptr) {
      round({from, 1}, {rounded.bytes, 1}, count);
      from = rounded.bytes;
    }
    convert({from, 1}, {to, step}, count);
  }
};

std::vector<Axes> StridesOf(const Operation& operation) {
  std::vector<Axes> strides;
  for (const Operand& input : operation.inputs) {
    strides.push_back(input.strides);
  }
  strides.push_back(operation.out.strides);
  return strides;
}

std::string_view NameOf(Kind kind) {
  switch (kind) {
    case Kind::kAdd:
      return "elementwise/add";
    case Kind::kMul:
      return "elementwise/mul";
    default:
      return "elementwise/copy";
  }
}

// Element 0 of an operand.
std::byte* Start(std::span<std::byte* const> at, const Operand& operand) {
  return at[operand.argument] + operand.offset * SizeOf(operand.type);
}

class Elementwise : public Computation {
 public:
  explicit Elementwise(Operation operation)
      : operation_(std::move(operation)),
        walk_(operation_.extents, StridesOf(operation_)) {}

  std::string_view name() const final { return NameOf(operation_.kind); }

  std::string Describe() const final {
    std::string types;
    for (const Operand& input : operation_.inputs) {
      types += Str("{}{}", types.empty() ? "" : ", ", Name(input.type));
    }
    return Str("{} in {} to {}: [{}]", types, Name(operation_.type),
               Name(operation_.out.type), Join(operation_.extents, ", "));
  }

  Status Run(std::span<std::byte* const> at, std::byte* /*workspace*/,
             Queue& queue) const final {
    return queue.OnHost([&](Workers& workers) -> Status {
      const int64_t elements = walk_.elements();
      workers.ForEach(CeilDiv(elements, kChunk), [&](int64_t n) {
        RunChunk(at, {n * kChunk, std::min((n + 1) * kChunk, elements)});
      });
      return {};
    });
  }

 protected:
  virtual void RunChunk(std::span<std::byte* const> at, Range chunk) const = 0;

  const Operation operation_;
  const Walk walk_;
};

class Copy final : public Elementwise {
 public:
  explicit Copy(Operation operation)
      : Elementwise(std::move(operation)),
        convert_(
            ConvertLoopOf(operation_.inputs[0].type, operation_.out.type)) {
    FLASHACL_DCHECK(convert_ != nullptr);
  }

 private:
  void RunChunk(std::span<std::byte* const> at, Range chunk) const override {
    const std::byte* const from = Start(at, operation_.inputs[0]);
    std::byte* const to = Start(at, operation_.out);
    const int64_t from_bytes = SizeOf(operation_.inputs[0].type);
    const int64_t to_bytes = SizeOf(operation_.out.type);
    const Places& steps = walk_.row_steps();
    walk_.ForRows(chunk, [&](const Places& places, int64_t count) {
      convert_({from + places[0] * from_bytes, steps[0]},
               {to + places[1] * to_bytes, steps[1]}, count);
    });
  }

  const ConvertLoop convert_;
};

class Arithmetic final : public Elementwise {
 public:
  explicit Arithmetic(Operation operation)
      : Elementwise(std::move(operation)),
        loop_(operation_.kind == Kind::kAdd
                  ? AddLoopOf(arithmetic(), operation_.scaled)
                  : MultiplyLoopOf(arithmetic())),
        self_(InputOf(0)),
        other_(InputOf(1)),
        out_(OutputOf()) {
    FLASHACL_DCHECK(loop_ != nullptr);
  }

 private:
  Type arithmetic() const { return ArithmeticType(operation_.type); }

  Input InputOf(size_t n) const {
    const Type type = operation_.inputs[n].type;
    const int64_t step = walk_.row_steps()[n];
    return {ConvertLoopOf(type, arithmetic()), step, SizeOf(type),
            type == arithmetic() && step == 1};
  }

  Output OutputOf() const {
    const Type type = operation_.out.type;
    const int64_t step = walk_.row_steps()[2];
    // A 16-bit result that becomes another type is rounded on the way.
    const bool rounds = IsHalf(operation_.type) && operation_.type != type;
    return {rounds ? ConvertLoopOf(arithmetic(), operation_.type) : nullptr,
            ConvertLoopOf(rounds ? operation_.type : arithmetic(), type), step,
            SizeOf(type), !rounds && type == arithmetic() && step == 1};
  }

  void RunChunk(std::span<std::byte* const> at, Range chunk) const override {
    const std::byte* const self = Start(at, operation_.inputs[0]);
    const std::byte* const other = Start(at, operation_.inputs[1]);
    std::byte* const out = Start(at, operation_.out);
    walk_.ForRows(chunk, [&](const Places& places, int64_t count) {
      RunRow(self + places[0] * self_.bytes, other + places[1] * other_.bytes,
             out + places[2] * out_.bytes, count);
    });
  }

  void RunRow(const std::byte* self, const std::byte* other, std::byte* out,
              int64_t count) const {
    Buffer a, b, c;
    for (int64_t done = 0; done < count; done += kBlock) {
      const int64_t n = std::min(kBlock, count - done);
      const auto here = [&](auto* start, const auto& operand) {
        return start + done * operand.step * operand.bytes;
      };
      const std::byte* const one = self_.Read(here(self, self_), a, n);
      const std::byte* const two = other_.Read(here(other, other_), b, n);
      std::byte* const to = here(out, out_);
      loop_(one, two, operation_.alpha, out_.direct ? to : c.bytes, n);
      if (!out_.direct) out_.Write(c, a, to, n);
    }
  }

  const ArithmeticLoop loop_;
  const Input self_;
  const Input other_;
  const Output out_;
};

}  // namespace

std::shared_ptr<const Computation> MakeElementwise(Operation operation) {
  if (operation.kind == Kind::kCopy) {
    return std::make_shared<const Copy>(std::move(operation));
  }
  return std::make_shared<const Arithmetic>(std::move(operation));
}

}  // namespace flashacl::elementwise
