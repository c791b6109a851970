// SPDX-License-Identifier: Apache-2.0
// Files of PyTorch's, read by a Python with a module torch that this test
// makes: it unpickles as torch.load does, and its tensors have memory.
#include "tools/flashacl/torch_file.h"

#include <gtest/gtest.h>
#include <stdlib.h>
#include <sys/stat.h>

#include <cstring>
#include <filesystem>
#include <fstream>
#include <string>
#include <string_view>
#include <vector>

#include "base/str.h"
#include "tests/testing/temp_path.h"
#include "tools/flashacl/array_file.h"

namespace flashacl::tool {
namespace {

constexpr char kTorch[] = R"python(
import ctypes, os, pickle, time
print("torch is talkative")
class Kind:
    def __init__(self, name, size): self.name, self.size = name, size
    def __repr__(self): return "torch." + self.name
for kind, size in (("float32", 4), ("float16", 2), ("float64", 8),
                   ("bfloat16", 2), ("bool", 1), ("int8", 1), ("uint8", 1),
                   ("int32", 4), ("int64", 8), ("complex64", 8)):
    globals()[kind] = Kind(kind, size)
strided = "torch.strided"
class Device:
    def __init__(self, type): self.type = type
class Tensor:
    def __init__(self, kind, shape, strides, offset, memory, device):
        self.dtype, self.shape = globals()[kind], shape
        self.strides, self.offset = strides, offset
        self.memory = (ctypes.c_char * len(memory)).from_buffer_copy(memory)
        self.layout, self.device = strided, Device(device)
    def detach(self): return self
    def resolve_neg(self): return self
    def element_size(self): return self.dtype.size
    def numel(self):
        count = 1
        for n in self.shape: count *= n
        return count
    def data_ptr(self):
        return ctypes.addressof(self.memory) + self.offset * self.dtype.size
    def contiguous(self):
        size, places = self.dtype.size, [self.offset]
        for n, step in zip(self.shape, self.strides):
            places = [at + i * step for at in places for i in range(n)]
        dense = b"".join(self.memory.raw[at * size:(at + 1) * size]
                         for at in places)
        # At 1, as views have elements before their first.
        return Tensor(self.dtype.name, self.shape, None, 1,
                      bytes(size) + dense, "cpu")
class Careful(pickle.Unpickler):
    def find_class(self, module, name):
        raise pickle.UnpicklingError("Unsupported global: %s.%s\nmore words"
                                     % (module, name))
def made(of):
    if isinstance(of, dict) and "kind" in of: return Tensor(**of)
    if isinstance(of, dict): return {k: made(v) for k, v in of.items()}
    if isinstance(of, list): return [made(v) for v in of]
    return of
def load(path, map_location=None, weights_only=False):
    assert map_location == "cpu"
    with open(path, "rb") as file: start = file.read(5)
    if start == b"sleep": time.sleep(60)
    if start == b"large": bytearray(2 << 30)
    if start == b"crash": os.abort()
    with open(path, "rb") as file:
        return made((Careful if weights_only else pickle.Unpickler)(file)
                    .load())
)python";

// A pickle of text, numbers, bytes, lists and dictionaries.
std::string Counted(char code, std::string_view bytes) {
  const auto count = static_cast<uint32_t>(bytes.size());
  std::string text(1, code);
  for (int n = 0; n < 4; ++n) text += static_cast<char>(count >> (8 * n));
  return text + std::string(bytes);
}
std::string Text(std::string_view text) { return Counted('X', text); }
std::string Number(int32_t number) {
  std::string text = "J";
  for (int n = 0; n < 4; ++n) text += static_cast<char>(number >> (8 * n));
  return text;
}
std::string List(const std::vector<std::string>& all) {
  std::string text = "]";
  for (const std::string& one : all) text += one + "a";
  return text;
}
std::string Numbers(const std::vector<int32_t>& all) {
  std::vector<std::string> numbers;
  for (const int32_t one : all) numbers.push_back(Number(one));
  return List(numbers);
}
std::string Dictionary(
    const std::vector<std::pair<std::string, std::string>>& all) {
  std::string text = "}";
  for (const auto& [name, one] : all) text += Text(name) + one + "s";
  return text;
}
std::string Pickle(const std::string& top) { return "\x80\x03" + top + "."; }

struct Made {
  std::string kind = "float32";
  std::vector<int32_t> shape;
  std::vector<int32_t> strides;
  int32_t offset = 0;
  std::string memory = {};
  std::string device = "cpu";
};

std::string Saved(const Made& made) {
  return Dictionary({{"kind", Text(made.kind)},
                     {"shape", Numbers(made.shape)},
                     {"strides", Numbers(made.strides)},
                     {"offset", Number(made.offset)},
                     {"memory", Counted('B', made.memory)},
                     {"device", Text(made.device)}});
}

std::string Floats(const std::vector<float>& numbers) {
  return {reinterpret_cast<const char*>(numbers.data()),
          numbers.size() * sizeof(float)};
}

// One row of so many elements, all of them this one.
std::string Row(float value, int32_t count) {
  return Saved({.shape = {1, count},
                .strides = {count, 1},
                .memory = Floats(
                    std::vector<float>(static_cast<size_t>(count), value))});
}

class TorchFile : public ::testing::Test {
 protected:
  void SetUp() override {
    top_ = testing::TempPath("torch");
    std::filesystem::create_directory(top_);
    Install(kTorch);
  }
  void TearDown() override {
    unsetenv("PYTHONPATH");
    std::filesystem::remove_all(top_);
  }

