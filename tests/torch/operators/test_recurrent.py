"""torch.ops.npu: LSTM and GRU in the device's layouts against torch's modules."""

from __future__ import annotations

import pytest
import torch
import torch_npu.operators
from torch import Tensor, nn
from torch.nn.utils.rnn import pack_padded_sequence, pad_packed_sequence

torch_npu.operators.register()
ops = torch.ops.npu

T, B, N, H = 5, 3, 4, 6  # steps, batch, inputs, hidden
LAYER = (1, 0.0, True, False)  # layers, dropout, train, bidirectional


def _lstm() -> tuple[nn.LSTM, Tensor, Tensor]:
    """A module of torch and its weights as the device wants them: [I + H, 4H], gates i, j, f, o, one bias."""
    torch.manual_seed(0)
    module = nn.LSTM(N, H).double()
    weight = torch.cat((module.weight_ih_l0, module.weight_hh_l0), 1)
    bias = module.bias_ih_l0 + module.bias_hh_l0
    order = torch.cat([torch.arange(H) + H * gate for gate in (0, 2, 1, 3)])
    return module, weight[order].t().contiguous(), bias[order]


def _data() -> list[Tensor]:
    torch.manual_seed(1)
    return [torch.randn(shape, dtype=torch.float64) for shape in ((T, B, N), (1, B, H), (1, B, H))]


def _npu(*given: Tensor) -> list[Tensor]:
    return [one.detach().npu().requires_grad_() for one in given]


def _close(mine: Tensor, theirs: Tensor) -> None:
    torch.testing.assert_close(mine.detach().cpu(), theirs.detach())


@pytest.mark.parametrize("batch_first", [False, True])
def test_lstm_is_torchs(batch_first: bool) -> None:
    module, weight, bias = _lstm()
    x, h, c = _data()
    leaves = _npu(x.transpose(0, 1) if batch_first else x, weight, bias, h, c)
    given, w, b, first_h, first_c = leaves
    result = ops.npu_lstm(given, w, b, torch.empty(0).npu(), first_h, first_c, True, *LAYER, batch_first, False, False)
    y, (last_h, last_c) = module(x, (h, c))
    _close(result[0].transpose(0, 1) if batch_first else result[0], y)
    _close(result[1], y)
    _close(result[1][-1:], last_h)
    _close(result[2][-1:], last_c)
    i, j, f, o, tanhc = result[3:]
    torch.testing.assert_close(result[2][1:], f[1:] * result[2][:-1] + i[1:] * j[1:])
    torch.testing.assert_close(result[1], o * tanhc)
    torch.testing.assert_close(tanhc, result[2].tanh())
    x.requires_grad_()
    wanted = torch.autograd.grad(module(x, (h, c))[0].square().sum(), (x, *module.parameters()))
    mine = torch.autograd.grad(result[0].square().sum(), leaves)
    _close(mine[0].transpose(0, 1) if batch_first else mine[0], wanted[0])
    order = torch.cat([torch.arange(H) + H * gate for gate in (0, 2, 1, 3)])
    _close(mine[1], torch.cat(wanted[1:3], 1)[order].t())
    _close(mine[2], wanted[3][order])


def test_lstm_backward_operator() -> None:
    _, weight, bias = _lstm()
    leaves = _npu(_data()[0], weight, bias, *_data()[1:])
    x, w, b, h, c = leaves
    out = ops.npu_lstm(x, w, b, torch.empty(0).npu(), h, c, True, *LAYER, False, False, False)
    torch.manual_seed(2)
    grads = [torch.randn(one, dtype=torch.float64).npu() for one in ((T, B, H), (1, B, H), (1, B, H))]
    wanted = torch.autograd.grad((out[0], out[1][-1:], out[2][-1:]), leaves, grads)
    result = ops.npu_lstm_backward(*grads, *(one.detach() for one in (x, w, b, h, c, *out)))
    for mine, theirs in zip(result, wanted, strict=True):
        torch.testing.assert_close(mine, theirs)
    only = ops.npu_lstm_backward(grads[0], None, None, *(one.detach() for one in (x, w, b, h, c, *out)))
    assert not torch.allclose(only[0], result[0])


