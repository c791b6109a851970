// SPDX-License-Identifier: Apache-2.0
#include "record/call_json.h"

#include <cmath>
#include <limits>
#include <nlohmann/json.hpp>
#include <utility>

#include "base/once.h"
#include "base/str.h"
#include "record/digest.h"

namespace flashacl::record {
namespace {

using Json = nlohmann::ordered_json;

constexpr int kVersion = 1;

// JSON has no NaN and no infinity: texts.
Json Number(double number) {
  if (std::isfinite(number)) return number;
  if (std::isnan(number)) return "nan";
  return number > 0 ? "inf" : "-inf";
}

Json Of(const Answer& answer) {
  return {{"status", answer.status}, {"message", answer.message}};
}

Json Of(const Contents& contents) {
  const Statistics& s = contents.statistics;
  Json json;
  json["digest"] = contents.digest;
  json["kept"] = contents.kept;
  if (s.count == 0) return json;
  json["count"] = s.count;
  json["nan"] = s.nans;
  json["inf"] = s.infinities;
  json["min"] = Number(s.min);
  json["max"] = Number(s.max);
  json["mean"] = Number(s.mean);
  return json;
}

Json Of(const Tensor& tensor) {
  Json json;
  json["type"] = tensor.type;
  json["type_number"] = tensor.type_number;
  json["format"] = tensor.format;
  json["shape"] = tensor.shape;
  json["strides"] = tensor.strides;
  json["offset"] = tensor.offset;
  json["storage"] = tensor.storage;
  json["input"] = tensor.input;
  json["output"] = tensor.output;
  json["has_data"] = tensor.has_data;
  json["bytes"] = tensor.bytes;
  if (tensor.before.has_value()) json["before"] = Of(*tensor.before);
  if (tensor.after.has_value()) json["after"] = Of(*tensor.after);
  return json;
}

Json Of(const Scalar& scalar) {
  return {{"type", scalar.type},
          {"type_number", scalar.type_number},
          {"bytes", scalar.bytes}};
}

struct ValueToJson {
  Json operator()(const Nothing&) const { return nullptr; }
  Json operator()(const NoObject&) const { return {{"invalid", true}}; }
  Json operator()(const Tensor& tensor) const { return Of(tensor); }
  Json operator()(const std::vector<TensorOrNot>& list) const {
    Json json = Json::array();
    for (const TensorOrNot& one : list) {
      json.push_back(one.has_value() ? Of(*one) : Json(nullptr));
    }
    return json;
  }
  Json operator()(const Scalar& scalar) const { return Of(scalar); }
  Json operator()(const std::vector<int64_t>& values) const { return values; }
  Json operator()(double number) const { return Number(number); }
  Json operator()(int64_t number) const { return number; }
  Json operator()(bool truth) const { return truth; }
  Json operator()(const std::string& text) const { return text; }
};

// Reads members of one object, and keeps the first mistake. What is missing or
// of another kind is a mistake, and leaves the target as it is.
class FieldReader {
 public:
  FieldReader(const Json& json, std::string where, Status& status)
      : json_(json), where_(std::move(where)), status_(status) {
    if (!json.is_object()) Fail("", "an object");
  }

  bool has(const char* name) const {
    return json_.is_object() && json_.contains(name);
  }

  const Json& Member(const char* name) const {
    static constinit MadeOnce<const Json> none;
    return has(name) ? json_.at(name) : *none;
  }

  FieldReader In(const char* name) const {
    return FieldReader(Member(name), where_ + "." + name, status_);
  }

  void Read(const char* name, std::string& text) const {
    const Json& json = Member(name);
    if (!json.is_string()) return Fail(name, "a text");
    text = json.get_ref<const std::string&>();
  }
  void Read(const char* name, bool& truth) const {
    const Json& json = Member(name);
    if (!json.is_boolean()) return Fail(name, "true or false");
    truth = json.get<bool>();
  }
  template <typename T>
  requires std::is_integral_v<T>
  void Read(const char* name, T& number) const {
    if (!Integer(Member(name), number)) Fail(name, "an integer");
  }
  void Read(const char* name, double& number) const {
    if (!Real(Member(name), number)) Fail(name, "a number");
  }
  template <typename T>
  void Read(const char* name, std::vector<T>& numbers) const {
    ReadArray(name, Member(name), numbers);
  }

  template <typename T>
  void ReadArray(const char* name, const Json& json,
                 std::vector<T>& numbers) const {
    if (!json.is_array()) return Fail(name, "an array of integers");
    for (const Json& one : json) {
      if (!Integer(one, numbers.emplace_back())) {
        return Fail(name, "an array of integers");
      }
    }
  }

