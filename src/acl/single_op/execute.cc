// SPDX-License-Identifier: Apache-2.0
// Calls of operators by name. They are checked in full, in the order that
// programs know, so that one that reaches the end is told the truth: there is
// no such operator here.
#include <algorithm>
#include <span>
#include <string_view>

#include "acl/acl_op_compiler.h"
#include "acl/error.h"
#include "acl/raw_enum.h"
#include "acl/single_op/attribute.h"
#include "acl/single_op/live.h"
#include "acl/single_op/tensor_desc.h"
#include "base/str.h"

namespace flashacl::acl {
namespace {

using Descs = const aclTensorDesc* const*;
using Buffers = const aclDataBuffer* const*;

// The inputs or the outputs, by the names that the caller knows.
struct Side {
  std::string_view count_name;
  std::string_view descs_name;
  std::string_view buffers_name;
  int count;
  Descs descs;
  Buffers buffers;
  bool has_buffers = true;
};

struct Call {
  std::string_view function;
  const char* type;
  Side inputs;
  Side outputs;
  const aclopAttr* attributes;
};

Side Inputs(int count, Descs descs, Buffers buffers) {
  return {"numInputs", "inputDesc", "inputs", count, descs, buffers};
}

Side Outputs(int count, Descs descs, Buffers buffers) {
  return {"numOutputs", "outputDesc", "outputs", count, descs, buffers};
}

// A call that only compiles: without buffers.
Side WithoutBuffers(Side side) {
  side.has_buffers = false;
  return side;
}

aclError CheckCount(std::string_view function, const Side& side) {
  if (side.count >= 0) return ACL_SUCCESS;
  return FailValue(ACL_ERROR_INVALID_PARAM, function, side.count_name,
                   Str("{}", side.count), "0 or more");
}

aclError CheckSide(std::string_view function, const Side& side) {
  if (side.count == 0) return ACL_SUCCESS;
  if (side.descs == nullptr) return FailNull(function, side.descs_name);
  if (side.has_buffers && side.buffers == nullptr) {
    return FailNull(function, side.buffers_name);
  }
  for (int n = 0; n < side.count; ++n) {
    aclError error = ACL_SUCCESS;
    FindTensorDesc(function, Str("{}[{}]", side.descs_name, n), side.descs[n],
                   &error);
    if (error != ACL_SUCCESS) return error;
    const void* buffer = side.has_buffers ? side.buffers[n] : nullptr;
    if (side.has_buffers &&
        FindHandle(HandleKind::kDataBuffer, buffer) == nullptr) {
      const std::string name = Str("{}[{}]", side.buffers_name, n);
      if (buffer == nullptr) return FailNull(function, name);
      return FailValue(ACL_ERROR_INVALID_PARAM, function, name,
                       Str("{}", buffer),
                       ExpectedInsteadOf(HandleKind::kDataBuffer, buffer));
    }
  }
  return ACL_SUCCESS;
}

aclError CheckCall(const Call& call) {
  if (call.type == nullptr) return FailNull(call.function, "opType");
  aclError error = CheckCount(call.function, call.inputs);
  if (error == ACL_SUCCESS) error = CheckCount(call.function, call.outputs);
  if (error == ACL_SUCCESS) error = CheckSide(call.function, call.inputs);
  if (error == ACL_SUCCESS) error = CheckSide(call.function, call.outputs);
  if (error == ACL_SUCCESS && call.attributes != nullptr &&
      Find<Attributes>(call.attributes) == nullptr) {
    return FailHandle<Attributes>(call.function, "attr", call.attributes);
  }
  return error;
}

aclError CheckCompilation(std::string_view function, int flag,
                          const char* path) {
  if (flag != ACL_COMPILE_SYS && flag != ACL_COMPILE_UNREGISTERED) {
    return FailValue(ACL_ERROR_API_NOT_SUPPORT, function, "compileFlag",
                     Str("{}", flag), "0 or 1");
  }
  if (flag == ACL_COMPILE_UNREGISTERED && path == nullptr) {
    return FailNull(function, "opPath");
  }
  return ACL_SUCCESS;
}

bool IsEmpty(const aclTensorDesc* handle) {
  const std::shared_ptr<TensorDesc> desc = Find<TensorDesc>(handle);
  return desc != nullptr && std::ranges::count(desc->origin.dims, 0) > 0;
}

// Nothing would be written.
bool HasOnlyEmptyOutputs(const Side& outputs) {
  if (outputs.count == 0) return false;
  return std::all_of(outputs.descs, outputs.descs + outputs.count, &IsEmpty);
}

aclError FailOperator(std::string_view function, const char* type) {
  return Fail(ACL_ERROR_OP_NOT_FOUND, Title::kNotSupported,
              Str("{} failed because operator {} is not available on this "
                  "device. Operators run by their functions in aclnnop/*.h.",
                  function, type));
}

aclError Execute(const Call& call) {
  return GuardRuntime([&]() -> aclError {
    const aclError error = CheckCall(call);
    if (error != ACL_SUCCESS) return error;
    if (HasOnlyEmptyOutputs(call.outputs)) return ACL_SUCCESS;
    return FailOperator(call.function, call.type);
  });
}

aclError Compile(const Call& call, int flag, const char* path) {
  return GuardRuntime([&]() -> aclError {
    aclError error = CheckCall(call);
    if (error == ACL_SUCCESS) {
      error = CheckCompilation(call.function, flag, path);
    }
    if (error != ACL_SUCCESS) return error;
    const bool runs = call.outputs.has_buffers;
    if (runs && HasOnlyEmptyOutputs(call.outputs)) return ACL_SUCCESS;
    return FailOperator(call.function, call.type);
  });
}

aclError DumpGraph(const Call& call, const char* path, const void* option) {
  return GuardRuntime([&]() -> aclError {
    const aclError error = CheckCall(call);
    if (error != ACL_SUCCESS) return error;
    if (path == nullptr) return FailNull(call.function, "graphDumpPath");
    if (option != nullptr) {
      return FailValue(ACL_ERROR_INVALID_PARAM, call.function, "graphdumpOpt",
                       Str("{}", option), "a NULL pointer");
    }
    return Fail(ACL_ERROR_API_NOT_SUPPORT, Title::kNotSupported,
                Str("{} is not supported: operators have no graphs here.",
                    call.function));
  });
}

}  // namespace
}  // namespace flashacl::acl

