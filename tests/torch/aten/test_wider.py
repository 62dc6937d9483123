"""What an NPU takes and the CPU's kernels refuse, how half precision is rounded, and what must be refused."""

from __future__ import annotations

import copy
from collections.abc import Callable

import pytest

torch = pytest.importorskip("torch")
pytest.importorskip("torch_npu")
from torch import Tensor, nn  # noqa: E402
from torch.nn import functional as F  # noqa: E402

pytestmark = pytest.mark.filterwarnings("ignore:ComplexHalf support")  # torch before 2.13 says it once


def same(found: Tensor, wanted: Tensor, **tolerance: float) -> None:
    assert found.device.type == "npu"
    torch.testing.assert_close(found.cpu(), wanted, **tolerance)


@pytest.fixture(autouse=True)
def seed() -> None:
    torch.manual_seed(0)


@pytest.mark.parametrize("dtype", [torch.int8, torch.uint8, torch.int16, torch.int32, torch.int64])
def test_hardsigmoid_and_add_relu_of_integers(dtype: torch.dtype) -> None:
    x = torch.tensor([0, 1, 3, 7]).to(dtype) if dtype == torch.uint8 else torch.tensor([-7, -3, 0, 3]).to(dtype)
    wanted = F.hardsigmoid(x.float()).to(dtype)  # its values lie in 0..1: 1 from 3 on
    same(F.hardsigmoid(x.npu()), wanted)
    same(F.hardsigmoid(x.npu(), inplace=True), wanted)
    same(torch._VF._add_relu(x.npu(), x.npu(), alpha=2), (x + x * 2).relu())
    same(torch._VF._add_relu(x.npu(), 2), (x + 2).relu())
    same(torch._VF._add_relu_(x.npu(), x.npu()), (x + x).relu())


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
def test_add_relu_of_half(dtype: torch.dtype) -> None:
    x = torch.randn(5).to(dtype)
    same(torch._VF._add_relu(x.npu(), 0.5), (x + 0.5).relu())
    out = torch.zeros(5, dtype=dtype).npu()
    torch._VF._add_relu(x.npu(), x.npu(), out=out)
    same(out, (x + x).relu())


def test_addmv_with_rows_to_add_to() -> None:
    rows, matrix, vector = torch.randn(2, 3), torch.randn(3, 4), torch.randn(4)
    there = [t.npu() for t in (rows, matrix, vector)]
    wanted = 0.5 * rows + 2 * (matrix @ vector)
    same(torch.addmv(*there, beta=0.5, alpha=2), wanted)
    out = torch.zeros(2, 3).npu()
    torch.addmv(*there, beta=0.5, alpha=2, out=out)
    same(out, wanted)
    same(there[0].clone().addmv_(*there[1:], beta=0.5, alpha=2), wanted)
    nothing = torch.full((2, 3), torch.nan).npu()
    same(torch.addmv(nothing, *there[1:], beta=0), (matrix @ vector).expand(2, 3))
    same(torch.addmv(there[0][0], *there[1:]), torch.addmv(rows[0], matrix, vector))


@pytest.mark.parametrize("p", [0, -1, -2.5])
@pytest.mark.parametrize("dtype", [torch.float32, torch.float16])
def test_renorm_with_any_norm(p: float, dtype: torch.dtype) -> None:
    x = torch.randn(3, 4, 2).to(dtype)
    norm = torch.linalg.vector_norm(x.float(), p, dim=(0, 2), keepdim=True)
    wanted = (x.float() * torch.where(norm > 0.01, 0.01 / (norm + 1e-7), 1)).to(dtype)
    same(torch.renorm(x.npu(), p, 1, 0.01), wanted)
    same(x.npu().renorm_(p, -2, 0.01), wanted)
    assert not torch.equal(wanted, x)


@pytest.mark.parametrize("name", ["fft", "ifft", "rfft", "irfft", "hfft", "ihfft", "rfft2", "fftn"])
def test_transforms_of_half(name: str) -> None:
    x, transform = torch.randn(4, 8).half(), getattr(torch.fft, name)
    wide = transform(x.float())
    wanted = wide.to(torch.complex32 if wide.is_complex() else torch.float16)
    same(transform(x.npu()), wanted)
    a, b = x.float().requires_grad_(), x.npu().requires_grad_()
    transform(a).abs().square().sum().backward()
    result = transform(b)
    torch.view_as_real(
        result
    ).float().square().sum().backward() if result.is_complex() else result.float().square().sum().backward()
    assert b.grad.dtype == torch.float16
    same(b.grad.float(), a.grad, rtol=1e-2, atol=2e-2)
    with pytest.raises(RuntimeError, match="Unsupported dtype BFloat16"):
        transform(x.bfloat16().npu())


