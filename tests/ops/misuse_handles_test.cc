// SPDX-License-Identifier: Apache-2.0
// What programs do wrong with handles, phase two and its memory. Phase one:
// misuse_test.cc.
#include <gtest/gtest.h>

#include <cmath>
#include <cstdint>
#include <functional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "acl/acl.h"
#include "aclnnop/aclnn_mul.h"
#include "tests/testing/child.h"
#include "tests/testing/misuse.h"
#include "tests/testing/operator_call.h"
#include "tests/testing/runtime.h"

namespace flashacl::testing {
namespace {

// Rows of the call's tensors.
enum Of { kQuery = 0, kOut = 10 };

// Attention to packed sequences of 3 rows and 4 keys each.
OperatorCall Attention() { return AllOperatorCalls()[0]; }

using MisusedHandles = RuntimeTest;

// Phase one of out = a + b, of handles that a row made.
int PlanAdd(const aclTensor* a, const aclTensor* b, aclTensor* out,
            uint64_t* size, aclOpExecutor** executor) {
  float one = 1;
  aclScalar* const alpha = aclCreateScalar(&one, ACL_FLOAT);
  const int status = aclnnAddGetWorkspaceSize(a, b, alpha, out, size, executor);
  aclDestroyScalar(alpha);
  return status;
}

aclOpExecutor* Planned(const Scene& scene) {
  aclTensor* const tensors[] = {Floats(scene.a, {Scene::kFloats}),
                                Floats(scene.b, {Scene::kFloats}),
                                Floats(scene.out, {Scene::kFloats})};
  uint64_t size = 0;
  aclOpExecutor* executor = nullptr;
  EXPECT_TRUE(
      Succeeds(PlanAdd(tensors[0], tensors[1], tensors[2], &size, &executor)));
  for (aclTensor* tensor : tensors) aclDestroyTensor(tensor);
  return executor;
}

// Destroys what `make` made, and then again.
template <typename Make, typename Destroy>
std::function<int(Scene&)> Twice(Make make, Destroy destroy) {
  return [=](Scene& scene) {
    auto* const made = make(scene);
    EXPECT_NE(made, nullptr);
    EXPECT_TRUE(Succeeds(destroy(made)));
    return destroy(made);
  };
}

TEST_F(MisusedHandles, Handles) {
  static float one = 1;
  ExpectRefusals({
      {"aclDestroyAclOpExecutor twice",
       Twice([](Scene& s) { return Planned(s); }, aclDestroyAclOpExecutor),
       561000,
       {"executor", "not a live aclOpExecutor"}},
      {"aclDestroyTensor of a scalar",
       [](Scene& s) {
         aclScalar* const scalar = aclCreateScalar(&one, ACL_FLOAT);
         const int status =
             s.Keep(aclDestroyTensor(reinterpret_cast<aclTensor*>(scalar)));
         EXPECT_TRUE(Succeeds(aclDestroyScalar(scalar)));
         return status;
       },
       161002,
       {"aclDestroyTensor", "tensor"}},
      {"aclDestroyTensor of what is no handle",
       [](Scene&) {
         return aclDestroyTensor(reinterpret_cast<aclTensor*>(&one));
       },
       161002,
       {"aclDestroyTensor", "tensor"}},
      {"aclCreateTensor without dims",
       [](Scene& s) {
         return aclCreateTensor(nullptr, 3, ACL_FLOAT, nullptr, 0,
                                ACL_FORMAT_ND, nullptr, 0, s.a) == nullptr
                    ? kNoObject
                    : 0;
       },
       kNoObject,
       {"viewDims", "NULL"}},
      {"aclCreateIntArray of 3 numbers at null",
       [](Scene&) {
         return aclCreateIntArray(nullptr, 3) == nullptr ? kNoObject : 0;
       },
       kNoObject,
       {"aclCreateIntArray", "value is a NULL pointer", "size is 3"}},
  });
}

TEST_F(MisusedHandles, HandlesOfOperators) {
  ExpectRefusals({
      {"an operator of a destroyed tensor",
       [](Scene& s) {
         aclTensor* const gone = Floats(s.a, {4});
         aclTensor* const live = Floats(s.out, {4});
         EXPECT_TRUE(Succeeds(aclDestroyTensor(gone)));
         uint64_t size = 0;
         aclOpExecutor* executor = nullptr;
         const int status = PlanAdd(live, gone, live, &size, &executor);
         EXPECT_EQ(executor, nullptr);
         aclDestroyTensor(live);
         return status;
       },
       161002,
       {"other", "aclTensor"}},
      {"aclDumpOpTensors of a destroyed tensor",
       [](Scene& s) {
         aclTensor* gone = Floats(s.a, {4});
         EXPECT_TRUE(Succeeds(aclDestroyTensor(gone)));
         return aclDumpOpTensors("Own", "own", &gone, 1, 0, s.stream);
       },
       161002,
       {"aclDumpOpTensors", "tensors[0]", "not destroyed"}},
      {"aclDumpOpTensors of 2 tensors at null",
       [](Scene& s) {
         return aclDumpOpTensors("Own", "own", nullptr, 1, 1, s.stream);
       },
       161001,
       {"aclDumpOpTensors", "tensors", "1 inputs and 1 outputs"}},
      {"nowhere to put the size of a workspace",
       [](Scene& s) {
         aclTensor* const t = Floats(s.a, {4});
         aclOpExecutor* executor = nullptr;
         const int status = PlanAdd(t, t, t, nullptr, &executor);
         aclDestroyTensor(t);
         return status;
       },
       161001,
       {"workspaceSize", "nullptr"}},
      {"nowhere to put the executor",
       [](Scene& s) {
         aclTensor* const t = Floats(s.a, {4});
         uint64_t size = 0;
         const int status = PlanAdd(t, t, t, &size, nullptr);
         aclDestroyTensor(t);
         return status;
       },
       161001,
       {"executor", "nullptr"}},
  });
}

// Attention with memory for everything, at phase two.
class Placed {
 public:
  Placed() {
    for (TensorArgument& tensor : call.tensors) {
      if (tensor.present) tensor.data = New(size_t{4096});
    }
    EXPECT_TRUE(Succeeds(call.Prepare(&size, &executor)));
    workspace = New(size);
  }
  ~Placed() {
    aclrtSynchronizeDevice();
    for (void* block : blocks_) aclrtFree(block);
    aclDestroyAclOpExecutor(executor);
    Message();
  }
  Placed(const Placed&) = delete;
  Placed& operator=(const Placed&) = delete;

