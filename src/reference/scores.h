// SPDX-License-Identifier: Apache-2.0
// Which columns a row sees, and what its scores are: the part of the formula
// that forward and backward share.
#pragma once

#include <cstdint>
#include <span>

#include "reference/rows.h"

namespace flashacl::reference {

// The most columns a row may have; one in a list counts as often as it is
// listed.
int64_t MostVisible(const AttentionProblem& problem);

// Fills `columns` with those the row sees, in the order they are summed, and
// returns how many they are.
int64_t VisibleColumns(const Operands& operands, const Row& row,
                       const KeyValues& keys, std::span<int64_t> columns);

// What is added to the score of column j besides the dot product, before or
// after scaling: a bias, or alibi's slope; 0 if nothing is.
double BiasAt(const Operands& operands, const Row& row, int64_t j);

// scores[n] = the score of columns[n]: scale, bias and alibi included.
void Scores(const Operands& operands, const Row& row, const KeyValues& keys,
            std::span<const double> query, std::span<const int64_t> columns,
            std::span<double> scores);

// What dropout makes of a prob of 1: 1 without dropout, else 0 or
// 1 / keep_probability.
double Kept(const Operands& operands, const GridPlane& keep, int64_t i,
            int64_t j);

double Dot(std::span<const double> a, std::span<const double> b);

// sum += factor * row
void Add(double factor, std::span<const double> row, std::span<double> sum);

}  // namespace flashacl::reference