  void Install(std::string_view module) {
    Write("modules/torch.py", module);
    setenv("PYTHONPATH", (top_ + "/modules").c_str(), 1);
  }

  std::string Write(const std::string& name, std::string_view bytes) {
    const std::filesystem::path path = top_ + "/" + name;
    std::filesystem::create_directories(path.parent_path());
    std::ofstream(path, std::ios::binary) << bytes;
    return path;
  }

  std::string Refusal(const std::string& text, const Python& python = {}) {
    const Result<Array> array = ReadArrayFile(text, "q", python);
    return array.ok() ? "" : array.status().message();
  }

  std::string top_;
};

std::vector<float> FloatsOf(const Array& array) {
  std::vector<float> numbers(array.bytes.size() / sizeof(float));
  std::memcpy(numbers.data(), array.bytes.data(), array.bytes.size());
  return numbers;
}

// A view of what was saved with it, its axes exchanged.
TEST_F(TorchFile, HasTheElementsOfAView) {
  const std::string path = Write(
      "q.pt", Pickle(Saved(
                  {.shape = {3, 2},
                   .strides = {1, 4},
                   .offset = 2,
                   .memory = Floats({0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11})})));
  const Result<Array> array = ReadArrayFile(path, "q");
  ASSERT_TRUE(array.ok()) << array.status().message();
  EXPECT_EQ(array->dtype, DType::kF32);
  EXPECT_EQ(array->dims, (std::vector<int64_t>{3, 2}));
  EXPECT_EQ(FloatsOf(*array), (std::vector<float>{2, 6, 3, 7, 4, 8}));
}

TEST_F(TorchFile, HasTypesOfTorch) {
  const auto saved = [](const char* kind, std::string memory) {
    return Pickle(Saved({.kind = kind,
                         .shape = {2},
                         .strides = {1},
                         .memory = std::move(memory)}));
  };
  const std::string bf16 = Write("x.pth", saved("bfloat16", "abcd"));
  const Result<Array> array = ReadArrayFile(bf16, "q");
  ASSERT_TRUE(array.ok()) << array.status().message();
  EXPECT_EQ(array->element_bytes, 2);
  EXPECT_EQ(array->elements(), 2);
  EXPECT_EQ(std::memcmp(array->bytes.data(), "abcd", 4), 0);
  const std::string flags = Write("b.pt", saved("bool", "\x01\x01"));
  EXPECT_EQ(ReadArrayFile(flags, "q")->bytes.size(), 2u);
  const std::string complex =
      Write("c.pt", saved("complex64", std::string(16, 'c')));
  EXPECT_EQ(Refusal(complex),
            complex + ": elements of torch.complex64 are not read");
  const std::string none =
      Write("n.pt", Pickle(Saved({.shape = {0, 4}, .strides = {4, 1}})));
  const Result<Array> empty = ReadArrayFile(none, "q");
  ASSERT_TRUE(empty.ok()) << empty.status().message();
  EXPECT_EQ(empty->dims, (std::vector<int64_t>{0, 4}));
}

TEST_F(TorchFile, FindsTensorsByTheirNames) {
  const std::string path =
      Write("all.pt",
            Pickle(Dictionary({{"q", Row(1, 2)},
                               {"step", Number(7)},
                               {"layer", Dictionary({{"k", Row(2, 3)}})},
                               {"outputs", List({Row(3, 1), Row(4, 5)})}})));
  const auto first = [&](const std::string& text, const char* name) {
    const Result<Array> array = ReadArrayFile(text, name);
    EXPECT_TRUE(array.ok()) << array.status().message();
    return array.ok() ? FloatsOf(*array)[0] : 0;
  };
  EXPECT_EQ(first(path, "q"), 1);
  EXPECT_EQ(first(path + ":layer.k", "q"), 2);
  EXPECT_EQ(first(path + ":outputs.1", "q"), 4);
  EXPECT_EQ(Refusal(path + ":layer"),
            path +
                ": no tensor layer in it; there is q, layer.k, outputs.0, "
                "outputs.1");
  const Result<Array> out = ReadArrayFile(path, "out");
  ASSERT_FALSE(out.ok());
  EXPECT_EQ(out.status().message(),
            path + ": which tensor? " + path +
                ":NAME, one of q, layer.k, outputs.0, outputs.1");
  // The only one needs no name.
  const std::string one =
      Write("one.pt", Pickle(Dictionary({{"weight", Row(5, 2)}})));
  EXPECT_EQ(first(one, "out"), 5);
  const std::string bare = Write("bare.pt", Pickle(Row(5, 2)));
  EXPECT_EQ(Refusal(bare + ":q"),
            bare + ": no tensor q in it; there is one, without a name");
  const std::string none = Write("none.pt", Pickle(List({Number(1)})));
  EXPECT_EQ(Refusal(none), none + ": it holds no tensor but a list");
}

// What would run when it is unpickled is not run.
TEST_F(TorchFile, IsDataAndNothingElse) {
  const std::string mark = top_ + "/mark";
  const std::string path =
      Write("evil.pt", "cos\nsystem\n(S'touch " + mark + "'\ntR.");
  const std::string refusal = Refusal(path);
  EXPECT_TRUE(refusal.starts_with(
      path + ": torch does not load it: Unsupported global: "))
      << refusal;
  EXPECT_FALSE(std::filesystem::exists(mark));
}

// Nor is what lies in the folder where the user stands.
TEST_F(TorchFile, ImportsNothingOfTheFolder) {
  const std::string path = Write("q.pt", Pickle(Row(1, 2)));
  const std::string mark = top_ + "/mark";
  for (const char* module : {"struct", "ctypes", "os"}) {
    Write(Str("here/{}.py", module), Str("open('{}', 'w')\n", mark));
  }
  const auto before = std::filesystem::current_path();
  std::filesystem::current_path(top_ + "/here");
  const std::string refusal = Refusal(path);
  std::filesystem::current_path(before);
  EXPECT_EQ(refusal, "");
  EXPECT_FALSE(std::filesystem::exists(mark));
}

// torch imports adapters of devices itself, unless it is told not to; such an
// import fails where the adapter's environment is not set up.
TEST_F(TorchFile, NeedsNoAdapter) {
  const std::string path = Write("q.pt", Pickle(Row(1, 2)));
  Install(std::string(kTorch) +
          "import os\n"
          "if os.getenv('TORCH_DEVICE_BACKEND_AUTOLOAD', '1') != '0':\n"
          "    raise RuntimeError('Failed to load the backend extension')\n");
  EXPECT_EQ(Refusal(path), "");
}

TEST_F(TorchFile, IsBounded) {
  Python python;
  python.memory = int64_t{1} << 30;
  const std::string large = Write("large.pt", "large");
  // qemu-user passes no limit of memory on to the system, nor to children.
  if (getenv("FLASHACL_EMULATOR") == nullptr) {
    EXPECT_EQ(Refusal(large, python),
              large + ": torch does not load it: MemoryError");
  }
  python.patience = std::chrono::milliseconds(500);
  const std::string slow = Write("slow.pt", "sleep");
  EXPECT_EQ(Refusal(slow, python),
            slow + ": reading it takes longer than 0.5 seconds");
  const std::string crash = Write("crash.pt", "crash");
  EXPECT_EQ(Refusal(crash), crash + ": torch crashes on it");
  std::string deep = Row(1, 1);
  for (int n = 0; n < 9; ++n) deep = List({deep});
  const std::string nested = Write("deep.pt", Pickle(deep));
  EXPECT_EQ(Refusal(nested),
            nested + ": it holds more than 65536 things, or deeper than 8");
  std::vector<std::string> many(70000, Number(1));
  many.push_back(Row(1, 1));
  const std::string wide = Write("wide.pt", Pickle(List(many)));
  EXPECT_EQ(Refusal(wide),
            wide + ": it holds more than 65536 things, or deeper than 8");
  const std::string nowhere =
      Write("meta.pt",
            Pickle(Saved({.shape = {4}, .strides = {1}, .device = "meta"})));
  EXPECT_NE(Refusal(nowhere).find("no elements of its own"), std::string::npos);
  EXPECT_EQ(Refusal("/dev/zero.pt"), "/dev/zero.pt: No such file or directory");
  std::filesystem::create_directory(top_ + "/folder.pt");
  EXPECT_EQ(Refusal(top_ + "/folder.pt"),
            top_ + "/folder.pt: not a file that can be read whole");
}

TEST_F(TorchFile, SaysWhatPythonLacks) {
  const std::string path = Write("q.pt", Pickle(Row(1, 2)));
  Install("raise ImportError('no torch here')\n");
  EXPECT_EQ(Refusal(path),
            path +
                ": python3 has no torch, which reads it (no torch here); "
                "choose another with --python, or save a .npy file");
  Python python;
  python.command = "no-such-python";
  EXPECT_EQ(Refusal(path, python),
            path + ": cannot start no-such-python, which reads it");
  const Result<Array> array = ReadArrayFile(path, "q", python);
  EXPECT_EQ(array.status().code(), Code::kRuntime);
  python.command = Write("other-python", "#!/bin/sh\nexit 3\n");
  chmod(python.command.c_str(), 0700);
  EXPECT_NE(Refusal(path, python).find(python.command + " has no torch"),
            std::string::npos);
}

}  // namespace
}  // namespace flashacl::tool
