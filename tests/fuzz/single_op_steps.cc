// SPDX-License-Identifier: Apache-2.0
// Calls of operators by name: descriptions, attributes, data items, and what
// checks all of them.
#include <array>

#include "acl/acl.h"
#include "acl/acl_op_compiler.h"
#include "acl/acl_tdt.h"
#include "tests/fuzz/steps.h"

namespace flashacl::testing {
namespace {

constexpr int64_t kDims[] = {2, 3, -1, 0, -2, INT64_MAX, 1, 4};

const int64_t* Dims(World& w) { return w.bytes.OneIn(8) ? nullptr : kDims; }
// Of what Dims holds, or a number that is none.
int Count(World& w) { return static_cast<int>(w.bytes.Below(10)) - 1; }
size_t Size(World& w) { return w.bytes.Below(9); }

const char* Name(World& w) {
  constexpr const char* kNames[] = {"x", "", "axis", nullptr};
  return w.bytes.Pick(kNames);
}

aclTensorDesc* Desc(World& w) {
  return w.Get<aclTensorDesc*>(Kind::kTensorDesc);
}
aclDataBuffer* Buffer(World& w) {
  return w.Get<aclDataBuffer*>(Kind::kDataBuffer);
}
aclopAttr* Attr(World& w) { return w.Get<aclopAttr*>(Kind::kAttributes); }
acltdtDataItem* Item(World& w) {
  return w.Get<acltdtDataItem*>(Kind::kDataItem);
}
acltdtDataset* Dataset(World& w) {
  return w.Get<acltdtDataset*>(Kind::kDataset);
}

// Pairs of least and greatest.
using Range = int64_t[2];
Range* Ranges(World& w) {
  auto* const ranges = w.Out<Range[8]>();
  return ranges == nullptr ? nullptr : *ranges;
}

constexpr Step kDescriptions[] = {
    STEP(w.PutMade(Kind::kTensorDesc,
                   aclCreateTensorDesc(w.Enum<aclDataType>(31), Count(w),
                                       Dims(w), w.Enum<aclFormat>(34)))),
    STEP((aclDestroyTensorDesc(Desc(w)), 0)),
    STEP(aclSetTensorFormat(Desc(w), w.Enum<aclFormat>(34))),
    STEP(aclSetTensorStorageFormat(Desc(w), w.Enum<aclFormat>(34))),
    STEP(aclSetTensorOriginFormat(Desc(w), w.Enum<aclFormat>(34))),
    STEP(aclSetTensorShape(Desc(w), Count(w), Dims(w))),
    STEP(aclSetTensorStorageShape(Desc(w), Count(w), Dims(w))),
    STEP(aclSetTensorOriginShape(Desc(w), Count(w), Dims(w))),
    STEP(aclSetTensorShapeRange(Desc(w), Size(w), Ranges(w))),
    STEP(aclSetTensorValueRange(Desc(w), Size(w), Ranges(w))),
    STEP((aclSetTensorDescName(Desc(w), Name(w)), 0)),
    STEP((aclGetTensorDescName(Desc(w)), 0)),
    STEP(aclSetTensorPlaceMent(Desc(w), w.Enum<aclMemType>(5))),
    STEP(aclSetTensorConst(Desc(w), w.Memory(), w.Size())),
    STEP(aclSetTensorConst(Desc(w), nullptr, w.Size())),
    STEP(aclSetTensorDynamicInput(Desc(w), Name(w))),
    STEP((aclGetTensorDescType(Desc(w)), 0)),
    STEP((aclGetTensorDescFormat(Desc(w)), 0)),
    STEP((aclGetTensorDescSize(Desc(w)), 0)),
    STEP((aclGetTensorDescElementCount(Desc(w)), 0)),
    STEP((aclGetTensorDescNumDims(Desc(w)), 0)),
    STEP((aclGetTensorDescDim(Desc(w), w.Number<size_t>()), 0)),
    STEP(aclGetTensorDescDimV2(Desc(w), w.Number<size_t>(), w.Out<int64_t>())),
    STEP(aclGetTensorDescDimRange(Desc(w), w.Number<size_t>(), w.bytes.Below(4),
                                  w.Out<int64_t>())),
    STEP((aclGetTensorDescByIndex(Desc(w), w.Number<size_t>()), 0)),
    STEP((aclGetTensorDescAddress(Desc(w)), 0)),
    STEP(aclTransTensorDescFormat(Desc(w), w.Enum<aclFormat>(34),
                                  w.Out<aclTensorDesc*>())),
    STEP(w.PutMade(Kind::kDataBuffer,
                   aclCreateDataBuffer(w.Memory(), w.Size()))),
    STEP(aclDestroyDataBuffer(Buffer(w))),
    STEP(aclUpdateDataBuffer(Buffer(w), w.Memory(), w.Size())),
    STEP((aclGetDataBufferAddr(Buffer(w)), 0)),
    STEP((aclGetDataBufferSize(Buffer(w)), 0)),
    STEP((aclGetDataBufferSizeV2(Buffer(w)), 0)),
};

// Lists of as many values as Count says at most.
int SetLists(World& w) {
  constexpr uint8_t kBools[8] = {1, 0, 2};
  constexpr float kFloats[8] = {1.5F};
  constexpr aclDataType kTypes[8] = {ACL_FLOAT16};
  const char* texts[8] = {"a", "", "b", "c", "d", "e", "f", "g"};
  const int counts[2] = {Count(w), 1};
  const int64_t* const lists[2] = {Dims(w), kDims};
  if (w.bytes.OneIn(8)) texts[1] = nullptr;
  const int count = Count(w);
  const bool null = w.bytes.OneIn(8);
  aclopAttr* const attr = Attr(w);
  const char* const name = Name(w);
  switch (w.bytes.Below(6)) {
    case 0:
      return aclopSetAttrListBool(attr, name, count, null ? nullptr : kBools);
    case 1:
      return aclopSetAttrListInt(attr, name, count, Dims(w));
    case 2:
      return aclopSetAttrListFloat(attr, name, count, null ? nullptr : kFloats);
    case 3:
      return aclopSetAttrListString(attr, name, count, null ? nullptr : texts);
    case 4:
      return aclopSetAttrListDataType(attr, name, count,
                                      null ? nullptr : kTypes);
    default:
      return aclopSetAttrListListInt(attr, name, count % 3,
                                     null ? nullptr : counts, lists);
  }
}

// What a call by name gets.
struct Call {
  explicit Call(World& w)
      : type(w.bytes.OneIn(16) ? nullptr : "MatMul"),
        inputs(static_cast<int>(w.bytes.Below(4)) - 1),
        outputs(static_cast<int>(w.bytes.Below(4)) - 1),
        attributes(w.bytes.OneIn(2) ? nullptr : Attr(w)),
        flag(w.bytes.Below(3)),
        path(w.bytes.OneIn(4) ? nullptr : "path") {
    for (aclTensorDesc*& desc : descs) desc = Desc(w);
    for (aclDataBuffer*& buffer : buffers) buffer = Buffer(w);
    has_descs = !w.bytes.OneIn(16);
    has_buffers = !w.bytes.OneIn(16);
  }
  // Made where it is passed: to load one that is no enumerator is undefined.
  aclopCompileType compile_type() const {
    return static_cast<aclopCompileType>(flag);
  }
  aclTensorDesc** desc(size_t first) {
    return has_descs ? descs.data() + first : nullptr;
  }
  aclDataBuffer** buffer(size_t first) {
    return has_buffers ? buffers.data() + first : nullptr;
  }

