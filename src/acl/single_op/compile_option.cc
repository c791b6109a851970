// SPDX-License-Identifier: Apache-2.0
// Settings of the operator compiler, which are kept for whoever reads them
// back; and the folders and files of operators it made, none of which can be
// run here.
#include <fcntl.h>
#include <unistd.h>

#include <array>
#include <atomic>
#include <cstring>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>

#include "acl/acl_op_compiler.h"
#include "acl/error.h"
#include "acl/raw_enum.h"
#include "acl/single_op/live.h"
#include "base/fork.h"
#include "base/once.h"
#include "base/str.h"

namespace flashacl::acl {
namespace {

constexpr int kOptions = ACL_OP_DEBUG_OPTION + 1;
// What programs make room for, whatever is set.
constexpr size_t kJitCompileSize = 256;

struct Options {
  ProcessMutex mutex;  // guards what follows
  std::array<std::optional<std::string>, kOptions> values;
};

Options& TheOptions() {
  static constinit MadeOnce<Options> options;
  return *options;
}

bool IsOption(int number) { return 0 <= number && number < kOptions; }

aclError Set(int option, const char* value) {
  constexpr std::string_view kFunction = "aclSetCompileopt";
  if (value == nullptr) return FailNull(kFunction, "value");
  if (option == ACL_AUTO_TUNE_MODE) {
    return Fail(ACL_ERROR_FEATURE_UNSUPPORTED, Title::kNotSupported,
                Str("{} failed because ACL_AUTO_TUNE_MODE is not supported.",
                    kFunction));
  }
  if (!IsOption(option)) {
    return FailValue(ACL_ERROR_INTERNAL_ERROR, kFunction, "opt",
                     Str("{}", option), Str("0 to {}", kOptions - 1));
  }
  std::string text = value;
  Options& options = TheOptions();
  std::lock_guard lock(options.mutex);
  options.values[static_cast<size_t>(option)] = std::move(text);
  return ACL_SUCCESS;
}

// Empty, and not the empty text, where nothing was set.
std::optional<std::string> Kept(int option) {
  if (!IsOption(option)) return std::nullopt;
  Options& options = TheOptions();
  std::lock_guard lock(options.mutex);
  return options.values[static_cast<size_t>(option)];
}

aclError Get(int option, char* value, size_t length) {
  constexpr std::string_view kFunction = "aclGetCompileopt";
  if (value == nullptr) return FailNull(kFunction, "value");
  std::string text;
  if (option == ACL_OP_JIT_COMPILE) {
    text = "disable";  // of this device, whatever was set
  } else if (option == ACL_OP_DEBUG_OPTION) {
    text = Kept(option).value_or("");
  } else {
    return FailValue(ACL_ERROR_API_NOT_SUPPORT, kFunction, "opt",
                     Str("{}", option),
                     "ACL_OP_JIT_COMPILE or ACL_OP_DEBUG_OPTION");
  }
  if (length < text.size() + 1) {
    return FailValue(ACL_ERROR_FAILURE, kFunction, "length", Str("{}", length),
                     Str("{} bytes or more", text.size() + 1));
  }
  std::memcpy(value, text.c_str(), text.size() + 1);
  return ACL_SUCCESS;
}

aclError SetFlag(int flag) {
  if (flag == ACL_OP_COMPILE_DEFAULT || flag == ACL_OP_COMPILE_FUZZ) {
    return ACL_SUCCESS;
  }
  return FailValue(ACL_ERROR_INVALID_PARAM, "aclopSetCompileFlag", "flag",
                   Str("{}", flag), "0 or 1");
}

std::atomic<bool> has_model_dir{false};

aclError SetModelDir(const char* path) {
  constexpr std::string_view kFunction = "aclopSetModelDir";
  if (path == nullptr) return FailNull(kFunction, "modelDir");
  if (has_model_dir) {
    return Fail(ACL_ERROR_REPEAT_INITIALIZE, Title::kCallSequence,
                Str("{} failed because it was called before: there is one "
                    "folder for the process.",
                    kFunction));
  }
  const int folder = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  if (folder < 0) {
    return Fail(ACL_ERROR_READ_MODEL_FAILURE, Title::kFile,
                Str("{} failed because modelDir {} is no folder that can be "
                    "read.",
                    kFunction, path));
  }
  close(folder);
  has_model_dir = true;
  return ACL_SUCCESS;
}

aclError Load(const void* model, size_t size) {
  constexpr std::string_view kFunction = "aclopLoad";
  if (model == nullptr) return FailNull(kFunction, "model");
  if (size == 0) {
    return FailValue(ACL_ERROR_INVALID_PARAM, kFunction, "modelSize", "0",
                     "1 or more");
  }
  return Fail(ACL_ERROR_MODEL_MISSING_ATTR, Title::kNotSupported,
              Str("{} failed because compiled operators hold code for the NPU. "
                  "Operators run by their functions in aclnnop/*.h.",
                  kFunction));
}

struct GraphDumpOption {
  static constexpr HandleKind kHandleKind = HandleKind::kGraphDumpOption;
};

}  // namespace
}  // namespace flashacl::acl

namespace acl = flashacl::acl;

extern "C" {

aclError aclSetCompileopt(aclCompileOpt opt, const char* value) {
  return acl::GuardRuntime([&] { return acl::Set(acl::Raw(opt), value); });
}

size_t aclGetCompileoptSize(aclCompileOpt opt) {
  const int option = acl::Raw(opt);
  if (option == ACL_OP_JIT_COMPILE) return acl::kJitCompileSize;
  size_t size = 0;
  acl::GuardRuntime([&]() -> aclError {
    const std::optional<std::string> kept = acl::Kept(option);
    size = kept.has_value() ? kept->size() + 1 : 0;
    return ACL_SUCCESS;
  });
  return size;
}

aclError aclGetCompileopt(aclCompileOpt opt, char* value, size_t length) {
  return acl::GuardRuntime(
      [&] { return acl::Get(acl::Raw(opt), value, length); });
}

aclError aclopSetCompileFlag(aclOpCompileFlag flag) {
  return acl::GuardRuntime([&] { return acl::SetFlag(acl::Raw(flag)); });
}

aclError aclopSetModelDir(const char* modelDir) {
  return acl::GuardRuntime([&] { return acl::SetModelDir(modelDir); });
}

aclError aclopLoad(const void* model, size_t modelSize) {
  return acl::GuardRuntime([&] { return acl::Load(model, modelSize); });
}

aclGraphDumpOption* aclCreateGraphDumpOpt(void) {
  aclGraphDumpOption* made = nullptr;
  acl::GuardRuntime([&] {
    return acl::NewObject("aclCreateGraphDumpOpt",
                          std::make_shared<acl::GraphDumpOption>(), &made);
  });
  return made;
}

aclError aclDestroyGraphDumpOpt(const aclGraphDumpOption* aclGraphDumpOpt) {
  return acl::DestroyObject<acl::GraphDumpOption>(
      "aclDestroyGraphDumpOpt", "aclGraphDumpOpt", aclGraphDumpOpt);
}

}  // extern "C"
