// SPDX-License-Identifier: Apache-2.0
// Elements of any type as exact numbers, and the rules of converting them and
// of computing with them, written down a second time and slowly: for tests of
// elementwise operators.
#pragma once

#include <cstddef>
#include <cstdint>

#include "acl/acl.h"

namespace flashacl::testing {

using Whole = __int128;

// An integer or BOOL, or else a real number.
struct Element {
  bool whole = false;
  Whole integer = 0;
  double real = 0;
};

constexpr Element WholeElement(Whole integer) { return {true, integer, 0}; }
constexpr Element RealElement(double real) { return {false, 0, real}; }

int64_t BytesOfType(aclDataType type);
bool IsRealType(aclDataType type);

// Of any type but complex ones.
Element ReadElement(aclDataType type, const std::byte* at);
// The element must be of the type.
void WriteElement(aclDataType type, std::byte* at, const Element& element);
// The nearest of the type: what the operators' page calls converting.
Element ConvertElement(const Element& element, aclDataType type);

// one + alpha * other, or one * other, in `type`, to which all are converted.
Element AddElements(const Element& one, const Element& other,
                    const Element& alpha, aclDataType type);
Element MultiplyElements(const Element& one, const Element& other,
                         aclDataType type);

// Whether the element at `at` is this one; any NaN is any other.
bool IsElement(aclDataType type, const std::byte* at, const Element& element);

}  // namespace flashacl::testing