def test_lstm_without_bias_backwards_and_masked() -> None:
    module, weight, bias = _lstm()
    x, h, c = _data()
    args = (weight.detach().npu(), bias.detach().npu())
    none = torch.empty(0).npu()
    plain = ops.npu_lstm(x.npu(), args[0], args[1] * 0, none, h.npu(), c.npu(), True, *LAYER, False, False, False)
    without = ops.npu_lstm(x.npu(), *args, none, h.npu(), c.npu(), False, *LAYER, False, False, False)
    torch.testing.assert_close(plain[0], without[0])
    backwards = ops.npu_lstm(x.npu(), *args, none, h.npu(), c.npu(), True, *LAYER, False, False, True)
    _close(backwards[0], module(x.flip(0), (h, c))[0].flip(0))
    lengths = torch.tensor([5, 2, 4])
    mask = (torch.arange(T)[:, None] < lengths)[:, :, None].expand(T, B, H).double()
    for given in (mask.npu(), lengths.npu()):
        result = ops.npu_lstm(x.npu(), *args, given, h.npu(), c.npu(), True, *LAYER, False, True, False)
        packed, (last_h, last_c) = module(pack_padded_sequence(x, lengths, enforce_sorted=False), (h, c))
        _close(result[0], pad_packed_sequence(packed)[0])
        _close(result[1][-1:], last_h)
        _close(result[2][-1:], last_c)


@pytest.mark.parametrize("padded", [False, True])
def test_lstm_over_packed_data(padded: bool) -> None:
    module, weight, bias = _lstm()
    x, h, c = _data()
    packed = pack_padded_sequence(x, torch.tensor([5, 4, 2]))
    x = x * (torch.arange(T)[:, None] < torch.tensor([5, 4, 2]))[:, :, None]
    rows = x.reshape(T * B, N) if padded else packed.data
    leaves = _npu(rows, weight, bias, h, c)
    given, w, b, first_h, first_c = leaves
    sizes = packed.batch_sizes.npu()
    none = torch.empty(0).npu()
    out = ops.npu_lstm_data(given, sizes, w, b, none, first_h, first_c, True, *LAYER, False, False, False)
    wanted, (last_h, last_c) = module(packed, (h, c))
    dense = pad_packed_sequence(wanted)[0]
    _close(out[0], dense.reshape(T * B, H) if padded else wanted.data)
    _close(out[1][-1:], last_h)
    _close(out[2][-1:], last_c)
    grad = torch.randn_like(out[0])
    plain = (one.detach() for one in (w, b, first_h, first_c, *out))
    result = ops.npu_lstm_data_backward(grad, None, None, given.detach(), sizes, *plain, False)
    for mine, theirs in zip(result, torch.autograd.grad(out[0], leaves, grad), strict=True):
        torch.testing.assert_close(mine, theirs)
    with pytest.raises(RuntimeError, match="2 rows; batch_sizes ask for 11, or 15 with padding"):
        ops.npu_lstm_data(given[:2], sizes, w, b, none, first_h, first_c, True, *LAYER, False, False, False)


def test_lstm_cell() -> None:
    torch.manual_seed(0)
    cell = nn.LSTMCell(N, H).double()
    x, h, c = (one[0] for one in _data())
    leaves = _npu(x, cell.weight_ih, cell.weight_hh, h, c, cell.bias_ih, cell.bias_hh)
    out = ops.npu_lstm_cell(*leaves)
    wanted = cell(x, (h, c))
    _close(out[0], wanted[0])
    _close(out[1], wanted[0])
    _close(out[2], wanted[1])
    grads = [torch.randn_like(out[0]) for _ in range(3)]
    theirs = torch.autograd.grad(out[:3], leaves, grads)
    result = ops.npu_lstm_cell_backward(*grads, *(one.detach() for one in (*leaves[:5], *out)))
    for mine, one in zip(result, theirs, strict=True):
        torch.testing.assert_close(mine, one)
    without = ops.npu_lstm_cell(*leaves[:5])
    zero = [torch.zeros_like(one) for one in leaves[5:]]
    torch.testing.assert_close(without[2], ops.npu_lstm_cell(*leaves[:5], *zero)[2])


def test_gru_is_torchs() -> None:
    torch.manual_seed(0)
    module = nn.GRU(N, H).double()
    x, h, _ = _data()
    weights = (module.weight_ih_l0.t(), module.weight_hh_l0.t(), module.bias_ih_l0, module.bias_hh_l0)
    leaves = _npu(x, *weights, h)
    given, w_i, w_h, b_i, b_h, first = leaves
    none = torch.empty(0).npu()
    out = ops.npu_gru(given, first, w_i, w_h, b_i, b_h, none, True, *LAYER, False)
    wanted, last = module(x, h)
    _close(out[0], wanted)
    _close(out[1][-1:], last)
    y, hs, update, reset, new, hidden_new = out
    before = torch.cat((first, hs[:-1]))
    torch.testing.assert_close(hs, (1 - update) * new + update * before)
    torch.testing.assert_close(hidden_new, before @ w_h[:, 2 * H :] + b_h[2 * H :])
    torch.testing.assert_close(new, (given @ w_i[:, 2 * H :] + b_i[2 * H :] + reset * hidden_new).tanh())
    grads = [torch.randn_like(y), torch.randn(1, B, H, dtype=torch.float64).npu()]
    theirs = torch.autograd.grad((y, hs[-1:]), leaves, grads)
    plain = [one.detach() for one in (given, w_i, w_h, b_i, b_h)]
    result = ops.npu_gru_backward(*grads, *plain, none, first.detach(), *(one.detach() for one in out))
    for mine, one in zip(result, theirs, strict=True):
        torch.testing.assert_close(mine, one)
    lengths = torch.tensor([5, 2, 4])
    short = ops.npu_gru(given.transpose(0, 1), first, w_i, w_h, b_i, b_h, lengths.npu(), True, *LAYER, True)
    packed, last = module(pack_padded_sequence(x, lengths, enforce_sorted=False), h)
    _close(short[0].transpose(0, 1), pad_packed_sequence(packed)[0])
    _close(short[1][-1:], last)


