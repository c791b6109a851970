// SPDX-License-Identifier: Apache-2.0
// Bytes to a program: a sequence of runtime calls on handles that may be live,
// stale, null or of another kind. Law: no crash, no hang, and a message with
// every failure. To add a call: one line in a table.
#include <pthread.h>

#include <array>
#include <atomic>
#include <chrono>
#include <cstdint>
#include <span>
#include <thread>

#include "acl/acl.h"
#include "aclnn/acl_meta.h"
#include "tests/fuzz/bytes.h"
#include "tests/fuzz/steps.h"
#include "tests/fuzz/world.h"

namespace flashacl::testing {
namespace {

void Nothing(void* /*user*/) {}
aclError NothingAtInit(const char*, size_t, void*) { return 0; }
aclError NothingAtEnd(void*) { return 0; }
void NoException(aclrtExceptionInfo*) {}

// A thread that answers every callback, or streams would wait for ever.
uint64_t Reporter() {
  static const uint64_t id = [] {
    static std::atomic<uint64_t> started{0};
    std::thread([] {
      started = pthread_self();
      for (;;) {
        if (aclrtProcessReport(10) == 0) continue;
        aclGetRecentErrMsg();
        std::this_thread::sleep_for(std::chrono::microseconds(200));
      }
    }).detach();
    while (started == 0) std::this_thread::yield();
    return started.load();
  }();
  return id;
}

constexpr Step kDevices[] = {
    STEP(aclrtSetDevice(0)),
    STEP(aclrtSetDevice(w.Number<int32_t>())),
    STEP(aclrtResetDevice(0)),
    STEP(aclrtResetDeviceForce(w.bytes.OneIn(2) ? 0 : w.Number<int32_t>())),
    STEP(aclrtGetDevice(w.Out<int32_t>())),
    STEP(aclrtGetDeviceCount(w.Out<uint32_t>())),
    STEP(aclrtSynchronizeDevice()),
    STEP(aclrtSynchronizeDeviceWithTimeout(w.Number<int32_t>())),
    STEP(aclrtSetTsDevice(w.Enum<aclrtTsId>(4))),
    STEP(aclrtGetDeviceUtilizationRate(w.Number<int32_t>(),
                                       w.Out<aclrtUtilizationInfo>())),
    STEP(aclrtQueryDeviceStatus(w.Number<int32_t>(),
                                w.Out<aclrtDeviceStatus>())),
    STEP(aclrtGetDeviceInfo(w.Number<uint32_t>(), w.Enum<aclrtDevAttr>(256),
                            w.Out<int64_t>())),
    STEP(aclrtSetDeviceSatMode(w.Enum<aclrtFloatOverflowMode>(4))),
    STEP(aclrtGetDeviceSatMode(w.Out<aclrtFloatOverflowMode>())),
    STEP(aclrtDeviceCanAccessPeer(w.Out<int32_t>(), w.Number<int32_t>(),
                                  w.Number<int32_t>())),
    STEP(
        aclrtDeviceEnablePeerAccess(w.Number<int32_t>(), w.Number<uint32_t>())),
    STEP(aclrtDeviceDisablePeerAccess(w.Number<int32_t>())),
    STEP(aclrtDevicePeerAccessStatus(w.Number<int32_t>(), w.Number<int32_t>(),
                                     w.Out<int32_t>())),
    STEP(aclrtGetPhyDevIdByLogicDevId(w.Number<int32_t>(), w.Out<int32_t>())),
    STEP(aclrtGetLogicDevIdByUserDevId(w.Number<int32_t>(), w.Out<int32_t>())),
    STEP(aclrtSetDeviceResLimit(w.Number<int32_t>(),
                                w.Enum<aclrtDevResLimitType>(2),
                                w.Number<uint32_t>())),
    STEP(aclrtGetDeviceResLimit(w.Number<int32_t>(),
                                w.Enum<aclrtDevResLimitType>(2),
                                w.Out<uint32_t>())),
    STEP(aclrtResetDeviceResLimit(w.Number<int32_t>())),
    STEP(aclrtGetResInCurrentThread(w.Enum<aclrtDevResLimitType>(2),
                                    w.Out<uint32_t>())),
    STEP(aclrtDeviceGetStreamPriorityRange(w.Out<int32_t>(), w.Out<int32_t>())),
};

constexpr Step kContexts[] = {
    STEP(aclrtCreateContext(w.New(Kind::kContext), 0)),
    STEP(aclrtCreateContext(w.New(Kind::kContext), w.Number<int32_t>())),
    STEP(aclrtDestroyContext(w.Get(Kind::kContext))),
    STEP(aclrtSetCurrentContext(w.Get(Kind::kContext))),
    STEP(aclrtGetCurrentContext(w.Out<aclrtContext>())),
    STEP(aclrtCtxGetCurrentDefaultStream(w.Out<aclrtStream>())),
    STEP(aclrtGetPrimaryCtxState(w.Number<int32_t>(), w.Out<uint32_t>(),
                                 w.Out<int32_t>())),
    STEP(aclrtCtxSetSysParamOpt(w.Enum<aclSysParamOpt>(4), w.bytes.Number())),
    STEP(aclrtCtxGetSysParamOpt(w.Enum<aclSysParamOpt>(4), w.Out<int64_t>())),
};

constexpr Step kStreams[] = {
    STEP(aclrtCreateStream(w.New(Kind::kStream))),
    STEP(aclrtCreateStreamWithConfig(w.New(Kind::kStream), w.bytes.Next(),
                                     w.bytes.Next())),
    STEP(aclrtDestroyStream(w.Get(Kind::kStream))),
    STEP(aclrtDestroyStreamForce(w.Get(Kind::kStream))),
    STEP(aclrtSynchronizeStream(w.Get(Kind::kStream))),
    STEP(aclrtSynchronizeStreamWithTimeout(w.Get(Kind::kStream),
                                           w.Number<int32_t>())),
    STEP(aclrtStreamQuery(w.Get(Kind::kStream), w.Out<aclrtStreamStatus>())),
    STEP(aclrtStreamWaitEvent(w.Get(Kind::kStream), w.Get(Kind::kEvent))),
    STEP(aclrtStreamWaitEventWithTimeout(
        w.Get(Kind::kStream), w.Get(Kind::kEvent), w.Number<int32_t>())),
    STEP(aclrtStreamWaitEventWithFlag(w.Get(Kind::kStream), w.Get(Kind::kEvent),
                                      w.Number<uint32_t>(), w.bytes.Next())),
    STEP(aclrtStreamAbort(w.Get(Kind::kStream))),
    STEP(aclrtStreamGetId(w.Get(Kind::kStream), w.Out<int32_t>())),
    STEP(aclrtStreamGetPriority(w.Get(Kind::kStream), w.Out<uint32_t>())),
    STEP(aclrtStreamGetFlags(w.Get(Kind::kStream), w.Out<uint32_t>())),
    STEP(aclrtGetStreamAvailableNum(w.Out<uint32_t>())),
    STEP(aclrtSetStreamFailureMode(w.Get(Kind::kStream), w.bytes.Below(3))),
    STEP(aclrtSetStreamAttribute(w.Get(Kind::kStream),
                                 w.Enum<aclrtStreamAttr>(8),
                                 w.In<aclrtStreamAttrValue>())),
    STEP(aclrtGetStreamAttribute(w.Get(Kind::kStream),
                                 w.Enum<aclrtStreamAttr>(8),
                                 w.Out<aclrtStreamAttrValue>())),
    STEP(aclrtSetStreamOverflowSwitch(w.Get(Kind::kStream), w.bytes.Below(3))),
    STEP(aclrtGetStreamOverflowSwitch(w.Get(Kind::kStream), w.Out<uint32_t>())),
    STEP(aclrtSetStreamResLimit(w.Get(Kind::kStream),
                                w.Enum<aclrtDevResLimitType>(2),
                                w.Number<uint32_t>())),
    STEP(aclrtGetStreamResLimit(w.Get(Kind::kStream),
                                w.Enum<aclrtDevResLimitType>(2),
                                w.Out<uint32_t>())),
    STEP(aclrtResetStreamResLimit(w.Get(Kind::kStream))),
    STEP(aclrtUseStreamResInCurrentThread(w.Get(Kind::kStream))),
    STEP(aclrtUnuseStreamResInCurrentThread(w.Get(Kind::kStream))),
};

// A wait for an event with ACL_EVENT_SYNC that is never recorded does not end.
uint32_t EventFlag(World& w) {
  return w.bytes.Next() & ~uint32_t{ACL_EVENT_SYNC};
}

constexpr Step kEvents[] = {
    STEP(aclrtCreateEvent(w.New(Kind::kEvent))),
    STEP(aclrtCreateEventWithFlag(w.New(Kind::kEvent), EventFlag(w))),
    STEP(aclrtCreateEventExWithFlag(w.New(Kind::kEvent), w.bytes.Next())),
    STEP(aclrtDestroyEvent(w.Get(Kind::kEvent))),
    STEP(aclrtRecordEvent(w.Get(Kind::kEvent), w.Get(Kind::kStream))),
    STEP(aclrtRecordEventWithFlag(w.Get(Kind::kEvent), w.Get(Kind::kStream),
                                  w.bytes.Next())),
    STEP(aclrtResetEvent(w.Get(Kind::kEvent), w.Get(Kind::kStream))),
    STEP(aclrtQueryEventStatus(w.Get(Kind::kEvent),
                               w.Out<aclrtEventRecordedStatus>())),
    STEP(aclrtQueryEvent(w.Get(Kind::kEvent), w.Out<aclrtEventStatus>())),
    STEP(aclrtQueryEventWaitStatus(w.Get(Kind::kEvent),
                                   w.Out<aclrtEventWaitStatus>())),
    STEP(aclrtSynchronizeEventWithTimeout(w.Get(Kind::kEvent), 1)),
    STEP(aclrtEventElapsedTime(w.Out<float>(), w.Get(Kind::kEvent),
                               w.Get(Kind::kEvent))),
    STEP(aclrtEventGetTimestamp(w.Get(Kind::kEvent), w.Out<uint64_t>())),
    STEP(aclrtGetEventId(w.Get(Kind::kEvent), w.Out<uint32_t>())),
    STEP(aclrtGetEventAvailNum(w.Out<uint32_t>())),
};

constexpr Step kCallbacks[] = {
    STEP(aclrtLaunchHostFunc(w.Get(Kind::kStream), Nothing, nullptr)),
    STEP(aclrtLaunchHostFunc(w.Get(Kind::kStream), nullptr, nullptr)),
    STEP(aclrtSubscribeReport(Reporter(), w.Get(Kind::kStream))),
    STEP(aclrtSubscribeHostFunc(Reporter(), w.Get(Kind::kStream))),
    STEP(aclrtUnSubscribeReport(Reporter(), w.Get(Kind::kStream))),
    STEP(aclrtUnSubscribeHostFunc(w.Number<uint64_t>(), w.Get(Kind::kStream))),
    STEP(aclrtLaunchCallback(Nothing, nullptr,
                             w.Enum<aclrtCallbackBlockType>(2),
                             w.Get(Kind::kStream))),
    STEP(aclrtProcessReport(1)),
    STEP(aclrtProcessHostFunc(1)),
    STEP(aclrtSetExceptionInfoCallback(w.bytes.OneIn(2) ? nullptr
                                                        : NoException)),
};

constexpr Step kMemory[] = {
    STEP(aclrtMalloc(w.New(Kind::kBlock), w.Size(),
                     w.Enum<aclrtMemMallocPolicy>(8))),
    STEP(aclrtMallocAlign32(w.New(Kind::kBlock), w.Size(),
                            w.Enum<aclrtMemMallocPolicy>(8))),
    STEP(aclrtMallocCached(w.New(Kind::kBlock), w.PageSize(),
                           ACL_MEM_MALLOC_HUGE_FIRST)),
    STEP(aclrtMallocWithCfg(w.New(Kind::kBlock), w.Size(),
                            ACL_MEM_MALLOC_NORMAL_ONLY, nullptr)),
    STEP(aclrtFree(w.Get(Kind::kBlock))),
    STEP(aclrtFreeWithDevSync(w.Get(Kind::kBlock))),
    STEP(aclrtMallocHost(w.New(Kind::kHost), w.Size())),
    STEP(aclrtMallocHostWithCfg(w.New(Kind::kHost), w.Size(), nullptr)),
    STEP(aclrtFreeHost(w.Get(Kind::kHost))),
    STEP(aclrtFreeHostWithDevSync(w.Get(Kind::kHost))),
    STEP(aclrtGetMemInfo(w.Enum<aclrtMemAttr>(16), w.Out<size_t>(),
                         w.Out<size_t>())),
    STEP(aclrtPointerGetAttributes(w.Get(Kind::kBlock),
                                   w.Out<aclrtPtrAttributes>())),
    STEP(aclrtHostRegister(w.Memory(), w.Size(),
                           w.Enum<aclrtHostRegisterType>(16), w.Out<void*>())),
    STEP(aclrtHostRegisterV2(w.Memory(), w.Size(), w.bytes.Next())),
    STEP(aclrtHostGetDevicePointer(w.Memory(), w.Out<void*>(),
                                   w.bytes.Below(2))),
    STEP(aclrtHostUnregister(w.Memory())),
    STEP(aclrtMemFlush(w.Get(Kind::kBlock), w.Size())),
    STEP(aclrtMemInvalidate(w.Get(Kind::kBlock), w.Size())),
    STEP(aclrtCheckMemType(w.In<void*>(), w.bytes.Below(3), w.bytes.Next(),
                           w.Out<uint32_t>(), w.bytes.Below(2))),
};

// What is copied from has as many bytes as are copied, or is a block.
constexpr Step kCopies[] = {
    STEP(aclrtMemcpy(w.Memory(), w.Size(), w.Memory(), w.Size(),
                     w.Enum<aclrtMemcpyKind>(8))),
    STEP(aclrtMemcpyAsync(w.Memory(), w.Size(), w.Memory(), w.Size(),
                          w.Enum<aclrtMemcpyKind>(8), w.Get(Kind::kStream))),
    STEP(aclrtMemcpyAsyncWithCondition(w.Memory(), w.Size(), w.Memory(),
                                       w.Size(), w.Enum<aclrtMemcpyKind>(8),
                                       w.Get(Kind::kStream))),
    STEP(aclrtMemcpy2d(w.Memory(), w.bytes.Below(80), w.Memory(),
                       w.bytes.Below(80), w.bytes.Below(80), w.bytes.Below(80),
                       w.Enum<aclrtMemcpyKind>(8))),
    STEP(aclrtMemcpy2dAsync(w.Memory(), w.bytes.Below(80), w.Memory(),
                            w.bytes.Below(80), w.bytes.Below(80),
                            w.bytes.Below(80), w.Enum<aclrtMemcpyKind>(8),
                            w.Get(Kind::kStream))),
    STEP(aclrtMemset(w.Memory(), w.Size(), w.bytes.Next(), w.Size())),
    STEP(aclrtMemsetAsync(w.Memory(), w.Size(), w.bytes.Next(), w.Size(),
                          w.Get(Kind::kStream))),
    STEP(aclrtMemsetD32(w.Memory(), w.Size(), 7, w.bytes.Below(64))),
    STEP(aclrtMemsetD32Async(w.Memory(), w.Size(), 7, w.bytes.Below(64),
                             w.Get(Kind::kStream))),
    STEP(aclrtMemcpy(nullptr, w.Size(), w.Memory(), w.Size(),
                     w.Enum<aclrtMemcpyKind>(8))),
    STEP(aclrtMemset(nullptr, w.Size(), 0, w.Size())),
};

aclrtPhysicalMemProp* Place(World& w) {
  auto* const prop = w.In<aclrtPhysicalMemProp>();
  if (prop == nullptr) return nullptr;
  *prop = {};
  prop->location.type = w.Enum<aclrtMemLocationType>(4);
  return prop;
}

constexpr Step kAddresses[] = {
    STEP(aclrtReserveMemAddress(w.New(Kind::kReserved), w.PageSize(),
                                w.bytes.OneIn(8) ? 4096 : 0, nullptr,
                                w.bytes.Below(3))),
    STEP(aclrtReleaseMemAddress(w.Get(Kind::kReserved))),
    STEP(aclrtMallocPhysical(w.New(Kind::kPhysical), w.PageSize(), Place(w),
                             w.bytes.OneIn(8))),
    STEP(aclrtFreePhysical(w.Get(Kind::kPhysical))),
    STEP(aclrtMapMem(w.Get(Kind::kReserved), w.PageSize(), w.bytes.OneIn(8),
                     w.Get(Kind::kPhysical), w.bytes.OneIn(8))),
    STEP(aclrtUnmapMem(w.Get(Kind::kReserved))),
    STEP(aclrtMemGetAllocationGranularity(
        Place(w), w.Enum<aclrtMemGranularityOptions>(4), w.Out<size_t>())),
    STEP(aclrtMemSetAccess(w.Get(Kind::kReserved), w.PageSize(),
                           w.In<aclrtMemAccessDesc>(), w.bytes.Below(3))),
};

aclmdlRICaptureMode* Mode(World& w) {
  auto* const mode = w.Out<aclmdlRICaptureMode>();
  if (mode != nullptr) *mode = w.Enum<aclmdlRICaptureMode>(4);
  return mode;
}

// Graphs whose conditions nobody changes may not end: there are none here.
constexpr Step kGraphs[] = {
    STEP(aclmdlRICaptureBegin(w.CapturedStream(),
                              w.Enum<aclmdlRICaptureMode>(4))),
    STEP(aclmdlRICaptureGetInfo(w.Get(Kind::kStream),
                                w.Out<aclmdlRICaptureStatus>(),
                                w.Out<aclmdlRI>())),
    STEP(aclmdlRICaptureEnd(w.Get(Kind::kStream), w.New(Kind::kGraph))),
    STEP(aclmdlRICaptureThreadExchangeMode(Mode(w))),
    STEP(aclmdlRIExecuteAsync(w.Get(Kind::kGraph), w.Get(Kind::kStream))),
    STEP(aclmdlRIExecute(w.Get(Kind::kGraph), w.Number<int32_t>())),
    STEP(aclmdlRIAbort(w.Get(Kind::kGraph))),
    STEP(aclmdlRIDestroy(w.Get(Kind::kGraph))),
    STEP(
        aclmdlRIDestroyRegisterCallback(w.Get(Kind::kGraph), Nothing, nullptr)),
    STEP(aclmdlRIDestroyUnregisterCallback(w.Get(Kind::kGraph), Nothing)),
    STEP(aclmdlRIGetId(w.Get(Kind::kGraph), w.Out<uint32_t>())),
    STEP(aclmdlRISetName(w.Get(Kind::kGraph),
                         w.bytes.OneIn(8) ? nullptr : "name")),
    STEP(aclmdlRIGetName(w.Get(Kind::kGraph), w.bytes.Next(), w.Out<char>())),
    STEP(aclmdlRIDebugPrint(w.Get(Kind::kGraph))),
    STEP(aclmdlRICaptureTaskGrpBegin(w.Get(Kind::kStream))),
    STEP(aclmdlRICaptureTaskGrpEnd(w.Get(Kind::kStream), w.New(Kind::kGroup))),
    STEP(aclmdlRICaptureTaskUpdateBegin(w.Get(Kind::kStream),
                                        w.Get(Kind::kGroup))),
    STEP(aclmdlRICaptureTaskUpdateEnd(w.Get(Kind::kStream))),
};

aclrtLabel* Labels(World& w) {
  auto* const labels = w.Out<std::array<aclrtLabel, 2>>();
  if (labels == nullptr) return nullptr;
  for (aclrtLabel& one : *labels) one = w.Get(Kind::kLabel);
  return labels->data();
}

// Graphs that are built by hand may not end: here they are not replayed.
constexpr Step kBuiltGraphs[] = {
    STEP(aclrtCreateStreamWithConfig(w.New(Kind::kStream), 0,
                                     ACL_STREAM_PERSISTENT)),
    STEP(aclmdlRIBuildBegin(w.New(Kind::kGraph), w.bytes.OneIn(8))),
    STEP(aclmdlRIBindStream(w.Get(Kind::kGraph), w.CapturedStream(),
                            w.bytes.OneIn(2) ? ACL_MODEL_STREAM_FLAG_HEAD
                                             : ACL_MODEL_STREAM_FLAG_DEFAULT)),
    STEP(aclmdlRIUnbindStream(w.Get(Kind::kGraph), w.Get(Kind::kStream))),
    STEP(aclmdlRIEndTask(w.Get(Kind::kGraph), w.Get(Kind::kStream))),
    STEP(aclrtCreateLabel(w.New(Kind::kLabel))),
    STEP(aclrtDestroyLabel(w.Get(Kind::kLabel))),
    STEP(aclrtSetLabel(w.Get(Kind::kLabel), w.Get(Kind::kStream))),
    STEP(aclrtCreateLabelList(Labels(w), w.bytes.Below(3),
                              w.New(Kind::kLabelList))),
    STEP(aclrtDestroyLabelList(w.Get(Kind::kLabelList))),
    STEP(aclrtSwitchLabelByIndex(w.Memory(), w.bytes.Below(3),
                                 w.Get(Kind::kLabelList),
                                 w.Get(Kind::kStream))),
    STEP(aclrtSwitchStream(w.Memory(), w.Enum<aclrtCondition>(8), w.Memory(),
                           w.Enum<aclrtCompareDataType>(4),
                           w.Get(Kind::kStream),
                           w.bytes.OneIn(8) ? w.Get(Kind::kStream) : nullptr,
                           w.Get(Kind::kStream))),
    STEP(aclrtActiveStream(w.Get(Kind::kStream), w.Get(Kind::kStream))),
};

constexpr int64_t kDims[] = {2, 3, -1, INT64_MAX, 0, 1, 4, 5, 6, 7};

const aclTensor* TensorOf(World& w) {
  return aclCreateTensor(kDims, w.bytes.Below(11), w.Enum<aclDataType>(31),
                         w.bytes.OneIn(2) ? kDims : nullptr, w.bytes.Number(),
                         w.Enum<aclFormat>(34), kDims, w.bytes.Below(11),
                         w.Get(Kind::kBlock));
}

aclTensor* Tensor(World& w) { return w.Get<aclTensor*>(Kind::kTensor); }
aclIntArray* Array(World& w) { return w.Get<aclIntArray*>(Kind::kArray); }

// Frees what a query allocated.
int Dims(aclnnStatus (*query)(const aclTensor*, int64_t**, uint64_t*),
         World& w) {
  int64_t* dims = nullptr;
  uint64_t count = 0;
  const int status =
      query(Tensor(w), w.bytes.OneIn(16) ? nullptr : &dims, &count);
  delete[] dims;
  return status;
}

constexpr Step kObjects[] = {
    STEP(w.Put(Kind::kTensor, TensorOf(w))),
    STEP(aclDestroyTensor(Tensor(w))),
    STEP(Dims(aclGetViewShape, w)),
    STEP(Dims(aclGetViewStrides, w)),
    STEP(Dims(aclGetStorageShape, w)),
    STEP(aclGetViewOffset(Tensor(w), w.Out<int64_t>())),
    STEP(aclGetFormat(Tensor(w), w.Out<aclFormat>())),
    STEP(aclGetDataType(Tensor(w), w.Out<aclDataType>())),
    STEP(aclInitTensor(Tensor(w), kDims, w.bytes.Below(11),
                       w.Enum<aclDataType>(31), nullptr, w.bytes.Number(),
                       w.Enum<aclFormat>(34), kDims, w.bytes.Below(11),
                       nullptr)),
    STEP(aclSetRawTensorAddr(Tensor(w), w.Get(Kind::kBlock))),
    STEP(aclGetRawTensorAddr(Tensor(w), w.Out<void*>())),
    STEP(w.Put(Kind::kArray, aclCreateIntArray(kDims, w.bytes.Below(11)))),
    STEP(w.Put(Kind::kArray, aclCreateIntArray(nullptr, w.bytes.Below(2)))),
    STEP(aclDestroyIntArray(Array(w))),
    STEP(aclGetIntArraySize(Array(w), w.Out<uint64_t>())),
    STEP(w.Put(Kind::kScalar,
               aclCreateScalar(w.In<int64_t>(), w.Enum<aclDataType>(31)))),
    STEP(aclDestroyScalar(w.Get<aclScalar*>(Kind::kScalar))),
    // Of an executor that is none.
    STEP(aclSetAclOpExecutorRepeatable(w.Get<aclOpExecutor*>(Kind::kTensor))),
    STEP(aclDestroyAclOpExecutor(w.Get<aclOpExecutor*>(Kind::kStream))),
    STEP(aclSetTensorAddr(w.Get<aclOpExecutor*>(Kind::kStream), w.bytes.Next(),
                          Tensor(w), w.Get(Kind::kBlock))),
};

constexpr Step kSystem[] = {
    STEP(aclInit(nullptr)),
    STEP(aclInit(w.bytes.OneIn(2) ? "" : "/no such file")),
    STEP(aclFinalize()),
    STEP(aclFinalizeReference(w.Out<uint64_t>())),
    STEP(aclInitCallbackRegister(w.Enum<aclRegisterCallbackType>(9),
                                 NothingAtInit, nullptr)),
    STEP(aclInitCallbackUnRegister(w.Enum<aclRegisterCallbackType>(9),
                                   NothingAtInit)),
    STEP(aclFinalizeCallbackRegister(w.Enum<aclRegisterCallbackType>(9),
                                     NothingAtEnd, nullptr)),
    STEP(aclFinalizeCallbackUnRegister(w.Enum<aclRegisterCallbackType>(9),
                                       NothingAtEnd)),
    STEP((aclrtPeekAtLastError(ACL_RT_THREAD_LEVEL), 0)),
    STEP((aclrtGetLastError(ACL_RT_THREAD_LEVEL), 0)),
    STEP(aclrtGetVersion(w.Out<int32_t>(), w.Out<int32_t>(), w.Out<int32_t>())),
    STEP(aclsysGetCANNVersion(w.Enum<aclCANNPackageName>(8),
                              w.Out<aclCANNPackageVersion>())),
    STEP(aclrtGetRunMode(w.Out<aclrtRunMode>())),
    STEP(aclrtSetSysParamOpt(w.Enum<aclSysParamOpt>(4), w.bytes.Number())),
    STEP(aclrtGetSysParamOpt(w.Enum<aclSysParamOpt>(4), w.Out<int64_t>())),
    STEP(aclrtSetOpWaitTimeout(w.Number<uint32_t>())),
    STEP(aclrtSetOpExecuteTimeOut(w.Number<uint32_t>())),
    STEP(aclrtSetOpExecuteTimeOutWithMs(w.Number<uint32_t>())),
    STEP(aclrtSetOpExecuteTimeOutV2(w.Number<uint64_t>(), w.Out<uint64_t>())),
    STEP(aclrtGetOpTimeOutInterval(w.Out<uint64_t>())),
    STEP(aclrtGetOpExecuteTimeout(w.Out<uint32_t>())),
};

const std::span<const Step> kTables[] = {
    kDevices,       kContexts,    kStreams,       kEvents,
    kCallbacks,     kMemory,      kCopies,        kAddresses,
    kObjects,       kSystem,      kGraphs,        kBuiltGraphs,
    NotifySteps(),  ShareSteps(), ProfileSteps(), DescriptionSteps(),
    SingleOpSteps()};

}  // namespace
}  // namespace flashacl::testing

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace flashacl::testing;  // NOLINT: one function
  Bytes bytes(data, size);
  World world(bytes);
  aclGetRecentErrMsg();
  for (int n = 0; n < 64 && !bytes.empty(); ++n) {
    const Step step = bytes.Pick(bytes.Pick(kTables));
    const int status = step(world);
    const bool said = aclGetRecentErrMsg() != nullptr;
    Require(status == 0 || said);
  }
  return 0;
}
