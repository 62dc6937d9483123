#include "device/sync_debug.h"

#include "device/device.h"
#include "device/errors.h"

#include <ATen/core/Tensor.h>
#include <torch/csrc/utils/pybind.h>

#include <string>
#include <unordered_set>

namespace softnpu {

std::atomic<int> sync_debug_level{0};

namespace {

constexpr int kRaise = 2;

bool on_npu(const c10::IValue& value) { return value.isTensor() && value.toTensor().device().type() == kNpu; }

bool is_mask(const c10::IValue& value) {
  return on_npu(value) && (value.toTensor().scalar_type() == at::kBool || value.toTensor().scalar_type() == at::kByte);
}

bool answers_with_values(const std::string& name) {
  static const std::unordered_set<std::string> names = {"aten::nonzero",           "aten::masked_select", "aten::_unique",
                                                        "aten::_unique2",          "aten::unique_dim",    "aten::unique_consecutive",
                                                        "aten::repeat_interleave", "aten::bincount",      "aten::equal"};
  return names.count(name) != 0;
}

// A mask becomes a list of places, whose length is a value.
bool indexes_by_mask(const std::string& name, const c10::IValue& indices) {
  static const std::unordered_set<std::string> names = {"aten::index", "aten::index_put_", "aten::index_put", "aten::_index_put_impl_"};
  if (names.count(name) == 0 || !indices.isList()) return false;
  for (const auto& index : indices.toListRef()) {
    if (is_mask(index)) return true;
  }
  return false;
}

}  // namespace

void tell_sync(const char* what) {
  TORCH_CHECK(sync_debug_level.load(std::memory_order_relaxed) < kRaise, "called a synchronizing NPU operation: ", what,
              pta_error(ErrCode::kInternal));
  TORCH_WARN("called a synchronizing NPU operation: ", what);
}

void tell_sync_of_call(const c10::OperatorHandle& op, const torch::jit::Stack& stack) {
  const auto& schema = op.schema();
  const auto count = schema.arguments().size();
  if (count == 0 || stack.size() < count) return;
  const auto* const arguments = &stack[stack.size() - count];
  const auto& name = schema.name();
  const bool waits = on_npu(arguments[0]) && (answers_with_values(name) || (count > 1 && indexes_by_mask(name, arguments[1])));
  if (waits) tell_sync(name.c_str());
}

void bind_sync_debug(pybind11::module_& m) {
  m.def("_set_sync_debug_level", [](int level) { sync_debug_level.store(level, std::memory_order_relaxed); });
  m.def("_get_sync_debug_level", [] { return sync_debug_level.load(std::memory_order_relaxed); });
}

}  // namespace softnpu
