// SPDX-License-Identifier: Apache-2.0
#include "acl/single_op/attribute.h"

#include <string_view>
#include <utility>

#include "acl/acl_op.h"
#include "acl/error.h"
#include "acl/raw_enum.h"
#include "acl/single_op/live.h"
#include "base/str.h"

namespace flashacl::acl {
namespace {

// Sets attribute `name` to what value(&attribute) -> aclError makes.
template <typename F>
aclError Set(std::string_view function, aclopAttr* handle, const char* name,
             F&& value) {
  return With<Attributes>(
      function, "attr", handle, [&](Attributes& attributes) -> aclError {
        if (name == nullptr) return FailNull(function, "attrName");
        Attribute made;
        const aclError error = value(&made);
        if (error == ACL_SUCCESS) {
          attributes.values.insert_or_assign(name, std::move(made));
        }
        return error;
      });
}

aclError SetValue(std::string_view function, aclopAttr* handle,
                  const char* name, Attribute value) {
  return Set(function, handle, name, [&](Attribute* made) {
    *made = std::move(value);
    return ACL_SUCCESS;
  });
}

aclError CheckList(std::string_view function, std::string_view count_name,
                   int count, std::string_view values_name,
                   const void* values) {
  if (count < 0) {
    return FailValue(ACL_ERROR_INVALID_PARAM, function, count_name,
                     Str("{}", count), "0 or more");
  }
  if (count > 0 && values == nullptr) return FailNull(function, values_name);
  return ACL_SUCCESS;
}

bool Element(uint8_t value) { return value != 0; }
int64_t Element(int64_t value) { return value; }
float Element(float value) { return value; }

// A list of T, made of what the caller calls `Given`.
template <typename T, typename Given>
aclError SetList(std::string_view function, aclopAttr* handle, const char* name,
                 int count, const Given* values) {
  return Set(function, handle, name, [&](Attribute* made) -> aclError {
    const aclError error =
        CheckList(function, "numValues", count, "values", values);
    if (error != ACL_SUCCESS) return error;
    std::vector<T> list;
    for (int n = 0; n < count; ++n) list.push_back(Element(values[n]));
    *made = std::move(list);
    return ACL_SUCCESS;
  });
}

constexpr std::string_view kListDataType = "aclopSetAttrListDataType";
constexpr std::string_view kListString = "aclopSetAttrListString";
constexpr std::string_view kListListInt = "aclopSetAttrListListInt";

aclError MakeTypes(int count, const aclDataType* values, Attribute* made) {
  const aclError error =
      CheckList(kListDataType, "numValues", count, "values", values);
  if (error != ACL_SUCCESS) return error;
  std::vector<TypeNumber> list;
  for (int n = 0; n < count; ++n) list.push_back({Raw(values[n])});
  *made = std::move(list);
  return ACL_SUCCESS;
}

aclError MakeTexts(int count, const char** values, Attribute* made) {
  const aclError error =
      CheckList(kListString, "numValues", count, "values", values);
  if (error != ACL_SUCCESS) return error;
  std::vector<std::string> list;
  for (int n = 0; n < count; ++n) {
    if (values[n] == nullptr) {
      return FailNull(kListString, Str("values[{}]", n));
    }
    list.emplace_back(values[n]);
  }
  *made = std::move(list);
  return ACL_SUCCESS;
}

aclError MakeLists(int count, const int* counts, const int64_t* const* values,
                   Attribute* made) {
  aclError error =
      CheckList(kListListInt, "numLists", count, "numValues", counts);
  if (error == ACL_SUCCESS) {
    error = CheckList(kListListInt, "numLists", count, "values", values);
  }
  std::vector<std::vector<int64_t>> lists;
  for (int n = 0; error == ACL_SUCCESS && n < count; ++n) {
    error = CheckList(kListListInt, Str("numValues[{}]", n), counts[n],
                      Str("values[{}]", n), values[n]);
    if (error == ACL_SUCCESS) {
      lists.emplace_back(values[n], values[n] + counts[n]);
    }
  }
  if (error == ACL_SUCCESS) *made = std::move(lists);
  return error;
}

}  // namespace
}  // namespace flashacl::acl

namespace acl = flashacl::acl;
using acl::Attribute;

extern "C" {

aclopAttr* aclopCreateAttr(void) {
  aclopAttr* made = nullptr;
  acl::GuardRuntime([&] {
    return acl::NewObject("aclopCreateAttr",
                          std::make_shared<acl::Attributes>(), &made);
  });
  return made;
}

void aclopDestroyAttr(const aclopAttr* attr) {
  if (attr == nullptr) return;
  acl::DestroyObject<acl::Attributes>("aclopDestroyAttr", "attr", attr);
}

aclError aclopSetAttrBool(aclopAttr* attr, const char* attrName,
                          uint8_t attrValue) {
  return acl::SetValue("aclopSetAttrBool", attr, attrName, attrValue != 0);
}

aclError aclopSetAttrInt(aclopAttr* attr, const char* attrName,
                         int64_t attrValue) {
  return acl::SetValue("aclopSetAttrInt", attr, attrName, attrValue);
}

aclError aclopSetAttrFloat(aclopAttr* attr, const char* attrName,
                           float attrValue) {
  return acl::SetValue("aclopSetAttrFloat", attr, attrName, attrValue);
}

aclError aclopSetAttrString(aclopAttr* attr, const char* attrName,
                            const char* attrValue) {
  constexpr const char* kFunction = "aclopSetAttrString";
  return acl::Set(kFunction, attr, attrName, [&](Attribute* made) -> aclError {
    if (attrValue == nullptr) return acl::FailNull(kFunction, "attrValue");
    *made = std::string(attrValue);
    return ACL_SUCCESS;
  });
}

aclError aclopSetAttrDataType(aclopAttr* attr, const char* attrName,
                              aclDataType attrValue) {
  return acl::SetValue("aclopSetAttrDataType", attr, attrName,
                       acl::TypeNumber{acl::Raw(attrValue)});
}

aclError aclopSetAttrListBool(aclopAttr* attr, const char* attrName,
                              int numValues, const uint8_t* values) {
  return acl::SetList<bool>("aclopSetAttrListBool", attr, attrName, numValues,
                            values);
}

aclError aclopSetAttrListInt(aclopAttr* attr, const char* attrName,
                             int numValues, const int64_t* values) {
  return acl::SetList<int64_t>("aclopSetAttrListInt", attr, attrName, numValues,
                               values);
}

aclError aclopSetAttrListFloat(aclopAttr* attr, const char* attrName,
                               int numValues, const float* values) {
  return acl::SetList<float>("aclopSetAttrListFloat", attr, attrName, numValues,
                             values);
}

aclError aclopSetAttrListString(aclopAttr* attr, const char* attrName,
                                int numValues, const char** values) {
  return acl::Set(acl::kListString, attr, attrName, [&](Attribute* made) {
    return acl::MakeTexts(numValues, values, made);
  });
}

aclError aclopSetAttrListDataType(aclopAttr* attr, const char* attrName,
                                  int numValues, const aclDataType values[]) {
  return acl::Set(acl::kListDataType, attr, attrName, [&](Attribute* made) {
    return acl::MakeTypes(numValues, values, made);
  });
}

aclError aclopSetAttrListListInt(aclopAttr* attr, const char* attrName,
                                 int numLists, const int* numValues,
                                 const int64_t* const values[]) {
  return acl::Set(acl::kListListInt, attr, attrName, [&](Attribute* made) {
    return acl::MakeLists(numLists, numValues, values, made);
  });
}

}  // extern "C"
