// SPDX-License-Identifier: Apache-2.0
// The header is a Python dictionary of three entries.
#include "arrays/npy.h"

#include <algorithm>
#include <charconv>
#include <cstring>
#include <optional>
#include <string>
#include <string_view>
#include <utility>

#include "base/str.h"

namespace flashacl {
namespace {

constexpr std::string_view kMagic = "\x93NUMPY";
constexpr size_t kMaxHeader = 65536;  // NumPy itself trusts but 10000
constexpr size_t kAlignment = 64;     // of the first element

// Reads the dictionary's text from its start.
class Reader {
 public:
  explicit Reader(std::string_view text) : text_(text) {}

  void SkipBlanks() {
    const size_t at = text_.find_first_not_of(" \t\n\r");
    text_.remove_prefix(std::min(at, text_.size()));
  }

  bool Take(char sign) {
    SkipBlanks();
    if (text_.empty() || text_[0] != sign) return false;
    text_.remove_prefix(1);
    return true;
  }

  bool TakeWord(std::string_view word) {
    SkipBlanks();
    if (!text_.starts_with(word)) return false;
    text_.remove_prefix(word.size());
    return true;
  }

  std::optional<std::string_view> TakeString() {
    SkipBlanks();
    if (text_.empty() || (text_[0] != '\'' && text_[0] != '"')) return {};
    const size_t end = text_.find(text_[0], 1);
    if (end == std::string_view::npos) return {};
    const std::string_view value = text_.substr(1, end - 1);
    text_.remove_prefix(end + 1);
    return value;
  }

  std::optional<int64_t> TakeNumber() {
    SkipBlanks();
    int64_t value = 0;
    const auto read =
        std::from_chars(text_.data(), text_.data() + text_.size(), value);
    if (read.ec != std::errc()) return {};
    text_.remove_prefix(static_cast<size_t>(read.ptr - text_.data()));
    return value;
  }

  // (), (3,), (3, 4)
  std::optional<std::vector<int64_t>> TakeTuple() {
    if (!Take('(')) return {};
    std::vector<int64_t> values;
    while (!Take(')')) {
      const auto value = TakeNumber();
      if (!value || values.size() == kMaxAxes) return {};
      values.push_back(*value);
      if (Take(',')) continue;
      if (!Take(')')) return {};
      break;
    }
    return values;
  }

