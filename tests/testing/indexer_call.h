// SPDX-License-Identifier: Apache-2.0
// Calls of aclnnLightningIndexer and its gradient, by name.
#pragma once

#include <limits>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "tests/testing/elementwise_call.h"

namespace flashacl::testing::indexer {

inline constexpr int64_t kAllTokens = std::numeric_limits<int64_t>::max();

// Places among the tensors.
enum SelectionRow {
  kQuery,
  kKey,
  kWeights,
  kQueryLengths,
  kKeyLengths,
  kTable,
  kIndices,
  kValues
};

struct SelectionCall {
  const ElementTensor* query = nullptr;
  const ElementTensor* key = nullptr;
  const ElementTensor* weights = nullptr;
  const ElementTensor* query_lengths = nullptr;
  const ElementTensor* key_lengths = nullptr;
  const ElementTensor* table = nullptr;
  const ElementTensor* indices = nullptr;
  const ElementTensor* values = nullptr;
  int64_t count = 1;
  int64_t mode = 0;
  std::optional<std::string> layout = "TND";
  std::optional<std::string> key_layout = {};  // none: as layout
  bool return_values = true;                   // if there is a tensor
  int64_t pre_tokens = kAllTokens, next_tokens = kAllTokens;

  ElementwiseCall Call() const {
    const int64_t returns = return_values && values != nullptr ? 1 : 0;
    return {.name = "aclnnLightningIndexer",
            .tensors = {query, key, weights, query_lengths, key_lengths, table,
                        indices, values},
            .integers = {count, mode, pre_tokens, next_tokens, returns},
            .texts = {layout, key_layout ? key_layout : layout},
            .takes_workspace = true};
  }
};

// Places among the tensors of the gradient.
enum GradientRow {
  kGradQueryIn,
  kGradKeyIn,
  kDy,
  kGradIndices,
  kGradWeightsIn,
  kGradQueryLengths,
  kGradKeyLengths,
  kDQuery,
  kDKey,
  kDWeights
};

// Ten tensors in order of the parameters.
inline ElementwiseCall GradientCall(std::vector<GivenTensor> tensors,
                                    std::optional<std::string> layout = "TND",
                                    int64_t mode = 0) {
  return {.name = "aclnnLightningIndexerGrad",
          .tensors = std::move(tensors),
          .integers = {0, mode, kAllTokens, kAllTokens, 0},
          .texts = {std::move(layout)},
          .takes_workspace = true};
}

}  // namespace flashacl::testing::indexer
