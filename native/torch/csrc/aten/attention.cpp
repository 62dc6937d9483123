// Attention of a problem whose scores are one block: as few calls and passes over them as torch's kernels allow. Larger problems, and
// those with dropout, biases or sinks, are for torch_npu/operators/attention/core.py, which takes such a problem apart.
#include "aten/on_cpu.h"
#include "aten/softmax_rows.h"

#include <ATen/ATen.h>
#include <torch/csrc/utils/pybind.h>

#include <limits>

namespace py = pybind11;

namespace softnpu {

namespace {

using Optional = std::optional<at::Tensor>;

// [key heads, rows of all query heads that share one, width]
at::Tensor grouped(const at::Tensor& x, const at::Tensor& key) {
  const auto heads = key.size(0) * key.size(1);
  return x.reshape({heads, x.size(0) * x.size(1) / heads * x.size(2), x.size(3)});
}

at::Tensor flat(const at::Tensor& x) { return x.reshape({x.size(0) * x.size(1), x.size(2), x.size(3)}); }

// alpha * left @ right into new memory.
at::Tensor product(const at::Tensor& left, const at::Tensor& right, double alpha) {
  auto made = at::empty({left.size(0), left.size(1), right.size(2)}, left.options());
  return made.baddbmm_(left, right, 0, alpha);
}

// Scores become probabilities; `bias` is [rows, columns], 0 and -inf.
void normalise(const at::Tensor& scores, const at::Tensor& bias, const at::Tensor& top, const at::Tensor& total) {
  const auto columns = scores.size(-1);
  const Rows rows{scores.numel() / columns,
                  columns,
                  bias.defined() ? bias.data_ptr<float>() : nullptr,
                  bias.defined() ? bias.size(0) : 1,
                  top.data_ptr<float>(),
                  total.data_ptr<float>()};
  if (scores.scalar_type() == at::kFloat) return softmax_rows(scores.data_ptr<float>(), rows);
  softmax_rows(scores.data_ptr<c10::BFloat16>(), rows);
}

// Softmax of the last dimension in place, of float32 or bfloat16; maxima and sums.
std::vector<at::Tensor> softmax_of_rows(const at::Tensor& scores) {
  py::gil_scoped_release no_python;
  OnCpu cpu(scores);
  const auto x = cpu(scores);
  TORCH_CHECK(x.is_contiguous() && x.numel() > 0, "softmax_of_rows takes contiguous scores, not ", scores.sizes());
  auto shape = x.sizes().vec();
  shape.back() = 1;
  const auto top = at::empty(shape, x.options().dtype(at::kFloat)), total = at::empty_like(top);
  normalise(x, {}, top, total);
  return {cpu.back(top), cpu.back(total)};
}

// Output, maxima and sums of the rows, probabilities; float32 and bfloat16. `mask` is [rows, columns], true where a column is hidden.
std::vector<at::Tensor> attention_block(const at::Tensor& query, const at::Tensor& key, const at::Tensor& value, double scale,
                                        const Optional& mask) {
  py::gil_scoped_release no_python;
  OnCpu cpu(query);
  const auto q = cpu(query), k = cpu(key), v = cpu(value);
  auto scores = product(grouped(q, k), flat(k).mT(), scale);
  const std::array<int64_t, 3> rows{q.size(0), q.size(1), q.size(2)};
  auto top = at::empty(rows, q.options().dtype(at::kFloat)), total = at::empty_like(top);
  at::Tensor bias;  // exactly 0 and -inf: adding is faster than choosing
  if (mask) bias = cpu(*mask).to(at::kFloat).mul_(std::numeric_limits<float>::lowest()).mul_(2.0).contiguous();
  normalise(scores, bias, top, total);
  auto out = at::bmm(scores, flat(v)).view({q.size(0), q.size(1), q.size(2), v.size(3)});
  return {cpu.back(out), cpu.back(top), cpu.back(total), cpu.back(scores)};
}

// In the memory order of the input that it is the gradient of.
at::Tensor laid_out_as(const at::Tensor& given, const at::Tensor& made) {
  const auto seen = made.view(given.sizes());
  return given.is_contiguous() ? seen : at::empty_like(given).copy_(seen);
}

std::vector<at::Tensor> attention_block_backward(const at::Tensor& query, const at::Tensor& key, const at::Tensor& value,
                                                 const at::Tensor& probabilities, const at::Tensor& grad, double scale) {
  py::gil_scoped_release no_python;
  OnCpu cpu(query);
  const auto q = cpu(query), k = cpu(key), v = cpu(value), shares = cpu(probabilities);
  const auto dy = grouped(cpu(grad), k);
  auto scores = product(dy, flat(v).mT(), 1);
  at::_softmax_backward_data_out(scores, scores, shares, -1, q.scalar_type());
  const auto dq = product(scores, flat(k), scale), dk = product(scores.mT(), grouped(q, k), scale), dv = at::bmm(shares.mT(), dy);
  return {cpu.back(laid_out_as(q, dq)), cpu.back(laid_out_as(k, dk)), cpu.back(laid_out_as(v, dv))};
}

}  // namespace

void bind_attention(py::module& m) {
  m.def("_attention_block", &attention_block);
  m.def("_softmax_of_rows", &softmax_of_rows);
  m.def("_attention_block_backward", &attention_block_backward);
  m.def("_no_rules_of_a_chip", [] { return strict() == 0; });
}

}  // namespace softnpu
