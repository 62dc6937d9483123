// Operators that take more on an NPU than on the CPU, and those whose refusal has a wording of its own there.
#include "aten/on_cpu.h"

#include <ATen/ATen.h>
#include <torch/library.h>

namespace softnpu {

namespace {

using torch::jit::Stack;

c10::IValue& nth(const c10::OperatorHandle& op, Stack* stack, size_t index) {
  return (*stack)[stack->size() - op.schema().arguments().size() + index];
}

// The arguments go, the result comes: into self for `x_`, into the last argument for `out=`.
void finish(const c10::OperatorHandle& op, Stack* stack, at::Tensor result) {
  const auto& name = op.schema().name();
  const bool in_place = name.back() == '_', out = op.schema().overload_name() == "out";
  if (in_place || out) {
    const auto target = in_place ? nth(op, stack, 0).toTensor() : stack->back().toTensor();
    if (out && target.sizes() != result.sizes()) target.resize_(result.sizes());
    target.copy_(result);
    result = target;
  }
  torch::jit::drop(*stack, op.schema().arguments().size());
  stack->emplace_back(std::move(result));
}

// addmv(self, mat, vec, beta, alpha): self may have two dimensions, the product is added to each row.
void addmv(const c10::OperatorHandle& op, Stack* stack) {
  const auto self = nth(op, stack, 0).toTensor();
  if (self.dim() < 2) return run_on_cpu(op, stack);
  const auto beta = nth(op, stack, 3).toScalar(), alpha = nth(op, stack, 4).toScalar();
  auto product = at::mv(nth(op, stack, 1).toTensor(), nth(op, stack, 2).toTensor()).mul_(alpha);
  const bool ignored = beta.equal(0);  // as everywhere in torch: then self may hold anything
  finish(op, stack, product.add(ignored ? at::zeros_like(self) : self.mul(beta)));
}

// renorm(self, p, dim, maxnorm): any p, as in torch.linalg.vector_norm.
void renorm(const c10::OperatorHandle& op, Stack* stack) {
  const auto p = nth(op, stack, 1).toScalar();
  if (p.toDouble() > 0) return run_on_cpu(op, stack);
  const auto self = nth(op, stack, 0).toTensor();
  const auto kept = at::maybe_wrap_dim(nth(op, stack, 2).toInt(), self.dim());
  std::vector<int64_t> dims;
  for (int64_t i = 0; i < self.dim(); ++i) {
    if (i != kept) dims.push_back(i);
  }
  const bool low = self.scalar_type() == at::kHalf || self.scalar_type() == at::kBFloat16;
  const auto values = low ? self.to(at::kFloat) : self;
  const auto norm = at::linalg_vector_norm(values, p, dims, true);
  const double most = nth(op, stack, 3).toScalar().toDouble();
  const auto factor = at::where(norm > most, norm.add(1e-7).reciprocal_().mul_(most), at::ones_like(norm));
  finish(op, stack, values.mul(factor).to(self.scalar_type()));
}

// Types for which the CPU has no fused kernel (half, bfloat16, uint8) and those for which it has.
at::Tensor add_relu(const at::Tensor& self, const at::Tensor& other, const at::Scalar& alpha) {
  return at::add(self, other, alpha).relu_();
}
at::Tensor& add_relu_(at::Tensor& self, const at::Tensor& other, const at::Scalar& alpha) { return self.add_(other, alpha).relu_(); }
at::Tensor& add_relu_out(const at::Tensor& self, const at::Tensor& other, const at::Scalar& alpha, at::Tensor& out) {
  return at::add_out(out, self, other, alpha).relu_();
}
at::Tensor add_relu_number(const at::Tensor& self, const at::Scalar& other, const at::Scalar& alpha) {
  return at::add(self, other, alpha).relu_();
}
at::Tensor& add_relu_number_(at::Tensor& self, const at::Scalar& other, const at::Scalar& alpha) { return self.add_(other, alpha).relu_(); }

// Programs look for these words when shapes do not fit.
void lerp(const c10::OperatorHandle& op, Stack* stack) {
  try {
    run_on_cpu(op, stack);
  } catch (const c10::Error& error) {
    const std::string text = error.what_without_backtrace();
    if (text.find("must match the size") == std::string::npos && text.find("broadcast shape") == std::string::npos) throw;
    TORCH_CHECK(false, "CheckShape failed: ", text);
  }
}

void adaptive_pool(const c10::OperatorHandle& op, Stack* stack) {
  const auto size = stack->back().toListRef().size();
  TORCH_CHECK(size == 2, "adaptive_avg_pool2d: output size must be 2 (output_size must be 2), not ", size, " numbers");
  op.redispatchBoxed(c10::DispatchKeySet(c10::DispatchKey::CPU), stack);  // what torch makes of it
}

void window(const c10::OperatorHandle& op, Stack* stack) { run_on_cpu(op, stack); }  // torch's own looks for a kernel by device

template <c10::BoxedKernel::BoxedKernelFunction* function>
void impl(torch::Library& m, std::initializer_list<const char*> names) {
  for (const char* name : names) m.impl(name, torch::CppFunction::makeFromBoxedFunction<function>());
}

}  // namespace

TORCH_LIBRARY_IMPL(aten, AutogradPrivateUse1, m) { impl<&adaptive_pool>(m, {"adaptive_avg_pool2d"}); }

TORCH_LIBRARY_IMPL(aten, PrivateUse1, m) {
  impl<&adaptive_pool>(m, {"adaptive_avg_pool2d"});
  impl<&addmv>(m, {"addmv", "addmv_", "addmv.out"});
  impl<&renorm>(m, {"renorm", "renorm_", "renorm.out"});
  impl<&window>(m, {"kaiser_window", "kaiser_window.periodic", "kaiser_window.beta"});
  impl<&lerp>(m, {"lerp.Scalar", "lerp_.Scalar", "lerp.Scalar_out", "lerp.Tensor", "lerp_.Tensor", "lerp.Tensor_out"});
  m.impl("_add_relu.Tensor", add_relu);
  m.impl("_add_relu_.Tensor", add_relu_);
  m.impl("_add_relu.out", add_relu_out);
  m.impl("_add_relu.Scalar", add_relu_number);
  m.impl("_add_relu_.Scalar", add_relu_number_);
}

}  // namespace softnpu
