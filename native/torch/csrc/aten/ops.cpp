// The operators that a device has to bring itself: making tensors, seeing them otherwise, copying them, and those that torch
// does not send to the CPU's kernels by itself.
#include "aten/on_cpu.h"
#include "device/device.h"
#include "device/errors.h"
#include "device/generator.h"
#include "device/sync_debug.h"
#include "formats/formats.h"

#include <ATen/ATen.h>
#include <ATen/Context.h>
#include <ATen/EmptyTensor.h>
#include <ATen/SDPBackend.h>
#include <ATen/TensorSubclassLikeUtils.h>
#include <ATen/native/DispatchStub.h>
#include <ATen/native/Resize.h>
#include <ATen/native/TensorFactories.h>
#include <ATen/native/transformers/attention.h>
#include <ATen/ops/_reshape_alias_native.h>
#include <ATen/ops/alias_native.h>
#include <ATen/ops/as_strided_native.h>
#include <ATen/ops/resize_native.h>
#include <ATen/ops/set_native.h>
#include <ATen/ops/unfold_native.h>
#include <ATen/ops/view_native.h>
#include <torch/library.h>

namespace softnpu {

namespace {

c10::Device device_or_current(std::optional<c10::Device> device) {
  const auto index = device ? given_or_current(device->index()) : current_device();
  use_device(index);
  return c10::Device(kNpu, index);
}

void check_plain(std::optional<at::Layout> layout, std::optional<bool> pin_memory) {
  TORCH_CHECK(layout.value_or(at::kStrided) == at::kStrided, "only strided tensors can be made on npu, not ", *layout,
              pta_error(ErrCode::kNotSupported));
  TORCH_CHECK(!pin_memory.value_or(false), "Only dense CPU tensors can be pinned", pta_error(ErrCode::kParam));
}

// What nobody wrote is the same in every run where a program asks for that (torch.use_deterministic_algorithms).
at::Tensor filled(at::Tensor made) {
  if (C10_UNLIKELY(at::globalContext().deterministicAlgorithms() && at::globalContext().deterministicFillUninitializedMemory())) {
    at::native::fill_empty_deterministic_(made);
  }
  return made;
}

at::Tensor empty(c10::IntArrayRef size, std::optional<at::ScalarType> dtype, std::optional<at::Layout> layout,
                 std::optional<c10::Device> device, std::optional<bool> pin_memory, std::optional<at::MemoryFormat> memory_format) {
  check_plain(layout, pin_memory);
  c10::DeviceGuard guard(device_or_current(device));
  return filled(at::detail::empty_generic(size, allocator(), c10::DispatchKeySet(c10::DispatchKey::PrivateUse1),
                                          c10::dtype_or_default(dtype), memory_format));
}

at::Tensor empty_strided(c10::IntArrayRef size, c10::IntArrayRef stride, std::optional<at::ScalarType> dtype,
                         std::optional<at::Layout> layout, std::optional<c10::Device> device, std::optional<bool> pin_memory) {
  check_plain(layout, pin_memory);
  c10::DeviceGuard guard(device_or_current(device));
  return filled(at::detail::empty_strided_generic(size, stride, allocator(), c10::DispatchKeySet(c10::DispatchKey::PrivateUse1),
                                                  c10::dtype_or_default(dtype)));
}

at::Tensor as_strided(const at::Tensor& self, c10::SymIntArrayRef size, c10::SymIntArrayRef stride, std::optional<c10::SymInt> offset) {
  const auto copy = copy_for_view(self, size.size());
  const auto first = offset ? std::optional<int64_t>(offset->guard_int(__FILE__, __LINE__)) : std::nullopt;
  return with_line([&] {
    return at::native::as_strided_tensorimpl(copy.defined() ? copy : self, C10_AS_INTARRAYREF_SLOW(size), C10_AS_INTARRAYREF_SLOW(stride),
                                             first);
  });
}

at::Tensor view(const at::Tensor& self, c10::SymIntArrayRef size) {
  return with_line([&] { return at::native::view(self, C10_AS_INTARRAYREF_SLOW(size)); });
}

at::Tensor reshape_alias(const at::Tensor& self, c10::SymIntArrayRef size, c10::SymIntArrayRef stride) {
  return at::native::_reshape_alias(self, C10_AS_INTARRAYREF_SLOW(size), C10_AS_INTARRAYREF_SLOW(stride));
}

at::Tensor unfold(const at::Tensor& self, int64_t dimension, int64_t size, int64_t step) {
  return with_line([&] { return at::native::unfold(self, dimension, size, step); });
}

at::Tensor alias(const at::Tensor& self) { return at::native::alias(self); }

const at::Tensor& resize_(const at::Tensor& self, c10::SymIntArrayRef size, std::optional<at::MemoryFormat> memory_format) {
  c10::DeviceGuard guard(self.device());
  with_line([&] { at::native::resize_(self, C10_AS_INTARRAYREF_SLOW(size), memory_format); });
  resized(self);
  return self;
}

at::Tensor& set_storage(at::Tensor& self, at::Storage source) {
  const int64_t count = static_cast<int64_t>(source.nbytes() / self.dtype().itemsize());
  return self.set_(std::move(source), 0, {count}, {});
}

at::Tensor& set_storage_offset(at::Tensor& self, at::Storage source, c10::SymInt offset, c10::SymIntArrayRef size,
                               c10::SymIntArrayRef stride) {
  const auto sizes = C10_AS_INTARRAYREF_SLOW(size);
  const auto strides = C10_AS_INTARRAYREF_SLOW(stride);
  const auto first = offset.guard_int(__FILE__, __LINE__);
  const bool contiguous = strides.empty() && !sizes.empty();
  auto* impl = self.unsafeGetTensorImpl();
  c10::DeviceGuard guard(self.device());  // a storage that is too small grows
  with_line([&] {
    at::native::checkSetStorage(self, std::move(source), first, sizes, strides);
    impl->set_storage_offset(first);
    at::native::resize_impl_cpu_(impl, sizes, contiguous ? at::OptionalIntArrayRef() : at::OptionalIntArrayRef(strides));
  });
  return self;
}

at::Tensor& set_tensor(at::Tensor& self, const at::Tensor& source) { return at::native::set_tensor_(self, source); }

at::Tensor& set_nothing(at::Tensor& self) {
  c10::Storage storage(c10::make_storage_impl(c10::StorageImpl::use_byte_size_t(), 0, c10::DataPtr(nullptr, self.device()), allocator(),
                                              true, self.device()));
  return self.set_(storage, 0, {0}, {});
}

// Casts on the device saturate where the chip does; the same type moves as it is.
void copy_values(const at::Tensor& source, const at::Tensor& target, bool non_blocking) {
  const auto limits = strict();
  if (C10_UNLIKELY((limits & kForked) != 0)) refuse_in_fork();
  if (C10_UNLIKELY((limits & kOneDevice) != 0)) {
    for (const auto& one : {source, target}) {
      if (one.device().type() == kNpu) use_device(one.device().index());
    }
  }
  Aliases aliases;
  const auto to = aliases.to_cpu(target);
  with_line([&] { to.copy_(aliases.to_cpu(source), non_blocking); });
  if (C10_LIKELY((limits & kSaturates) == 0) || target.device().type() != kNpu) return;
  if (source.scalar_type() != target.scalar_type()) saturate(to);
}

at::Tensor& copy_(at::Tensor& self, const at::Tensor& source, bool non_blocking) {
  if (self.is_same(source)) return self;
  if (!non_blocking && self.device().type() != source.device().type()) note_sync("aten::copy_");
  note_copy(self, source);
  copy_values(source, self, non_blocking);
  return self;
}

at::Tensor copy_from(const at::Tensor& self, const at::Tensor& target, bool non_blocking) {
  if (!non_blocking && self.device().type() != target.device().type()) note_sync("aten::_copy_from");
  copy_values(self, target, non_blocking);
  return target;
}

at::Tensor copy_from_and_resize(const at::Tensor& self, const at::Tensor& target) {
  if (target.sizes() != self.sizes()) target.resize_(self.sizes());
  return copy_from(self, target, false);
}

at::Scalar local_scalar(const at::Tensor& self) {
  note_sync("aten::_local_scalar_dense");
  if (C10_UNLIKELY((strict() & kForked) != 0)) refuse_in_fork();
  Aliases aliases;
  return at::_local_scalar_dense(aliases.to_cpu(self));
}

at::Tensor efficient_zeros(c10::IntArrayRef size, std::optional<at::ScalarType> dtype, std::optional<at::Layout> layout,
                           std::optional<c10::Device> device, std::optional<bool> pin_memory) {
  return empty(size, dtype, layout, device, pin_memory, std::nullopt).zero_();
}

bool may_become(const at::Tensor& self, const at::Tensor& other) {
  const auto dense = [](const at::Tensor& tensor) {
    return tensor.layout() == at::kStrided && (tensor.device().type() == kNpu || tensor.device().is_cpu());
  };
  return dense(self) && dense(other);
}

void record_stream(at::Tensor& self, at::Stream stream) {
  TORCH_CHECK((stream.id() & kExternalStream) == 0, "ExternalStream does not support record_stream: it belongs to who made it",
              pta_error(ErrCode::kNotSupported));
  allocator()->recordStream(self.storage().data_ptr(), stream);
}

at::Tensor convolution(const at::Tensor& input, const at::Tensor& weight, const std::optional<at::Tensor>& bias, c10::IntArrayRef stride,
                       c10::IntArrayRef padding, c10::IntArrayRef dilation, bool transposed, c10::IntArrayRef output_padding,
                       int64_t groups) {
  if (input.device().type() != kNpu) two_devices(weight.device().index(), input.device());
  OnCpu cpu(input, "convolution");
  CallFormats formats;
  formats.input(input);
  auto made = cpu.back(with_line(
      [&] { return at::convolution(cpu(input), cpu(weight), cpu(bias), stride, padding, dilation, transposed, output_padding, groups); }));
  formats.output(made);
  return made;
}

// The CPU's kernel has no argument for a generator and would take the numbers of the CPU's.
std::tuple<at::Tensor, at::Tensor> native_dropout(const at::Tensor& input, double p, std::optional<bool> train) {
  if (!train.value_or(true)) return {input.clone(), at::ones_like(input, input.options().dtype(at::kBool))};
  TORCH_CHECK(p >= 0 && p <= 1, "dropout probability has to be between 0 and 1, but got ", p, ops_error(ErrCode::kValue));
  OnCpu cpu(input, "native_dropout");
  const auto x = cpu(input);
  auto numbers = static_cast<NpuGenerator*>(default_generator(input.device().index()).unsafeGetGeneratorImpl())->next();
  const auto mask = at::empty_like(x, x.options().dtype(at::kBool)).bernoulli_(1 - p, std::move(numbers));
  return {cpu.back(x.mul(mask).mul_(p < 1 ? 1 / (1 - p) : 0.0)), cpu.back(mask)};
}

using Gradients = std::tuple<at::Tensor, at::Tensor, at::Tensor>;

Gradients convolution_backward(const at::Tensor& grad, const at::Tensor& input, const at::Tensor& weight, c10::IntArrayRef stride,
                               c10::IntArrayRef padding, c10::IntArrayRef dilation, bool transposed, c10::IntArrayRef output_padding,
                               int64_t groups, std::array<bool, 3> mask) {
  if (input.device().type() != kNpu) two_devices(weight.device().index(), input.device());
  OnCpu cpu(input, "convolution");
  const std::array<int64_t, 1> bias{transposed ? weight.size(1) * groups : weight.size(0)};
  auto [a, b, c] = with_line([&] {
    return at::convolution_backward(cpu(grad), cpu(input), cpu(weight), at::IntArrayRef(bias), stride, padding, dilation, transposed,
                                    output_padding, groups, mask);
  });
  return {cpu.back(a), cpu.back(b), cpu.back(c)};
}

// Flash attention where the CPU has it: its operator reaches the CPU's kernel through the fallback, forward and backward.
int64_t attention_choice(const at::Tensor& query, const at::Tensor& key, const at::Tensor& value, const std::optional<at::Tensor>& mask,
                         double dropout, bool is_causal, std::optional<double> scale, bool enable_gqa) {
  constexpr int64_t math = static_cast<int64_t>(at::SDPBackend::math);
  if (query.is_nested() || (mask && mask->defined() && mask->requires_grad())) return math;
  if (at::isTensorSubclassLike(query)) return math;  // traced: there is no memory to look at
  Aliases aliases;
  const auto on_cpu = mask && mask->defined() ? std::optional<at::Tensor>(aliases.to_cpu(*mask)) : std::nullopt;
  return at::_fused_sdp_choice(aliases.to_cpu(query), aliases.to_cpu(key), aliases.to_cpu(value), on_cpu, dropout, is_causal, scale,
                               enable_gqa);
}

}  // namespace

TORCH_LIBRARY_IMPL(aten, PrivateUse1, m) {
  m.impl("empty.memory_format", empty);
  m.impl("empty_strided", empty_strided);
  m.impl("as_strided", as_strided);
  m.impl("view", view);
  m.impl("_reshape_alias", reshape_alias);
  m.impl("unfold", unfold);
  m.impl("alias", alias);
  m.impl("resize_", resize_);
  m.impl("set_.source_Storage", set_storage);
  m.impl("set_.source_Storage_storage_offset", set_storage_offset);
  m.impl("set_.source_Tensor", set_tensor);
  m.impl("set_", set_nothing);
  m.impl("copy_", copy_);
  m.impl("_copy_from", copy_from);
  m.impl("_copy_from_and_resize", copy_from_and_resize);
  m.impl("_local_scalar_dense", local_scalar);
  m.impl("_efficientzerotensor", efficient_zeros);
  m.impl("_has_compatible_shallow_copy_type", may_become);
  m.impl("record_stream", record_stream);
  m.impl("native_dropout", native_dropout);
  m.impl("convolution_overrideable", convolution);
  m.impl("convolution_backward_overrideable", convolution_backward);
  m.impl("_fused_sdp_choice", attention_choice);
}

TORCH_LIBRARY_IMPL(aten, QuantizedPrivateUse1, m) { m.impl("copy_", copy_); }

}  // namespace softnpu

namespace at::native {
REGISTER_PRIVATEUSE1_DISPATCH(_fused_sdp_choice_stub, &softnpu::attention_choice)
}
