// SPDX-License-Identifier: Apache-2.0
#include "acl/single_op/data_item.h"

#include <algorithm>
#include <string_view>
#include <utility>

#include "acl/error.h"
#include "acl/raw_enum.h"
#include "acl/single_op/live.h"
#include "base/str.h"

namespace flashacl::acl {
namespace {

// Null and none, or neither.
aclError CheckDims(std::string_view function, const int64_t* dims,
                   size_t count) {
  if ((dims == nullptr) == (count == 0)) return ACL_SUCCESS;
  if (dims == nullptr) return FailNull(function, "dims");
  return FailValue(ACL_ERROR_INVALID_PARAM, function, "dimNum", "0",
                   "1 or more, as dims is not null");
}

aclError Make(DataItem item, const int64_t* dims, size_t count,
              acltdtDataItem** made) {
  constexpr std::string_view kFunction = "acltdtCreateDataItem";
  const aclError error = CheckDims(kFunction, dims, count);
  if (error != ACL_SUCCESS) return error;
  if (item.kind < ACL_TENSOR_DATA_UNDEFINED ||
      item.kind > ACL_TENSOR_DATA_END_TENSOR) {
    return FailValue(ACL_ERROR_INVALID_PARAM, kFunction, "tdtType",
                     Str("{}", item.kind), "-1 to 4");
  }
  if (dims != nullptr) item.dims.assign(dims, dims + count);
  return NewObject(kFunction, std::make_shared<DataItem>(std::move(item)),
                   made);
}

// What a getter without a status answers; `otherwise`, with a message, where
// `handle` is not live.
template <typename Object, typename T, typename F>
T Ask(std::string_view function, std::string_view parameter, const void* handle,
      T otherwise, F&& question) {
  T answer = otherwise;
  With<Object>(function, parameter, handle,
               [&](const Object& object) -> aclError {
                 answer = question(object);
                 return ACL_SUCCESS;
               });
  return answer;
}

template <typename T, typename F>
T AskItem(std::string_view function, const acltdtDataItem* item, T otherwise,
          F&& question) {
  return Ask<DataItem>(function, "dataItem", item, otherwise,
                       std::forward<F>(question));
}

aclError GetDims(const DataItem& item, int64_t* dims, size_t count) {
  constexpr std::string_view kFunction = "acltdtGetDimsFromItem";
  const aclError error = CheckDims(kFunction, dims, count);
  if (error != ACL_SUCCESS) return error;
  if (count < item.dims.size()) {
    return FailValue(ACL_ERROR_INVALID_PARAM, kFunction, "dimNum",
                     Str("{}", count),
                     Str("{} dimensions or more", item.dims.size()));
  }
  std::ranges::copy(item.dims, dims);
  return ACL_SUCCESS;
}

aclError Add(Dataset& dataset, acltdtDataItem* item) {
  if (Find<DataItem>(item) == nullptr) {
    return FailHandle<DataItem>("acltdtAddDataItem", "dataItem", item);
  }
  dataset.items.push_back(item);
  return ACL_SUCCESS;
}

aclError Get(const Dataset& dataset, size_t index, acltdtDataItem** item) {
  if (index >= dataset.items.size()) {
    return FailValue(ACL_ERROR_INVALID_PARAM, "acltdtGetDataItem", "index",
                     Str("{}", index),
                     Str("less than {} items", dataset.items.size()));
  }
  *item = dataset.items[index];
  return ACL_SUCCESS;
}

}  // namespace
}  // namespace flashacl::acl

namespace acl = flashacl::acl;
using acl::DataItem;
using acl::Dataset;

