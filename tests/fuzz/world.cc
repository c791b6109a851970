// SPDX-License-Identifier: Apache-2.0
// How objects end.
#include "tests/fuzz/world.h"

#include "aclnn/acl_meta.h"

namespace flashacl::testing {

char World::own_[];

void World::Destroy(Kind kind, void* object) {
  switch (kind) {
    case Kind::kGroup:  // belongs to its graph
      break;
    case Kind::kGraph:
      aclmdlRIDestroy(object);
      break;
    case Kind::kTensor:
      aclDestroyTensor(static_cast<aclTensor*>(object));
      break;
    case Kind::kArray:
      aclDestroyIntArray(static_cast<aclIntArray*>(object));
      break;
    case Kind::kScalar:
      aclDestroyScalar(static_cast<aclScalar*>(object));
      break;
    case Kind::kLabel:
      aclrtDestroyLabel(object);
      break;
    case Kind::kLabelList:
      aclrtDestroyLabelList(object);
      break;
    case Kind::kEvent:
      aclrtDestroyEvent(object);
      break;
    case Kind::kStream:
      aclrtDestroyStreamForce(object);
      break;
    case Kind::kContext:
      aclrtDestroyContext(object);
      break;
    case Kind::kBlock:
      aclrtFree(object);
      break;
    case Kind::kHost:
      aclrtFreeHost(object);
      break;
    case Kind::kMapped:
      aclrtUnmapMem(object);
      break;
    case Kind::kReserved:
      for (size_t page = 0; page < 4; ++page) {
        aclrtUnmapMem(static_cast<char*>(object) + page * acl::kHugePageBytes);
      }
      aclrtReleaseMemAddress(object);
      break;
    case Kind::kPhysical:
      aclrtFreePhysical(object);
      break;
    case Kind::kCount:
      break;
  }
}

World::~World() {
  aclmdlRICaptureMode mode = ACL_MODEL_RI_CAPTURE_MODE_GLOBAL;
  aclmdlRICaptureThreadExchangeMode(&mode);
  for (size_t n = 0; n < kKinds; ++n) {
    const auto kind = static_cast<Kind>(n);
    for (void* const object : forgotten_[n]) Destroy(kind, object);
    for (void* const object : objects_[n]) {
      if (object != nullptr) Destroy(kind, object);
    }
  }
  while (aclrtResetDevice(0) == 0) {
  }
  aclGetRecentErrMsg();
}

}  // namespace flashacl::testing
