// SPDX-License-Identifier: Apache-2.0
//
// The runtime's functions for C++ callers: pointers keep their types and what
// is usually the same may be left out. Everything is inline and calls the C
// function next of kin, which says the rules. Not part of acl.h. Source: CANN
// acl API, "C++ interfaces of the runtime".
#pragma once

#include "acl/acl_rt.h"

#ifdef __cplusplus

// Sizes are bytes, whatever T is.
template <typename T>
inline aclError aclrtMalloc(
    T** devPtr, size_t size,
    aclrtMemMallocPolicy policy = ACL_MEM_MALLOC_HUGE_FIRST,
    aclrtMallocConfig* cfg = nullptr) {
  void* block = nullptr;
  void** out = devPtr == nullptr ? nullptr : &block;
  const aclError status = cfg == nullptr
                              ? ::aclrtMalloc(out, size, policy)
                              : ::aclrtMallocWithCfg(out, size, policy, cfg);
  if (status == ACL_SUCCESS) *devPtr = static_cast<T*>(block);
  return status;
}

template <typename T>
inline aclError aclrtMallocHost(T** hostPtr, size_t size,
                                aclrtMallocConfig* cfg = nullptr) {
  void* block = nullptr;
  void** out = hostPtr == nullptr ? nullptr : &block;
  const aclError status = cfg == nullptr
                              ? ::aclrtMallocHost(out, size)
                              : ::aclrtMallocHostWithCfg(out, size, cfg);
  if (status == ACL_SUCCESS) *hostPtr = static_cast<T*>(block);
  return status;
}

template <typename T>
inline aclError aclrtMemcpy(T* dst, size_t destMax, const T* src, size_t count,
                            aclrtMemcpyKind kind = ACL_MEMCPY_DEFAULT) {
  return ::aclrtMemcpy(static_cast<void*>(dst), destMax,
                       static_cast<const void*>(src), count, kind);
}

// Without a kind, because that is the overload above it would repeat.
template <typename T>
inline aclError aclrtMemcpyAsync(T* dst, size_t destMax, const T* src,
                                 size_t count, aclrtStream stream) {
  return ::aclrtMemcpyAsync(static_cast<void*>(dst), destMax,
                            static_cast<const void*>(src), count,
                            ACL_MEMCPY_DEFAULT, stream);
}

template <typename T>
inline aclError aclrtMemcpy2d(T* dst, size_t dpitch, const T* src,
                              size_t spitch, size_t width, size_t height,
                              aclrtMemcpyKind kind = ACL_MEMCPY_DEFAULT) {
  return ::aclrtMemcpy2d(static_cast<void*>(dst), dpitch,
                         static_cast<const void*>(src), spitch, width, height,
                         kind);
}

template <typename T>
inline aclError aclrtMemcpy2dAsync(T* dst, size_t dpitch, const T* src,
                                   size_t spitch, size_t width, size_t height,
                                   aclrtStream stream) {
  return ::aclrtMemcpy2dAsync(static_cast<void*>(dst), dpitch,
                              static_cast<const void*>(src), spitch, width,
                              height, ACL_MEMCPY_DEFAULT, stream);
}

// Copies between arrays of typed pointers. *failIndex as in the C function.
template <typename T>
inline aclError aclrtMemcpyBatch(T** dsts, size_t* destMaxs, T** srcs,
                                 size_t* sizes, size_t numBatches,
                                 aclrtMemcpyBatchAttr* attrs,
                                 size_t* attrsIndexes, size_t numAttrs,
                                 size_t* failIndex) {
  return ::aclrtMemcpyBatch(reinterpret_cast<void**>(dsts), destMaxs,
                            reinterpret_cast<void**>(srcs), sizes, numBatches,
                            attrs, attrsIndexes, numAttrs, failIndex);
}

template <typename T>
inline aclError aclrtMemcpyBatchAsync(T** dsts, size_t* destMaxs, T** srcs,
                                      size_t* sizes, size_t numBatches,
                                      aclrtMemcpyBatchAttr* attrs,
                                      size_t* attrsIndexes, size_t numAttrs,
                                      size_t* failIndex, aclrtStream stream) {
  return ::aclrtMemcpyBatchAsync(
      reinterpret_cast<void**>(dsts), destMaxs, reinterpret_cast<void**>(srcs),
      sizes, numBatches, attrs, attrsIndexes, numAttrs, failIndex, stream);
}

inline aclError aclrtCreateStream(aclrtStream* stream, uint32_t priority,
                                  uint32_t flag) {
  return ::aclrtCreateStreamWithConfig(stream, priority, flag);
}

inline aclError aclrtCreateEvent(aclrtEvent* event, uint32_t flag) {
  return ::aclrtCreateEventWithFlag(event, flag);
}

// Waiting at most `timeout` milliseconds, -1 for ever.
inline aclError aclrtSynchronizeDevice(int32_t timeout) {
  return ::aclrtSynchronizeDeviceWithTimeout(timeout);
}
inline aclError aclrtSynchronizeStream(aclrtStream stream, int32_t timeout) {
  return ::aclrtSynchronizeStreamWithTimeout(stream, timeout);
}
inline aclError aclrtSynchronizeEvent(aclrtEvent event, int32_t timeout) {
  return ::aclrtSynchronizeEventWithTimeout(event, timeout);
}

// Waiting at most `timeout` seconds, 0 for ever.
inline aclError aclrtStreamWaitEvent(aclrtStream stream, aclrtEvent event,
                                     int32_t timeout) {
  return ::aclrtStreamWaitEventWithTimeout(stream, event, timeout);
}

#endif
