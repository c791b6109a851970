// SPDX-License-Identifier: Apache-2.0
// Options programs set and read back: of the process, of a context, of a
// device. Results are the same bits whatever they say.
#include <array>
#include <atomic>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>

#include "acl/acl_rt.h"
#include "acl/context.h"
#include "acl/error.h"
#include "acl/raw_enum.h"

namespace flashacl::acl {
namespace {

constexpr int kProcessOptions = ACL_OPT_ENABLE_KERNEL_EARLY_START + 1;
constexpr int kContextOptions = ACL_OPT_STRONG_CONSISTENCY + 1;

std::array<std::atomic<int64_t>, kProcessOptions> process_options{};
std::atomic<int> saturation_mode{ACL_RT_OVERFLOW_MODE_INFNAN};

aclError CheckOption(std::string_view function, int option, int count) {
  if (0 <= option && option < count) return ACL_SUCCESS;
  return FailValue(ACL_ERROR_INVALID_PARAM, function, "opt",
                   std::to_string(option), "0 to " + std::to_string(count - 1));
}

aclError SetProcess(int option, int64_t value) {
  const aclError error =
      CheckOption("aclrtSetSysParamOpt", option, kProcessOptions);
  if (error != 0) return error;
  process_options[static_cast<size_t>(option)] = value;
  return ACL_SUCCESS;
}

aclError GetProcess(int option, int64_t* value) {
  constexpr std::string_view kFunction = "aclrtGetSysParamOpt";
  if (value == nullptr) return FailNull(kFunction, "value");
  const aclError error = CheckOption(kFunction, option, kProcessOptions);
  if (error != 0) return error;
  *value = process_options[static_cast<size_t>(option)];
  return ACL_SUCCESS;
}

aclError SetContext(int option, int64_t value) {
  constexpr std::string_view kFunction = "aclrtCtxSetSysParamOpt";
  const aclError error = CheckOption(kFunction, option, kContextOptions);
  if (error != 0) return error;
  const std::shared_ptr<Context> context = CurrentContext();
  if (context == nullptr) return RequireContext(kFunction);
  std::lock_guard lock(context->mutex);
  context->system_parameters[static_cast<size_t>(option)] = value;
  return ACL_SUCCESS;
}

aclError GetContext(int option, int64_t* value) {
  constexpr std::string_view kFunction = "aclrtCtxGetSysParamOpt";
  if (value == nullptr) return FailNull(kFunction, "value");
  const aclError error = CheckOption(kFunction, option, kContextOptions);
  if (error != 0) return error;
  const std::shared_ptr<Context> context = CurrentContext();
  if (context == nullptr) return RequireContext(kFunction);
  std::optional<int64_t> set;
  {
    std::lock_guard lock(context->mutex);
    set = context->system_parameters[static_cast<size_t>(option)];
  }
  if (!set.has_value()) {
    return Fail(ACL_ERROR_RT_SYSPARAMOPT_NOT_SET, Title::kCallSequence,
                std::string(kFunction) + " failed because option " +
                    std::to_string(option) +
                    " was not set in this context before");
  }
  *value = *set;
  return ACL_SUCCESS;
}

aclError SetSaturation(int mode) {
  if (mode != ACL_RT_OVERFLOW_MODE_SATURATION &&
      mode != ACL_RT_OVERFLOW_MODE_INFNAN) {
    return FailValue(ACL_ERROR_RT_PARAM_INVALID, "aclrtSetDeviceSatMode",
                     "mode", std::to_string(mode), "0 or 1");
  }
  saturation_mode = mode;
  return ACL_SUCCESS;
}

aclError GetSaturation(aclrtFloatOverflowMode* mode) {
  if (mode == nullptr) return FailNull("aclrtGetDeviceSatMode", "mode");
  *mode = static_cast<aclrtFloatOverflowMode>(saturation_mode.load());
  return ACL_SUCCESS;
}

aclError SetTaskScheduler(int id) {
  if (ACL_TS_ID_AICORE <= id && id <= ACL_TS_ID_RESERVED) return ACL_SUCCESS;
  return FailValue(ACL_ERROR_RT_PARAM_INVALID, "aclrtSetTsDevice", "tsId",
                   std::to_string(id), "0 to 2");
}

}  // namespace
}  // namespace flashacl::acl

namespace acl = flashacl::acl;

extern "C" {

aclError aclrtSetSysParamOpt(aclSysParamOpt opt, int64_t value) {
  return acl::GuardRuntime(
      [&] { return acl::SetProcess(acl::Raw(opt), value); });
}

aclError aclrtGetSysParamOpt(aclSysParamOpt opt, int64_t* value) {
  return acl::GuardRuntime(
      [&] { return acl::GetProcess(acl::Raw(opt), value); });
}

aclError aclrtCtxSetSysParamOpt(aclSysParamOpt opt, int64_t value) {
  return acl::GuardRuntime(
      [&] { return acl::SetContext(acl::Raw(opt), value); });
}

aclError aclrtCtxGetSysParamOpt(aclSysParamOpt opt, int64_t* value) {
  return acl::GuardRuntime(
      [&] { return acl::GetContext(acl::Raw(opt), value); });
}

aclError aclrtSetDeviceSatMode(aclrtFloatOverflowMode mode) {
  return acl::GuardRuntime([&] { return acl::SetSaturation(acl::Raw(mode)); });
}

aclError aclrtGetDeviceSatMode(aclrtFloatOverflowMode* mode) {
  return acl::GuardRuntime([&] { return acl::GetSaturation(mode); });
}

aclError aclrtSetTsDevice(aclrtTsId tsId) {
  return acl::GuardRuntime(
      [&] { return acl::SetTaskScheduler(acl::Raw(tsId)); });
}

}  // extern "C"
