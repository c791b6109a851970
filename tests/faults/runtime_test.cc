// SPDX-License-Identifier: Apache-2.0
// Whatever allocation, thread or file operation fails while a program uses the
// runtime: the call says so, or does what it should; all it made can be
// destroyed; the program then runs as if nothing had been.
#include "tests/testing/runtime.h"

#include <gtest/gtest.h>
#include <pthread.h>
#include <unistd.h>

#include <array>
#include <atomic>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <string>
#include <vector>

#include "acl/acl.h"
#include "acl/acl_op_compiler.h"
#include "acl/acl_prof.h"
#include "acl/acl_tdt.h"
#include "aclnn/acl_meta.h"
#include "backends.h"
#include "base/str.h"
#include "mstx/ms_tools_ext.h"
#include "tests/faults/injector.h"
#include "tests/faults/watchdog.h"

namespace flashacl::testing {
namespace {

// The statuses of a program's calls. Allocates nothing.
class Calls {
 public:
  // Whether the call succeeded; one that did not must have said why.
  bool Ok(int status) {
    if (status == 0) return true;
    ++failed_;
    if (aclGetRecentErrMsg() == nullptr) silent_ = status;
    return false;
  }
  template <typename T>
  bool Made(T* object) {
    return Ok(object == nullptr ? -1 : 0);
  }

  int failed() const { return failed_; }
  int silent() const { return silent_; }  // a status that came without message

 private:
  int failed_ = 0;
  int silent_ = 0;
};

constexpr size_t kBytes = 4096;

// What a program makes, and must be able to destroy however far it came.
struct Made {
  aclrtContext context = nullptr;
  std::array<aclrtStream, 2> streams{};
  std::array<aclrtEvent, 3> events{};
  aclrtNotify notify = nullptr;
  aclrtCntNotify count = nullptr;
  std::array<void*, 2> device{};
  void* host = nullptr;
  void* reserved = nullptr;
  bool mapped = false;
  bool subscribed = false;
  bool captures = false;
  aclmdlRI graph = nullptr;
  bool listens = false;
  bool waits = false;  // a stream, for ever
  aclrtDrvMemHandle physical = nullptr;
  std::array<aclrtNotify, 2> shared{};
  std::array<aclTensor*, 2> tensors{};
  aclTensorList* list = nullptr;
  aclScalar* scalar = nullptr;
  aclIntArray* array = nullptr;
  aclDataBuffer* buffer = nullptr;
  aclTensorDesc* desc = nullptr;
  aclopAttr* attributes = nullptr;
  acltdtDataItem* item = nullptr;
  acltdtDataset* dataset = nullptr;
  aclGraphDumpOption* option = nullptr;
  bool profiling = false;
  aclprofConfig* profile = nullptr;
  void* stamp = nullptr;
  aclprofStepInfo* step = nullptr;

