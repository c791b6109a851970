// SPDX-License-Identifier: Apache-2.0
// aclrtMemcpyBatch and its relatives: many copies between host and device by
// one call. All of them are checked before the first one is made.
#include <cstdint>
#include <string>
#include <vector>

#include "acl/acl_rt.h"
#include "acl/capturing.h"
#include "acl/context.h"
#include "acl/error.h"
#include "acl/raw_enum.h"
#include "acl/transfer.h"
#include "base/str.h"

namespace flashacl::acl {
namespace {

struct Batch {
  void** dsts;
  size_t* dst_maxs;
  void** srcs;
  size_t* sizes;
  size_t count;
  const aclrtMemcpyBatchAttr* attributes;
  const size_t* attribute_starts;
  size_t attribute_count;
};

// What the sides of a copy say of themselves.
aclError KindOf(std::string_view function, const aclrtMemcpyBatchAttr& attr,
                int* kind) {
  const int dst = Raw(attr.dstLoc.type);
  const int src = Raw(attr.srcLoc.type);
  if (dst == ACL_MEM_LOCATION_TYPE_DEVICE &&
      src == ACL_MEM_LOCATION_TYPE_HOST) {
    *kind = ACL_MEMCPY_HOST_TO_DEVICE;
    return ACL_SUCCESS;
  }
  if (dst == ACL_MEM_LOCATION_TYPE_HOST &&
      src == ACL_MEM_LOCATION_TYPE_DEVICE) {
    *kind = ACL_MEMCPY_DEVICE_TO_HOST;
    return ACL_SUCCESS;
  }
  return FailValue(ACL_ERROR_RT_PARAM_INVALID, function, "attrs",
                   Str("(dst {}, src {})", dst, src),
                   "the host (0) on one side and the device (1) on the other");
}

aclError CheckBatch(std::string_view function, const Batch& batch) {
  if (batch.dsts == nullptr) return FailNull(function, "dsts");
  if (batch.dst_maxs == nullptr) return FailNull(function, "destMaxs");
  if (batch.srcs == nullptr) return FailNull(function, "srcs");
  if (batch.sizes == nullptr) return FailNull(function, "sizes");
  if (batch.attribute_count == 0) return ACL_SUCCESS;
  if (batch.attributes == nullptr) return FailNull(function, "attrs");
  if (batch.attribute_starts == nullptr) {
    return FailNull(function, "attrsIndexes");
  }
  for (size_t i = 0; i < batch.attribute_count; ++i) {
    const size_t start = batch.attribute_starts[i];
    const bool rises =
        i == 0 ? start == 0 : start > batch.attribute_starts[i - 1];
    if (rises && start < batch.count) continue;
    return FailValue(ACL_ERROR_RT_PARAM_INVALID, function, "attrsIndexes",
                     std::to_string(start),
                     "0 first, then rising numbers of copies");
  }
  return ACL_SUCCESS;
}

aclError CheckItem(std::string_view function, const Batch& batch, size_t item,
                   int kind, std::vector<Transfer>* transfers) {
  const size_t size = batch.sizes[item];
  if (size == 0) return ACL_SUCCESS;
  if (batch.dsts[item] == nullptr) return FailNull(function, "dsts[i]");
  if (batch.srcs[item] == nullptr) return FailNull(function, "srcs[i]");
  if (size > batch.dst_maxs[item]) {
    return FailValue(ACL_ERROR_RT_PARAM_INVALID, function,
                     Str("sizes[{}]", item), std::to_string(size),
                     "at most destMaxs[i], which is " +
                         std::to_string(batch.dst_maxs[item]));
  }
  Transfer transfer{static_cast<std::byte*>(batch.dsts[item]), size,
                    static_cast<const std::byte*>(batch.srcs[item]), size,
                    size};
  const aclError error = Check(function, kind, &transfer);
  if (error == 0 && transfer.dst != transfer.src) {
    transfers->push_back(std::move(transfer));
  }
  return error;
}

// *fail_index is the copy at fault, or SIZE_MAX if none is.
aclError Gather(std::string_view function, const Batch& batch,
                size_t* fail_index, std::vector<Transfer>* transfers) {
  *fail_index = SIZE_MAX;
  if (batch.count == 0) return ACL_SUCCESS;
  if (const aclError error = CheckBatch(function, batch); error != 0) {
    return error;
  }
  if (const aclError error = RequireContext(function); error != 0) return error;
  int kind = ACL_MEMCPY_DEFAULT;
  size_t attribute = 0;
  for (size_t i = 0; i < batch.count; ++i) {
    aclError error = ACL_SUCCESS;
    if (attribute < batch.attribute_count &&
        batch.attribute_starts[attribute] == i) {
      error = KindOf(function, batch.attributes[attribute++], &kind);
    }
    if (error == 0) error = CheckItem(function, batch, i, kind, transfers);
    if (error != 0) {
      *fail_index = i;
      return error;
    }
  }
  return ACL_SUCCESS;
}

aclError CopyBatch(std::string_view function, const Batch& batch,
                   size_t* fail_index) {
  if (fail_index == nullptr) return FailNull(function, "failIndex");
  std::vector<Transfer> transfers;
  const aclError error = Gather(function, batch, fail_index, &transfers);
  if (error != 0 || transfers.empty()) return error;
  if (const aclError e = RequireSynchronousAllowed(function); e != 0) return e;
  aclError raced = ACL_SUCCESS;
  for (const Transfer& transfer : transfers) {
    if (const aclError e = Run(function, transfer); e != 0) raced = e;
  }
  return raced;
}

aclError CopyBatchAsync(std::string_view function, const Batch& batch,
                        size_t* fail_index, aclrtStream stream) {
  if (fail_index == nullptr) return FailNull(function, "failIndex");
  std::vector<Transfer> transfers;
  const aclError error = Gather(function, batch, fail_index, &transfers);
  if (error != 0 || transfers.empty()) return error;
  for (Transfer& transfer : transfers) Locate(&transfer);
  return Submit(function, transfers, stream);
}

}  // namespace
}  // namespace flashacl::acl

