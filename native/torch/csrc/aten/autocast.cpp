// torch.autocast("npu"): which operators compute in half precision, which in float32, which in the widest type of their arguments.
#include <ATen/ATen.h>
#include <ATen/Operators.h>
#include <ATen/autocast_mode.h>
#include <torch/library.h>

namespace softnpu {

namespace {

using namespace at;
using namespace at::autocast;

#define SOFTNPU_LOWER(...) KERNEL_PRIVATEUSEONE(__VA_ARGS__, lower_precision_fp)
#define SOFTNPU_FLOAT(...) KERNEL_PRIVATEUSEONE(__VA_ARGS__, fp32)
#define SOFTNPU_FLOAT_DTYPE(...) KERNEL_PRIVATEUSEONE(__VA_ARGS__, fp32_set_opt_dtype)
#define SOFTNPU_WIDEST(...) KERNEL_PRIVATEUSEONE(__VA_ARGS__, promote)

void half_precision(torch::Library& m) {
  SOFTNPU_LOWER(_convolution, deprecated)
  SOFTNPU_LOWER(_convolution)
  SOFTNPU_LOWER(conv1d)
  SOFTNPU_LOWER(conv2d)
  SOFTNPU_LOWER(conv3d)
  SOFTNPU_LOWER(conv_tbc)
  SOFTNPU_LOWER(conv_transpose1d)
  SOFTNPU_LOWER(conv_transpose2d, input)
  SOFTNPU_LOWER(conv_transpose3d, input)
  SOFTNPU_LOWER(convolution)
  SOFTNPU_LOWER(prelu)
  SOFTNPU_LOWER(addmm)
  SOFTNPU_LOWER(addmv)
  SOFTNPU_LOWER(addr)
  SOFTNPU_LOWER(matmul)
  SOFTNPU_LOWER(einsum)
  SOFTNPU_LOWER(mm)
  SOFTNPU_LOWER(mv)
  SOFTNPU_LOWER(linear)
  SOFTNPU_LOWER(addbmm)
  SOFTNPU_LOWER(baddbmm)
  SOFTNPU_LOWER(bmm)
  SOFTNPU_LOWER(chain_matmul)
  SOFTNPU_LOWER(linalg_multi_dot)
  SOFTNPU_LOWER(_thnn_fused_lstm_cell)
  SOFTNPU_LOWER(_thnn_fused_gru_cell)
  SOFTNPU_LOWER(lstm_cell)
  SOFTNPU_LOWER(gru_cell)
  SOFTNPU_LOWER(rnn_tanh_cell)
  SOFTNPU_LOWER(rnn_relu_cell)
  SOFTNPU_LOWER(scaled_dot_product_attention)
}

void single_precision(torch::Library& m) {
  SOFTNPU_FLOAT(acos)
  SOFTNPU_FLOAT(asin)
  SOFTNPU_FLOAT(cosh)
  SOFTNPU_FLOAT(erfinv)
  SOFTNPU_FLOAT(exp)
  SOFTNPU_FLOAT(expm1)
  SOFTNPU_FLOAT(log)
  SOFTNPU_FLOAT(log10)
  SOFTNPU_FLOAT(log2)
  SOFTNPU_FLOAT(log1p)
  SOFTNPU_FLOAT(reciprocal)
  SOFTNPU_FLOAT(rsqrt)
  SOFTNPU_FLOAT(sinh)
  SOFTNPU_FLOAT(tan)
  SOFTNPU_FLOAT(pow, Tensor_Scalar)
  SOFTNPU_FLOAT(pow, Tensor_Tensor)
  SOFTNPU_FLOAT(pow, Scalar)
  SOFTNPU_FLOAT(softplus)
  SOFTNPU_FLOAT(layer_norm)
  SOFTNPU_FLOAT(native_layer_norm)
  SOFTNPU_FLOAT(group_norm)
  SOFTNPU_FLOAT(frobenius_norm, dim)
  SOFTNPU_FLOAT(nuclear_norm)
  SOFTNPU_FLOAT(nuclear_norm, dim)
  SOFTNPU_FLOAT(cosine_similarity)
  SOFTNPU_FLOAT(dist)
  SOFTNPU_FLOAT(pdist)
  SOFTNPU_FLOAT(cdist)
  SOFTNPU_FLOAT(renorm)
  SOFTNPU_FLOAT(logsumexp)
}

void losses(torch::Library& m) {
  SOFTNPU_FLOAT(poisson_nll_loss)
  SOFTNPU_FLOAT(cosine_embedding_loss)
  SOFTNPU_FLOAT(nll_loss)
  SOFTNPU_FLOAT(nll_loss2d)
  SOFTNPU_FLOAT(hinge_embedding_loss)
  SOFTNPU_FLOAT(kl_div)
  SOFTNPU_FLOAT(l1_loss)
  SOFTNPU_FLOAT(smooth_l1_loss)
  SOFTNPU_FLOAT(huber_loss)
  SOFTNPU_FLOAT(mse_loss)
  SOFTNPU_FLOAT(margin_ranking_loss)
  SOFTNPU_FLOAT(multilabel_margin_loss)
  SOFTNPU_FLOAT(soft_margin_loss)
  SOFTNPU_FLOAT(triplet_margin_loss)
  SOFTNPU_FLOAT(multi_margin_loss)
  SOFTNPU_FLOAT(binary_cross_entropy_with_logits)
}

void single_precision_result(torch::Library& m) {
  SOFTNPU_FLOAT_DTYPE(prod)
  SOFTNPU_FLOAT_DTYPE(prod, dim_int)
  SOFTNPU_FLOAT_DTYPE(softmax, int)
  SOFTNPU_FLOAT_DTYPE(log_softmax, int)
  SOFTNPU_FLOAT_DTYPE(cumprod)
  SOFTNPU_FLOAT_DTYPE(cumsum)
  SOFTNPU_FLOAT_DTYPE(linalg_vector_norm)
  SOFTNPU_FLOAT_DTYPE(linalg_matrix_norm)
  SOFTNPU_FLOAT_DTYPE(linalg_matrix_norm, str_ord)
  SOFTNPU_FLOAT_DTYPE(sum)
  SOFTNPU_FLOAT_DTYPE(sum, dim_IntList)
}

void widest(torch::Library& m) {
  SOFTNPU_WIDEST(addcdiv)
  SOFTNPU_WIDEST(addcmul)
  SOFTNPU_WIDEST(atan2)
  SOFTNPU_WIDEST(bilinear)
  SOFTNPU_WIDEST(cross)
  SOFTNPU_WIDEST(dot)
  SOFTNPU_WIDEST(grid_sampler)
  SOFTNPU_WIDEST(index_put)
  SOFTNPU_WIDEST(tensordot)
  SOFTNPU_WIDEST(scatter_add)
  KERNEL_PRIVATEUSEONE(stack, promote)
  KERNEL_PRIVATEUSEONE(cat, promote)
}

Tensor no_cross_entropy(const Tensor&, const Tensor&, const std::optional<Tensor>&, int64_t) {
  TORCH_CHECK(false,
              "torch.nn.functional.binary_cross_entropy and torch.nn.BCELoss are unsafe to autocast.\n"
              "Many models use a sigmoid layer right before the binary cross entropy layer.\n"
              "In this case, combine the two layers using torch.nn.functional.binary_cross_entropy_with_logits\n"
              "or torch.nn.BCEWithLogitsLoss.  binary_cross_entropy_with_logits and BCEWithLogits are\n"
              "safe to autocast.");
}

}  // namespace

TORCH_LIBRARY_IMPL(_, AutocastPrivateUse1, m) { m.fallback(torch::CppFunction::makeFallthrough()); }

TORCH_LIBRARY_IMPL(aten, AutocastPrivateUse1, m) {
  half_precision(m);
  single_precision(m);
  losses(m);
  single_precision_result(m);
  widest(m);
  AT_FORALL_DIFFERENT_REDISPATCH_SIGNATURE(KERNEL_DIFFERENT_REDISPATCH_SIGNATURE_PRIVATEUSEONE)
  m.impl(TORCH_SELECTIVE_NAME("aten::binary_cross_entropy"), TORCH_FN(no_cross_entropy));
}

}  // namespace softnpu
