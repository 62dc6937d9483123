// The pieces of batch normalization that SyncBatchNorm puts together over several devices: the CPU has no kernels for them.
#include "aten/on_cpu.h"

#include <ATen/ATen.h>
#include <torch/library.h>

namespace softnpu {

namespace {

using Optional = std::optional<at::Tensor>;

// All dimensions except the channels.
std::vector<int64_t> other_dims(const at::Tensor& input) {
  std::vector<int64_t> dims{0};
  for (int64_t i = 2; i < input.dim(); ++i) dims.push_back(i);
  return dims;
}

at::ScalarType exact(const at::Tensor& input) { return input.scalar_type() == at::kDouble ? at::kDouble : at::kFloat; }

// One value per channel, ready to meet the input.
at::Tensor per_channel(const at::Tensor& values, const at::Tensor& input) {
  std::vector<int64_t> shape(input.dim(), 1);
  shape[1] = -1;
  return values.to(exact(input)).view(shape);
}

std::tuple<at::Tensor, at::Tensor> stats(const at::Tensor& input, double eps) {
  OnCpu cpu(input);
  const auto values = cpu(input).to(exact(input));
  auto [variance, mean] = at::var_mean(values, at::IntArrayRef(other_dims(input)), false);
  auto invstd = variance.add(eps).rsqrt_();
  return {cpu.back(mean), cpu.back(invstd)};
}

at::Tensor normalize(const at::Tensor& input, const Optional& weight, const Optional& bias, const at::Tensor& mean,
                     const at::Tensor& invstd, double) {
  OnCpu cpu(input);
  const auto values = cpu(input);
  auto result = values.to(exact(input)).sub(per_channel(cpu(mean), values)).mul_(per_channel(cpu(invstd), values));
  if (const auto scale = cpu(weight)) result.mul_(per_channel(*scale, values));
  if (const auto shift = cpu(bias)) result.add_(per_channel(*shift, values));
  return cpu.back(result.to(values.scalar_type()));
}

at::Tensor& normalize_out(const at::Tensor& input, const Optional& weight, const Optional& bias, const at::Tensor& mean,
                          const at::Tensor& invstd, double eps, at::Tensor& out) {
  return out.resize_(input.sizes()).copy_(normalize(input, weight, bias, mean, invstd, eps));
}

void move_average(const std::optional<at::Tensor>& running, const at::Tensor& now, double momentum) {
  if (running) running->copy_(running->mul(1 - momentum).add_(now, momentum));
}

// Statistics of all devices out of those of each: rows of `mean` and `invstd` belong to devices.
std::tuple<at::Tensor, at::Tensor> gather(const at::Tensor& input, const at::Tensor& mean, const at::Tensor& invstd,
                                          const Optional& running_mean, const Optional& running_var, double momentum, double eps,
                                          const at::Tensor& counts) {
  OnCpu cpu(input);
  const auto means = cpu(mean), each = cpu(counts).to(means.scalar_type()).view({-1, 1});
  const auto total = each.sum();
  auto all_mean = means.mul(each).sum(0).div_(total);
  const auto variance = cpu(invstd).pow(-2).sub_(eps).add_(means.sub(all_mean).square_()).mul_(each).sum(0).div_(total);
  move_average(cpu(running_mean), all_mean, momentum);
  move_average(cpu(running_var), variance.mul(total / (total - 1)), momentum);
  auto all_invstd = variance.add(eps).rsqrt_();
  return {cpu.back(all_mean), cpu.back(all_invstd)};
}

std::tuple<at::Tensor, at::Tensor> gather_equal(const at::Tensor& input, const at::Tensor& mean, const at::Tensor& invstd,
                                                const Optional& running_mean, const Optional& running_var, double momentum, double eps,
                                                int64_t count) {
  return gather(input, mean, invstd, running_mean, running_var, momentum, eps, at::full({mean.size(0)}, count, mean.options()));
}

std::tuple<at::Tensor, at::Tensor> update_stats(const at::Tensor& input, const Optional& running_mean, const Optional& running_var,
                                                double momentum) {
  OnCpu cpu(input);
  const auto values = cpu(input).to(exact(input));
  const double count = static_cast<double>(input.numel()) / static_cast<double>(input.size(1));
  auto [variance, mean] = at::var_mean(values, at::IntArrayRef(other_dims(input)), false);
  move_average(cpu(running_mean), mean, momentum);
  move_average(cpu(running_var), variance.mul(count / (count - 1)), momentum);
  return {cpu.back(mean), cpu.back(variance)};
}

std::tuple<at::Tensor, at::Tensor, at::Tensor, at::Tensor> backward_reduce(const at::Tensor& grad, const at::Tensor& input,
                                                                           const at::Tensor& mean, const at::Tensor& invstd,
                                                                           const Optional& weight, bool input_g, bool weight_g,
                                                                           bool bias_g) {
  OnCpu cpu(input);
  const auto values = cpu(input), gradient = cpu(grad).to(exact(input));
  const auto dims = other_dims(input);
  auto sum = gradient.sum(dims);
  auto weighted = values.to(exact(input)).sub(per_channel(cpu(mean), values)).mul_(gradient).sum(dims);
  const auto scale = cpu(weight);
  const auto type = scale ? scale->scalar_type() : values.scalar_type();
  auto of_weight = weight_g ? weighted.mul(cpu(invstd)).to(type) : at::Tensor();
  auto of_bias = bias_g ? sum.to(type, false, true) : at::Tensor();
  const auto back = [&](const at::Tensor& tensor, bool wanted) { return wanted ? cpu.back(tensor) : at::Tensor(); };
  return {back(sum, input_g), back(weighted, input_g), back(of_weight, weight_g), back(of_bias, bias_g)};
}

at::Tensor backward_normalize(const at::Tensor& grad, const at::Tensor& input, const at::Tensor& mean, const at::Tensor& invstd,
                              const Optional& weight, const at::Tensor& sum_dy, const at::Tensor& sum_dy_xmu, const at::Tensor& count) {
  OnCpu cpu(input);
  const auto values = cpu(input), scale = cpu(invstd);
  const auto total = cpu(count).sum().to(exact(input));
  const auto slope = cpu(sum_dy_xmu).div(total).mul_(scale.square());
  auto result = values.to(exact(input)).sub(per_channel(cpu(mean), values)).mul_(per_channel(slope, values)).neg_();
  result.add_(cpu(grad)).sub_(per_channel(cpu(sum_dy).div(total), values)).mul_(per_channel(scale, values));
  if (const auto factor = cpu(weight)) result.mul_(per_channel(*factor, values));
  return cpu.back(result.to(values.scalar_type()));
}

}  // namespace

TORCH_LIBRARY_IMPL(aten, PrivateUse1, m) {
  m.impl("batch_norm_stats", stats);
  m.impl("batch_norm_elemt", normalize);
  m.impl("batch_norm_elemt.out", normalize_out);
  m.impl("batch_norm_gather_stats", gather_equal);
  m.impl("batch_norm_gather_stats_with_counts", gather);
  m.impl("batch_norm_update_stats", update_stats);
  m.impl("batch_norm_backward_reduce", backward_reduce);
  m.impl("batch_norm_backward_elemt", backward_normalize);
}

}  // namespace softnpu