  static bool Real(const Json& json, double& number) {
    if (json.is_number()) {
      number = json.get<double>();
      return true;
    }
    if (!json.is_string()) return false;
    const auto& text = json.get_ref<const std::string&>();
    constexpr double kInfinity = std::numeric_limits<double>::infinity();
    if (text == "nan") number = std::numeric_limits<double>::quiet_NaN();
    if (text == "inf") number = kInfinity;
    if (text == "-inf") number = -kInfinity;
    return text == "nan" || text == "inf" || text == "-inf";
  }

  template <typename T>
  static bool Integer(const Json& json, T& number) {
    if (!json.is_number_integer()) return false;
    if (json.is_number_unsigned()) {
      const auto value = json.get<uint64_t>();
      if (!std::in_range<T>(value)) return false;
      number = static_cast<T>(value);
      return true;
    }
    const auto value = json.get<int64_t>();
    if (!std::in_range<T>(value)) return false;
    number = static_cast<T>(value);
    return true;
  }

  void Fail(std::string_view name, std::string_view expected) const {
    if (!status_.ok()) return;
    status_ = Invalid("{}{}{}: expected {}", where_, name.empty() ? "" : ".",
                      name, expected);
  }

  const std::string& where() const { return where_; }
  Status& status() const { return status_; }

