// Data types that an NPU takes and the CPU's kernels refuse: cast before, cast back after.
#include "aten/on_cpu.h"

#include <ATen/ATen.h>
#include <torch/library.h>

namespace softnpu {

namespace {

using torch::jit::Stack;

size_t position(const c10::OperatorHandle& op, const std::string& name) {
  const auto found = op.schema().argumentIndexWithName(name);
  TORCH_CHECK(found.has_value(), op.schema().name(), " has no argument ", name);
  return static_cast<size_t>(*found);
}

c10::IValue& argument(const c10::OperatorHandle& op, Stack* stack, const char* name) {
  return (*stack)[stack->size() - op.schema().arguments().size() + position(op, name)];
}

void widen(c10::IValue& value, at::ScalarType from, at::ScalarType to) {
  if (value.isTensor() && value.toTensor().defined() && value.toTensor().scalar_type() == from) value = value.toTensor().to(to);
}

void long_target(const c10::OperatorHandle& op, Stack* stack) {
  widen(argument(op, stack, "target"), at::kInt, at::kLong);
  run_on_cpu(op, stack);
}

void long_self(const c10::OperatorHandle& op, Stack* stack) {
  widen(argument(op, stack, "self"), at::kInt, at::kLong);
  run_on_cpu(op, stack);
}

void long_index(const c10::OperatorHandle& op, Stack* stack) {
  widen(argument(op, stack, "index"), at::kInt, at::kLong);
  run_on_cpu(op, stack);
}

bool is_low(at::ScalarType type) { return type == at::kHalf || type == at::kBFloat16 || type == at::kComplexHalf; }

bool is_integer(at::ScalarType type) { return at::isIntegralType(type, /*includeBool=*/false); }

bool is_tensor(const c10::IValue& value) { return value.isTensor() && value.toTensor().defined(); }

at::ScalarType wide(at::ScalarType type) { return at::isComplexType(type) ? at::kComplexFloat : at::kFloat; }

// What a result of type `computed` becomes where the arguments were `given`.
at::ScalarType narrow(at::ScalarType computed, at::ScalarType given) {
  if (computed == at::kComplexFloat) return at::kComplexHalf;
  if (computed != at::kFloat) return computed;
  return given == at::kComplexHalf ? at::kHalf : given;
}

struct Written {
  at::Tensor original, wide;
};

// The result in its own type again: in the tensor that was given for it, or in a new one.
c10::IValue narrowed(const c10::IValue& value, const std::vector<Written>& written, at::ScalarType type) {
  if (!is_tensor(value)) return value;
  const auto& result = value.toTensor();
  for (const auto& one : written) {
    if (!one.wide.is_same(result)) continue;
    if (one.original.sizes() != result.sizes()) one.original.resize_(result.sizes());
    one.original.copy_(result);
    return one.original;
  }
  return result.to(narrow(result.scalar_type(), type));
}

using Run = void (*)(const c10::OperatorHandle&, Stack*);

// Tensors of the types that `needs` names go in as float32, results come back in theirs.
void in_float_where(const c10::OperatorHandle& op, Stack* stack, bool (*needs)(at::ScalarType), Run run) {
  const auto& arguments = op.schema().arguments();
  const auto first = stack->size() - arguments.size();
  std::optional<at::ScalarType> type;
  std::vector<Written> written;
  for (size_t i = 0; i < arguments.size(); ++i) {
    auto& value = (*stack)[first + i];
    if (!is_tensor(value) || !needs(value.toTensor().scalar_type())) continue;
    const auto original = value.toTensor();
    type = original.scalar_type();
    value = original.to(wide(*type));
    if (arguments[i].alias_info() != nullptr && arguments[i].alias_info()->isWrite()) written.push_back({original, value.toTensor()});
  }
  run(op, stack);
  if (!type) return;
  for (size_t i = stack->size() - op.schema().returns().size(); i < stack->size(); ++i) {
    (*stack)[i] = narrowed((*stack)[i], written, *type);
  }
}

// Half precision computed in float32.
void in_float(const c10::OperatorHandle& op, Stack* stack) { in_float_where(op, stack, is_low, run_on_cpu); }

void integers_in_float(const c10::OperatorHandle& op, Stack* stack) { in_float_where(op, stack, is_integer, run_on_cpu); }

// Transforms refuse half precision before a device is asked: what torch makes of them runs with float32 instead. Not bfloat16,
// which has no complex type.
void transform(const c10::OperatorHandle& op, Stack* stack) {
  const auto half = [](at::ScalarType type) { return type == at::kHalf || type == at::kComplexHalf; };
  const auto composite = [](const c10::OperatorHandle& of, Stack* with) {
    of.redispatchBoxed(c10::DispatchKeySet(c10::DispatchKey::CPU), with);
  };
  in_float_where(op, stack, half, composite);
}

// The CPU wants statistics in the type of the weights, or of the data where there are none; a device keeps them in float32.
void layer_norm_backward(const c10::OperatorHandle& op, Stack* stack) {
  const auto& weight = argument(op, stack, "weight");
  const auto data = argument(op, stack, "input").toTensor().scalar_type();
  const auto parameters = is_tensor(weight) ? weight.toTensor().scalar_type() : data;
  if (!is_low(data) || argument(op, stack, "mean").toTensor().scalar_type() == parameters) return run_on_cpu(op, stack);
  for (size_t i = stack->size() - op.schema().arguments().size(); i < stack->size(); ++i) {
    auto& value = (*stack)[i];
    if (is_tensor(value)) value = value.toTensor().to(at::kFloat);
  }
  run_on_cpu(op, stack);
  const auto first = stack->size() - 3;
  for (size_t i = 0; i < 3; ++i) (*stack)[first + i] = narrowed((*stack)[first + i], {}, i == 0 ? data : parameters);
}

// Quantization reads float32; what it makes has a type of its own.
void float_self(const c10::OperatorHandle& op, Stack* stack) {
  auto& self = argument(op, stack, "self");
  if (is_low(self.toTensor().scalar_type())) self = self.toTensor().to(at::kFloat);
  run_on_cpu(op, stack);
}

// softmax(half, dtype=float32) is one operator on a device, two on the CPU.
void softmax(const c10::OperatorHandle& op, Stack* stack) {
  auto& to_float = argument(op, stack, "half_to_float");
  if (to_float.toBool()) {
    to_float = false;
    auto& self = argument(op, stack, "self");
    self = self.toTensor().to(at::kFloat);
  }
  run_on_cpu(op, stack);
}

void softmax_backward(const c10::OperatorHandle& op, Stack* stack) {
  auto& input_type = argument(op, stack, "input_dtype");
  const auto& grad = argument(op, stack, "grad_output").toTensor();
  if (input_type.toScalarType() == grad.scalar_type()) return run_on_cpu(op, stack);
  const auto target = (*stack).back().toTensor();  // grad_input, or out: the last argument
  input_type = grad.scalar_type();
  const auto wide = at::empty(target.sizes(), grad.options());
  (*stack).back() = wide;
  run_on_cpu(op, stack);
  target.copy_(wide);
  (*stack).back() = target;
}

template <c10::BoxedKernel::BoxedKernelFunction* function>
void cast(torch::Library& m, std::initializer_list<const char*> names) {
  for (const char* name : names) m.impl(name, torch::CppFunction::makeFromBoxedFunction<function>());
}

const std::initializer_list<const char*> kTransforms = {"fft_fft",  "fft_ifft",  "fft_rfft",  "fft_irfft",  "fft_hfft",  "fft_ihfft",
                                                        "fft_fft2", "fft_ifft2", "fft_rfft2", "fft_irfft2", "fft_hfft2", "fft_ihfft2",
                                                        "fft_fftn", "fft_ifftn", "fft_rfftn", "fft_irfftn", "fft_hfftn", "fft_ihfftn"};

}  // namespace

TORCH_LIBRARY_IMPL(aten, AutogradPrivateUse1, m) { cast<&transform>(m, kTransforms); }  // above autograd: it sees the casts

TORCH_LIBRARY_IMPL(aten, PrivateUse1, m) {
  cast<&long_target>(
      m, {"nll_loss_forward", "nll_loss_forward.output", "nll_loss_backward", "nll_loss_backward.grad_input", "nll_loss2d_forward",
          "nll_loss2d_forward.output", "nll_loss2d_backward", "nll_loss2d_backward.grad_input", "multi_margin_loss",
          "multi_margin_loss.out", "multi_margin_loss_backward", "multi_margin_loss_backward.grad_input"});
  cast<&long_self>(m, {"one_hot"});
  cast<&long_index>(m, {"put_"});
  cast<&in_float>(m, {"avg_pool3d.out",
                      "avg_pool3d_backward.grad_input",
                      "_cdist_forward",
                      "_cdist_backward",
                      "_pdist_forward",
                      "_pdist_backward",
                      "linalg_inv_ex",
                      "linalg_inv_ex.inverse",
                      "multilabel_margin_loss_forward",
                      "multilabel_margin_loss_forward.output",
                      "multilabel_margin_loss_backward",
                      "multilabel_margin_loss_backward.grad_input",
                      "_upsample_bilinear2d_aa.out",
                      "_upsample_bilinear2d_aa_backward.grad_input",
                      "_upsample_bicubic2d_aa.out",
                      "_upsample_bicubic2d_aa_backward.grad_input",
                      "_fft_r2c",
                      "_fft_r2c.out",
                      "_fft_c2r",
                      "_fft_c2r.out",
                      "_fft_c2c",
                      "_fft_c2c.out"});
  cast<&integers_in_float>(m, {"hardsigmoid.out"});
  cast<&layer_norm_backward>(m, {"native_layer_norm_backward"});
  cast<&float_self>(m, {"quantize_per_tensor", "quantize_per_tensor.tensor_qparams", "quantize_per_tensor_dynamic"});
  cast<&transform>(m, kTransforms);
  cast<&softmax>(m, {"_softmax", "_softmax.out", "_log_softmax", "_log_softmax.out"});
  cast<&softmax_backward>(m, {"_softmax_backward_data.out", "_log_softmax_backward_data.out"});
}

}  // namespace softnpu
