"""Operators that need more than the CPU's kernel: cells, attention, types the CPU refuses, autocast, and what is refused."""

from __future__ import annotations

import copy
import threading
import warnings
from typing import Any

import pytest

torch = pytest.importorskip("torch")
pytest.importorskip("torch_npu")
from torch import nn  # noqa: E402
from torch.nn import functional as F  # noqa: E402

CLOSE = {"rtol": 1e-4, "atol": 1e-5}
TWO_DEVICES = "Expected all tensors to be on the same device, but found at least two devices, npu:0 and "


def same(found: torch.Tensor, wanted: torch.Tensor, **tolerance: float) -> None:
    assert found.device.type == "npu"
    torch.testing.assert_close(found.cpu(), wanted, **tolerance)


@pytest.fixture(autouse=True)
def seed() -> None:
    torch.manual_seed(0)


@pytest.mark.parametrize("bias", [True, False])
@pytest.mark.parametrize("cell", [nn.LSTM, nn.GRU, nn.RNN])
def test_recurrent_layers(cell: type[nn.RNNBase], bias: bool) -> None:
    here = cell(5, 7, num_layers=2, bidirectional=True, bias=bias)
    there = copy.deepcopy(here).npu()
    x = torch.randn(4, 3, 5)
    a, b = x.clone().requires_grad_(), x.npu().requires_grad_()
    wanted, found = here(a)[0], there(b)[0]
    same(found, wanted)
    wanted.square().sum().backward()
    found.square().sum().backward()
    same(b.grad, a.grad, **CLOSE)
    for p, q in zip(here.parameters(), there.parameters(), strict=True):
        same(q.grad, p.grad, **CLOSE)


def test_packed_sequence_with_lengths_on_the_device() -> None:
    layer, x, lengths = nn.LSTM(5, 7), torch.randn(4, 3, 5), torch.tensor([4, 3, 1])
    wanted = layer(nn.utils.rnn.pack_padded_sequence(x, lengths))[0]
    result = copy.deepcopy(layer).npu()(nn.utils.rnn.pack_padded_sequence(x.npu(), lengths.npu()))[0]
    same(result.data, wanted.data)
    assert result.batch_sizes.device.type == "cpu"


@pytest.mark.parametrize("more", [{}, {"is_causal": True}, {"attn_mask": torch.ones(16, 16).tril().bool()}])
def test_attention_uses_the_flash_kernel(more: dict[str, Any]) -> None:
    here = [torch.randn(2, 4, 16, 8, requires_grad=True) for _ in range(3)]
    there = [x.detach().npu().requires_grad_() for x in here]
    wanted = F.scaled_dot_product_attention(*here, **more)
    moved = {name: value.npu() if isinstance(value, torch.Tensor) else value for name, value in more.items()}
    result = F.scaled_dot_product_attention(*there, **moved)
    assert "Flash" in result.grad_fn.name()
    same(result, wanted)
    wanted.sum().backward()
    result.sum().backward()
    for a, b in zip(here, there, strict=True):
        same(b.grad, a.grad)


def test_attention_with_a_learned_mask() -> None:
    q, mask = torch.randn(1, 2, 4, 8), torch.randn(4, 4, requires_grad=True)
    other = mask.detach().npu().requires_grad_()
    F.scaled_dot_product_attention(q, q, q, attn_mask=mask).square().sum().backward()
    F.scaled_dot_product_attention(q.npu(), q.npu(), q.npu(), attn_mask=other).square().sum().backward()
    same(other.grad, mask.grad)


@pytest.mark.parametrize("smoothing", [0.0, 0.1])
def test_int32_classes(smoothing: float) -> None:
    x, classes = torch.randn(4, 5), torch.tensor([0, 1, 2, 4])
    a, b = x.clone().requires_grad_(), x.npu().requires_grad_()
    wanted = F.cross_entropy(a, classes, label_smoothing=smoothing)
    result = F.cross_entropy(b, classes.int().npu(), label_smoothing=smoothing)
    same(result, wanted)
    wanted.backward()
    result.backward()
    same(b.grad, a.grad)


