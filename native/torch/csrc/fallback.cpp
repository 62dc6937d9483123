// Every operator that has no kernel of its own here: run by the CPU's kernel over the same memory.
#include "alias.h"
#include "allocator.h"
#include "device.h"
#include "generator.h"

#include <ATen/core/dispatch/Dispatcher.h>
#include <ATen/core/ivalue.h>
#include <ATen/core/stack.h>
#include <torch/library.h>

namespace softnpu {

namespace {

using torch::jit::Stack;

// What is known about a call before it is made.
struct Call {
  Aliases aliases;
  bool wants_npu = false;  // a device argument says so
  c10::DeviceIndex device = -1;
  const char* other = nullptr;  // a tensor that is elsewhere

  void see(const at::Tensor& tensor) {
    if (!tensor.defined()) return;
    if (tensor.device().type() == kNpu) {
      const auto index = tensor.device().index();
      TORCH_CHECK(device < 0 || device == index || tensor.dim() == 0 , "Expected all tensors to be on the same device, but found at least two devices, npu:",
                  static_cast<int>(device), " and npu:", static_cast<int>(index), "!");
      if (device < 0) device = index;
    } else if (tensor.dim() > 0 && tensor.device().type() == c10::DeviceType::CPU) {
      other = "cpu";
    }
  }
};

c10::IValue replaced(const c10::IValue& value, Call& call) {
  if (value.isTensor()) {
    const auto& tensor = value.toTensor();
    call.see(tensor);
    return call.aliases.to_cpu(tensor);
  }
  if (value.isTensorList()) {
    c10::List<at::Tensor> list;
    for (const at::Tensor& tensor : value.toTensorVector()) {
      call.see(tensor);
      list.push_back(call.aliases.to_cpu(tensor));
    }
    return list;
  }
  if (value.isOptionalTensorList()) {
    c10::List<std::optional<at::Tensor>> list;
    for (const std::optional<at::Tensor>& tensor : value.toOptionalTensorVector()) {
      if (tensor) call.see(*tensor);
      list.push_back(tensor ? std::optional<at::Tensor>(call.aliases.to_cpu(*tensor)) : std::nullopt);
    }
    return list;
  }
  if (value.isDevice() && value.toDevice().type() == kNpu) {
    call.wants_npu = true;
    const auto index = value.toDevice().index();
    if (call.device < 0) call.device = index < 0 ? current_device() : index;
    return c10::Device(c10::DeviceType::CPU);
  }
  return value;
}

c10::IValue returned(const c10::IValue& value, Call& call, c10::Device device) {
  if (value.isTensor()) return call.aliases.to_npu(value.toTensor(), device);
  if (value.isTensorList()) {
    c10::List<at::Tensor> list;
    for (const at::Tensor& tensor : value.toTensorVector()) list.push_back(call.aliases.to_npu(tensor, device));
    return list;
  }
  return value;
}

bool takes_generator(const c10::Argument& argument) {
  const auto& type = argument.type();
  return type->kind() == c10::TypeKind::GeneratorType ||
         (type->kind() == c10::TypeKind::OptionalType && type->castRaw<c10::OptionalType>()->getElementType()->kind() == c10::TypeKind::GeneratorType);
}

// Operators whose tensors of indices or lengths live on the host by contract.
bool may_mix(const c10::OperatorHandle& op) {
  static const std::unordered_set<std::string> names = {
      "aten::index.Tensor", "aten::index.Tensor_out", "aten::index_put_", "aten::index_put", "aten::_index_put_impl_",
      "aten::_unsafe_index.Tensor", "aten::_unsafe_index_put", "aten::tensor_split.tensor_indices_or_sections",
      "aten::_pack_padded_sequence", "aten::_ctc_loss", "aten::_ctc_loss.Tensor", "aten::_ctc_loss_backward",
  };
  const auto& name = op.operator_name();
  return names.count(name.overload_name.empty() ? name.name : name.name + "." + name.overload_name) != 0;
}

}  // namespace

void run_on_cpu(const c10::OperatorHandle& op, Stack* stack) {
  const auto& schema = op.schema();
  const auto count = schema.arguments().size();
  const auto first = stack->size() - count;
  Call call;
  for (size_t i = 0; i < count; ++i) {
    auto& value = (*stack)[first + i];
    if (value.isTensor() || value.isList() || value.isDevice()) value = replaced(value, call);
  }
  if (call.device >= 0 && call.other != nullptr && !may_mix(op)) {
    TORCH_CHECK(false, "Expected all tensors to be on the same device, but found at least two devices, npu:",
                static_cast<int>(call.device), " and ", call.other, "!");
  }
  const auto index = call.device < 0 ? current_device() : call.device;
  const c10::Device device(kNpu, index);
  for (size_t i = 0; i < count; ++i) {
    if (!takes_generator(schema.arguments()[i])) continue;
    auto& value = (*stack)[first + i];
    if (value.isNone()) {
      value = static_cast<NpuGenerator*>(default_generator(index).unsafeGetGeneratorImpl())->next();
    } else if (auto* own = as_npu(value.toGenerator())) {
      value = own->next();
    } else {
      TORCH_CHECK(false, "Expected a 'npu' device type for generator but found '", value.toGenerator().device().type(), "'");
    }
  }
  {
    CpuMemoryIsNpu memory(index);
    op.redispatchBoxed(c10::DispatchKeySet(c10::DispatchKey::CPU), stack);
  }
  call.aliases.write_back();
  const auto results = schema.returns().size();
  for (size_t i = stack->size() - results; i < stack->size(); ++i) {
    auto& value = (*stack)[i];
    if (value.isTensor() || value.isList()) value = returned(value, call, device);
  }
}

TORCH_LIBRARY_IMPL(_, PrivateUse1, m) { m.fallback(torch::CppFunction::makeFromBoxedFunction<&run_on_cpu>()); }

TORCH_LIBRARY_IMPL(_, AutocastPrivateUse1, m) { m.fallback(torch::CppFunction::makeFallthrough()); }

}  // namespace softnpu
