// SPDX-License-Identifier: Apache-2.0
// Programs that make things: memory that is mapped or shared, descriptions,
// settings, profiles.
#include <cstdlib>
#include <filesystem>
#include <string>

#include "mstx/ms_tools_ext.h"
#include "tests/faults/programs.h"

namespace flashacl::testing {
namespace {

// Where profiles are written. Made when the program starts, as faults are for
// the runtime.
const struct ProfileFolder {
  std::string path = "/tmp/flashacl_faults_XXXXXX";
  ProfileFolder() { EXPECT_NE(mkdtemp(path.data()), nullptr); }
  ~ProfileFolder() {
    std::error_code ignored;  // a child may have become another user
    std::filesystem::remove_all(path, ignored);
  }
} profile_folder;

}  // namespace

void MappedMemory(Calls& calls, Made& made) {
  aclrtPhysicalMemProp properties{};
  properties.handleType = ACL_MEM_HANDLE_TYPE_NONE;
  properties.allocationType = ACL_MEM_ALLOCATION_TYPE_PINNED;
  properties.memAttr = ACL_HBM_MEM_HUGE;
  properties.location = {0, ACL_MEM_LOCATION_TYPE_DEVICE};
  size_t unit = 0;
  if (!calls.Ok(aclrtMemGetAllocationGranularity(
          &properties, ACL_RT_MEM_ALLOC_GRANULARITY_MINIMUM, &unit))) {
    return;
  }
  if (!calls.Ok(aclrtReserveMemAddress(&made.reserved, unit, 0, nullptr, 0))) {
    return;
  }
  if (!calls.Ok(aclrtMallocPhysical(&made.physical, unit, &properties, 0))) {
    return;
  }
  made.mapped = calls.Ok(aclrtMapMem(made.reserved, unit, 0, made.physical, 0));
  if (made.mapped) calls.Ok(aclrtMemset(made.reserved, unit, 1, unit));
}

// As exporter and importer of everything that processes share.
void Sharing(Calls& calls, Made& made) {
  constexpr size_t kBlock = size_t{1} << 16;
  char key[65] = "";
  void* at = nullptr;
  if (!calls.Ok(
          aclrtMalloc(&made.device[0], kBlock, ACL_MEM_MALLOC_NORMAL_ONLY))) {
    return;
  }
  if (calls.Ok(aclrtIpcMemGetExportKey(made.device[0], kBlock, key, 65, 0))) {
    if (calls.Ok(aclrtIpcMemImportByKey(&at, key, 0))) {
      (void)aclrtIpcMemClose(key);
    }
    (void)aclrtIpcMemClose(key);
  }
  aclrtPhysicalMemProp properties{};
  properties.location = {0, ACL_MEM_LOCATION_TYPE_DEVICE};
  uint64_t number = 0;
  aclrtDrvMemHandle other = nullptr;
  if (calls.Ok(aclrtMallocPhysical(&made.physical, size_t{2} << 20, &properties,
                                   0)) &&
      calls.Ok(aclrtMemExportToShareableHandle(
          made.physical, ACL_MEM_HANDLE_TYPE_NONE, 0, &number)) &&
      calls.Ok(aclrtMemImportFromShareableHandle(number, 0, &other))) {
    EXPECT_TRUE(Succeeds(aclrtFreePhysical(other)));
  }
  aclrtIpcEventHandle handle{};
  if (calls.Ok(aclrtCreateEventExWithFlag(&made.events[0], ACL_EVENT_IPC)) &&
      calls.Ok(aclrtIpcGetEventHandle(made.events[0], &handle)) &&
      calls.Ok(aclrtIpcOpenEventHandle(handle, &made.events[1])) &&
      calls.Ok(aclrtRecordEvent(made.events[1], nullptr))) {
    calls.Ok(aclrtStreamWaitEvent(nullptr, made.events[0]));
    calls.Ok(aclrtSynchronizeEvent(made.events[0]));
  }
  calls.Ok(aclrtSynchronizeStream(nullptr));
  if (calls.Ok(aclrtCreateNotify(&made.shared[0], 0)) &&
      calls.Ok(aclrtNotifyGetExportKey(made.shared[0], key, 65, 0))) {
    calls.Ok(aclrtNotifyImportByKey(&made.shared[1], key, 0));
  }
}

void Descriptions(Calls& calls, Made& made) {
  const std::array<int64_t, 2> dims{2, 3};
  int64_t values[] = {1, 2, 3};
  for (aclTensor*& tensor : made.tensors) {
    tensor = aclCreateTensor(dims.data(), 2, ACL_FLOAT, nullptr, 0,
                             ACL_FORMAT_ND, dims.data(), 2, nullptr);
    if (!calls.Made(tensor)) return;
  }
  made.list = aclCreateTensorList(made.tensors.data(), 2);
  calls.Made(made.list);
  made.scalar = aclCreateScalar(&values[0], ACL_INT64);
  calls.Made(made.scalar);
  made.array = aclCreateIntArray(values, 3);
  calls.Made(made.array);
  made.buffer = aclCreateDataBuffer(values, sizeof values);
  calls.Made(made.buffer);
  if (made.tensors[0] == nullptr) return;
  int64_t* read = nullptr;
  uint64_t count = 0;
  if (calls.Ok(aclGetViewShape(made.tensors[0], &read, &count))) delete[] read;
}

void SingleOperators(Calls& calls, Made& made) {
  int64_t dims[] = {2, 3};
  int64_t ranges[][2] = {{1, 2}, {3, 4}};
  const char* texts[] = {"a text that is too long for a short one"};
  made.desc = aclCreateTensorDesc(ACL_FLOAT, 2, dims, ACL_FORMAT_ND);
  if (!calls.Made(made.desc)) return;
  calls.Ok(aclSetTensorShape(made.desc, 2, dims));
  calls.Ok(aclSetTensorShapeRange(made.desc, 2, ranges));
  calls.Ok(aclSetTensorConst(made.desc, dims, sizeof dims));
  aclSetTensorDescName(made.desc, texts[0]);
  // Without a status, its message alone tells that it failed.
  if (aclGetRecentErrMsg() == nullptr) {
    calls.Ok(
        aclGetTensorDescName(made.desc) == std::string_view(texts[0]) ? 0 : -2);
  }
  made.attributes = aclopCreateAttr();
  if (calls.Made(made.attributes)) {
    calls.Ok(aclopSetAttrListInt(made.attributes, "ints", 2, dims));
    calls.Ok(aclopSetAttrListString(made.attributes, "texts", 1, texts));
  }
  calls.Ok(aclSetCompileopt(ACL_OP_DEBUG_OPTION, texts[0]));
  made.item = acltdtCreateDataItem(ACL_TENSOR_DATA_TENSOR, dims, 2, ACL_INT64,
                                   dims, sizeof dims);
  calls.Made(made.item);
  made.dataset = acltdtCreateDataset();
  if (calls.Made(made.dataset) && made.item != nullptr) {
    calls.Ok(acltdtAddDataItem(made.dataset, made.item));
  }
  made.option = aclCreateGraphDumpOpt();
  calls.Made(made.option);
  // A call that is refused says so, whatever else fails.
  Calls expected;
  expected.Ok(aclopExecuteV2("MatMul", 0, nullptr, nullptr, 0, nullptr, nullptr,
                             made.attributes, nullptr));
  if (expected.silent() != 0 || expected.failed() != 1) calls.Ok(-3);
}

void Settings(Calls& calls, Made& made) {
  calls.Ok(aclrtSetDeviceResLimit(0, ACL_RT_DEV_RES_CUBE_CORE, 3));
  calls.Ok(aclrtResetDeviceResLimit(0));
  if (!calls.Ok(aclrtCreateStreamWithConfig(&made.streams[0], 0,
                                            ACL_STREAM_FAST_LAUNCH))) {
    return;
  }
  calls.Ok(
      aclrtSetStreamResLimit(made.streams[0], ACL_RT_DEV_RES_CUBE_CORE, 2));
  calls.Ok(aclrtUseStreamResInCurrentThread(made.streams[0]));
  calls.Ok(aclrtUnuseStreamResInCurrentThread(made.streams[0]));
  calls.Ok(aclrtSetStreamFailureMode(made.streams[0], ACL_STOP_ON_FAILURE));
  // A wrong call says why, whatever else fails.
  Calls expected;
  expected.Ok(aclrtSetDevice(12345));
  if (expected.silent() != 0) calls.Ok(-3);
}

// Marks and ranges of a program, on a thread and on a stream.
void MarkEverything(Calls& calls, const Made& made) {
  aclrtStream stream = made.streams[0];
  calls.Ok(aclprofSetStampTraceMessage(made.stamp, "text", 4));
  calls.Ok(aclprofMark(made.stamp));
  calls.Ok(aclprofPush(made.stamp));
  uint32_t range = 0;
  if (calls.Ok(aclprofRangeStart(made.stamp, &range))) {
    calls.Ok(aclprofRangeStop(range));
  }
  aclprofEventAttributes attributes{1, sizeof attributes, 0, {nullptr}};
  calls.Ok(aclprofRangePushEx(&attributes));
  calls.Ok(aclprofRangePop());
  calls.Ok(aclprofPop());
  calls.Ok(aclprofMarkEx("text", 4, stream));
  calls.Ok(aclprofGetStepTimestamp(made.step, ACL_STEP_START, stream));
  calls.Ok(aclprofGetStepTimestamp(made.step, ACL_STEP_END, stream));
  // These have no status: what they say is of no call after them.
  mstxMarkA("text", stream);
  mstxRangeEnd(
      mstxDomainRangeStartA(mstxDomainCreateA("faults"), "text", stream));
  (void)aclprofStr2Id("text");
  (void)aclGetRecentErrMsg();
}

// Without memory, the timeline lacks events, which is no error.
void Profiles(Calls& calls, Made& made) {
  if (!calls.Ok(aclrtCreateStream(&made.streams[0]))) return;
  made.profiling = calls.Ok(
      aclprofInit(profile_folder.path.c_str(), profile_folder.path.size()));
  if (!made.profiling) return;
  uint32_t device = 0;
  made.profile = aclprofCreateConfig(&device, 1, ACL_AICORE_NONE, nullptr, 0);
  made.stamp = aclprofCreateStamp();
  made.step = aclprofCreateStepInfo();
  if (!calls.Made(made.profile) || !calls.Made(made.stamp) ||
      !calls.Made(made.step)) {
    return;
  }
  calls.Ok(aclprofSetConfig(ACL_PROF_STORAGE_LIMIT, "200MB", 5));
  if (!calls.Ok(aclprofStart(made.profile))) return;
  MarkEverything(calls, made);
  calls.Ok(aclrtSynchronizeStream(made.streams[0]));
  calls.Ok(aclprofStop(made.profile));
}

}  // namespace flashacl::testing
