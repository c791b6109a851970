// SPDX-License-Identifier: Apache-2.0
// Drives a fuzz target where libFuzzer is not: every file of the corpus, then
// random inputs from a fixed seed. The input of a crash is written to a file.
#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <csignal>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <random>
#include <string>
#include <vector>

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size);

namespace {

using Bytes = std::vector<uint8_t>;

constexpr const char* kCrashFile = "fuzz-crash-input";

// What the running target was given, for the signal handler.
const uint8_t* current_data = nullptr;
size_t current_size = 0;

// Only calls that are allowed in a signal handler.
void SaveInput(int signal_number) {
  const int file = open(kCrashFile, O_WRONLY | O_CREAT | O_TRUNC, 0644);
  if (file >= 0) {
    (void)!write(file, current_data, current_size);
    close(file);
  }
  constexpr char kText[] = "crashed; the input is in ./fuzz-crash-input\n";
  (void)!write(STDERR_FILENO, kText, sizeof(kText) - 1);
  signal(signal_number, SIG_DFL);
  raise(signal_number);
}

void Run(const Bytes& input) {
  current_data = input.data();
  current_size = input.size();
  LLVMFuzzerTestOneInput(input.data(), input.size());
}

Bytes ReadFile(const std::filesystem::path& path) {
  std::ifstream file(path, std::ios::binary);
  return Bytes(std::istreambuf_iterator<char>(file), {});
}

// The files of a folder in a fixed order, or the one file.
std::vector<std::filesystem::path> FilesAt(const std::filesystem::path& path) {
  if (std::filesystem::is_regular_file(path)) return {path};
  std::vector<std::filesystem::path> files;
  if (std::filesystem::is_directory(path)) {
    for (const auto& entry : std::filesystem::directory_iterator(path)) {
      if (entry.is_regular_file()) files.push_back(entry.path());
    }
  }
  std::sort(files.begin(), files.end());
  return files;
}

// Mostly a changed corpus input, else fresh bytes; small values are likely
// because arguments such as sizes and enums mean something only there.
Bytes RandomInput(const std::vector<Bytes>& corpus, std::mt19937_64& random) {
  Bytes input;
  if (!corpus.empty() && random() % 4 != 0) {
    input = corpus[random() % corpus.size()];
  } else {
    input.resize(random() % 512);
    for (uint8_t& byte : input) {
      byte = static_cast<uint8_t>(random() % (random() % 2 ? 8 : 256));
    }
  }
  const size_t changes = random() % 8;
  for (size_t change = 0; change < changes && !input.empty(); ++change) {
    const size_t at = random() % input.size();
    constexpr std::array<uint8_t, 6> kEdges = {0, 1, 2, 127, 128, 255};
    input[at] = random() % 2 ? kEdges[random() % kEdges.size()]
                             : static_cast<uint8_t>(random());
  }
  if (random() % 8 == 0) input.resize(random() % (input.size() + 1));
  return input;
}

}  // namespace

// target [--runs N] [--seed S] [corpus folder or file]...
int main(int argc, char** argv) {
  int64_t runs = 2000;
  uint64_t seed = 1;
  std::vector<Bytes> corpus;
  for (int i = 1; i < argc; ++i) {
    if (std::strcmp(argv[i], "--runs") == 0 && i + 1 < argc) {
      runs = std::atoll(argv[++i]);
    } else if (std::strcmp(argv[i], "--seed") == 0 && i + 1 < argc) {
      seed = static_cast<uint64_t>(std::atoll(argv[++i]));
    } else {
      for (const auto& file : FilesAt(argv[i])) {
        corpus.push_back(ReadFile(file));
      }
    }
  }
  for (const int number : {SIGSEGV, SIGBUS, SIGILL, SIGFPE, SIGABRT, SIGTRAP}) {
    signal(number, SaveInput);
  }
  for (const Bytes& input : corpus) Run(input);
  std::mt19937_64 random(seed);
  for (int64_t run = 0; run < runs; ++run) Run(RandomInput(corpus, random));
  std::printf("%zu corpus inputs and %lld random ones, seed %llu\n",
              corpus.size(), static_cast<long long>(runs),
              static_cast<unsigned long long>(seed));
  return 0;
}
