// EXEC_NPU_CMD(aclnnAdd, self, other, alpha, result): aclnn functions, computed by aten's operator of the same name.
#pragma once

#include "torch_npu/csrc/framework/utils/Json.h"

#include <ATen/ATen.h>
#include <ATen/core/LegacyTypeDispatch.h>
#include <ATen/core/dispatch/Dispatcher.h>

#include <optional>
#include <string>
#include <vector>

namespace softnpu {

struct AclnnCall {
  std::vector<at::Tensor> tensors;
  std::string arguments;

  void add(const std::string& text) { arguments += (arguments.empty() ? "" : ",") + text; }
  void add(const at::Tensor& tensor) {
    if (!tensor.defined()) return add(std::string("null"));
    add("{\"tensor\":" + std::to_string(tensors.size()) + "}");
    tensors.push_back(tensor);
  }
  template <typename Value>
  void add_value(const Value& value) {
    if constexpr (std::is_base_of_v<at::TensorBase, Value>) {
      add(value);
    } else {
      add(json(value));
    }
  }
  template <typename Value>
  void add_value(const std::optional<Value>& value) {
    value ? add_value(*value) : add(std::string("null"));
  }
};

inline bool aclnn_known(const char* name) {
  static const auto op = c10::Dispatcher::singleton().findSchemaOrThrow("softnpu::aclnn_known", "").typed<bool(c10::string_view)>();
  return op.call(name);
}

template <typename... Values>
void aclnn_command(const char* name, const Values&... values) {
  static const auto op = c10::Dispatcher::singleton()
                             .findSchemaOrThrow("softnpu::aclnn_command", "")
                             .typed<void(c10::string_view, at::TensorList, c10::string_view)>();
  AclnnCall call;
  (call.add_value(values), ...);
  at::AutoDispatchBelowADInplaceOrView below;
  op.call(name, call.tensors, "[" + call.arguments + "]");
}

}  // namespace softnpu

#define EXEC_NPU_CMD(name, ...) ::softnpu::aclnn_command(#name, __VA_ARGS__)

// The older way of an adapter, where the aclnn function is not there.
#define DO_COMPATIBILITY(name, fallback)          \
  do {                                            \
    if (!::softnpu::aclnn_known(#name)) return fallback; \
  } while (0)

// Which releases of torch a piece is for: all that these headers are built for lie within any range that is written today.
#define VERSION_BETWEEN(first, last) 1
