// SPDX-License-Identifier: Apache-2.0
//
// Offline models. Their files hold code for the NPU, so none can be loaded:
// every function answers 207000, 0 or null. Source: CANN acl API, "model
// management".
#pragma once

#include "acl/acl_base.h"
#include "acl/acl_dump.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct aclmdlDataset aclmdlDataset;
typedef struct aclmdlDesc aclmdlDesc;

ACL_FUNC_VISIBILITY aclError aclmdlLoadFromFile(const char* modelPath,
                                                uint32_t* modelId);
ACL_FUNC_VISIBILITY aclError aclmdlLoadFromMem(const void* model,
                                               size_t modelSize,
                                               uint32_t* modelId);
ACL_FUNC_VISIBILITY aclError aclmdlUnload(uint32_t modelId);
ACL_FUNC_VISIBILITY aclError aclmdlQuerySize(const char* fileName,
                                             size_t* workSize,
                                             size_t* weightSize);
ACL_FUNC_VISIBILITY aclError aclmdlExecute(uint32_t modelId,
                                           const aclmdlDataset* input,
                                           aclmdlDataset* output);
ACL_FUNC_VISIBILITY aclError aclmdlExecuteAsync(uint32_t modelId,
                                                const aclmdlDataset* input,
                                                aclmdlDataset* output,
                                                aclrtStream stream);

ACL_FUNC_VISIBILITY aclmdlDesc* aclmdlCreateDesc(void);
ACL_FUNC_VISIBILITY aclError aclmdlDestroyDesc(aclmdlDesc* modelDesc);
ACL_FUNC_VISIBILITY aclError aclmdlGetDesc(aclmdlDesc* modelDesc,
                                           uint32_t modelId);
ACL_FUNC_VISIBILITY size_t aclmdlGetNumInputs(aclmdlDesc* modelDesc);
ACL_FUNC_VISIBILITY size_t aclmdlGetNumOutputs(aclmdlDesc* modelDesc);

ACL_FUNC_VISIBILITY aclmdlDataset* aclmdlCreateDataset(void);
ACL_FUNC_VISIBILITY aclError aclmdlDestroyDataset(const aclmdlDataset* dataset);
ACL_FUNC_VISIBILITY aclError aclmdlAddDatasetBuffer(aclmdlDataset* dataset,
                                                    aclDataBuffer* dataBuffer);
ACL_FUNC_VISIBILITY size_t
aclmdlGetDatasetNumBuffers(const aclmdlDataset* dataset);
ACL_FUNC_VISIBILITY aclDataBuffer* aclmdlGetDatasetBuffer(
    const aclmdlDataset* dataset, size_t index);

#ifdef __cplusplus
}
#endif
