// SPDX-License-Identifier: Apache-2.0
// How objects end.
#include "tests/fuzz/world.h"

#include <unistd.h>

#include <filesystem>
#include <system_error>

#include "acl/acl_op_compiler.h"
#include "acl/acl_prof.h"
#include "acl/acl_tdt.h"
#include "aclnn/acl_meta.h"
#include "mstx/ms_tools_ext.h"

namespace flashacl::testing {

namespace {

// How the objects of a kind end. Groups of tasks belong to their graphs.
struct Ending {
  Kind kind;
  void (*destroy)(void* object);
};

// What takes a handle of a type of its own.
template <typename Handle, auto kDestroy>
void Destroyed(void* object) {
  kDestroy(static_cast<Handle*>(object));
}
template <auto kDestroy>
void Destroyed(void* object) {
  kDestroy(object);
}

void UnmapAndRelease(void* object) {
  for (size_t page = 0; page < 4; ++page) {
    aclrtUnmapMem(static_cast<char*>(object) + page * acl::kHugePageBytes);
  }
  aclrtReleaseMemAddress(object);
}

constexpr Ending kEndings[] = {
    {Kind::kGraph, Destroyed<aclmdlRIDestroy>},
    {Kind::kTensor, Destroyed<aclTensor, aclDestroyTensor>},
    {Kind::kArray, Destroyed<aclIntArray, aclDestroyIntArray>},
    {Kind::kScalar, Destroyed<aclScalar, aclDestroyScalar>},
    {Kind::kTensorDesc, Destroyed<aclTensorDesc, aclDestroyTensorDesc>},
    {Kind::kDataBuffer, Destroyed<aclDataBuffer, aclDestroyDataBuffer>},
    {Kind::kAttributes, Destroyed<aclopAttr, aclopDestroyAttr>},
    {Kind::kDataItem, Destroyed<acltdtDataItem, acltdtDestroyDataItem>},
    {Kind::kDataset, Destroyed<acltdtDataset, acltdtDestroyDataset>},
    {Kind::kDumpOption, Destroyed<aclGraphDumpOption, aclDestroyGraphDumpOpt>},
    {Kind::kProfile, Destroyed<aclprofConfig, aclprofDestroyConfig>},
    {Kind::kStamp, Destroyed<aclprofDestroyStamp>},
    {Kind::kStepInfo, Destroyed<aclprofStepInfo, aclprofDestroyStepInfo>},
    {Kind::kNotify, Destroyed<aclrtDestroyNotify>},
    {Kind::kCountNotify, Destroyed<aclrtCntNotifyDestroy>},
    {Kind::kEvent, Destroyed<aclrtDestroyEvent>},
    {Kind::kLabel, Destroyed<aclrtDestroyLabel>},
    {Kind::kLabelList, Destroyed<aclrtDestroyLabelList>},
    {Kind::kStream, Destroyed<aclrtDestroyStreamForce>},
    {Kind::kContext, Destroyed<aclrtDestroyContext>},
    {Kind::kBlock, Destroyed<aclrtFree>},
    {Kind::kHost, Destroyed<aclrtFreeHost>},
    {Kind::kMapped, Destroyed<aclrtUnmapMem>},
    {Kind::kReserved, UnmapAndRelease},
    {Kind::kPhysical, Destroyed<aclrtFreePhysical>},
};

}  // namespace

char World::own_[];

void World::Destroy(Kind kind, void* object) {
  for (const Ending& ending : kEndings) {
    if (ending.kind == kind) ending.destroy(object);
  }
}

int32_t* World::Processes() {
  constexpr size_t kCount = 70;
  auto* const processes = Out<std::array<int32_t, kCount>>();
  if (processes == nullptr) return nullptr;
  processes->fill(getpid());
  (*processes)[0] = bytes.OneIn(4) ? Number<int32_t>() : getpid();
  return processes->data();
}

const char* World::Folder() {
  folder_ = std::filesystem::temp_directory_path() /
            ("flashacl_fuzz_" + std::to_string(getpid()));
  return folder_.c_str();
}

World::~World() {
  aclprofFinalize();
  std::error_code ignored;
  if (!folder_.empty()) std::filesystem::remove_all(folder_, ignored);
  for (const uint64_t number : words_) {
    mstxRangeEnd(number);
    aclprofRangeStop(static_cast<uint32_t>(number));
  }
  for (const Characters& text : texts_) {
    while (aclrtIpcMemClose(text.data()) == 0) {
    }
  }
  aclmdlRICaptureMode mode = ACL_MODEL_RI_CAPTURE_MODE_GLOBAL;
  aclmdlRICaptureThreadExchangeMode(&mode);
  for (size_t n = 0; n < kKinds; ++n) {
    const auto kind = static_cast<Kind>(n);
    for (void* const object : forgotten_[n]) Destroy(kind, object);
    for (void* const object : objects_[n]) {
      if (object != nullptr) Destroy(kind, object);
    }
  }
  while (aclrtResetDevice(0) == 0) {
  }
  aclGetRecentErrMsg();
}

}  // namespace flashacl::testing
