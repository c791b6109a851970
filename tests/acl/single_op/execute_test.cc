// SPDX-License-Identifier: Apache-2.0
// Calls by name: every function makes the same checks in the same order, and
// ends at the operator that is not there.
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "acl/acl.h"
#include "acl/acl_op_compiler.h"
#include "tests/testing/runtime.h"

namespace flashacl::acl {
namespace {

using ::flashacl::testing::FailsWith;
using ::flashacl::testing::Message;
using ::flashacl::testing::Succeeds;

// One call, with everything that any of the functions takes.
struct Call {
  const char* type = "MatMul";
  int inputs = 1;
  aclTensorDesc** input_descs = nullptr;
  aclDataBuffer** input_buffers = nullptr;
  int outputs = 1;
  aclTensorDesc** output_descs = nullptr;
  aclDataBuffer** output_buffers = nullptr;
  aclopAttr* attributes = nullptr;
  int flag = ACL_COMPILE_SYS;
  const char* path = "path";
};

struct Function {
  const char* name;
  aclError (*run)(const Call&);
  bool has_buffers = true;
  bool compiles = false;
  int at_last = 100024;
};

aclopCompileType Flag(const Call& c) {
  return static_cast<aclopCompileType>(c.flag);
}

const Function kFunctions[] = {
    {"aclopExecuteV2",
     [](const Call& c) {
       return aclopExecuteV2(c.type, c.inputs, c.input_descs, c.input_buffers,
                             c.outputs, c.output_descs, c.output_buffers,
                             c.attributes, nullptr);
     }},
    {"aclopExecute",
     [](const Call& c) {
       return aclopExecute(c.type, c.inputs, c.input_descs, c.input_buffers,
                           c.outputs, c.output_descs, c.output_buffers,
                           c.attributes, nullptr);
     }},
    {"aclopCompileAndExecute",
     [](const Call& c) {
       return aclopCompileAndExecute(c.type, c.inputs, c.input_descs,
                                     c.input_buffers, c.outputs, c.output_descs,
                                     c.output_buffers, c.attributes,
                                     ACL_ENGINE_SYS, Flag(c), c.path, nullptr);
     },
     true, true},
    {"aclopCompileAndExecuteV2",
     [](const Call& c) {
       return aclopCompileAndExecuteV2(
           c.type, c.inputs, c.input_descs, c.input_buffers, c.outputs,
           c.output_descs, c.output_buffers, c.attributes, ACL_ENGINE_SYS,
           Flag(c), c.path, nullptr);
     },
     true, true},
    {"aclopCompile",
     [](const Call& c) {
       return aclopCompile(c.type, c.inputs, c.input_descs, c.outputs,
                           c.output_descs, c.attributes, ACL_ENGINE_SYS,
                           Flag(c), c.path);
     },
     false, true},
    {"aclGenGraphAndDumpForOp",
     [](const Call& c) {
       return aclGenGraphAndDumpForOp(
           c.type, c.inputs, c.input_descs, c.input_buffers, c.outputs,
           c.output_descs, c.output_buffers, c.attributes, ACL_ENGINE_SYS,
           c.path, nullptr);
     },
     true, false, 200001},
};

class SingleOpExecute : public ::testing::TestWithParam<Function> {
 protected:
  void SetUp() override {
    Message();
    const int64_t dims[] = {2, 3};
    desc_ = aclCreateTensorDesc(ACL_FLOAT, 2, dims, ACL_FORMAT_ND);
    buffer_ = aclCreateDataBuffer(nullptr, 0);
    descs_ = {desc_, desc_};
    buffers_ = {buffer_, buffer_};
    call_.inputs = call_.outputs = 2;
    call_.input_descs = call_.output_descs = descs_.data();
    call_.input_buffers = call_.output_buffers = buffers_.data();
    call_.attributes = aclopCreateAttr();
  }
  void TearDown() override {
    aclDestroyTensorDesc(desc_);
    EXPECT_TRUE(Succeeds(aclDestroyDataBuffer(buffer_)));
    aclopDestroyAttr(live_attributes_ == nullptr ? call_.attributes
                                                 : live_attributes_);
  }

  ::testing::AssertionResult Fails(int status, const std::string& part) {
    return FailsWith(status, GetParam().run(call_), part);
  }

