"""GRU in the device's own layout, step by step, and the multi-layer forms of both kinds, which torch computes itself."""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor

from torch_npu.operators.common.arguments import gradients, require, unsupported
from torch_npu.operators.recurrent._steps import check_one_layer, hold, of_sequence, stacked, step_mask

Six = tuple[Tensor, Tensor, Tensor, Tensor, Tensor, Tensor]


def _gru_steps(
    x: Tensor,
    hx: Tensor,
    weight_input: Tensor,
    weight_hidden: Tensor,
    bias_input: Tensor | None,
    bias_hidden: Tensor | None,
    mask: Tensor | None,
) -> Six:
    """x [T, B, I], weights [I, 3H] and [H, 3H] with the gates reset, update, new; all outputs are [T, B, H]."""
    size = hx.shape[-1]
    for what, weight, inputs in (("input", weight_input, x.shape[-1]), ("hidden", weight_hidden, size)):
        require(
            weight.shape == (inputs, 3 * size),
            f"npu_gru: weight_{what} must be [{inputs}, {3 * size}], not {tuple(weight.shape)}",
        )
    from_input = x @ weight_input if bias_input is None else x @ weight_input + bias_input
    h = hx.reshape(hx.shape[-2:])
    kept = {}
    for step in range(len(x)):
        from_hidden = h @ weight_hidden if bias_hidden is None else h @ weight_hidden + bias_hidden
        fed, held = from_input[step].chunk(3, -1), from_hidden.chunk(3, -1)
        reset, update = (fed[0] + held[0]).sigmoid(), (fed[1] + held[1]).sigmoid()
        new = (fed[2] + reset * held[2]).tanh()
        after = new + update * (h - new)
        here = None if mask is None else mask[step]
        h = hold(after, h, here)
        kept[step] = (hold(after, torch.zeros_like(after), here), h, update, reset, new, held[2])
    y, hs, updates, resets, news, hidden_news = stacked(kept)
    return y, hs, updates, resets, news, hidden_news


def _gru_mask(seq_length: Tensor, x: Tensor) -> Tensor | None:
    """No entries: all sequences are as long as the input."""
    return step_mask(seq_length, x.shape[0], x.shape[1], "npu_gru: seq_length") if seq_length.numel() else None


def npu_gru(
    input: Tensor,
    hx: Tensor,
    weight_input: Tensor,
    weight_hidden: Tensor,
    bias_input: Tensor,
    bias_hidden: Tensor,
    seq_length: Tensor,
    has_biases: bool,
    num_layers: int,
    dropout: float,
    train: bool,
    bidirectional: bool,
    batch_first: bool,
) -> Six:
    """y, h, update, reset, new and the hidden part of new. Training or not, it is the same."""
    check_one_layer("npu_gru", num_layers, dropout, bidirectional)
    x = input.transpose(0, 1) if batch_first else input
    b_i, b_h = (bias_input, bias_hidden) if has_biases else (None, None)
    y, h, update, reset, new, hidden_new = _gru_steps(
        x, hx, weight_input, weight_hidden, b_i, b_h, _gru_mask(seq_length, x)
    )
    return y.transpose(0, 1) if batch_first else y, h, update, reset, new, hidden_new


def npu_gru_backward(
    grady: Tensor | None,
    gradh: Tensor | None,
    input: Tensor,
    weight_input: Tensor,
    weight_hidden: Tensor,
    bias_input: Tensor,
    bias_hidden: Tensor,
    seq_length: Tensor,
    hx: Tensor,
    y_output: Tensor,
    h_output: Tensor,
    output_updata: Tensor,
    output_reset: Tensor,
    output_new: Tensor,
    hidden_new: Tensor,
) -> Six:
    """Gradients of input, both weights, both biases and hx. The steps are done again, so the gates are not looked at."""
    mask = _gru_mask(seq_length, input)

    def forward(x: Tensor, w_i: Tensor, w_h: Tensor, b_i: Tensor, b_h: Tensor, h: Tensor) -> tuple[Tensor, ...]:
        return _gru_steps(x, h, w_i, w_h, b_i, b_h, mask)[:2]

    grads = [of_sequence(grad, like, -1) for grad, like in ((grady, y_output), (gradh, h_output))]
    leaves = (input, weight_input, weight_hidden, bias_input, bias_hidden, hx)
    dx, dw_i, dw_h, db_i, db_h, dh = gradients(forward, grads, *leaves)
    return dx, dw_i, dw_h, db_i, db_h, dh


def _thnn_fused_gru_cell(
    input_gates: Tensor,
    hidden_gates: Tensor,
    hx: Tensor,
    input_bias: Tensor | None = None,
    hidden_bias: Tensor | None = None,
) -> tuple[Tensor, Tensor]:
    results: tuple[Tensor, Tensor] = torch.ops.aten._thnn_fused_gru_cell(
        input_gates, hidden_gates, hx, input_bias, hidden_bias
    )
    return results


