// Values on their way to Python.
#pragma once

#include <ATen/core/Scalar.h>
#include <c10/core/ScalarType.h>
#include <c10/util/ArrayRef.h>
#include <c10/util/SmallVector.h>

#include <cmath>
#include <cstdio>
#include <string>
#include <type_traits>
#include <vector>

namespace softnpu {

inline std::string json(const std::string& value) {
  std::string found = "\"";
  for (const char one : value) {
    if (one == '"' || one == '\\') {
      found += '\\';
      found += one;
    } else if (static_cast<unsigned char>(one) < 0x20) {
      char code[8];
      std::snprintf(code, sizeof code, "\\u%04x", one);
      found += code;
    } else {
      found += one;
    }
  }
  return found + '"';
}
inline std::string json(const char* value) { return json(std::string(value)); }

template <typename Number, std::enable_if_t<std::is_arithmetic_v<Number>, int> = 0>
std::string json(Number value) {
  if constexpr (std::is_same_v<Number, bool>) return value ? "true" : "false";
  if constexpr (std::is_integral_v<Number>) return std::to_string(value);
  if (std::isnan(value)) return "NaN";
  if (std::isinf(value)) return value < 0 ? "-Infinity" : "Infinity";
  char text[40];
  std::snprintf(text, sizeof text, "%.17e", static_cast<double>(value));
  return text;
}

inline std::string json(const c10::Scalar& value) {
  if (value.isBoolean()) return json(value.toBool());
  return value.isIntegral(false) ? json(value.toLong()) : json(value.toDouble());
}

template <typename Value>
std::string json(c10::ArrayRef<Value> values) {
  std::string found = "[";
  for (size_t i = 0; i < values.size(); ++i) found += (i ? "," : "") + json(values[i]);
  return found + "]";
}
template <typename Value, unsigned Count>
std::string json(const c10::SmallVector<Value, Count>& values) {
  return json(c10::ArrayRef<Value>(values));
}
template <typename Value>
std::string json(const std::vector<Value>& values) {
  return json(c10::ArrayRef<Value>(values));
}
inline std::string json(const std::vector<bool>& values) {
  std::string found = "[";
  for (size_t i = 0; i < values.size(); ++i) found += (i ? "," : "") + json(static_cast<bool>(values[i]));
  return found + "]";
}

class JsonObject {
 public:
  template <typename Value>
  void add(const std::string& name, const Value& value) {
    members_ += (members_.empty() ? "" : ",") + json(name) + ":" + json(value);
  }
  std::string text() const { return "{" + members_ + "}"; }

 private:
  std::string members_;
};

}  // namespace softnpu
