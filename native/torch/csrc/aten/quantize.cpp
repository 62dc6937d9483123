// Tensors with a scale per channel: torch keeps scales and zero points of theirs on the host, in memory of their own.
#include "aten/on_cpu.h"

#include <ATen/ATen.h>
#include <torch/library.h>

namespace softnpu {

namespace {

at::Tensor quantize_per_channel(const at::Tensor& self, const at::Tensor& scales, const at::Tensor& zero_points, int64_t axis,
                                at::ScalarType dtype) {
  const auto steps = scales.cpu(), zeros = zero_points.cpu();
  OnCpu cpu(self);
  const auto values = cpu(self);
  const bool low = values.scalar_type() == at::kHalf || values.scalar_type() == at::kBFloat16;
  return cpu.back(at::quantize_per_channel(low ? values.to(at::kFloat) : values, steps, zeros, axis, dtype));
}

at::Tensor from_integers(const at::Tensor& self, const at::Tensor& scales, const at::Tensor& zero_points, int64_t axis) {
  const auto steps = scales.cpu(), zeros = zero_points.cpu();
  OnCpu cpu(self);
  return cpu.back(at::_make_per_channel_quantized_tensor(cpu(self), steps, zeros, axis));
}

// The CPU hands out the tensor it keeps, and what it keeps must stay.
template <at::Tensor (*read)(const at::Tensor&)>
at::Tensor copy_of(const at::Tensor& self) {
  Aliases aliases;
  return read(aliases.to_cpu(self)).to(self.device());
}

}  // namespace

TORCH_LIBRARY_IMPL(aten, PrivateUse1, m) {
  m.impl("quantize_per_channel", quantize_per_channel);
  m.impl("_make_per_channel_quantized_tensor", from_integers);
}

TORCH_LIBRARY_IMPL(aten, QuantizedPrivateUse1, m) {
  m.impl("q_per_channel_scales", copy_of<at::q_per_channel_scales>);
  m.impl("q_per_channel_zero_points", copy_of<at::q_per_channel_zero_points>);
}

}  // namespace softnpu