def test_stft_of_half() -> None:
    x, window = torch.randn(2, 400).half(), torch.hann_window(64).half()
    wanted = torch.stft(x.float(), 64, window=window.float(), return_complex=True)
    result = torch.stft(x.npu(), 64, window=window.npu(), return_complex=True)
    assert result.dtype == torch.complex32
    same(torch.view_as_real(result).float(), torch.view_as_real(wanted), rtol=5e-3, atol=2e-2)


@pytest.mark.parametrize("parameters", [torch.float16, torch.float32, None])
@pytest.mark.parametrize("statistics", [torch.float16, torch.float32])
def test_layer_norm_backward_with_statistics_of_either_type(
    parameters: torch.dtype | None, statistics: torch.dtype
) -> None:
    x, grad = torch.randn(5, 8).half(), torch.randn(5, 8).half()
    mean, scale = x.float().mean(-1, keepdim=True), (x.float().var(-1, correction=0, keepdim=True) + 1e-5).rsqrt()
    weight = None if parameters is None else torch.rand(8).to(parameters)
    mask = [True, weight is not None, weight is not None]
    wide = [t if t is None else t.float() for t in (grad, x)], [t if t is None else t.float() for t in (weight, weight)]
    wanted = torch.ops.aten.native_layer_norm_backward(*wide[0], [8], mean, scale, *wide[1], mask)
    there = [t if t is None else t.npu() for t in (weight, weight)]
    moments = [t.to(statistics).npu() for t in (mean, scale)]
    result = torch.ops.aten.native_layer_norm_backward(grad.npu(), x.npu(), [8], *moments, *there, mask)
    assert result[0].dtype == torch.float16
    same(result[0].float(), wanted[0], rtol=5e-3, atol=5e-3)
    for a, b in zip(result[1:], wanted[1:], strict=True):
        assert (a is None) == (b is None) == (weight is None)
        if weight is not None:
            assert a.dtype == parameters
            same(a.float(), b, rtol=5e-3, atol=2e-2)


def test_normalize_into_a_given_tensor() -> None:
    x, mean, scale = torch.randn(4, 3, 5), torch.randn(3), torch.rand(3)
    out = torch.empty(0).npu()
    torch.batch_norm_elemt(x.npu(), None, None, mean.npu(), scale.npu(), 1e-5, out=out)
    same(out, (x - mean.view(1, 3, 1)) * scale.view(1, 3, 1))


@pytest.mark.filterwarnings("ignore:torch.quantize_per_channel")
@pytest.mark.filterwarnings("ignore:torch.quantize_per_tensor")
def test_quantization_per_channel_and_of_half() -> None:
    x, scales, zeros = torch.randn(2, 3), torch.tensor([0.1, 0.2]), torch.tensor([0, 1])
    wanted = torch.quantize_per_channel(x, scales, zeros, 0, torch.qint8)
    for place in (torch.Tensor.npu, torch.Tensor.cpu):
        given = place(scales.clone()), place(zeros.clone())
        result = torch.quantize_per_channel(x.npu(), *given, 0, torch.qint8)
        given[0].zero_()  # what the tensor keeps is its own
        del given
        for _ in range(2):
            same(result.q_per_channel_scales(), wanted.q_per_channel_scales())
            same(result.q_per_channel_zero_points(), wanted.q_per_channel_zero_points())
        same(result.dequantize(), wanted.dequantize())
        assert "per_channel_affine" in repr(result)
    half = torch.quantize_per_tensor(x.half().npu(), 0.1, 0, torch.qint8)
    same(half.int_repr(), torch.quantize_per_tensor(x.half().float(), 0.1, 0, torch.qint8).int_repr())