@pytest.mark.parametrize("kind", ["lstm", "gru"])
@pytest.mark.parametrize("batch_first", [False, True])
def test_layers_of_torch(kind: str, batch_first: bool) -> None:
    torch.manual_seed(0)
    module = getattr(nn, kind.upper())(N, H, 2, batch_first=batch_first, bidirectional=True).double().npu()
    x = torch.randn(T, B, N, dtype=torch.float64).npu().requires_grad_()
    states = [torch.randn(4, T if batch_first else B, H, dtype=torch.float64).npu() for _ in range(2)]
    hx = states if kind == "lstm" else states[0]
    params = [one for layer in module.all_weights for one in layer]
    options = (True, 2, 0.0, True, True)
    out = getattr(ops, f"_{kind}_npu")(x, hx, params, *options, batch_first=batch_first)
    y, last = module(x, tuple(states) if kind == "lstm" else hx)
    torch.testing.assert_close(out[0], y)
    torch.testing.assert_close(out[1], last[0] if kind == "lstm" else last)
    count = 3 if kind == "lstm" else 2
    assert len(out) == (10 if kind == "lstm" else 7) and all(one.numel() == 0 for one in out[count:])
    grads = [torch.randn_like(one) for one in out[:count]]
    wanted = torch.autograd.grad(out[:count], (x, *params), grads)
    plain = [one.detach() for one in params]
    result = getattr(ops, f"_{kind}_npu_backward")(
        *grads, x.detach(), hx, plain, *out[count:], *options, batch_first=batch_first
    )
    torch.testing.assert_close(result[0], wanted[0])
    for mine, theirs in zip(result[2], wanted[1:], strict=True):
        torch.testing.assert_close(mine, theirs)


def test_layers_over_packed_data() -> None:
    torch.manual_seed(0)
    module = nn.LSTM(N, H, 2).npu()
    packed = pack_padded_sequence(torch.randn(T, B, N).npu(), torch.tensor([5, 4, 2]))
    states = [torch.zeros(2, B, H).npu() for _ in range(2)]
    params = [one for layer in module.all_weights for one in layer]
    sizes = packed.batch_sizes.npu()
    out = ops._lstm_npu(packed.data, states, params, True, 2, 0.0, False, False, batch_sizes=sizes)
    torch.testing.assert_close(out[0], module(packed)[0].data)


def test_what_recurrent_operators_refuse() -> None:
    _, weight, bias = _lstm()
    x, h, c = (one.npu() for one in _data())
    weight, bias, none = weight.detach().npu(), bias.detach().npu(), torch.empty(0).npu()
    with pytest.raises(NotImplementedError, match=r"num_layers 2 and bidirectional False[\s\S]*ERR01007"):
        ops.npu_lstm(x, weight, bias, none, h, c, True, 2, 0.0, True, False, False, False, False)
    with pytest.raises(RuntimeError, match=r"weight must be \[10, 24\]"):
        ops.npu_lstm(x, weight.t(), bias, none, h, c, True, *LAYER, False, False, False)
    with pytest.raises(RuntimeError, match="2 lengths for a batch of 3"):
        ops.npu_lstm(x, weight, bias, torch.ones(2).npu(), h, c, True, *LAYER, False, True, False)
    with pytest.raises(NotImplementedError, match=r"dropout 0\.5 while training"):
        ops._gru_npu_backward(x, h, x, h, [weight], *[none] * 5, True, 2, 0.5, True, False)


def test_fused_gru_cell() -> None:
    torch.manual_seed(0)
    gates = [torch.randn(B, 3 * H).npu() for _ in range(2)]
    h = torch.randn(B, H).npu()
    result = ops._thnn_fused_gru_cell(*gates, h)[0]
    a, b = (one.chunk(3, 1) for one in gates)
    update = (a[1] + b[1]).sigmoid()
    new = (a[2] + (a[0] + b[0]).sigmoid() * b[2]).tanh()
    torch.testing.assert_close(result, new + update * (h - new))
