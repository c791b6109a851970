// SPDX-License-Identifier: Apache-2.0
//
// Starting and ending the operator library. Source: CANN aclnn API, "common
// functions".
#pragma once

#include "aclnn/acl_meta.h"

#ifdef __cplusplus
extern "C" {
#endif

// Neither is required, both may be repeated, and neither needs aclInit. Always
// 0; `configPath` may be null.
ACL_META_EXPORT aclnnStatus aclnnInit(const char* configPath);
ACL_META_EXPORT aclnnStatus aclnnFinalize(void);

#ifdef __cplusplus
}  // extern "C"
#endif