def test_int32_indices() -> None:
    image, classes = torch.randn(2, 5, 3, 3), torch.randint(0, 5, (2, 3, 3))
    same(F.cross_entropy(image.npu(), classes.int().npu()), F.cross_entropy(image, classes))
    same(F.one_hot(classes.int().npu(), 5), F.one_hot(classes, 5))
    result = torch.zeros(6).npu().put_(torch.tensor([1, 2]).int().npu(), torch.ones(2).npu())
    same(result, torch.tensor([0.0, 1, 1, 0, 0, 0]))


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
def test_half_precision_that_the_cpu_refuses(dtype: torch.dtype) -> None:
    cube, rows = torch.randn(1, 2, 4, 4, 4).to(dtype), torch.randn(3, 4).to(dtype)
    same(F.avg_pool3d(cube.npu(), 2), F.avg_pool3d(cube.float(), 2).to(dtype))
    same(torch.cdist(rows.npu(), rows.npu()), torch.cdist(rows.float(), rows.float()).to(dtype))
    same(torch.pdist(rows.npu()), torch.pdist(rows.float()).to(dtype))
    square = (torch.eye(3) + torch.rand(3, 3) / 10).to(dtype)
    same(torch.linalg.inv(square.npu()), torch.linalg.inv(square.float()).to(dtype))
    for mode in ("bilinear", "bicubic"):
        small = {"scale_factor": 0.5, "mode": mode, "antialias": True}
        same(F.interpolate(cube[0].npu(), **small), F.interpolate(cube[0].float(), **small).to(dtype))
    labels = torch.tensor([[1, 2, -1, 0]] * 3)
    result = F.multilabel_margin_loss(rows.npu(), labels.npu())
    same(result, F.multilabel_margin_loss(rows.float(), labels).to(dtype))
    same(torch._VF._add_relu(rows.npu(), rows.npu()), torch.relu(rows + rows))


def test_out_of_half_precision_is_written_in_place() -> None:
    square = torch.eye(3).half().npu() * 2
    out = torch.zeros(3, 3).half().npu()
    address = out.data_ptr()
    torch.linalg.inv(square, out=out)
    same(out, torch.eye(3).half() / 2)
    assert out.data_ptr() == address


@pytest.mark.parametrize("function", [F.softmax, F.log_softmax])
def test_softmax_of_half_in_float(function: Any) -> None:
    a = torch.randn(3, 4).half()
    b = a.npu().requires_grad_()
    a.requires_grad_()
    wanted, found = function(a, -1, dtype=torch.float32), function(b, -1, dtype=torch.float32)
    same(found, wanted)
    (wanted**2).sum().backward()
    (found**2).sum().backward()
    same(b.grad, a.grad)


def test_synchronized_batch_norm_pieces() -> None:
    x, w, b, grad = torch.randn(4, 3, 5) * 2 + 1, torch.rand(3), torch.rand(3), torch.randn(4, 3, 5)
    here = [t.clone().requires_grad_() for t in (x, w, b)]
    mean, var = torch.zeros(3), torch.ones(3)
    wanted = F.batch_norm(here[0], mean, var, here[1], here[2], True, 0.1, 1e-5)
    wanted.backward(grad)
    n, moved_mean, moved_var, counts = (
        x.npu(),
        torch.zeros(3).npu(),
        torch.ones(3).npu(),
        torch.tensor([5.0, 15.0]).npu(),
    )
    parts = [torch.batch_norm_stats(part, 1e-5) for part in (n[:1], n[1:])]
    means, scales = torch.stack([p[0] for p in parts]), torch.stack([p[1] for p in parts])
    m, s = torch.batch_norm_gather_stats_with_counts(n, means, scales, moved_mean, moved_var, 0.1, 1e-5, counts)
    same(moved_mean, mean)
    same(moved_var, var)
    same(torch.batch_norm_elemt(n, w.npu(), b.npu(), m, s, 1e-5), wanted.detach())
    sums = torch.batch_norm_backward_reduce(grad.npu(), n, m, s, w.npu(), True, True, True)
    same(sums[2], here[1].grad, **CLOSE)
    same(sums[3], here[2].grad, **CLOSE)
    result = torch.batch_norm_backward_elemt(grad.npu(), n, m, s, w.npu(), sums[0], sums[1], counts.int())
    same(result, here[0].grad, **CLOSE)