  const char* type;
  int inputs;
  int outputs;
  aclopAttr* attributes;
  size_t flag;
  const char* path;
  std::array<aclTensorDesc*, 4> descs;  // two inputs, two outputs
  std::array<aclDataBuffer*, 4> buffers;
  bool has_descs;
  bool has_buffers;
};

int CallByName(World& w) {
  const size_t function = w.bytes.Below(6);
  void* const option = w.bytes.OneIn(8) ? w.Get(Kind::kDumpOption) : nullptr;
  Call c(w);
  switch (function) {
    case 0:
      return aclopExecuteV2(c.type, c.inputs, c.desc(0), c.buffer(0), c.outputs,
                            c.desc(2), c.buffer(2), c.attributes, nullptr);
    case 1:
      return aclopExecute(c.type, c.inputs, c.desc(0), c.buffer(0), c.outputs,
                          c.desc(2), c.buffer(2), c.attributes, nullptr);
    case 2:
      return aclopCompileAndExecute(c.type, c.inputs, c.desc(0), c.buffer(0),
                                    c.outputs, c.desc(2), c.buffer(2),
                                    c.attributes, ACL_ENGINE_SYS,
                                    c.compile_type(), c.path, nullptr);
    case 3:
      return aclopCompileAndExecuteV2(c.type, c.inputs, c.desc(0), c.buffer(0),
                                      c.outputs, c.desc(2), c.buffer(2),
                                      c.attributes, ACL_ENGINE_SYS,
                                      c.compile_type(), c.path, nullptr);
    case 4:
      return aclopCompile(c.type, c.inputs, c.desc(0), c.outputs, c.desc(2),
                          c.attributes, ACL_ENGINE_SYS, c.compile_type(),
                          c.path);
    default:
      return aclGenGraphAndDumpForOp(
          c.type, c.inputs, c.desc(0), c.buffer(0), c.outputs, c.desc(2),
          c.buffer(2), c.attributes, ACL_ENGINE_SYS, c.path,
          static_cast<const aclGraphDumpOption*>(option));
  }
}

constexpr Step kCalls[] = {
    STEP(w.PutMade(Kind::kAttributes, aclopCreateAttr())),
    STEP((aclopDestroyAttr(Attr(w)), 0)),
    STEP(aclopSetAttrBool(Attr(w), Name(w), w.bytes.Next())),
    STEP(aclopSetAttrInt(Attr(w), Name(w), w.bytes.Number())),
    STEP(aclopSetAttrFloat(Attr(w), Name(w), 0.5F)),
    STEP(aclopSetAttrString(Attr(w), Name(w), Name(w))),
    STEP(aclopSetAttrDataType(Attr(w), Name(w), w.Enum<aclDataType>(31))),
    SetLists,
    CallByName,
    STEP(w.PutMade(Kind::kDumpOption, aclCreateGraphDumpOpt())),
    STEP(aclDestroyGraphDumpOpt(w.Get<aclGraphDumpOption*>(Kind::kDumpOption))),
    STEP(aclopLoad(w.Memory(), w.Size())),
    STEP(aclopSetModelDir(w.bytes.OneIn(2) ? nullptr : "/no such folder")),
    STEP(aclSetCompileopt(w.Enum<aclCompileOpt>(18), Name(w))),
    STEP((aclGetCompileoptSize(w.Enum<aclCompileOpt>(18)), 0)),
    STEP(aclGetCompileopt(w.Enum<aclCompileOpt>(18), w.Out<char>(),
                          w.bytes.Next())),
    STEP(aclopSetCompileFlag(w.Enum<aclOpCompileFlag>(3))),
    STEP(w.PutMade(
        Kind::kDataItem,
        acltdtCreateDataItem(w.Enum<acltdtTensorType>(6), Dims(w), Size(w),
                             w.Enum<aclDataType>(31), w.Memory(), w.Size()))),
    STEP(acltdtDestroyDataItem(Item(w))),
    STEP((acltdtGetTensorTypeFromItem(Item(w)), 0)),
    STEP((acltdtGetDataTypeFromItem(Item(w)), 0)),
    STEP((acltdtGetDataAddrFromItem(Item(w)), 0)),
    STEP((acltdtGetDataSizeFromItem(Item(w)), 0)),
    STEP((acltdtGetDimNumFromItem(Item(w)), 0)),
    STEP(acltdtGetDimsFromItem(Item(w), w.Out<int64_t>(), Size(w))),
    STEP(acltdtGetSliceInfoFromItem(Item(w), w.Out<size_t>(), w.Out<size_t>())),
    STEP(w.PutMade(Kind::kDataset, acltdtCreateDataset())),
    STEP(acltdtDestroyDataset(Dataset(w))),
    STEP(acltdtAddDataItem(Dataset(w), Item(w))),
    STEP((acltdtGetDataItem(Dataset(w), w.bytes.Below(4)), 0)),
    STEP((acltdtGetDatasetSize(Dataset(w)), 0)),
    STEP((acltdtGetDatasetName(Dataset(w)), 0)),
};

}  // namespace

std::span<const Step> DescriptionSteps() { return kDescriptions; }
std::span<const Step> SingleOpSteps() { return kCalls; }

}  // namespace flashacl::testing