  void* New(size_t bytes) {
    void* block = nullptr;
    EXPECT_TRUE(
        Succeeds(aclrtMalloc(&block, bytes, ACL_MEM_MALLOC_NORMAL_ONLY)));
    EXPECT_TRUE(Succeeds(aclrtMemset(block, bytes, 0, bytes)));
    blocks_.push_back(block);
    return block;
  }
  // Again, with what a row changed.
  void Replan() {
    aclDestroyAclOpExecutor(executor);
    EXPECT_TRUE(Succeeds(call.Prepare(&size, &executor)));
  }
  int Launch(aclrtStream stream) {
    return call.Launch(workspace, size, executor, stream);
  }

  OperatorCall call = Attention();
  uint64_t size = 0;
  aclOpExecutor* executor = nullptr;
  void* workspace = nullptr;

 private:
  std::vector<void*> blocks_;
};

// The change, planned again, and what phase two then answers.
std::function<int(Scene&)> Launched(std::function<void(Placed&)> change) {
  return [change = std::move(change)](Scene& scene) {
    Placed placed;
    EXPECT_GT(placed.size, 0u);
    change(placed);
    return scene.Keep(placed.Launch(scene.stream));
  };
}

// Moves a tensor, which phase one saw elsewhere.
std::function<int(Scene&)> LaunchedAt(size_t tensor,
                                      std::function<void*(Placed&)> at) {
  return Launched([=](Placed& placed) {
    placed.call.tensors[tensor].data = at(placed);
    placed.Replan();
  });
}

TEST_F(MisusedHandles, PhaseTwo) {
  ExpectRefusals({
      {"no executor",
       [](Scene& s) { return aclnnAdd(nullptr, 0, nullptr, s.stream); },
       161001,
       {"executor", "nullptr"}},
      {"an executor that has run",
       [](Scene& s) {
         aclOpExecutor* const executor = Planned(s);
         EXPECT_TRUE(Succeeds(aclnnAdd(nullptr, 0, executor, s.stream)));
         return aclnnAdd(nullptr, 0, executor, s.stream);
       },
       561000,
       {"executor", "phase two consumes it", "aclSetAclOpExecutorRepeatable"}},
      {"an executor that is a stream",
       [](Scene& s) {
         return aclnnAdd(nullptr, 0, static_cast<aclOpExecutor*>(s.stream),
                         s.stream);
       },
       561000,
       {"executor", "not a live aclOpExecutor"}},
      {"a stream that is destroyed",
       [](Scene& s) {
         const aclrtStream gone = std::exchange(s.stream, nullptr);
         EXPECT_TRUE(Succeeds(aclrtDestroyStream(gone)));
         return AddOn(s, gone);
       },
       361001,
       {"aclnnAdd", "stream", "not destroyed"}},
      {"no workspace",
       Launched([](Placed& placed) { placed.workspace = nullptr; }),
       161001,
       {"workspace is a NULL pointer", "expected", "bytes of device memory"}},
  });
}

TEST_F(MisusedHandles, MemoryOfPhaseTwo) {
  ExpectRefusals({
      {"a workspace of one byte less",
       Launched([](Placed& placed) { --placed.size; }),
       161002,
       {"workspaceSize", "expected at least"}},
      {"a workspace that says to be larger than it is",
       Launched([](Placed& placed) { placed.workspace = placed.New(64); }),
       161002,
       {"workspace: needs", "its block of 64 bytes ends before"}},
      {"a query without memory",
       LaunchedAt(kQuery, [](Placed&) -> void* { return nullptr; }),
       161001,
       {"query", "no data address"}},
      {"a query that ends before its shape does",
       LaunchedAt(kQuery, [](Placed& placed) { return placed.New(64); }),
       161002,
       {"query: needs 768 bytes", "its block of 64 bytes ends before"}},
      {"an output that begins where its block ends",
       LaunchedAt(kOut,
                  [](Placed& placed) -> void* {
                    return static_cast<char*>(placed.New(4096)) + 4096;
                  }),
       161002,
       {"attentionOutOut: needs 768 bytes", "its block of 4,096 bytes"}},
      {"aclSetInputTensorAddr of a tensor that there is not",
       [](Scene& s) {
         aclOpExecutor* const executor = Planned(s);
         aclTensor* const t = Floats(s.a, {4});
         const int status = s.Keep(aclSetInputTensorAddr(executor, 99, t, s.b));
         aclDestroyTensor(t);
         aclDestroyAclOpExecutor(executor);
         return status;
       },
       161002,
       {"aclSetTensorAddr", "index", "99"}},
  });
}

// Strict mode refuses more. Processes of their own, as the environment is read
// once.
TEST(MisusedChild, DISABLED_StrictHandles) {
  ASSERT_TRUE(Succeeds(aclrtSetDevice(0)));
  static const int64_t numbers[] = {1, 2, 3};
  static float one = 1;
  static const bool bits[] = {true};
  const auto tensor = [](Scene& s) { return Floats(s.a, {4}); };
  ExpectRefusals({
      {"aclDestroyTensor twice",
       Twice(tensor, aclDestroyTensor),
       161002,
       {"aclDestroyTensor", "double destroy of tensor"}},
      {"aclDestroyScalar twice",
       Twice([](Scene&) { return aclCreateScalar(&one, ACL_FLOAT); },
             aclDestroyScalar),
       161002,
       {"aclDestroyScalar", "double destroy of scalar"}},
      {"aclDestroyIntArray twice",
       Twice([](Scene&) { return aclCreateIntArray(numbers, 3); },
             aclDestroyIntArray),
       161002,
       {"aclDestroyIntArray", "double destroy of int array"}},
      {"aclDestroyFloatArray twice",
       Twice([](Scene&) { return aclCreateFloatArray(&one, 1); },
             aclDestroyFloatArray),
       161002,
       {"aclDestroyFloatArray", "double destroy of float array"}},
      {"aclDestroyBoolArray twice",
       Twice([](Scene&) { return aclCreateBoolArray(bits, 1); },
             aclDestroyBoolArray),
       161002,
       {"aclDestroyBoolArray", "double destroy of bool array"}},
      {"aclDestroyTensorList twice",
       Twice(
           [](Scene& s) {
             const aclTensor* const member = Floats(s.a, {4});
             return aclCreateTensorList(&member, 1);
           },
           aclDestroyTensorList),
       161002,
       {"aclDestroyTensorList", "double destroy of tensor list"}},
  });
}

TEST(MisusedChild, DISABLED_Strict) {
  ASSERT_TRUE(Succeeds(aclrtSetDevice(0)));
  static std::vector<float> host(1024);
  ExpectRefusals({
      {"a query in memory of the host",
       LaunchedAt(kQuery, [](Placed&) -> void* { return host.data(); }),
       161002,
       {"query: needs 768 bytes", "not registered"}},
      {"a query that is freed",
       LaunchedAt(kQuery,
                  [](Placed& placed) {
                    void* const block = placed.New(4096);
                    EXPECT_TRUE(Succeeds(aclrtFree(block)));
                    return block;
                  }),
       161002,
       {"query: needs 768 bytes", "that aclrtFree", "freed"}},
      {"an output that overlaps an input",
       LaunchedAt(
           kOut,
           [](Placed& placed) -> void* {
             return static_cast<char*>(placed.call.tensors[kQuery].data) + 4;
           }),
       161002,
       {"attentionOutOut", "overlap those of query"}},
      {"a block that is too short by a byte",
       LaunchedAt(kOut, [](Placed& placed) { return placed.New(767); }),
       161002,
       {"attentionOutOut: needs 768 bytes", "its block of 767 bytes"}},
      {"the executor of another operator",
       [](Scene& s) { return aclnnMul(nullptr, 0, Planned(s), s.stream); },
       161002,
       {"aclnnMul", "the executor is one of aclnnAdd"}},
      {"a scale that is no number",
       [](Scene&) {
         OperatorCall call = Attention();
         call.reals[0] = std::nan("");
         uint64_t size = 0;
         aclOpExecutor* executor = nullptr;
         return call.Prepare(&size, &executor);
       },
       161002,
       {"scaleValue", "nan", "expected a finite number"}},
      {"a copy of the wrong kind",
       [](Scene& s) {
         return aclrtMemcpy(s.a, 8, host.data(), 8, ACL_MEMCPY_DEVICE_TO_HOST);
       },
       107000,
       {"aclrtMemcpy", "dst is device memory", "kind 2"}},
  });
}

TEST(MisusedUnderStrict, IsExplained) {
  for (const char* test : {"Strict", "StrictHandles"}) {
    const ChildResult child =
        RunChild(std::string("MisusedChild.DISABLED_") + test,
                 {{"FLASHACL_STRICT", "1"}});
    EXPECT_TRUE(child.ok()) << child.output;
  }
}

}  // namespace
}  // namespace flashacl::testing
