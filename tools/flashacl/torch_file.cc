// SPDX-License-Identifier: Apache-2.0
#include "tools/flashacl/torch_file.h"

#include <signal.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <thread>

#include "arrays/npy.h"
#include "base/str.h"
#include "tools/flashacl/read_file.h"

namespace flashacl::tool {
namespace {

// Exit codes of the process besides 0 and 1.
constexpr int kNoTorch = 3;
constexpr int kNoPython = 127;
constexpr int kTooSlow = 256;  // of ours: the process was ended

// Becomes a .npy file in what is its standard output. Nothing of the folder
// that the user stands in is imported, as that may be a stranger's, too.
constexpr char kTorchToNpy[] = R"python(
import sys
if sys.path[:1] == [""]:
    del sys.path[0]
import ctypes, os, struct
out = open(os.dup(1), "wb")
os.dup2(2, 1)  # what torch says is not the file
# Adapters of devices may fail where their environment is not set up.
os.environ["TORCH_DEVICE_BACKEND_AUTOLOAD"] = "0"
try:
    import torch
except ImportError as error:
    print(error, file=sys.stderr)
    os._exit(3)
path, wanted, name = sys.argv[1:4]
def refuse(why):  # what torch says is not the last line, nor what it still has
    sys.stdout.flush()
    print(why, file=sys.stderr, flush=True)
    os._exit(1)
def line(error):
    words = (str(error).strip() or type(error).__name__).split("\n")[0]
    return words[:300]
try:
    top = torch.load(path, map_location="cpu", weights_only=True)
except Exception as error:
    refuse("torch does not load it: " + line(error))
found = {}
seen = 0
def find(of, at, depth):
    global seen
    seen += 1
    if seen > 65536 or depth > 8:
        refuse("it holds more than 65536 things, or deeper than 8")
    if isinstance(of, torch.Tensor):
        found[at] = of
    elif isinstance(of, dict):
        for key, one in of.items():
            if isinstance(key, (str, int)):
                find(one, at + "." + str(key) if at else str(key), depth + 1)
    elif isinstance(of, (list, tuple)):
        for key, one in enumerate(of):
            find(one, at + "." + str(key) if at else str(key), depth + 1)
find(top, "", 0)
if not found:
    refuse("it holds no tensor but a " + type(top).__name__)
names = ", ".join(one[:100] for one in list(found)[:20])
if len(found) > 20:
    names += " and %d more" % (len(found) - 20)
if wanted and wanted not in found:
    refuse("no tensor " + wanted + " in it; there is " +
           (names or "one, without a name"))
if not wanted and len(found) == 1:
    wanted = list(found)[0]
elif not wanted and name in found:
    wanted = name
elif not wanted:
    refuse("which tensor? " + path + ":NAME, one of " + names)
t = found[wanted].detach()
if t.layout != torch.strided or t.device.type != "cpu":
    refuse("the tensor has no elements of its own: " + str(t.layout) +
           " on " + t.device.type)
kinds = {torch.float32: "<f4", torch.float16: "<f2", torch.float64: "<f8",
         torch.bfloat16: "|V2", torch.bool: "|b1", torch.int8: "|i1",
         torch.uint8: "|u1", torch.int32: "<i4", torch.int64: "<i8"}
if t.dtype not in kinds:
    refuse("elements of " + str(t.dtype) + " are not read")
shape = "(" + "".join(str(n) + "," for n in t.shape) + ")"
header = ("{'descr': '" + kinds[t.dtype] + "', 'fortran_order': False, "
          "'shape': " + shape + "}\n").encode()
try:
    t = t.resolve_neg().contiguous()
    out.write(b"\x93NUMPY\x02\x00" + struct.pack("<I", len(header)) + header)
    size = t.numel() * t.element_size()
    if size:
        memory = (ctypes.c_char * size).from_address(t.data_ptr())
        out.write(memoryview(memory))
    out.close()
except Exception as error:
    refuse("its elements: " + line(error))
os._exit(0)
)python";

void Limit(decltype(RLIMIT_DATA) what, int64_t bytes) {
  const auto most = static_cast<rlim_t>(bytes);
  const rlimit limit{most, most};
  setrlimit(what, &limit);
}

// What the process is told, and where its two outputs go.
struct Words {
  std::string path, wanted, name;
  int out, err;
  int64_t memory;  // bytes
};

// Between fork and exec: system calls alone.
[[noreturn]] void BecomePython(const Python& python, const Words& words) {
  prctl(PR_SET_PDEATHSIG, SIGKILL);
  dup2(words.out, STDOUT_FILENO);
  dup2(words.err, STDERR_FILENO);
  Limit(RLIMIT_FSIZE, kMaxArrayBytes);
  Limit(RLIMIT_DATA, words.memory);
  execlp(python.command.c_str(), python.command.c_str(), "-c", kTorchToNpy,
         words.path.c_str(), words.wanted.c_str(), words.name.c_str(),
         static_cast<char*>(nullptr));
  _exit(kNoPython);
}

// The exit code; -1: a signal ended it.
int WaitFor(pid_t child, std::chrono::milliseconds patience) {
  const auto last = std::chrono::steady_clock::now() + patience;
  int status = 0;
  for (;;) {
    const pid_t ended = waitpid(child, &status, WNOHANG);
    if (ended == child) break;
    if (ended < 0 && errno != EINTR) return -1;
    if (std::chrono::steady_clock::now() > last) {
      kill(child, SIGKILL);
      while (waitpid(child, &status, 0) < 0 && errno == EINTR) {
      }
      return kTooSlow;
    }
    std::this_thread::sleep_for(std::chrono::milliseconds(2));
  }
  return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

// The last line that it wrote, which says what happened.
std::string LastLine(int file) {
  constexpr off_t kMost = 4096;
  const off_t size = lseek(file, 0, SEEK_END);
  std::string text(static_cast<size_t>(std::clamp<off_t>(size, 0, kMost)), ' ');
  const off_t from = size - static_cast<off_t>(text.size());
  const ssize_t got = pread(file, text.data(), text.size(), from);
  text.resize(static_cast<size_t>(std::max<ssize_t>(got, 0)));
  while (text.ends_with('\n')) text.pop_back();
  return text.substr(text.rfind('\n') + 1);
}

Status Refusal(int code, const Words& words, const Python& python) {
  switch (code) {
    case kNoPython:
      return RuntimeFailure("{}: cannot start {}, which reads it", words.path,
                            python.command);
    case kNoTorch:
      return RuntimeFailure(
          "{}: {} has no torch, which reads it ({}); choose another with "
          "--python, or save a .npy file",
          words.path, python.command, LastLine(words.err));
    case kTooSlow:
      return Invalid("{}: reading it takes longer than {} seconds", words.path,
                     static_cast<double>(python.patience.count()) / 1000);
    case -1:
      return Invalid("{}: torch crashes on it", words.path);
    default:
      return Invalid("{}: {}", words.path, LastLine(words.err));
  }
}

}  // namespace

Result<Array> ReadTorchFile(const std::string& path, std::string_view wanted,
                            std::string_view name, const Python& python) {
  struct stat facts {};
  if (access(path.c_str(), R_OK) != 0 || stat(path.c_str(), &facts) != 0) {
    return FailedFile(path);
  }
  if (!S_ISREG(facts.st_mode)) {
    return Invalid("{}: not a file that can be read whole", path);
  }
  if (facts.st_size > kMaxArrayBytes) {
    return Invalid("{}: {} bytes, expected at most {}", path, facts.st_size,
                   kMaxArrayBytes);
  }
  const File out(memfd_create("out", MFD_CLOEXEC));
  const File err(memfd_create("err", MFD_CLOEXEC));
  if (out.number() < 0 || err.number() < 0) return FailedFile(path);
  const Words words{
      path,         std::string(wanted), std::string(name),
      out.number(), err.number(),        python.memory + 4 * facts.st_size};
  const pid_t child = fork();
  if (child < 0) return FailedFile(path);
  if (child == 0) BecomePython(python, words);
  const int code = WaitFor(child, python.patience);
  if (code != 0) return Refusal(code, words, python);
  const auto bytes = ReadAll(path, out.number());
  if (!bytes.ok()) return bytes.status();
  Result<Array> array = ParseNpy(*bytes);
  return array.ok() ? array : NamedFile(path, array.status());
}

}  // namespace flashacl::tool
