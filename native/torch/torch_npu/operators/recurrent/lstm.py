"""LSTM in the device's own layouts, step by step; GRU and the multi-layer forms are in `gru`."""

from __future__ import annotations

import torch
from torch import Tensor

from torch_npu.operators.common.arguments import gradients, require
from torch_npu.operators.recurrent._steps import check_one_layer, hold, of_sequence, order, stacked, step_mask

Eight = tuple[Tensor, Tensor, Tensor, Tensor, Tensor, Tensor, Tensor, Tensor]


def _lstm_gates(gates: Tensor, c: Tensor) -> tuple[Tensor, ...]:
    """h, c and what they were made of, for gates ordered i, j, f, o."""
    i, j, f, o = gates.chunk(4, -1)
    i, j, f, o = i.sigmoid(), j.tanh(), f.sigmoid(), o.sigmoid()
    c = f * c + i * j
    tanhc = c.tanh()
    return o * tanhc, c, i, j, f, o, tanhc


def _lstm_steps(
    x: Tensor, weight: Tensor, bias: Tensor | None, h: Tensor, c: Tensor, mask: Tensor | None, backwards: bool
) -> Eight:
    """x [T, B, I], weight [I + H, 4H], states [1, B, H], mask [T, B, 1] of bool. All outputs are [T, B, H]; where the mask ends a
    sequence its states stay and y is 0."""
    size = x.shape[-1]
    require(
        weight.shape == (size + h.shape[-1], 4 * h.shape[-1]),
        f"npu_lstm: weight must be [{size + h.shape[-1]}, {4 * h.shape[-1]}] (input and hidden, gates), not {tuple(weight.shape)}",
    )
    from_input = x @ weight[:size]
    if bias is not None:
        from_input = from_input + bias
    h, c = h.reshape(h.shape[-2:]), c.reshape(c.shape[-2:])
    kept = {}
    for step in order(len(x), backwards):
        here = None if mask is None else mask[step]
        new_h, new_c, *gates = _lstm_gates(from_input[step] + h @ weight[size:], c)
        y = hold(new_h, torch.zeros_like(new_h), here)
        h, c = hold(new_h, h, here), hold(new_c, c, here)
        kept[step] = (y, h, c, *gates)
    y, hs, cs, i, j, f, o, tanhc = stacked(kept)
    return y, hs, cs, i, j, f, o, tanhc


def npu_lstm(
    input: Tensor,
    weight: Tensor,
    bias: Tensor,
    seq_mask: Tensor,
    h: Tensor,
    c: Tensor,
    has_biases: bool,
    num_layers: int,
    dropout: float,
    train: bool,
    bidirectional: bool,
    batch_first: bool,
    flag_seq: bool,
    direction: bool,
) -> Eight:
    """flag_seq says that seq_mask counts, direction that the sequence is read from its end. Training or not, it is the same."""
    check_one_layer("npu_lstm", num_layers, dropout, bidirectional)
    x = input.transpose(0, 1) if batch_first else input
    mask = step_mask(seq_mask, x.shape[0], x.shape[1], "npu_lstm") if flag_seq else None
    y, *rest = _lstm_steps(x, weight, bias if has_biases else None, h, c, mask, direction)
    hs, cs, i, j, f, o, tanhc = rest
    return y.transpose(0, 1) if batch_first else y, hs, cs, i, j, f, o, tanhc


def npu_lstm_backward(
    grady: Tensor | None,
    gradh: Tensor | None,
    gradc: Tensor | None,
    input: Tensor,
    weight: Tensor,
    bias: Tensor,
    hx: Tensor,
    cx: Tensor,
    y_output: Tensor,
    h_output: Tensor,
    c_output: Tensor,
    i: Tensor,
    j: Tensor,
    f: Tensor,
    o: Tensor,
    tanhc: Tensor,
) -> tuple[Tensor, Tensor, Tensor, Tensor, Tensor]:
    """Gradients of input, weight, bias, hx and cx. The steps are done again, so the gates of the forward call only lend shapes."""

    def forward(x: Tensor, w: Tensor, b: Tensor, h: Tensor, c: Tensor) -> tuple[Tensor, ...]:
        return _lstm_steps(x, w, b, h, c, None, False)[:3]

    pairs = ((grady, y_output), (gradh, h_output), (gradc, c_output))
    grads = [of_sequence(grad, like, -1) for grad, like in pairs]
    return gradients(forward, grads, input, weight, bias, hx, cx)


def npu_lstm_cell(
    input: Tensor,
    w_ih: Tensor,
    w_hh: Tensor,
    h: Tensor,
    c: Tensor,
    b_ih: Tensor | None = None,
    b_hh: Tensor | None = None,
) -> Eight:
    """Weights as torch.nn.LSTMCell has them: [4H, inputs], gates i, f, j, o. y and h are the same."""
    gates = input @ w_ih.t() + h @ w_hh.t()
    for bias in (b_ih, b_hh):
        gates = gates if bias is None else gates + bias
    i, f, j, o = gates.chunk(4, -1)
    y, c, *others = _lstm_gates(torch.cat((i, j, f, o), -1), c)
    i, j, f, o, tanhc = others
    return y, y.clone(), c, i, j, f, o, tanhc


