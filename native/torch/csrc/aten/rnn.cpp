// The cells of LSTM and GRU: torch asks devices other than the CPU for fused ones, which the CPU does not have.
#include "aten/on_cpu.h"
#include "device/errors.h"

#include <ATen/ATen.h>
#include <ATen/ops/_pack_padded_sequence_native.h>
#include <torch/library.h>

namespace softnpu {

namespace {

using Optional = std::optional<at::Tensor>;

bool given(const Optional& tensor) { return tensor.has_value() && tensor->defined(); }

// torch's own callers have checked; who calls the operator itself may not have.
void check_gates(const at::Tensor& gates, const at::Tensor& state, int64_t count, const char* what) {
  TORCH_CHECK(gates.dim() == 2 && state.dim() == 2 && gates.size(0) == state.size(0) && gates.size(1) == count * state.size(1), what,
              " of shape ", gates.sizes(), " does not fit a state of shape ", state.sizes(), ": it must be [batch, ", count, " * hidden]",
              ops_error(ErrCode::kParam));
}

// Gates before their activations, with both biases.
at::Tensor sum_of_gates(OnCpu& cpu, const at::Tensor& input, const at::Tensor& hidden, const Optional& input_bias,
                        const Optional& hidden_bias) {
  auto gates = cpu(input).add(cpu(hidden));
  if (given(input_bias)) gates.add_(cpu(*input_bias)).add_(cpu(*hidden_bias));
  return gates;
}

// A gradient that is not there counts as zero.
at::Tensor or_zeros(OnCpu& cpu, const Optional& gradient, const at::Tensor& like) {
  return given(gradient) ? cpu(*gradient) : at::zeros_like(like);
}

std::tuple<at::Tensor, at::Tensor, at::Tensor> lstm_cell(const at::Tensor& input, const at::Tensor& hidden, const at::Tensor& cx,
                                                         const Optional& input_bias, const Optional& hidden_bias) {
  for (const auto* one : {&input, &hidden}) check_gates(*one, cx, 4, "gates");
  OnCpu cpu(input);
  auto gates = sum_of_gates(cpu, input, hidden, input_bias, hidden_bias);
  auto parts = gates.chunk(4, 1);  // in, forget, candidate, out: activated in place, what backward needs
  parts[0].sigmoid_();
  parts[1].sigmoid_();
  parts[2].tanh_();
  parts[3].sigmoid_();
  auto cy = parts[1].mul(cpu(cx)).addcmul_(parts[0], parts[2]);
  auto hy = cy.tanh().mul_(parts[3]);
  return {cpu.back(hy), cpu.back(cy), cpu.back(gates)};
}

std::tuple<at::Tensor, at::Tensor, at::Tensor> lstm_cell_backward(const Optional& grad_hy, const Optional& grad_cy, const at::Tensor& cx,
                                                                  const at::Tensor& cy, const at::Tensor& workspace, bool has_bias) {
  if (!given(grad_hy) && !given(grad_cy)) return {};
  check_gates(workspace, cx, 4, "workspace");
  OnCpu cpu(workspace);
  const auto state = cpu(cx);
  const auto parts = cpu(workspace).chunk(4, 1);
  const auto shown = cpu(cy).tanh();
  const auto from_hy = or_zeros(cpu, grad_hy, state);
  auto grad = or_zeros(cpu, grad_cy, state).add(from_hy.mul(parts[3]).mul_(1 - shown.square()));
  auto gates = at::cat({grad.mul(parts[2]).mul_(parts[0]).mul_(1 - parts[0]), grad.mul(state).mul_(parts[1]).mul_(1 - parts[1]),
                        grad.mul(parts[0]).mul_(1 - parts[2].square()), from_hy.mul(shown).mul_(parts[3]).mul_(1 - parts[3])},
                       1);
  auto bias = has_bias ? gates.sum(0) : at::Tensor();
  grad.mul_(parts[1]);
  return {cpu.back(gates), cpu.back(grad), cpu.back(bias)};
}

std::tuple<at::Tensor, at::Tensor> gru_cell(const at::Tensor& input, const at::Tensor& hidden, const at::Tensor& hx,
                                            const Optional& input_bias, const Optional& hidden_bias) {
  for (const auto* one : {&input, &hidden}) check_gates(*one, hx, 3, "gates");
  OnCpu cpu(input);
  auto from_input = cpu(input), from_hidden = cpu(hidden);
  if (given(input_bias)) {
    from_input = from_input.add(cpu(*input_bias));
    from_hidden = from_hidden.add(cpu(*hidden_bias));
  }
  const auto in = from_input.chunk(3, 1), hid = from_hidden.chunk(3, 1);
  const auto state = cpu(hx);
  auto reset = in[0].add(hid[0]).sigmoid_();
  auto update = in[1].add(hid[1]).sigmoid_();
  auto candidate = in[2].addcmul(reset, hid[2]).tanh_();
  auto hy = candidate.add(state.sub(candidate).mul_(update));
  auto workspace = at::cat({reset, update, candidate, state, hid[2]}, 1);
  return {cpu.back(hy), cpu.back(workspace)};
}

using Five = std::tuple<at::Tensor, at::Tensor, at::Tensor, at::Tensor, at::Tensor>;

Five gru_cell_backward(const at::Tensor& grad_hy, const at::Tensor& workspace, bool has_bias) {
  check_gates(workspace, grad_hy, 5, "workspace");
  OnCpu cpu(workspace);
  const auto grad = cpu(grad_hy);
  const auto parts = cpu(workspace).chunk(5, 1);
  const auto &reset = parts[0], &update = parts[1], &candidate = parts[2], &state = parts[3], &hidden = parts[4];
  const auto of_update = grad.mul(state - candidate).mul_(update).mul_(1 - update);
  const auto of_candidate = grad.mul(1 - update).mul_(1 - candidate.square());
  const auto of_reset = of_candidate.mul(hidden).mul_(reset).mul_(1 - reset);
  auto input_gates = at::cat({of_reset, of_update, of_candidate}, 1);
  auto hidden_gates = at::cat({of_reset, of_update, of_candidate.mul(reset)}, 1);
  auto input_bias = has_bias ? input_gates.sum(0) : at::Tensor();
  auto hidden_bias = has_bias ? hidden_gates.sum(0) : at::Tensor();
  auto of_state = grad.mul(update);
  return {cpu.back(input_gates), cpu.back(hidden_gates), cpu.back(of_state), cpu.back(input_bias), cpu.back(hidden_bias)};
}

// NPU programs may hold the lengths on the device; the rest of torch wants them on the host.
std::tuple<at::Tensor, at::Tensor> pack_padded_sequence(const at::Tensor& input, const at::Tensor& lengths, bool batch_first) {
  return at::native::_pack_padded_sequence(input, lengths.cpu(), batch_first);
}

}  // namespace

TORCH_LIBRARY_IMPL(aten, PrivateUse1, m) {
  m.impl("_thnn_fused_lstm_cell", lstm_cell);
  m.impl("_thnn_fused_lstm_cell_backward_impl", lstm_cell_backward);
  m.impl("_thnn_fused_gru_cell", gru_cell);
  m.impl("_thnn_fused_gru_cell_backward", gru_cell_backward);
  m.impl("_pack_padded_sequence", pack_padded_sequence);
}

}  // namespace softnpu