def test_packed_sequences_have_torchs_layout() -> None:
    """Ascend's keep the padding in `.data`; here they are packed, and everything that reads them gives the same."""
    x, lengths = torch.randn(3, 5, 4), torch.tensor([2, 5, 3])
    more = {"batch_first": True, "enforce_sorted": False}
    wanted = nn.utils.rnn.pack_padded_sequence(x, lengths, **more)
    result = nn.utils.rnn.pack_padded_sequence(x.npu(), lengths.npu(), **more)
    same(result.data, wanted.data)
    here = nn.GRU(4, 6, bidirectional=True, batch_first=True)
    there = copy.deepcopy(here).npu()
    padded, sizes = nn.utils.rnn.pad_packed_sequence(there(result)[0], batch_first=True)
    same(padded, nn.utils.rnn.pad_packed_sequence(here(wanted)[0], batch_first=True)[0])
    assert torch.equal(sizes.cpu(), lengths)
    same(there(result)[1], here(wanted)[1])


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
@pytest.mark.parametrize("depth", [64, 1000, 16384])
def test_products_of_half_accumulate_in_float32_and_round_once(dtype: torch.dtype, depth: int) -> None:
    a, b, bias = torch.randn(7, depth).to(dtype), torch.randn(depth, 9).to(dtype), torch.randn(9).to(dtype)
    x, y = a.npu(), b.npu()
    exact, slack = a.double() @ b.double(), a.double().abs() @ b.double().abs() * 2**-23
    with_bias = exact + bias.double()
    image, kernel = x.t().reshape(1, depth, 7, 1).contiguous(), y.t().reshape(9, depth, 1, 1).contiguous()
    products = (
        (x @ y, exact),
        (torch.bmm(x[None], y[None])[0], exact),
        (F.linear(x, y.t().contiguous()), exact),
        (F.linear(x, y.t().contiguous(), bias.npu()), with_bias),
        (torch.addmm(bias.npu(), x, y), with_bias),
        (torch.mv(x, y[:, 0])[:, None], exact[:, :1]),
        (F.conv2d(image, kernel)[0, :, :, 0].t(), exact),
    )
    for found, wanted in products:
        rounded = wanted.to(dtype).abs()
        half_ulp = (torch.nextafter(rounded, torch.full_like(rounded, torch.inf)) - rounded).double() / 2
        assert ((found.cpu().double() - wanted).abs() <= half_ulp + slack[:, : wanted.shape[1]]).all()


REFUSED: list[tuple[type[Exception], str, Callable[[], object]]] = [
    (RuntimeError, "1-d non-negative integral", lambda: torch.bincount(torch.tensor([-1, 2]).npu())),
    (NotImplementedError, "not implemented for 'Float'", lambda: torch.bincount(torch.tensor([1.0]).npu())),
    (IndexError, "out of range", lambda: F.embedding(torch.tensor([9]).npu(), torch.randn(3, 4).npu())),
    (IndexError, "out of range", lambda: F.embedding(torch.tensor([-1]).npu(), torch.randn(3, 4).npu())),
    (RuntimeError, "valid range", lambda: F.embedding_bag(torch.tensor([[9]]).npu(), torch.randn(3, 4).npu())),
    (RuntimeError, "opposites", lambda: torch.searchsorted(torch.ones(2).npu(), torch.ones(1).npu(), right=True, side="left")),
    (RuntimeError, "first N-1 dimensions", lambda: torch.searchsorted(torch.randn(3, 4).npu(), torch.randn(2, 4).npu())),
    (RuntimeError, "sorter must be", lambda: torch.searchsorted(torch.ones(2).npu(), torch.ones(1).npu(), sorter=torch.ones(2).npu())),
    (RuntimeError, "same device", lambda: torch.searchsorted(torch.ones(2).npu(), torch.ones(1))),
    (RuntimeError, "shape of indices", lambda: F.max_unpool2d(torch.randn(1, 1, 2, 2).npu(), torch.zeros(1, 1, 3, 2).long().npu(), 2)),
    (RuntimeError, "invalid max index", lambda: F.max_unpool2d(torch.randn(1, 1, 2, 2).npu(), torch.full((1, 1, 2, 2), 99).npu(), 2)),
    (RuntimeError, "exactly two elements", lambda: torch.ops.aten.max_unpool2d(torch.ones(1, 1, 1, 1).npu(), torch.zeros(1, 1, 1, 1).long().npu(), [4])),
    (RuntimeError, "CheckShape failed", lambda: torch.lerp(torch.randn(3).npu(), torch.randn(4).npu(), 0.5)),
    (RuntimeError, "CheckShape failed", lambda: torch.lerp(torch.randn(3).npu(), torch.randn(3).npu(), torch.randn(4).npu())),
    (RuntimeError, "CheckShape failed", lambda: torch.randn(3).npu().lerp_(torch.randn(2, 3).npu(), 0.5)),
    (RuntimeError, "expected dtype", lambda: torch.lerp(torch.randn(3).npu(), torch.randn(3).double().npu(), 0.5)),
    (RuntimeError, "output size must be 2", lambda: torch.ops.aten.adaptive_avg_pool2d(torch.ones(1, 1, 2, 2).npu(), [1, 1, 1])),
    (RuntimeError, "can't be cast", lambda: torch.acosh(torch.ones(3).npu(), out=torch.zeros(3).int().npu())),
    (IndexError, "out of bounds", lambda: F.nll_loss(torch.randn(2, 3).npu(), torch.tensor([0, 9]).npu())),
]  # fmt: skip


@pytest.mark.parametrize("case", range(len(REFUSED)))
def test_refused_as_on_an_npu(case: int) -> None:
    kind, words, attempt = REFUSED[case]
    with pytest.raises(kind, match=words):
        attempt()
