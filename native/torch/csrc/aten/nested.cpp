// Nested tensors of the strided layout: what cannot go through the fallback. Their sizes are tensors of the host on every device.
#include "aten/on_cpu.h"

#include <ATen/ATen.h>
#include <ATen/NestedTensorImpl.h>
#include <torch/library.h>

namespace softnpu {

namespace {

using at::native::get_nested_tensor_impl;

at::Tensor sizes(const at::Tensor& self) { return get_nested_tensor_impl(self)->get_nested_sizes(); }
at::Tensor strides(const at::Tensor& self) { return get_nested_tensor_impl(self)->get_nested_strides(); }
at::Tensor offsets(const at::Tensor& self) { return get_nested_tensor_impl(self)->get_storage_offsets(); }

at::Tensor with_buffer(const at::Tensor& buffer, const at::Tensor& like) {
  return at::detail::make_tensor<at::native::NestedTensorImpl>(buffer, sizes(like), strides(like), offsets(like));
}

at::Tensor to_copy(const at::Tensor& self, std::optional<at::ScalarType> dtype, std::optional<at::Layout> layout,
                   std::optional<at::Device> device, std::optional<bool> pin_memory, bool non_blocking,
                   std::optional<at::MemoryFormat> memory_format) {
  TORCH_CHECK(!layout || *layout == at::kStrided, "a nested tensor on npu stays strided, not ", *layout);
  TORCH_CHECK(!memory_format || *memory_format == at::MemoryFormat::Preserve,
              "a nested tensor on npu keeps its memory format; it cannot become ", *memory_format);
  const auto buffer = get_nested_tensor_impl(self)->get_unsafe_storage_as_tensor();
  return with_buffer(at::_to_copy(buffer, dtype, at::kStrided, device, pin_memory, non_blocking, std::nullopt), self);
}

at::Tensor& copy_(at::Tensor& self, const at::Tensor& source, bool non_blocking) {
  Aliases aliases;
  auto target = aliases.to_cpu(self);
  target.copy_(aliases.to_cpu(source), non_blocking);
  return self;
}

// torch would take them apart before the fallback is asked.
constexpr const char* kWhole[] = {
    "chunk", "linear", "matmul", "matmul.out", "narrow", "silu_backward", "value_selecting_reduction_backward"};

}  // namespace

TORCH_LIBRARY_IMPL(aten, NestedTensorPrivateUse1, m) {
  m.impl("_nested_tensor_size", sizes);
  m.impl("_nested_tensor_strides", strides);
  m.impl("_nested_tensor_storage_offsets", offsets);
  m.impl("_to_copy", to_copy);
  m.impl("copy_", copy_);
  for (const char* name : kWhole) m.impl(name, torch::CppFunction::makeFromBoxedFunction<&run_nested>());
}

}  // namespace softnpu