def test_autocast_lists() -> None:
    x = torch.randn(4, 4).npu()
    low = x.half()
    with torch.autocast("npu", dtype=torch.float16):
        for result in (x @ x, F.linear(x, x, x[0]), nn.Conv1d(4, 4, 1).npu()(x[None]), nn.LSTM(4, 4).npu()(x)[0]):
            assert result.dtype == torch.float16
        for result in (low.exp(), low.softmax(-1), low.norm(), low.sum(), F.mse_loss(low, low), torch.cat([x, low])):
            assert result.dtype == torch.float32
        with pytest.raises(RuntimeError, match="unsafe to autocast"):
            F.binary_cross_entropy(x.sigmoid(), x.sigmoid())
    with torch.autocast("cpu"):
        assert F.linear(x, x, x[0]).dtype == torch.float32


def test_devices_do_not_mix() -> None:
    x, number = torch.ones(3).npu(), torch.tensor(1.0)
    same(x + torch.tensor(2.0), torch.full((3,), 3.0))
    attempts = (
        lambda: x + torch.ones(3),
        lambda: torch.cat([x, torch.ones(3)]),
        lambda: torch.ones(3) + x[0],
        lambda: number.add_(x[0]),
        lambda: torch.add(x[0], x[1], out=number),
        lambda: x + torch.ones(3, device="npu:1"),
    )
    for attempt in attempts:
        with pytest.raises(RuntimeError, match=TWO_DEVICES):
            attempt()
    assert number.item() == 1
    with pytest.raises(RuntimeError, match="generator"):
        torch.randn(3, device="npu", generator=torch.Generator())


def test_indices_may_be_on_the_host() -> None:
    x = torch.arange(3.0).npu()
    same(x[torch.tensor([0, 2])], torch.tensor([0.0, 2.0]))
    x[torch.tensor([0])] = torch.tensor(5.0)
    same(x, torch.tensor([5.0, 1.0, 2.0]))
    with pytest.raises(RuntimeError, match="indices should be either on cpu or on the same device"):
        torch.ones(3)[torch.tensor([0]).npu()]


def test_sparse_is_refused() -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # torch's word on sparse invariants
        with pytest.raises(NotImplementedError, match="sparse tensors are"):
            torch.ones(3, 3).npu().to_sparse()
        with pytest.raises(NotImplementedError, match="sparse tensors are"):
            torch.sparse_coo_tensor([[0], [0]], [1.0], (2, 2), device="npu")


@pytest.mark.filterwarnings("ignore:torch.quantize_per_tensor")
def test_quantized_tensors() -> None:
    x = torch.randn(4)
    found, wanted = (torch.quantize_per_tensor(t, 0.1, 3, torch.quint8) for t in (x.npu(), x))
    assert found.device.type == "npu" and found.q_scale() == 0.1
    same(found.int_repr(), wanted.int_repr())
    same(found[1:].dequantize(), wanted[1:].dequantize())


def test_out_of_another_size_warns_and_grows() -> None:
    out = torch.ones(2).npu()
    with pytest.warns(UserWarning, match="was resized"):
        torch.add(torch.ones(5).npu(), 1, out=out)
    same(out, torch.full((5,), 2.0))


def test_a_failed_call_leaves_nothing_behind() -> None:
    x = torch.ones(64, 64).npu()
    before = torch.npu.memory_allocated()
    for _ in range(20):
        with pytest.raises(RuntimeError):
            torch.mm(x, torch.ones(3, 3, device="npu"))
        with pytest.raises(RuntimeError):
            torch.linalg.cholesky(-x)
    host = torch.ones(1 << 20)
    assert torch.npu.memory_allocated() == before, "host memory must not count as the device's after an error"
    same(x + x, torch.full((64, 64), 2.0))
    assert host.device.type == "cpu"


def test_threads_share_tensors() -> None:
    x, errors = torch.ones(64, 64).npu(), []

    def work() -> None:
        try:
            for _ in range(500):
                assert (x + x).view(-1)[:10].sum().item() == 20
                assert x.t().sum().item() == 4096
        except Exception as error:
            errors.append(error)

    threads = [threading.Thread(target=work) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert errors == []


def test_an_operator_that_nobody_has() -> None:
    with pytest.raises(NotImplementedError, match="neither npu nor cpu has a kernel"):
        torch.ops.aten._cudnn_rnn_flatten_weight([torch.ones(3).npu()], 1, 1, 1, 1, 1, 1, False, False)