namespace acl = flashacl::acl;

extern "C" {

aclError aclrtMemcpyBatch(void** dsts, size_t* destMaxs, void** srcs,
                          size_t* sizes, size_t numBatches,
                          aclrtMemcpyBatchAttr* attrs, size_t* attrsIndexes,
                          size_t numAttrs, size_t* failIndex) {
  return acl::GuardRuntime([&] {
    return acl::CopyBatch("aclrtMemcpyBatch",
                          {dsts, destMaxs, srcs, sizes, numBatches, attrs,
                           attrsIndexes, numAttrs},
                          failIndex);
  });
}

aclError aclrtMemcpyBatchAsync(void** dsts, size_t* destMaxs, void** srcs,
                               size_t* sizes, size_t numBatches,
                               aclrtMemcpyBatchAttr* attrs,
                               size_t* attrsIndexes, size_t numAttrs,
                               size_t* failIndex, aclrtStream stream) {
  return acl::GuardRuntime([&] {
    return acl::CopyBatchAsync("aclrtMemcpyBatchAsync",
                               {dsts, destMaxs, srcs, sizes, numBatches, attrs,
                                attrsIndexes, numAttrs},
                               failIndex, stream);
  });
}

aclError aclrtMemcpyBatchV2(void** dsts, size_t* destMaxs, void** srcs,
                            size_t* sizes, size_t numBatches,
                            aclrtMemcpyBatchAttr* attrs, size_t* attrsIndexes,
                            size_t numAttrs) {
  return acl::GuardRuntime([&] {
    size_t fail_index = 0;
    return acl::CopyBatch("aclrtMemcpyBatchV2",
                          {dsts, destMaxs, srcs, sizes, numBatches, attrs,
                           attrsIndexes, numAttrs},
                          &fail_index);
  });
}

aclError aclrtMemcpyBatchAsyncV2(void** dsts, size_t* destMaxs, void** srcs,
                                 size_t* sizes, size_t numBatches,
                                 aclrtMemcpyBatchAttr* attrs,
                                 size_t* attrsIndexes, size_t numAttrs,
                                 aclrtStream stream) {
  return acl::GuardRuntime([&] {
    size_t fail_index = 0;
    return acl::CopyBatchAsync("aclrtMemcpyBatchAsyncV2",
                               {dsts, destMaxs, srcs, sizes, numBatches, attrs,
                                attrsIndexes, numAttrs},
                               &fail_index, stream);
  });
}

}  // extern "C"