def _layers(
    kind: Callable[..., tuple[Tensor, ...]],
    input: Tensor,
    hx: Tensor | list[Tensor],
    params: list[Tensor],
    options: tuple[bool, int, float, bool, bool],
    batch_first: bool | None,
    batch_sizes: Tensor | None,
) -> tuple[Tensor, ...]:
    if batch_sizes is None:
        return kind(input, hx, params, *options, bool(batch_first))
    return kind(input, batch_sizes.cpu(), hx, params, *options)


def _lstm_npu(
    input: Tensor,
    hx: list[Tensor],
    params: list[Tensor],
    has_biases: bool,
    num_layers: int,
    dropout: float,
    train: bool,
    bidirectional: bool,
    *,
    batch_first: bool | None = False,
    batch_sizes: Tensor | None = None,
) -> tuple[Tensor, ...]:
    """y, h, c; the seven saved gates are empty, because `_lstm_npu_backward` computes what it needs itself."""
    options = (has_biases, num_layers, dropout, train, bidirectional)
    results = _layers(torch._VF.lstm, input, list(hx), list(params), options, batch_first, batch_sizes)
    return (*results, *(input.new_empty(0) for _ in range(7)))


def _gru_npu(
    input: Tensor,
    hx: Tensor,
    params: list[Tensor],
    has_biases: bool,
    num_layers: int,
    dropout: float,
    train: bool,
    bidirectional: bool,
    *,
    batch_first: bool | None = False,
    batch_sizes: Tensor | None = None,
) -> tuple[Tensor, ...]:
    """y and h; the five saved gates are empty, because `_gru_npu_backward` computes what it needs itself."""
    options = (has_biases, num_layers, dropout, train, bidirectional)
    results = _layers(torch._VF.gru, input, hx, list(params), options, batch_first, batch_sizes)
    return (*results, *(input.new_empty(0) for _ in range(5)))


def _check_repeatable(name: str, dropout: float, train: bool, num_layers: int) -> None:
    if dropout and train and num_layers > 1:
        raise unsupported(
            f"{name}: dropout {dropout} while training: what fell out of the forward call is not known; use autograd"
        )


def _lstm_npu_backward(
    grad_y: Tensor,
    grad_hy: Tensor,
    grad_cy: Tensor,
    input: Tensor,
    hx: list[Tensor],
    params: list[Tensor],
    i: Tensor,
    j: Tensor,
    f: Tensor,
    o: Tensor,
    h: Tensor,
    c: Tensor,
    tanhc: Tensor,
    has_biases: bool,
    num_layers: int,
    dropout: float,
    train: bool,
    bidirectional: bool,
    *,
    batch_first: bool | None = False,
    batch_sizes: Tensor | None = None,
) -> tuple[Tensor, list[Tensor], list[Tensor]]:
    """Gradients of input, of the two states, of the parameters."""
    _check_repeatable("_lstm_npu_backward", dropout, train, num_layers)
    options = (has_biases, num_layers, dropout, train, bidirectional)

    def forward(x: Tensor, first_h: Tensor, first_c: Tensor, *weights: Tensor) -> tuple[Tensor, ...]:
        return _layers(torch._VF.lstm, x, [first_h, first_c], list(weights), options, batch_first, batch_sizes)

    grads = gradients(forward, (grad_y, grad_hy, grad_cy), input, *hx, *params)
    return grads[0], list(grads[1:3]), list(grads[3:])


def _gru_npu_backward(
    grad_y: Tensor,
    grad_h: Tensor,
    input: Tensor,
    hx: Tensor,
    params: list[Tensor],
    r: Tensor,
    z: Tensor,
    n: Tensor,
    h_n: Tensor,
    h: Tensor,
    has_biases: bool,
    num_layers: int,
    dropout: float,
    train: bool,
    bidirectional: bool,
    *,
    batch_first: bool | None = False,
    batch_sizes: Tensor | None = None,
) -> tuple[Tensor, Tensor, list[Tensor]]:
    """Gradients of input, of the state, of the parameters."""
    _check_repeatable("_gru_npu_backward", dropout, train, num_layers)
    options = (has_biases, num_layers, dropout, train, bidirectional)

    def forward(x: Tensor, first: Tensor, *weights: Tensor) -> tuple[Tensor, ...]:
        return _layers(torch._VF.gru, x, first, list(weights), options, batch_first, batch_sizes)

    grads = gradients(forward, (grad_y, grad_h), input, hx, *params)
    return grads[0], grads[1], list(grads[2:])
