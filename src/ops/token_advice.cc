// SPDX-License-Identifier: Apache-2.0
#include "ops/token_advice.h"

#include <string>

#include "acl/environment.h"
#include "acl/meaning.h"
#include "base/str.h"

namespace flashacl::ops {
namespace {

// Modes 2, 3 and 6 are causal, whatever nextTokens says.
bool IsCausal(int64_t mode) { return mode == 2 || mode == 3 || mode == 6; }

bool HeedsTokens(const GivenTokens& given) {
  const int64_t mode = given.sparse_mode;
  return given.has_mask && (mode == 0 || mode == 4 || mode == 7 || mode == 8);
}

void Advise(const GivenTokens& given, std::string_view name, int64_t tokens) {
  const std::string why =
      given.has_mask ? Str("sparse mode {} ignores it", given.sparse_mode)
                     : std::string("it is ignored without a mask");
  acl::AdviseOnce(name, Str("{}: {} hides nothing: {}", name, tokens, why));
}

}  // namespace

void AdviseOnTokens(const GivenTokens& given) {
  if (!acl::TheEnvironment().strict || HeedsTokens(given)) return;
  if (given.pre < given.longest) Advise(given, given.pre_name, given.pre);
  const bool causal = given.has_mask && IsCausal(given.sparse_mode);
  if (given.next < given.longest && !causal) {
    Advise(given, given.next_name, given.next);
  }
}

}  // namespace flashacl::ops