namespace acl = flashacl::acl;
using acl::Inputs;
using acl::Outputs;

extern "C" {

aclError aclopExecuteV2(const char* opType, int numInputs,
                        aclTensorDesc* inputDesc[], aclDataBuffer* inputs[],
                        int numOutputs, aclTensorDesc* outputDesc[],
                        aclDataBuffer* outputs[], aclopAttr* attr,
                        aclrtStream /*stream*/) {
  return acl::Execute({"aclopExecuteV2", opType,
                       Inputs(numInputs, inputDesc, inputs),
                       Outputs(numOutputs, outputDesc, outputs), attr});
}

aclError aclopExecute(const char* opType, int numInputs,
                      const aclTensorDesc* const inputDesc[],
                      const aclDataBuffer* const inputs[], int numOutputs,
                      const aclTensorDesc* const outputDesc[],
                      aclDataBuffer* const outputs[], const aclopAttr* attr,
                      aclrtStream /*stream*/) {
  return acl::Execute({"aclopExecute", opType,
                       Inputs(numInputs, inputDesc, inputs),
                       Outputs(numOutputs, outputDesc, outputs), attr});
}

aclError aclopCompileAndExecute(
    const char* opType, int numInputs, const aclTensorDesc* const inputDesc[],
    const aclDataBuffer* const inputs[], int numOutputs,
    const aclTensorDesc* const outputDesc[], aclDataBuffer* const outputs[],
    const aclopAttr* attr, aclopEngineType /*engineType*/,
    aclopCompileType compileFlag, const char* opPath, aclrtStream /*stream*/) {
  return acl::Compile(
      {"aclopCompileAndExecute", opType, Inputs(numInputs, inputDesc, inputs),
       Outputs(numOutputs, outputDesc, outputs), attr},
      acl::Raw(compileFlag), opPath);
}

aclError aclopCompileAndExecuteV2(
    const char* opType, int numInputs, aclTensorDesc* inputDesc[],
    aclDataBuffer* inputs[], int numOutputs, aclTensorDesc* outputDesc[],
    aclDataBuffer* outputs[], aclopAttr* attr, aclopEngineType /*engineType*/,
    aclopCompileType compileFlag, const char* opPath, aclrtStream /*stream*/) {
  return acl::Compile(
      {"aclopCompileAndExecuteV2", opType, Inputs(numInputs, inputDesc, inputs),
       Outputs(numOutputs, outputDesc, outputs), attr},
      acl::Raw(compileFlag), opPath);
}

aclError aclopCompile(const char* opType, int numInputs,
                      const aclTensorDesc* const inputDesc[], int numOutputs,
                      const aclTensorDesc* const outputDesc[],
                      const aclopAttr* attr, aclopEngineType /*engineType*/,
                      aclopCompileType compileFlag, const char* opPath) {
  return acl::Compile(
      {"aclopCompile", opType,
       acl::WithoutBuffers(Inputs(numInputs, inputDesc, nullptr)),
       acl::WithoutBuffers(Outputs(numOutputs, outputDesc, nullptr)), attr},
      acl::Raw(compileFlag), opPath);
}

aclError aclGenGraphAndDumpForOp(
    const char* opType, int numInputs, const aclTensorDesc* const inputDesc[],
    const aclDataBuffer* const inputs[], int numOutputs,
    const aclTensorDesc* const outputDesc[], aclDataBuffer* const outputs[],
    const aclopAttr* attr, aclopEngineType /*engineType*/,
    const char* graphDumpPath, const aclGraphDumpOption* graphdumpOpt) {
  return acl::DumpGraph(
      {"aclGenGraphAndDumpForOp", opType, Inputs(numInputs, inputDesc, inputs),
       Outputs(numOutputs, outputDesc, outputs), attr},
      graphDumpPath, graphdumpOpt);
}

}  // extern "C"