 private:
  std::string_view text_;
};

bool ReadEntry(Reader& reader, NpyHeader& header) {
  const auto key = reader.TakeString();
  if (!key || !reader.Take(':')) return false;
  if (*key == "descr") {
    const auto descr = reader.TakeString();
    header.descr = std::string(descr.value_or(""));
    return descr.has_value();
  }
  if (*key == "fortran_order") {
    header.fortran = reader.TakeWord("True");
    return header.fortran || reader.TakeWord("False");
  }
  if (*key != "shape") return false;
  auto dims = reader.TakeTuple();
  if (dims) header.dims = std::move(*dims);
  return dims.has_value();
}

Result<NpyHeader> ReadHeader(std::string_view text) {
  Reader reader(text);
  NpyHeader header;
  int entries = 0;
  bool good = reader.Take('{');
  while (good && !reader.Take('}')) {
    good = ++entries <= 3 && ReadEntry(reader, header);
    if (good && !reader.Take(',')) {
      good = reader.Take('}');
      break;
    }
  }
  if (good && entries == 3) return header;
  constexpr size_t kShown = 80;
  std::string shown(text.substr(0, kShown));
  for (char& c : shown) {
    if (c < ' ' || c > '~') c = '?';
  }
  return Invalid(
      "npy: the header is not a dictionary of descr, fortran_order and shape: "
      "{}",
      shown);
}

struct Type {
  std::string_view name;  // without its byte order
  DType dtype;
  int64_t bytes;
};

constexpr Type kTypes[] = {
    {"f4", DType::kF32, 4},  {"f2", DType::kF16, 2},  {"f8", DType::kF64, 8},
    {"b1", DType::kBool, 1}, {"i1", DType::kI8, 1},   {"u1", DType::kU8, 1},
    {"i4", DType::kI32, 4},  {"i8", DType::kI64, 8},  {"u8", DType::kU64, 8},
    {"V2", DType::kNone, 2}, {"u2", DType::kNone, 2}, {"i2", DType::kNone, 2}};

// Elements of which the last byte is first, the other way round.
void SwapBytes(int64_t element_bytes, std::vector<std::byte>& bytes) {
  for (auto at = bytes.begin(); at != bytes.end(); at += element_bytes) {
    std::reverse(at, at + element_bytes);
  }
}

// From dense first axes to dense last axes.
void ReverseAxes(const Array& array, const std::byte* from, std::byte* to) {
  const size_t axes = array.dims.size();
  const auto bytes = static_cast<size_t>(array.element_bytes);
  std::vector<int64_t> index(axes, 0);
  const int64_t count = array.elements();
  for (int64_t n = 0; n < count; ++n) {
    int64_t offset = 0;
    for (size_t axis = axes; axis-- > 0;) {
      offset = offset * array.dims[axis] + index[axis];
    }
    std::memcpy(to + static_cast<size_t>(n) * bytes,
                from + static_cast<size_t>(offset) * bytes, bytes);
    for (size_t axis = axes; axis-- > 0;) {
      if (++index[axis] < array.dims[axis]) break;
      index[axis] = 0;
    }
  }
}

// Where the header's text is in a file.
struct Extent {
  size_t first = 0;
  size_t length = 0;
};

Result<Extent> FindHeader(std::string_view file) {
  if (!file.starts_with(kMagic) || file.size() < kMagic.size() + 4) {
    return Invalid("npy: the file does not begin as .npy files do");
  }
  const auto byte = [&](size_t n) {
    return static_cast<size_t>(static_cast<unsigned char>(file[n]));
  };
  const size_t version = byte(kMagic.size());
  if (version < 1 || version > 3) {
    return Invalid("npy: version {}, expected 1 to 3", version);
  }
  const size_t width = version == 1 ? 2 : 4;
  const size_t start = kMagic.size() + 2 + width;
  size_t length = 0;
  for (size_t n = 0; n < width && start <= file.size(); ++n) {
    length |= byte(kMagic.size() + 2 + n) << (8 * n);
  }
  if (start > file.size() || length > file.size() - start) {
    return Invalid("npy: the file ends inside of its header");
  }
  if (length > kMaxHeader) {
    return Invalid("npy: a header of {} bytes, expected at most {}", length,
                   kMaxHeader);
  }
  return Extent{start, length};
}

}  // namespace

Result<NpyHeader> ParseNpyHeader(std::string_view file) {
  const Result<Extent> text = FindHeader(file);
  if (!text.ok()) return text.status();
  Result<NpyHeader> header = ReadHeader(file.substr(text->first, text->length));
  if (header.ok()) header->offset = text->first + text->length;
  return header;
}

std::string WriteNpyHeader(std::string_view descr,
                           const std::vector<int64_t>& dims) {
  std::string shape = Join(dims, ", ");
  if (dims.size() == 1) shape += ",";
  std::string words =
      Str("{{'descr': '{}', 'fortran_order': False, 'shape': ({}), }}", descr,
          shape);
  const size_t before = kMagic.size() + 4;
  const size_t used = before + words.size() + 1;
  words.append((kAlignment - used % kAlignment) % kAlignment, ' ');
  words += '\n';
  std::string header(kMagic);
  header += '\x01';
  header += '\0';
  header += static_cast<char>(words.size() & 0xff);
  header += static_cast<char>(words.size() >> 8);
  return header + words;
}

Result<Array> ParseNpy(std::span<const std::byte> file) {
  Result<NpyHeader> header =
      ParseNpyHeader({reinterpret_cast<const char*>(file.data()), file.size()});
  if (!header.ok()) return header.status();
  file = file.subspan(header->offset);
  const std::string_view descr = header->descr;
  const std::string_view name = descr.substr(std::min<size_t>(descr.size(), 1));
  const auto* const type = std::ranges::find(kTypes, name, &Type::name);
  const bool order =
      !descr.empty() && std::string_view("<>|=").find(descr[0]) != descr.npos;
  if (!order || type == std::end(kTypes)) {
    return Invalid(
        "npy: elements of type '{}', expected floats, integers, bool, or V2 "
        "for bf16",
        descr.substr(0, 16));
  }
  const Result<int64_t> bytes = ArrayBytes(header->dims, type->bytes);
  if (!bytes.ok()) return bytes.status();
  if (static_cast<size_t>(*bytes) != file.size()) {
    return Invalid("npy: {} bytes of elements, expected the {} of shape ({})",
                   file.size(), *bytes, Join(header->dims, ", "));
  }
  Array array{type->dtype, type->bytes, std::move(header->dims), {}};
  array.bytes.resize(file.size());
  if (header->fortran && array.dims.size() > 1) {
    ReverseAxes(array, file.data(), array.bytes.data());
  } else {
    std::ranges::copy(file, array.bytes.begin());
  }
  if (descr[0] == '>') SwapBytes(type->bytes, array.bytes);
  return array;
}

std::vector<std::byte> WriteNpy(const Array& array) {
  // The first of a width without a dtype is V.
  const auto* const type = std::ranges::find_if(kTypes, [&](const Type& one) {
    return one.dtype == array.dtype && one.bytes == array.element_bytes;
  });
  const std::string name =
      type != std::end(kTypes)
          ? Str("{}{}",
                type->bytes == 1 || type->dtype == DType::kNone ? '|' : '<',
                type->name)
          : Str("|V{}", array.element_bytes);
  const std::string header = WriteNpyHeader(name, array.dims);
  const auto begin = std::as_bytes(std::span(header));
  std::vector<std::byte> file(begin.begin(), begin.end());
  file.insert(file.end(), array.bytes.begin(), array.bytes.end());
  return file;
}

}  // namespace flashacl