  aclTensorDesc* desc_ = nullptr;
  aclDataBuffer* buffer_ = nullptr;
  aclopAttr* live_attributes_ = nullptr;
  std::vector<aclTensorDesc*> descs_;
  std::vector<aclDataBuffer*> buffers_;
  Call call_;
};

TEST_P(SingleOpExecute, NamesTheOperatorThatIsNotThere) {
  EXPECT_TRUE(Fails(GetParam().at_last, GetParam().name));
  if (GetParam().at_last == 100024) {
    EXPECT_TRUE(Fails(100024, "operator MatMul is not available"));
  }
  call_.inputs = call_.outputs = 0;
  call_.input_descs = call_.output_descs = nullptr;
  call_.input_buffers = call_.output_buffers = nullptr;
  EXPECT_TRUE(Fails(GetParam().at_last, GetParam().name));
}

// Each step mends what the one before complained of.
TEST_P(SingleOpExecute, ChecksInOrder) {
  const bool buffers = GetParam().has_buffers;
  Call good = call_;
  live_attributes_ = call_.attributes;
  call_ = {};
  call_.type = nullptr;
  call_.inputs = call_.outputs = -1;
  call_.attributes = reinterpret_cast<aclopAttr*>(&good);
  call_.flag = 7;
  call_.path = nullptr;
  EXPECT_TRUE(Fails(100000, "opType"));
  call_.type = good.type;
  EXPECT_TRUE(Fails(100000, "numInputs"));
  call_.inputs = 2;
  EXPECT_TRUE(Fails(100000, "numOutputs"));
  call_.outputs = 2;
  EXPECT_TRUE(Fails(100000, "inputDesc"));

  std::vector<aclTensorDesc*> descs = {desc_, nullptr};
  std::vector<aclDataBuffer*> data = {buffer_, nullptr};
  call_.input_descs = descs.data();
  EXPECT_TRUE(!buffers || Fails(100000, "inputs"));
  call_.input_buffers = data.data();
  EXPECT_TRUE(Fails(100000, "inputDesc[1]"));
  descs[1] = reinterpret_cast<aclTensorDesc*>(buffer_);
  EXPECT_TRUE(Fails(100000, "inputDesc[1]"));
  descs[1] = desc_;
  if (buffers) {
    EXPECT_TRUE(Fails(100000, "inputs[1]"));
    data[1] = reinterpret_cast<aclDataBuffer*>(desc_);
    EXPECT_TRUE(Fails(100000, "inputs[1]"));
    data[1] = buffer_;
  }
  EXPECT_TRUE(Fails(100000, "outputDesc"));
  call_.output_descs = good.output_descs;
  EXPECT_TRUE(!buffers || Fails(100000, "outputs"));
  call_.output_buffers = good.output_buffers;
  EXPECT_TRUE(Fails(100000, "attr"));
  call_.attributes = good.attributes;
  if (GetParam().compiles) {
    EXPECT_TRUE(Fails(200001, "compileFlag"));
    call_.flag = ACL_COMPILE_UNREGISTERED;
    EXPECT_TRUE(Fails(100000, "opPath"));
    call_.flag = ACL_COMPILE_SYS;
  } else if (GetParam().at_last == 200001) {
    EXPECT_TRUE(Fails(100000, "graphDumpPath"));
    call_.path = "path";
  }
  EXPECT_TRUE(Fails(GetParam().at_last, GetParam().name));
  call_.attributes = nullptr;
  EXPECT_TRUE(Fails(GetParam().at_last, GetParam().name));
}

TEST_P(SingleOpExecute, WritesNothingIntoEmptyOutputs) {
  const int64_t dims[] = {2, 0};
  aclTensorDesc* empty = aclCreateTensorDesc(ACL_FLOAT, 2, dims, ACL_FORMAT_ND);
  std::vector<aclTensorDesc*> outputs = {empty, desc_};
  call_.output_descs = outputs.data();
  EXPECT_TRUE(Fails(GetParam().at_last, GetParam().name));
  outputs[1] = empty;
  const bool runs = GetParam().has_buffers && GetParam().at_last == 100024;
  EXPECT_EQ(GetParam().run(call_), runs ? 0 : GetParam().at_last);
  aclDestroyTensorDesc(empty);
}

INSTANTIATE_TEST_SUITE_P(Every, SingleOpExecute,
                         ::testing::ValuesIn(kFunctions), [](const auto& info) {
                           return std::string(info.param.name);
                         });

TEST(SingleOpGraphDump, TakesNoOptions) {
  Message();
  aclGraphDumpOption* option = aclCreateGraphDumpOpt();
  ASSERT_NE(option, nullptr);
  EXPECT_TRUE(FailsWith(
      100000,
      aclGenGraphAndDumpForOp("MatMul", 0, nullptr, nullptr, 0, nullptr,
                              nullptr, nullptr, ACL_ENGINE_SYS, "path", option),
      "graphdumpOpt"));
  EXPECT_TRUE(Succeeds(aclDestroyGraphDumpOpt(option)));
  EXPECT_TRUE(FailsWith(100000, aclDestroyGraphDumpOpt(option)));
  EXPECT_TRUE(FailsWith(100000, aclDestroyGraphDumpOpt(nullptr)));
}

}  // namespace
}  // namespace flashacl::acl
