// Operators that go to the CPU's kernel as they are called, before torch takes them apart.
#include "aten/on_cpu.h"

#include <torch/library.h>

namespace softnpu {

namespace {

// clang-format off: names, several to a line

// torch would compute them otherwise, or not at all, on a device it does not know.
constexpr const char* kOtherwise[] = {
    "_stack", "_stack.out", "any.dims", "any.dims_out", "all.dims", "all.dims_out", "native_layer_norm", "native_group_norm",
    "addr", "addr.out", "mish_backward", "silu_backward", "native_channel_shuffle", "pixel_shuffle", "pixel_unshuffle",
    "conj_physical_", "mode.values", "binary_cross_entropy_with_logits",
};

// torch would plan them twice: for the result's shape, then again for `out=`. That is half of what a small call costs.
constexpr const char* kOften[] = {
    "add.Tensor", "add_.Tensor", "sub.Tensor", "sub_.Tensor", "mul.Tensor", "mul_.Tensor", "div.Tensor", "div_.Tensor",
    "pow.Tensor_Scalar", "addcmul", "addcmul_", "addcdiv", "addcdiv_", "maximum", "minimum", "clamp",
    "clamp_", "clamp_min", "clamp_max", "neg", "neg_", "exp", "exp_", "log", "sqrt", "sqrt_", "rsqrt", "reciprocal", "sin", "cos",
    "erf", "floor", "ceil", "round", "sign", "eq.Tensor", "eq.Scalar", "ne.Tensor", "ne.Scalar", "lt.Tensor", "lt.Scalar",
    "le.Tensor", "le.Scalar", "gt.Tensor", "gt.Scalar", "ge.Tensor", "ge.Scalar", "bitwise_and.Tensor", "bitwise_or.Tensor",
    "bitwise_not", "tril", "triu", "mm", "addmm", "addmm_", "bmm", "baddbmm", "sum.dim_IntList", "mean.dim", "amax",
    "amin", "max.dim", "min.dim", "argmax", "argmin", "any", "all", "any.dim", "all.dim", "cumsum", "topk", "sort.stable",
    "linalg_vector_norm", "cat", "gather", "scatter.src", "scatter.value", "scatter_add", "index.Tensor", "index_add", "sigmoid",
    "sigmoid_", "tanh", "tanh_", "silu", "silu_", "gelu", "leaky_relu", "leaky_relu_", "elu", "softplus", "mish",
    "threshold", "sigmoid_backward", "tanh_backward", "gelu_backward", "threshold_backward", "leaky_relu_backward", "mse_loss",
    "smooth_l1_loss", "avg_pool2d", "avg_pool2d_backward", "max_pool2d_with_indices", "max_pool2d_with_indices_backward",
    "upsample_nearest2d", "upsample_bilinear2d",
};

// clang-format on

}  // namespace

TORCH_LIBRARY_IMPL(aten, PrivateUse1, m) {
  for (const char* name : kOtherwise) m.impl(name, torch::CppFunction::makeFromBoxedFunction<&run_on_cpu>());
  for (const char* name : kOften) m.impl(name, torch::CppFunction::makeFromBoxedFunction<&run_on_cpu>());
}

}  // namespace softnpu