  void Destroy();
};

// Succeeds at once: destroying asks for nothing.
void Made::Destroy() {
  const auto destroy = [](auto call, auto* object) {
    EXPECT_TRUE(object == nullptr || Succeeds(call(object)));
  };
  const auto thread = static_cast<uint64_t>(pthread_self());
  if (subscribed) {
    EXPECT_TRUE(Succeeds(aclrtUnSubscribeReport(thread, streams[0])));
  }
  if (captures) (void)aclmdlRICaptureEnd(streams[0], &graph);
  destroy(aclmdlRIDestroy, graph);
  if (listens) {
    EXPECT_TRUE(
        Succeeds(aclrtSetDeviceTaskAbortCallback("test", nullptr, nullptr)));
  }
  EXPECT_TRUE(!profiling || Succeeds(aclprofFinalize()));
  destroy(aclprofDestroyConfig, profile);
  aclprofDestroyStamp(stamp);
  aclprofDestroyStepInfo(step);
  for (aclrtEvent event : events) destroy(aclrtDestroyEvent, event);
  for (aclrtNotify notify : shared) destroy(aclrtDestroyNotify, notify);
  destroy(aclrtDestroyNotify, notify);
  destroy(aclrtCntNotifyDestroy, count);
  for (aclrtStream stream : streams) {
    destroy(waits ? aclrtDestroyStreamForce : aclrtDestroyStream, stream);
  }
  for (void* at : device) destroy(aclrtFree, at);
  destroy(aclrtFreeHost, host);
  destroy(aclrtUnmapMem, mapped ? reserved : nullptr);
  destroy(aclrtReleaseMemAddress, reserved);
  destroy(aclrtFreePhysical, physical);
  destroy(aclDestroyTensorList, list);  // and its members
  if (list == nullptr) {
    for (aclTensor* tensor : tensors) destroy(aclDestroyTensor, tensor);
  }
  destroy(aclDestroyScalar, scalar);
  destroy(aclDestroyIntArray, array);
  destroy(aclDestroyDataBuffer, buffer);
  aclDestroyTensorDesc(desc);
  aclopDestroyAttr(attributes);
  destroy(acltdtDestroyDataItem, item);
  destroy(acltdtDestroyDataset, dataset);
  destroy(aclDestroyGraphDumpOpt, option);
  if (context == nullptr) return;
  destroy(aclrtDestroyContext, context);
  EXPECT_TRUE(Succeeds(aclrtSetDevice(0)));
  EXPECT_TRUE(Succeeds(aclrtResetDevice(0)));
}

using Program = void (*)(Calls&, Made&);

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

void Contexts(Calls& calls, Made& made) {
  calls.Ok(aclrtCreateContext(&made.context, 0));
  aclrtContext current = nullptr;
  calls.Ok(aclrtGetCurrentContext(&current));
  calls.Ok(aclrtSynchronizeDevice());
}

void CopiesAndFills(Calls& calls, Made& made) {
  for (void*& at : made.device) {
    if (!calls.Ok(aclrtMalloc(&at, kBytes, ACL_MEM_MALLOC_HUGE_FIRST))) return;
  }
  if (!calls.Ok(aclrtMallocHost(&made.host, kBytes))) return;
  if (!calls.Ok(aclrtCreateStream(&made.streams[0]))) return;
  const auto [one, other] = made.device;
  aclrtStream stream = made.streams[0];
  calls.Ok(aclrtMemset(one, kBytes, 7, kBytes));
  calls.Ok(aclrtMemsetAsync(other, kBytes, 9, kBytes, stream));
  calls.Ok(aclrtMemcpyAsync(made.host, kBytes, one, kBytes,
                            ACL_MEMCPY_DEVICE_TO_HOST, stream));
  calls.Ok(
      aclrtMemcpy2d(other, 64, one, 64, 32, 4, ACL_MEMCPY_DEVICE_TO_DEVICE));
  calls.Ok(aclrtSynchronizeStream(stream));
  if (calls.failed() > 0) return;
  const auto* bytes = static_cast<const unsigned char*>(made.host);
  for (size_t n = 0; n < kBytes; ++n) {
    if (bytes[n] != 7) return (void)calls.Ok(-2);
  }
}

void StreamsAndEvents(Calls& calls, Made& made) {
  for (aclrtStream& stream : made.streams) {
    if (!calls.Ok(aclrtCreateStream(&stream))) return;
  }
  if (!calls.Ok(aclrtCreateEvent(&made.events[0]))) return;
  if (!calls.Ok(aclrtCreateEventWithFlag(
          &made.events[1], ACL_EVENT_SYNC | ACL_EVENT_TIME_LINE))) {
    return;
  }
  const auto [one, other] = made.streams;
  const auto [first, second, unused] = made.events;
  // The second is waited for before it is recorded.
  const bool waits = calls.Ok(aclrtStreamWaitEvent(other, second));
  calls.Ok(aclrtRecordEvent(first, one));
  calls.Ok(aclrtStreamWaitEvent(one, first));
  if (!calls.Ok(aclrtRecordEvent(second, one)) && waits) {
    // Nothing would end the wait but this.
    if (calls.Ok(aclrtDestroyEvent(second))) made.events[1] = nullptr;
  }
  calls.Ok(aclrtSynchronizeEvent(first));
  calls.Ok(aclrtSynchronizeStream(other));
  if (made.events[1] != nullptr) calls.Ok(aclrtResetEvent(second, one));
  calls.Ok(aclrtSynchronizeStreamWithTimeout(one, 20000));
  calls.Ok(aclrtSynchronizeDevice());
}

// Two streams in one graph, of which the first waits for what the second does
// without the graph knowing: its replay needs threads of its own.
void Graphs(Calls& calls, Made& made) {
  for (aclrtStream& stream : made.streams) {
    if (!calls.Ok(aclrtCreateStream(&stream))) return;
  }
  for (size_t n = 0; n < 2; ++n) {
    if (!calls.Ok(aclrtCreateEventExWithFlag(&made.events[n], ACL_EVENT_SYNC)))
      return;
  }
  if (!calls.Ok(
          aclrtCreateEventWithFlag(&made.events[2], ACL_EVENT_EXTERNAL))) {
    return;
  }
  for (void*& at : made.device) {
    if (!calls.Ok(aclrtMalloc(&at, kBytes, ACL_MEM_MALLOC_HUGE_FIRST))) return;
  }
  const auto [one, other] = made.streams;
  const auto [fork, join, external] = made.events;
  const auto [from, to] = made.device;
  made.captures = calls.Ok(
      aclmdlRICaptureBegin(one, ACL_MODEL_RI_CAPTURE_MODE_THREAD_LOCAL));
  if (!made.captures) return;
  calls.Ok(aclrtRecordEvent(fork, one));
  calls.Ok(aclrtStreamWaitEvent(other, fork));
  calls.Ok(aclrtStreamWaitEvent(one, external));
  calls.Ok(aclrtResetEvent(external, one));
  calls.Ok(aclrtMemcpyAsync(to, kBytes, from, kBytes,
                            ACL_MEMCPY_DEVICE_TO_DEVICE, one));
  calls.Ok(aclrtMemsetAsync(from, kBytes, 7, kBytes, other));
  calls.Ok(aclrtRecordEvent(external, other));
  calls.Ok(aclrtRecordEvent(join, other));
  calls.Ok(aclrtStreamWaitEvent(one, join));
  if (calls.failed() > 0) return;
  made.captures = false;
  if (!calls.Ok(aclmdlRICaptureEnd(one, &made.graph))) return;
  for (int n = 0; n < 2; ++n) {
    calls.Ok(aclmdlRIExecuteAsync(made.graph, other));
    calls.Ok(aclrtSynchronizeStream(other));
  }
  calls.Ok(aclmdlRIExecute(made.graph, -1));
  if (calls.failed() > 0) return;
  const auto* bytes = static_cast<const unsigned char*>(to);
  if (bytes[0] != 7 || bytes[kBytes - 1] != 7) calls.Ok(-2);
}

std::atomic<int> called{0};

void Callbacks(Calls& calls, Made& made) {
  const auto thread = static_cast<uint64_t>(pthread_self());
  if (!calls.Ok(aclrtCreateStream(&made.streams[0]))) return;
  aclrtStream stream = made.streams[0];
  calls.Ok(aclrtLaunchHostFunc(
      stream, [](void*) { ++called; }, nullptr));
  made.subscribed = calls.Ok(aclrtSubscribeReport(thread, stream));
  if (made.subscribed &&
      calls.Ok(aclrtLaunchCallback([](void*) { ++called; }, nullptr,
                                   ACL_CALLBACK_BLOCK, stream))) {
    // Until it ran, or its task failed: then the stream says so.
    aclrtStreamStatus status = ACL_STREAM_STATUS_NOT_READY;
    for (int n = 0; n < 200 && status != ACL_STREAM_STATUS_COMPLETE; ++n) {
      (void)aclrtProcessReport(10);
      (void)aclrtStreamQuery(stream, &status);
      (void)aclGetRecentErrMsg();
    }
  }
  calls.Ok(aclrtSynchronizeStream(stream));
}

// Nothing is waited for that was not queued.
void Notifies(Calls& calls, Made& made) {
  for (aclrtStream& stream : made.streams) {
    if (!calls.Ok(aclrtCreateStream(&stream))) return;
  }
  const auto [one, other] = made.streams;
  if (calls.Ok(aclrtCreateNotify(&made.notify, 0)) &&
      calls.Ok(aclrtRecordNotify(made.notify, one))) {
    calls.Ok(aclrtWaitAndResetNotify(made.notify, other, 0));
  }
  aclrtCntNotifyRecordInfo add = {ACL_RT_CNT_NOTIFY_RECORD_ADD_MODE, 1};
  aclrtCntNotifyWaitInfo wait = {
      ACL_RT_CNT_NOTIFY_WAIT_EQUAL_MODE, 1, 0, 1, {}};
  if (calls.Ok(aclrtCntNotifyCreate(&made.count, 0)) &&
      calls.Ok(aclrtCntNotifyRecord(made.count, one, &add))) {
    calls.Ok(aclrtCntNotifyWaitWithTimeout(made.count, other, &wait));
  }
  calls.Ok(aclrtSynchronizeStream(one));
  calls.Ok(aclrtSynchronizeStream(other));
  if (made.notify != nullptr) {
    calls.Ok(aclrtNotifyBatchReset(&made.notify, 1));
  }
}

void ValuesAndReductions(Calls& calls, Made& made) {
  for (void*& at : made.device) {
    if (!calls.Ok(aclrtMalloc(&at, kBytes, ACL_MEM_MALLOC_HUGE_FIRST))) return;
  }
  if (!calls.Ok(aclrtCreateStream(&made.streams[0]))) return;
  const auto [one, other] = made.device;
  aclrtStream stream = made.streams[0];
  calls.Ok(aclrtMemset(one, kBytes, 0, kBytes));
  if (calls.Ok(aclrtValueWrite(one, 3, 0, stream))) {
    calls.Ok(aclrtValueWait(one, 3, ACL_STREAM_WAIT_VALUE_EQ, stream));
  }
  calls.Ok(aclrtMemset(other, kBytes, 1, kBytes));
  calls.Ok(aclrtReduceAsync(other, one, kBytes,
                            ACL_RT_MEMCPY_SDMA_AUTOMATIC_SUM, ACL_INT8, stream,
                            nullptr));
  calls.Ok(aclrtCmoAsync(one, kBytes, ACL_RT_CMO_TYPE_PREFETCH, stream));
  calls.Ok(aclrtGetOverflowStatus(one, 64, stream));
  calls.Ok(aclrtSynchronizeStream(stream));
}

void Aborting(Calls& calls, Made& made) {
  if (!calls.Ok(aclrtCreateStream(&made.streams[0]))) return;
  if (!calls.Ok(aclrtCreateNotify(&made.notify, 0))) return;
  made.listens = calls.Ok(aclrtSetDeviceTaskAbortCallback(
      "test",
      [](int32_t, aclrtDeviceTaskAbortStage, uint32_t, void*) { return 0; },
      nullptr));
  // A wait that only the abort, or the end of the stream, ends.
  made.waits =
      calls.Ok(aclrtWaitAndResetNotify(made.notify, made.streams[0], 0));
  if (calls.Ok(aclrtDeviceTaskAbort(0, 0)) && calls.Ok(aclrtSetDevice(0))) {
    (void)aclrtResetDevice(0);
  }
  aclrtErrorInfo error{};
  calls.Ok(aclrtGetErrorVerbose(0, &error));
  error.tryRepair = 1;
  calls.Ok(aclrtRepairError(0, &error));
  aclrtUuid uuid{};
  calls.Ok(aclrtDeviceGetUuid(0, &uuid));
  std::array<aclrtMemUsageInfo, 2> usage{};
  size_t count = 0;
  calls.Ok(aclrtGetMemUsageInfo(0, usage.data(), usage.size(), &count));
}

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

struct Case {
  const char* name;
  Program program;
};

const Case kCases[] = {
    {"Contexts", Contexts},
    {"CopiesAndFills", CopiesAndFills},
    {"StreamsAndEvents", StreamsAndEvents},
    {"Graphs", Graphs},
    {"Callbacks", Callbacks},
    {"Notifies", Notifies},
    {"ValuesAndReductions", ValuesAndReductions},
    {"Aborting", Aborting},
    {"MappedMemory", MappedMemory},
    {"Sharing", Sharing},
    {"Descriptions", Descriptions},
    {"SingleOperators", SingleOperators},
    {"Settings", Settings},
    {"Profiles", Profiles},
};

// Whether some call failed on purpose.
bool RunWithFault(Program program, Fault fault, int64_t n, bool lasting) {
  Made made;
  Calls calls;
  int64_t failed = 0;
  {
    const Injected injected(fault, n, lasting);
    program(calls, made);
    failed = injected.failed();
  }
  EXPECT_EQ(calls.silent(), 0) << "a status without a message";
  EXPECT_TRUE(failed > 0 || calls.failed() == 0);
  made.Destroy();
  aclGetRecentErrMsg();
  Made again;
  Calls next;
  program(next, again);
  EXPECT_EQ(next.failed(), 0) << "the next run";
  again.Destroy();
  return failed > 0;
}

void TryAllFaults(const Case& tried, Fault fault) {
  for (const bool lasting : {false, true}) {
    for (int64_t n = 1;; ++n) {
      const std::string what =
          Str("{}: fault {} of kind {}{}", tried.name, n,
              static_cast<int>(fault), lasting ? ", and all after it" : "");
      SCOPED_TRACE(what);
      const Watched watched(what);
      if (!RunWithFault(tried.program, fault, n, lasting)) break;
      if (::testing::Test::HasFailure()) return;
    }
  }
}

class Runtime : public RuntimeTest,
                public ::testing::WithParamInterface<Case> {};

TEST_P(Runtime, SaysSoOrWorksWhateverAllocationFails) {
  EXPECT_FALSE(Leaks([] { TryAllFaults(GetParam(), Fault::kAllocation); }));
  RecordProperty("faults", std::to_string(InjectedFaults()));
}

// Only what is shared lies in files.
TEST(Sharing, SaysSoOrWorksWhateverFileOperationFails) {
  ASSERT_TRUE(Succeeds(aclrtSetDevice(0)));
  EXPECT_FALSE(Leaks([] { TryAllFaults({"Sharing", Sharing}, Fault::kFile); }));
  EXPECT_TRUE(Succeeds(aclrtResetDeviceForce(0)));
}

TEST_P(Runtime, SaysSoOrWorksWhateverThreadCannotBeStarted) {
  EXPECT_FALSE(Leaks([] { TryAllFaults(GetParam(), Fault::kThread); }));
}

INSTANTIATE_TEST_SUITE_P(Every, Runtime, ::testing::ValuesIn(kCases),
                         [](const auto& info) {
                           return std::string(info.param.name);
                         });

// Whatever file operation fails, the profile has ended, and the next one is
// whole.
TEST_F(RuntimeTest, SaysThatAProfileCannotBeWritten) {
  for (int64_t n = 1;; ++n) {
    SCOPED_TRACE(n);
    if (!RunWithFault(Profiles, Fault::kFile, n, true)) break;
    ASSERT_FALSE(HasFailure());
  }
}

// aclInit with a file that says something, which cannot be read.
TEST(Init, SaysSoOrWorksWhateverFails) {
  const std::string path = ::testing::TempDir() + "faults.json";
  std::FILE* file = std::fopen(path.c_str(), "w");
  std::fputs(
      R"({"dump": {"dump_scene": "lite_exception"}, "err_msg_mode": "1"})",
      file);
  std::fclose(file);
  for (const Fault fault : {Fault::kAllocation, Fault::kFile}) {
    for (int64_t n = 1;; ++n) {
      SCOPED_TRACE(Str("fault {} of kind {}", n, static_cast<int>(fault)));
      Calls calls;
      int64_t failed = 0;
      bool initialised = false;
      {
        const Injected injected(fault, n, false);
        initialised = calls.Ok(aclInit(path.c_str()));
        if (initialised) calls.Ok(aclFinalize());
        failed = injected.failed();
      }
      EXPECT_EQ(calls.silent(), 0);
      EXPECT_TRUE(failed > 0 || initialised);
      (void)aclFinalize();
      aclGetRecentErrMsg();
      EXPECT_TRUE(Succeeds(aclInit(path.c_str())));
      EXPECT_TRUE(Succeeds(aclFinalize()));
      if (failed == 0 || HasFailure()) break;
    }
  }
  unlink(path.c_str());
}

}  // namespace
}  // namespace flashacl::testing
