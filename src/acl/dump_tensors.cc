// SPDX-License-Identifier: Apache-2.0
// aclDumpOpTensors: a record of tensors that an operator of the program's own
// reads and writes, in the order of a stream.
#include <unistd.h>

#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "acl/arguments.h"
#include "acl/call_contents.h"
#include "acl/call_writer.h"
#include "acl/error.h"
#include "acl/memory.h"
#include "acl/recording.h"
#include "acl/stream.h"
#include "acl/tensor.h"
#include "aclnn/acl_meta.h"
#include "base/contain.h"
#include "base/str.h"

namespace flashacl::acl {
namespace {

constexpr const char* kFunction = "aclDumpOpTensors";

struct Dumped {
  std::shared_ptr<const Recording> recording;
  record::Call call;  // its last two parameters are the lists
  std::vector<const std::byte*> inputs, outputs;

  // Of one of the lists, at this moment.
  void Look(bool input, WrittenCall& written) const {
    const std::vector<const std::byte*>& at = input ? inputs : outputs;
    auto& list = std::get<std::vector<record::TensorOrNot>>(
        written.call.parameters[input ? 1 : 2].value);
    for (size_t n = 0; n < at.size(); ++n) {
      record::Tensor& tensor = *list[n];
      if (at[n] == nullptr || tensor.bytes == 0) continue;
      LookInto(recording, tensor, at[n], input ? tensor.before : tensor.after,
               written.tensors);
    }
  }

  void Write() const {
    const RecordingSetting& setting = recording->setting;
    if (!GoesOn(*recording) || setting.only_failed) return;
    WrittenCall written{recording, call, {}};
    if (setting.inputs) Look(true, written);
    if (setting.outputs) Look(false, written);
    if (setting.only_bad_numbers && BadNumbers(written.call) == 0) return;
    written.call.launch = record::Answer{};
    written.call.stream = ThisStream().id();
    WriteCall(std::move(written));
  }
};

struct DumpTask {
  std::shared_ptr<const Dumped> dumped;
  BlockUse blocks;  // memory freed meanwhile stays until it is read
  // What fails here does not change what the program does.
  aclError operator()() const {
    return Contain(
        [&]() -> aclError {
          dumped->Write();
          return 0;
        },
        [](bool /*no_memory*/) -> aclError { return 0; });
  }
};

struct Given {
  aclTensor** tensors;
  size_t inputs;
  size_t outputs;
};

Status Describe(const Given& given, bool input, Dumped& dumped) {
  const size_t first = input ? 0 : given.inputs;
  const size_t count = input ? given.inputs : given.outputs;
  std::vector<record::TensorOrNot> list;
  for (size_t n = first; n < first + count; ++n) {
    const std::shared_ptr<Tensor> tensor = Find<Tensor>(given.tensors[n]);
    if (tensor == nullptr) {
      return Invalid("{}: tensors[{}] is {}, expected {}", kFunction, n,
                     static_cast<const void*>(given.tensors[n]),
                     ExpectedInsteadOf(HandleKind::kTensor, given.tensors[n]));
    }
    record::Tensor copy = DescriptionOf(*tensor);
    (input ? copy.input : copy.output) = true;
    copy.bytes = tensor->data == nullptr ? 0 : tensor->extent_bytes();
    list.push_back(std::move(copy));
    (input ? dumped.inputs : dumped.outputs)
        .push_back(tensor->data == nullptr
                       ? nullptr
                       : tensor->data + tensor->offset_bytes());
  }
  dumped.call.parameters.push_back(
      {input ? "inputs" : "outputs", "tensors", std::move(list)});
  return {};
}

Status CheckGiven(const char* type, const char* name, const Given& given) {
  if (type == nullptr)
    return NullArgument("{}: opType cannot be null", kFunction);
  if (name == nullptr)
    return NullArgument("{}: opName cannot be null", kFunction);
  // More handles than a process can have are a number that was not meant.
  constexpr size_t kMost = size_t{1} << 20;
  for (const auto& [of, count] :
       {std::pair("inputTensorNum", given.inputs),
        std::pair("outputTensorNum", given.outputs)}) {
    if (count > kMost) {
      return Invalid("{}: {} is {}, expected at most {}", kFunction, of, count,
                     kMost);
    }
  }
  if (given.tensors == nullptr && given.inputs + given.outputs > 0) {
    return NullArgument(
        "{}: tensors cannot be null with {} inputs and {} outputs", kFunction,
        given.inputs, given.outputs);
  }
  return {};
}

// Null where nothing is recorded of it.
Result<std::shared_ptr<const Dumped>> PlanDump(const char* type,
                                               const char* name,
                                               const Given& given) {
  FLASHACL_RETURN_IF_ERROR(CheckGiven(type, name, given));
  auto dumped = std::make_shared<Dumped>();
  record::Call& call = dumped->call;
  call.process = getpid();
  call.time = NowText();
  call.operation = ReadText(type);
  call.function = kFunction;
  call.parameters.push_back({"opName", "text", ReadText(name)});
  FLASHACL_RETURN_IF_ERROR(Describe(given, true, *dumped));
  FLASHACL_RETURN_IF_ERROR(Describe(given, false, *dumped));
  dumped->recording = CurrentRecording();
  if (dumped->recording == nullptr) return std::shared_ptr<const Dumped>();
  call.number = NextCallNumber();
  if (!dumped->recording->setting.Wants(call.operation, call.number)) {
    return std::shared_ptr<const Dumped>();
  }
  return std::shared_ptr<const Dumped>(std::move(dumped));
}

BlockUse UseOf(const Dumped& dumped) {
  std::vector<const void*> addresses;
  for (const auto* const list : {&dumped.inputs, &dumped.outputs}) {
    addresses.insert(addresses.end(), list->begin(), list->end());
  }
  return BlockUse(addresses);
}

}  // namespace
}  // namespace flashacl::acl

extern "C" aclnnStatus aclDumpOpTensors(const char* opType, const char* opName,
                                        aclTensor** tensors,
                                        size_t inputTensorNum,
                                        size_t outputTensorNum,
                                        aclrtStream stream) {
  namespace acl = flashacl::acl;
  constexpr aclnnStatus kNotEnqueued = 361001;
  aclError enqueued = 0;
  const aclnnStatus status = acl::Guard(161002, [&]() -> flashacl::Status {
    const auto dumped = acl::PlanDump(
        opType, opName, {tensors, inputTensorNum, outputTensorNum});
    if (!dumped.ok()) return dumped.status();
    if (*dumped == nullptr) return {};
    enqueued =
        acl::Enqueue(stream, acl::DumpTask{*dumped, acl::UseOf(**dumped)},
                     acl::kFunction, acl::TaskKind::kDevice);
    return {};
  });
  return status == 0 && enqueued != 0 ? kNotEnqueued : status;
}
