// SPDX-License-Identifier: Apache-2.0
//
// Marks and ranges of the caller in the timeline (docs/profiling.md), on the
// calling thread and, with a stream that is not null, on that, too. Without a
// profile they do nothing. Source: CANN mstx API, "tools extension".
#pragma once

#include <stdint.h>

#include "acl/acl_base.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef uint64_t mstxRangeId;  // from 1; 0: none

// Who says it; null: the default domain.
typedef struct mstxDomain* mstxDomainHandle_t;

// Heaps of memory are not in the timeline: what describes them is not read.
typedef struct mstxMemHeap* mstxMemHeapHandle_t;
typedef struct mstxMemHeapDesc_t mstxMemHeapDesc_t;
typedef struct mstxMemRegionsRegisterBatch_t mstxMemRegionsRegisterBatch_t;
typedef struct mstxMemRegionsUnregisterBatch_t mstxMemRegionsUnregisterBatch_t;

// Marks this moment, and that at which `stream` comes here.
ACL_FUNC_VISIBILITY void mstxMarkA(const char* message, aclrtStream stream);

// Begins a range that any thread may end. 0 for a null message.
ACL_FUNC_VISIBILITY mstxRangeId mstxRangeStartA(const char* message,
                                                aclrtStream stream);
ACL_FUNC_VISIBILITY void mstxRangeEnd(mstxRangeId id);

// The domain of this name, the same each time; null for a null name. It stays
// when it is destroyed.
ACL_FUNC_VISIBILITY mstxDomainHandle_t mstxDomainCreateA(const char* name);
ACL_FUNC_VISIBILITY void mstxDomainDestroy(mstxDomainHandle_t domain);

// The same as above in a domain.
ACL_FUNC_VISIBILITY void mstxDomainMarkA(mstxDomainHandle_t domain,
                                         const char* message,
                                         aclrtStream stream);
ACL_FUNC_VISIBILITY mstxRangeId mstxDomainRangeStartA(mstxDomainHandle_t domain,
                                                      const char* message,
                                                      aclrtStream stream);
ACL_FUNC_VISIBILITY void mstxDomainRangeEnd(mstxDomainHandle_t domain,
                                            mstxRangeId id);

// Do nothing; the heap is null.
ACL_FUNC_VISIBILITY mstxMemHeapHandle_t mstxMemHeapRegister(
    mstxDomainHandle_t domain, const mstxMemHeapDesc_t* description);
ACL_FUNC_VISIBILITY void mstxMemHeapUnregister(mstxDomainHandle_t domain,
                                               mstxMemHeapHandle_t heap);
ACL_FUNC_VISIBILITY void mstxMemRegionsRegister(
    mstxDomainHandle_t domain, const mstxMemRegionsRegisterBatch_t* batch);
ACL_FUNC_VISIBILITY void mstxMemRegionsUnregister(
    mstxDomainHandle_t domain, const mstxMemRegionsUnregisterBatch_t* batch);

#ifdef __cplusplus
}
#endif
