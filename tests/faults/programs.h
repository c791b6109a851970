// SPDX-License-Identifier: Apache-2.0
// Programs that use the runtime, call by call, and the statuses of their calls:
// what the tests of faults run while something fails.
#pragma once

#include <array>

#include "acl/acl.h"
#include "acl/acl_op_compiler.h"
#include "acl/acl_prof.h"
#include "acl/acl_tdt.h"
#include "aclnn/acl_meta.h"
#include "tests/testing/runtime.h"

namespace flashacl::testing {

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
  std::array<aclrtLabel, 2> labels{};
  aclrtLabelList label_list = nullptr;
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

using Program = void (*)(Calls&, Made&);

void Contexts(Calls& calls, Made& made);
void CopiesAndFills(Calls& calls, Made& made);
void StreamsAndEvents(Calls& calls, Made& made);
void Graphs(Calls& calls, Made& made);
void BuiltGraphs(Calls& calls, Made& made);
void Callbacks(Calls& calls, Made& made);
void Notifies(Calls& calls, Made& made);
void ValuesAndReductions(Calls& calls, Made& made);
void Aborting(Calls& calls, Made& made);
void MappedMemory(Calls& calls, Made& made);
void Sharing(Calls& calls, Made& made);
void Descriptions(Calls& calls, Made& made);
void SingleOperators(Calls& calls, Made& made);
void Settings(Calls& calls, Made& made);
void Profiles(Calls& calls, Made& made);

}  // namespace flashacl::testing
