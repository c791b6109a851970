// SPDX-License-Identifier: Apache-2.0
// What the documents say that the operators for training compute, in double
// precision and plain index arithmetic, and whole calls compared with it. Knows
// nothing of how the library states or solves a problem.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "base/random.h"
#include "tests/testing/call.h"
#include "tests/testing/training_call.h"

namespace flashacl::testing {

enum class MaskForm {
  kNone,
  kLongest,      // [maxSq, maxSkv]
  kAll,          // [sumSq, sumSkv]
  kOne,          // [1, 1, maxSq, maxSkv]
  kPerSequence,  // [B, 1, maxSq, maxSkv]
  kPerHead,      // [B, N, maxSq, maxSkv]
  kCompressed,   // [2048, 2048] or [3072, 2048]
};

enum class PseForm {
  kNone,
  kEvery,           // [N * sum of Sq * Skv]; dense: [B, N, Sq, Skv]
  kShared,          // [N * sum of Skv]; dense: [B, N, 1, Skv]
  kEveryOnce,       // dense: [1, N, Sq, Skv]
  kSharedOnce,      // dense: [1, N, 1, Skv]
  kCompressed,      // [1, N, 1024, maxSkv]
  kCompressedEach,  // [B, N, 1024, maxSkv]
  kSlopes,          // [N]
  kSlopesEach,      // [B, N]
};

// What to ask; every field may be combined with the others as far as the
// documents allow.
struct TrainingCase {
  TrainingSizes sizes = {.type = ACL_FLOAT};
  MaskForm mask = MaskForm::kNone;
  aclDataType mask_type = ACL_BOOL;
  int64_t mode = 0;
  int64_t pre = 65536;
  int64_t next = 65536;
  std::optional<std::vector<int64_t>> prefix = {};
  PseForm pse = PseForm::kNone;
  bool dropout = false;
  double keep = 1;
  double scale = 0.5;
  int64_t inner_precise = 0;
  bool spread = false;  // gaps and other orders of axes wherever shapes say all
  // What not all versions have.
  int64_t pse_type = 1;
  std::optional<int64_t> q_start = {};
  std::optional<int64_t> kv_start = {};
  int64_t rope_dim = 0;
  bool sink = false;
  bool same_as_input = false;
  int version = 0;  // 0: each that has what the case asks for

  // Backward only.
  bool sink_gradient = true;
  bool pse_gradient = false;
  bool foreign = false;  // max, sum and out that no forward wrote
};

// Whether a version has what the case asks for.
bool Has(int version, const TrainingCase& c);

// All fields, for messages.
std::string ToString(const TrainingCase& c);

// The call of a version that has what the case asks for.
TrainingForward ForwardCall(const TrainingCase& c, int version);
TrainingBackward BackwardCall(const TrainingCase& c, int version);

// Makes the call with random operands and expects what the documents say.
void ExpectForward(const TrainingCase& c, Random& random);
void ExpectBackward(const TrainingCase& c, Random& random);

}  // namespace flashacl::testing