extern "C" {

acltdtDataItem* acltdtCreateDataItem(acltdtTensorType tdtType,
                                     const int64_t* dims, size_t dimNum,
                                     aclDataType dataType, void* data,
                                     size_t size) {
  acltdtDataItem* made = nullptr;
  acl::GuardRuntime([&] {
    DataItem item;
    item.kind = acl::Raw(tdtType);
    item.type = acl::Raw(dataType);
    item.data = data;
    item.size = size;
    return acl::Make(std::move(item), dims, dimNum, &made);
  });
  return made;
}

aclError acltdtDestroyDataItem(acltdtDataItem* dataItem) {
  return acl::DestroyObject<DataItem>("acltdtDestroyDataItem", "dataItem",
                                      dataItem);
}

acltdtTensorType acltdtGetTensorTypeFromItem(const acltdtDataItem* dataItem) {
  return static_cast<acltdtTensorType>(acl::AskItem(
      "acltdtGetTensorTypeFromItem", dataItem, int{ACL_TENSOR_DATA_UNDEFINED},
      [](const DataItem& item) { return item.kind; }));
}

aclDataType acltdtGetDataTypeFromItem(const acltdtDataItem* dataItem) {
  return static_cast<aclDataType>(
      acl::AskItem("acltdtGetDataTypeFromItem", dataItem, int{ACL_DT_UNDEFINED},
                   [](const DataItem& item) { return item.type; }));
}

void* acltdtGetDataAddrFromItem(const acltdtDataItem* dataItem) {
  return acl::AskItem("acltdtGetDataAddrFromItem", dataItem,
                      static_cast<void*>(nullptr),
                      [](const DataItem& item) { return item.data; });
}

size_t acltdtGetDataSizeFromItem(const acltdtDataItem* dataItem) {
  return acl::AskItem("acltdtGetDataSizeFromItem", dataItem, size_t{0},
                      [](const DataItem& item) { return item.size; });
}

size_t acltdtGetDimNumFromItem(const acltdtDataItem* dataItem) {
  return acl::AskItem("acltdtGetDimNumFromItem", dataItem, size_t{0},
                      [](const DataItem& item) { return item.dims.size(); });
}

aclError acltdtGetDimsFromItem(const acltdtDataItem* dataItem, int64_t* dims,
                               size_t dimNum) {
  return acl::With<DataItem>(
      "acltdtGetDimsFromItem", "dataItem", dataItem,
      [&](const DataItem& item) { return acl::GetDims(item, dims, dimNum); });
}

aclError acltdtGetSliceInfoFromItem(const acltdtDataItem* dataItem,
                                    size_t* sliceNum, size_t* sliceId) {
  constexpr const char* kFunction = "acltdtGetSliceInfoFromItem";
  return acl::With<DataItem>(kFunction, "dataItem", dataItem,
                             [&](const DataItem&) -> aclError {
                               if (sliceNum == nullptr)
                                 return acl::FailNull(kFunction, "sliceNum");
                               if (sliceId == nullptr)
                                 return acl::FailNull(kFunction, "sliceId");
                               *sliceNum = 0;
                               *sliceId = 0;
                               return ACL_SUCCESS;
                             });
}

acltdtDataset* acltdtCreateDataset(void) {
  acltdtDataset* made = nullptr;
  acl::GuardRuntime([&] {
    return acl::NewObject("acltdtCreateDataset", std::make_shared<Dataset>(),
                          &made);
  });
  return made;
}

aclError acltdtDestroyDataset(acltdtDataset* dataset) {
  return acl::DestroyObject<Dataset>("acltdtDestroyDataset", "dataset",
                                     dataset);
}

aclError acltdtAddDataItem(acltdtDataset* dataset, acltdtDataItem* dataItem) {
  return acl::With<Dataset>(
      "acltdtAddDataItem", "dataset", dataset,
      [&](Dataset& found) { return acl::Add(found, dataItem); });
}

acltdtDataItem* acltdtGetDataItem(const acltdtDataset* dataset, size_t index) {
  acltdtDataItem* item = nullptr;
  acl::With<Dataset>(
      "acltdtGetDataItem", "dataset", dataset,
      [&](const Dataset& found) { return acl::Get(found, index, &item); });
  return item;
}

size_t acltdtGetDatasetSize(const acltdtDataset* dataset) {
  return acl::Ask<Dataset>(
      "acltdtGetDatasetSize", "dataset", dataset, size_t{0},
      [](const Dataset& found) { return found.items.size(); });
}

const char* acltdtGetDatasetName(const acltdtDataset* dataset) {
  return acl::Ask<Dataset>("acltdtGetDatasetName", "dataset", dataset,
                           static_cast<const char*>(nullptr),
                           [](const Dataset&) { return ""; });
}

}  // extern "C"
