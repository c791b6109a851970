// SPDX-License-Identifier: Apache-2.0
#include "tests/faults/programs.h"

#include <pthread.h>

#include <atomic>

namespace flashacl::testing {

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
  destroy(aclrtDestroyLabelList, label_list);
  for (aclrtLabel label : labels) destroy(aclrtDestroyLabel, label);
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

// A graph of two streams: the first starts the second and waits for it, three
// times in a loop.
void BuiltGraphs(Calls& calls, Made& made) {
  for (aclrtStream& stream : made.streams) {
    if (!calls.Ok(
            aclrtCreateStreamWithConfig(&stream, 0, ACL_STREAM_PERSISTENT))) {
      return;
    }
  }
  const auto [one, other] = made.streams;
  if (!calls.Ok(aclrtCreateEvent(&made.events[0]))) return;
  for (void*& at : made.device) {
    if (!calls.Ok(aclrtMalloc(&at, kBytes, ACL_MEM_MALLOC_HUGE_FIRST))) return;
    if (!calls.Ok(aclrtMemset(at, kBytes, 0, kBytes))) return;
  }
  auto* const round = static_cast<uint32_t*>(made.device[0]);
  auto* const step = static_cast<uint32_t*>(made.device[1]);
  *step = 1;
  for (aclrtLabel& label : made.labels) {
    if (!calls.Ok(aclrtCreateLabel(&label))) return;
  }
  const auto [again, end] = made.labels;
  aclrtLabel all[] = {again, again, again, end};
  if (!calls.Ok(aclrtCreateLabelList(all, 4, &made.label_list))) return;
  if (!calls.Ok(aclmdlRIBuildBegin(&made.graph, 0))) return;
  calls.Ok(aclmdlRIBindStream(made.graph, one, ACL_MODEL_STREAM_FLAG_HEAD));
  calls.Ok(
      aclmdlRIBindStream(made.graph, other, ACL_MODEL_STREAM_FLAG_DEFAULT));
  calls.Ok(aclrtSetLabel(again, one));
  calls.Ok(aclrtActiveStream(other, one));
  calls.Ok(aclrtStreamWaitEvent(one, made.events[0]));
  calls.Ok(aclrtResetEvent(made.events[0], one));
  calls.Ok(aclrtSwitchLabelByIndex(round, 4, made.label_list, one));
  calls.Ok(aclrtSetLabel(end, one));
  calls.Ok(aclrtSwitchStream(round, ACL_RT_LESS, step, ACL_RT_SWITCH_INT32,
                             other, nullptr, one));
  calls.Ok(aclrtReduceAsync(round, step, 4, ACL_RT_MEMCPY_SDMA_AUTOMATIC_SUM,
                            ACL_INT32, other, nullptr));
  calls.Ok(aclrtRecordEvent(made.events[0], other));
  calls.Ok(aclmdlRIEndTask(made.graph, one));
  // What was not kept is not for replays: they might wait for it.
  if (calls.failed() > 0) return;
  if (!calls.Ok(aclmdlRIBuildEnd(made.graph, nullptr))) return;
  for (int n = 0; n < 2; ++n) calls.Ok(aclmdlRIExecute(made.graph, -1));
  if (calls.failed() == 0 && *round != 4) calls.Ok(-2);
}

namespace {

std::atomic<int> called{0};

}  // namespace

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

}  // namespace flashacl::testing