 private:
  const Json& json_;
  const std::string where_;
  Status& status_;
};

Answer ReadAnswer(const FieldReader& in) {
  Answer answer;
  in.Read("status", answer.status);
  in.Read("message", answer.message);
  return answer;
}

Contents ReadContents(const FieldReader& in) {
  Contents contents;
  in.Read("digest", contents.digest);
  in.Read("kept", contents.kept);
  if (!contents.digest.empty() && !IsDigest(contents.digest)) {
    in.Fail("digest", "32 hexadecimal digits");
  }
  if (contents.digest.empty() && contents.kept) in.Fail("digest", "a digest");
  if (!in.has("count")) return contents;
  Statistics& s = contents.statistics;
  in.Read("count", s.count);
  in.Read("nan", s.nans);
  in.Read("inf", s.infinities);
  in.Read("min", s.min);
  in.Read("max", s.max);
  in.Read("mean", s.mean);
  return contents;
}

// The view must lie in its bytes: who reads them looks no further.
void CheckView(const FieldReader& in, const Tensor& tensor) {
  if (tensor.shape.size() != tensor.strides.size() || tensor.shape.size() > 8) {
    return in.Fail("strides", "as many numbers as shape has, 8 at most");
  }
  if (tensor.bytes < 0) return in.Fail("bytes", "0 or more");
  if (tensor.bytes == 0) return;
  const ElementType* const type = FindElementType(tensor.type);
  if (type == nullptr) return in.Fail("type", "a type whose size is known");
  int64_t last = 0;
  for (size_t axis = 0; axis < tensor.shape.size(); ++axis) {
    int64_t span = 0;
    if (tensor.shape[axis] < 1 || tensor.strides[axis] < 0 ||
        __builtin_mul_overflow(tensor.shape[axis] - 1, tensor.strides[axis],
                               &span) ||
        __builtin_add_overflow(last, span, &last)) {
      return in.Fail("shape", "a view of memory");
    }
  }
  if (last >= INT64_MAX / 256 ||
      ((last + 1) * type->bits + 7) / 8 > tensor.bytes) {
    in.Fail("bytes", "as many as the view has");
  }
}

Tensor ReadTensor(const FieldReader& in) {
  Tensor tensor;
  in.Read("type", tensor.type);
  in.Read("type_number", tensor.type_number);
  in.Read("format", tensor.format);
  in.Read("shape", tensor.shape);
  in.Read("strides", tensor.strides);
  in.Read("offset", tensor.offset);
  in.Read("storage", tensor.storage);
  in.Read("input", tensor.input);
  in.Read("output", tensor.output);
  in.Read("has_data", tensor.has_data);
  in.Read("bytes", tensor.bytes);
  if (in.has("before")) tensor.before = ReadContents(in.In("before"));
  if (in.has("after")) tensor.after = ReadContents(in.In("after"));
  CheckView(in, tensor);
  return tensor;
}

Value ReadTensors(const FieldReader& in, const Json& json) {
  std::vector<TensorOrNot> list;
  if (!json.is_array()) in.Fail("value", "an array");
  for (size_t n = 0; json.is_array() && n < json.size(); ++n) {
    list.emplace_back();
    if (json[n].is_null()) continue;
    list.back() = ReadTensor(
        FieldReader(json[n], Str("{}.value[{}]", in.where(), n), in.status()));
  }
  return list;
}

Value ReadScalar(const FieldReader& in) {
  Scalar scalar;
  in.Read("type", scalar.type);
  in.Read("type_number", scalar.type_number);
  in.Read("bytes", scalar.bytes);
  return scalar;
}

template <typename T>
Value ReadPlain(const FieldReader& in) {
  T value{};
  in.Read("value", value);
  return value;
}

Value ReadValue(const FieldReader& in, const std::string& kind) {
  const Json& json = in.Member("value");
  if (json.is_null()) return Nothing();
  if (json.is_object() && json.contains("invalid")) return NoObject();
  if (kind == "tensor") return ReadTensor(in.In("value"));
  if (kind == "tensors") return ReadTensors(in, json);
  if (kind == "scalar") return ReadScalar(in.In("value"));
  if (kind == "ints") return ReadPlain<std::vector<int64_t>>(in);
  if (kind == "real") return ReadPlain<double>(in);
  if (kind == "int") return ReadPlain<int64_t>(in);
  if (kind == "bool") return ReadPlain<bool>(in);
  if (kind == "text") return ReadPlain<std::string>(in);
  in.Fail("kind", "a kind of parameter");
  return Nothing();
}

void ReadParameters(const FieldReader& in, Call& call) {
  const Json& list = in.Member("parameters");
  if (!list.is_array()) return in.Fail("parameters", "an array");
  for (size_t n = 0; n < list.size(); ++n) {
    const FieldReader one(list[n], Str("parameters[{}]", n), in.status());
    Parameter& parameter = call.parameters.emplace_back();
    one.Read("name", parameter.name);
    one.Read("kind", parameter.kind);
    parameter.value = ReadValue(one, parameter.kind);
  }
}

Status ReadCall(const Json& json, Call& call) {
  Status status;
  const FieldReader in(json, "call", status);
  int version = 0;
  in.Read("flashacl_record", version);
  if (status.ok() && version != kVersion) {
    return Invalid("call.flashacl_record: version {}, expected {}", version,
                   kVersion);
  }
  in.Read("call", call.number);
  in.Read("process", call.process);
  in.Read("time", call.time);
  in.Read("operator", call.operation);
  in.Read("function", call.function);
  ReadParameters(in, call);
  in.Read("problem", call.problem);
  in.Read("implementation", call.implementation);
  call.plan = ReadAnswer(in.In("plan"));
  in.In("plan").Read("workspace_bytes", call.workspace_bytes);
  if (!in.has("launch")) return status;
  const FieldReader launch = in.In("launch");
  call.launch = ReadAnswer(launch);
  launch.Read("workspace_bytes", call.given_workspace);
  launch.Read("has_workspace", call.has_workspace);
  launch.Read("stream", call.stream);
  launch.Read("microseconds", call.microseconds);
  return status;
}

}  // namespace

std::string ToJson(const Call& call) {
  Json json;
  json["flashacl_record"] = kVersion;
  json["call"] = call.number;
  json["process"] = call.process;
  json["time"] = call.time;
  json["operator"] = call.operation;
  json["function"] = call.function;
  json["parameters"] = Json::array();
  for (const Parameter& parameter : call.parameters) {
    json["parameters"].push_back(
        {{"name", parameter.name},
         {"kind", parameter.kind},
         {"value", std::visit(ValueToJson(), parameter.value)}});
  }
  json["problem"] = call.problem;
  json["implementation"] = call.implementation;
  json["plan"] = Of(call.plan);
  json["plan"]["workspace_bytes"] = call.workspace_bytes;
  if (call.launch.has_value()) {
    Json launch = Of(*call.launch);
    launch["workspace_bytes"] = call.given_workspace;
    launch["has_workspace"] = call.has_workspace;
    launch["stream"] = call.stream;
    launch["microseconds"] = Number(call.microseconds);
    json["launch"] = std::move(launch);
  }
  // What is no UTF-8, as a program may pass, becomes U+FFFD.
  return json.dump(1, ' ', true, Json::error_handler_t::replace) + "\n";
}

Result<Call> ParseCall(std::string_view json) {
  const Json document = Json::parse(json, nullptr, false);
  if (document.is_discarded()) return Invalid("no JSON document");
  Call call;
  FLASHACL_RETURN_IF_ERROR(ReadCall(document, call));
  return call;
}

}  // namespace flashacl::record