def npu_lstm_cell_backward(
    grady: Tensor | None,
    gradh: Tensor | None,
    gradc: Tensor | None,
    input: Tensor,
    w_ih: Tensor,
    w_hh: Tensor,
    h: Tensor,
    c: Tensor,
    y_output: Tensor,
    h_output: Tensor,
    c_output: Tensor,
    i: Tensor,
    j: Tensor,
    f: Tensor,
    o: Tensor,
    tanhc: Tensor,
) -> tuple[Tensor, Tensor, Tensor, Tensor, Tensor, Tensor, Tensor]:
    """Gradients of input, w_ih, w_hh, h, c and of the two biases, from the gates of the forward call."""
    to_h = sum((grad for grad in (grady, gradh) if grad is not None), torch.zeros_like(h_output))
    to_c = to_h * o * (1 - tanhc.square())
    to_c = to_c if gradc is None else to_c + gradc
    to_gates = torch.cat(
        (
            to_c * j * i * (1 - i),
            to_c * c * f * (1 - f),
            to_c * i * (1 - j.square()),
            to_h * tanhc * o * (1 - o),
        ),
        -1,
    )
    states = (to_gates @ w_hh, to_c * f)
    biases = (to_gates.sum(0), to_gates.sum(0))
    return to_gates @ w_ih, to_gates.t() @ input, to_gates.t() @ h, *states, *biases


def _valid_steps(batch_sizes: Tensor) -> Tensor:
    """[T, B] of bool from the number of sequences that reach each step."""
    widest = int(batch_sizes.max())
    return torch.arange(widest, device=batch_sizes.device) < batch_sizes.reshape(-1, 1)


def _packed_lstm(
    input: Tensor, batch_sizes: Tensor, weight: Tensor, bias: Tensor | None, h: Tensor, c: Tensor, direction: bool
) -> Eight:
    """Data one step after the other: with padding ([T * B, I], as the device keeps it) or without (as torch packs it)."""
    valid = _valid_steps(batch_sizes).to(input.device)
    steps, batch = valid.shape
    padded = input.shape[0] == steps * batch
    if padded:
        x = input.reshape(steps, batch, -1)
    else:
        require(
            input.shape[0] == int(batch_sizes.sum()),
            f"npu_lstm_data: {input.shape[0]} rows; batch_sizes ask for {int(batch_sizes.sum())}, or {steps * batch} with padding",
        )
        x = input.new_zeros(steps, batch, input.shape[-1]).index_put((valid,), input)
    y, *rest = _lstm_steps(x, weight, bias, h, c, valid.unsqueeze(-1), direction)
    hs, cs, i, j, f, o, tanhc = rest
    return y.reshape(steps * batch, -1) if padded else y[valid], hs, cs, i, j, f, o, tanhc


def npu_lstm_data(
    input: Tensor,
    batch_sizes: Tensor,
    weight: Tensor,
    bias: Tensor,
    seq_mask: Tensor,
    h: Tensor,
    c: Tensor,
    has_biases: bool,
    num_layers: int,
    dropout: float,
    train: bool,
    bidirectional: bool,
    batch_first: bool,
    flag_seq: bool,
    direction: bool,
) -> Eight:
    """batch_sizes tell where sequences end, so neither seq_mask nor batch_first has anything to add."""
    check_one_layer("npu_lstm_data", num_layers, dropout, bidirectional)
    return _packed_lstm(input, batch_sizes, weight, bias if has_biases else None, h, c, direction)


def npu_lstm_data_backward(
    grady_opt: Tensor | None,
    gradh_opt: Tensor | None,
    gradc_opt: Tensor | None,
    input: Tensor,
    batch_sizes: Tensor,
    weight: Tensor,
    bias: Tensor,
    init_h: Tensor,
    init_c: Tensor,
    y: Tensor,
    h: Tensor,
    c: Tensor,
    i: Tensor,
    j: Tensor,
    f: Tensor,
    o: Tensor,
    tanhc: Tensor,
    flag_direction: bool,
) -> tuple[Tensor, Tensor, Tensor, Tensor, Tensor]:
    """As npu_lstm_backward, over packed data."""

    def forward(x: Tensor, w: Tensor, b: Tensor, first_h: Tensor, first_c: Tensor) -> tuple[Tensor, ...]:
        return _packed_lstm(x, batch_sizes, w, b, first_h, first_c, flag_direction)[:3]

    last = 0 if flag_direction else -1
    pairs = ((grady_opt, y), (gradh_opt, h), (gradc_opt, c))
    grads = [of_sequence(grad, like, last) for grad, like in pairs]
    return gradients(forward, grads, input, weight, bias, init_h, init_c)
