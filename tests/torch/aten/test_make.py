"""Making tensors on npu, showing them, looking at them otherwise and writing into them: as on the cpu, text included."""

from __future__ import annotations

import copy
import re
import warnings
from collections.abc import Callable

import numpy
import pytest

torch = pytest.importorskip("torch")
pytest.importorskip("torch_npu")
from torch import Tensor, nn  # noqa: E402

Act = Callable[[Tensor], object]


def text(x: Tensor) -> str:
    """What print shows, without the device and the line breaks that it moves."""
    return re.sub(r"\s+", " ", re.sub(r",\s*device='npu:0'", "", repr(x)))


def experimental() -> Tensor:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # torch's word on complex32
        return torch.randn(3, dtype=torch.complex32)


torch.manual_seed(0)
SHOWN = {
    "small": torch.randn(3),
    "large": torch.randn(100, 100),
    "long": torch.arange(5000),
    "half": torch.randn(4, 3).half(),
    "bfloat16": torch.randn(5).bfloat16(),
    "complex": torch.randn(3, dtype=torch.complex64),
    "complex32": experimental(),
    "conj": torch.randn(3, dtype=torch.complex64).conj(),
    "neg": torch.randn(3, dtype=torch.complex64).conj().imag,
    "strided": torch.randn(4, 6).t()[::2],
    "bool": torch.tensor([True, False]),
    "empty": torch.empty(0, 3),
    "number": torch.tensor(3.5),
    "extreme": torch.tensor([float("nan"), float("inf"), -1e10, 1e-8]),
    "int8": torch.arange(4, dtype=torch.int8),
    "uint16": torch.arange(3).to(torch.uint16),
    "uint64": torch.arange(3).to(torch.uint64),
    "float8": torch.randn(3).to(torch.float8_e4m3fn),
}


@pytest.mark.parametrize("name", list(SHOWN))
def test_shown_and_read_as_on_the_cpu(name: str) -> None:
    x = SHOWN[name]
    assert "npu:0" in repr(x.npu())
    assert text(x.npu()) == text(x)
    assert str(x.npu().tolist()) == str(x.tolist())
    if x.numel() == 1:
        assert x.npu().item() == x.item()
        assert f"{x.npu():.3f}" == f"{x:.3f}"


def test_gradients_are_shown() -> None:
    x = torch.ones(2).npu().requires_grad_()
    assert repr(x) == "tensor([1., 1.], device='npu:0', requires_grad=True)"
    assert repr(x * 2) == "tensor([2., 2.], device='npu:0', grad_fn=<MulBackward0>)"
    with torch.no_grad():
        torch.set_printoptions(precision=2)
        try:
            assert repr(x / 3) == "tensor([0.33, 0.33], device='npu:0')"
        finally:
            torch.set_printoptions(profile="default")


@pytest.mark.parametrize("make", [torch.empty, torch.zeros, torch.ones, torch.rand, torch.randn])
def test_factories_make_tensors_on_npu(make: Callable[..., Tensor]) -> None:
    for dtype in (torch.float16, torch.bfloat16, torch.float32, torch.float64):
        made = make(2, 3, dtype=dtype, device="npu", layout=torch.strided, requires_grad=True)
        assert (made.dtype, made.device.type, made.shape, made.requires_grad) == (dtype, "npu", (2, 3), True)
    with pytest.raises(RuntimeError, match="Only dense CPU tensors can be pinned"):
        make(2, device="npu", pin_memory=True)
    with pytest.raises((NotImplementedError, RuntimeError), match="sparse"):
        make(2, 2, device="npu", layout=torch.sparse_coo)


OTHER_FACTORIES: dict[str, Callable[[str], Tensor]] = {
    "arange": lambda d: torch.arange(5, device=d),
    "linspace": lambda d: torch.linspace(0, 1, 5, device=d),
    "logspace": lambda d: torch.logspace(0, 1, 5, device=d),
    "eye": lambda d: torch.eye(3, device=d),
    "full": lambda d: torch.full((2,), 7, device=d),
    "tril_indices": lambda d: torch.tril_indices(3, 3, device=d),
    "triu_indices": lambda d: torch.triu_indices(3, 3, device=d),
    "hann_window": lambda d: torch.hann_window(5, device=d),
    "kaiser_window": lambda d: torch.kaiser_window(5, device=d),
    "kaiser_window.beta": lambda d: torch.kaiser_window(5, False, 8.0, device=d),
    "kaiser_window.half": lambda d: torch.kaiser_window(5, dtype=torch.float16, device=d),
    "signal": lambda d: torch.signal.windows.gaussian(5, device=d),
    "tensor": lambda d: torch.tensor([[1, 2], [3, 4]], device=d),
    "tensor.number": lambda d: torch.tensor(3.0, device=d),
    "tensor.bool": lambda d: torch.tensor([True, False], device=d),
    "tensor.of_tensors": lambda d: torch.tensor([torch.tensor(1.0, device=d), 2], device=d),
    "tensor.numpy": lambda d: torch.tensor(numpy.arange(3.0), device=d),
    "as_tensor": lambda d: torch.as_tensor([1, 2], device=d),
    "asarray": lambda d: torch.asarray(numpy.ones(3), device=d),
    "scalar_tensor": lambda d: torch.scalar_tensor(2, device=d),
    "empty_permuted": lambda d: torch.empty_permuted((2, 3), (1, 0), device=d).zero_(),
    "empty_strided": lambda d: torch.empty_strided((2, 3), (1, 2), device=d).zero_(),
    "complex": lambda d: torch.complex(torch.ones(2, device=d), torch.zeros(2, device=d)),
    "vander": lambda d: torch.vander(torch.arange(3, device=d)),
}


@pytest.mark.parametrize("name", list(OTHER_FACTORIES))
def test_other_factories(name: str) -> None:
    found, wanted = OTHER_FACTORIES[name]("npu"), OTHER_FACTORIES[name]("cpu")
    assert found.device.type == "npu" and found.stride() == wanted.stride()
    torch.testing.assert_close(found.cpu(), wanted, rtol=0, atol=0)


def test_random_factories() -> None:
    assert torch.randperm(9, device="npu").sort().values.tolist() == list(range(9))
    made = torch.randint(2, 5, (100,), device="npu")
    assert made.min() >= 2 and made.max() < 5
    assert abs(torch.normal(3.0, 0.1, (100,), device="npu").mean().item() - 3) < 0.1


@pytest.mark.parametrize("word", ["empty", "zeros", "ones", "rand", "randn", "full", "randint"])
def test_like_keeps_the_strides(word: str) -> None:
    x = torch.randn(2, 3, 4, 5).npu().to(memory_format=torch.channels_last)
    make, more = getattr(torch, f"{word}_like"), (3,) if word in ("full", "randint") else ()
    assert make(x, *more).stride() == x.stride()
    plain = make(x, *more, dtype=torch.half, memory_format=torch.contiguous_format)
    assert plain.is_contiguous() and plain.dtype == torch.half and plain.device == x.device
    assert make(x, *more, device="cpu").device.type == "cpu"
    assert make(x.cpu(), *more, device="npu").device.type == "npu"


@pytest.mark.parametrize("word", ["empty", "zeros", "ones", "full", "tensor"])
def test_new_tensors_have_the_device_and_type_of_theirs(word: str) -> None:
    x = torch.ones(2, dtype=torch.half).npu()
    given = ([1, 2],) if word == "tensor" else ((2, 3), 5) if word == "full" else ((2, 3),)
    made = getattr(x, f"new_{word}")(*given)
    assert made.device == x.device and made.dtype == getattr(x.cpu(), f"new_{word}")(*given).dtype
    assert getattr(x, f"new_{word}")(*given, device="cpu").device.type == "cpu"
    assert getattr(x.cpu(), f"new_{word}")(*given, device="npu", dtype=torch.int32).dtype == torch.int32


@pytest.mark.parametrize("weights_too", [True, False])
def test_channels_last_goes_through_a_network(weights_too: bool) -> None:
    layers = nn.Sequential(
        nn.Conv2d(3, 8, 3), nn.BatchNorm2d(8), nn.ReLU(), nn.MaxPool2d(2), nn.AvgPool2d(2), nn.Upsample(scale_factor=2),
        nn.AdaptiveAvgPool2d(2), nn.Conv2d(8, 4, 1), nn.GroupNorm(2, 4),
    )  # fmt: skip

    def strides(device: str) -> list[tuple[int, ...]]:
        x = torch.ones(2, 3, 16, 16, device=device).to(memory_format=torch.channels_last).requires_grad_()
        network, seen, value = copy.deepcopy(layers).to(device), [], x
        if weights_too:
            network.to(memory_format=torch.channels_last)
        for layer in network:
            value = layer(value)
            seen.append(value.stride())
        value.sum().backward()
        return [*seen, x.grad.stride(), *(p.grad.stride() for p in network.parameters())]

    assert strides("npu") == strides("cpu")


COMPLEX: dict[str, Callable[[Tensor], Tensor]] = {
    "view_as_real": torch.view_as_real,
    "conj": lambda z: z.conj().resolve_conj(),
    "product": lambda z: z.conj() @ z.mT,
    "adjoint": lambda z: z.mH.contiguous(),
    "negative bit": lambda z: z.conj().imag.resolve_neg(),
    "negative bit used": lambda z: z.conj().imag * 2,
    "as float": lambda z: z.view(torch.float32),
}


@pytest.mark.parametrize("name", list(COMPLEX))
def test_complex_views(name: str) -> None:
    z = torch.randn(3, 4, dtype=torch.complex64)
    assert torch.equal(COMPLEX[name](z.npu()).cpu(), COMPLEX[name](z))


def test_complex_views_share_memory_and_bits() -> None:
    z = torch.randn(3, dtype=torch.complex64)
    there = z.npu()
    assert there.conj().is_conj() and there.conj().imag.is_neg() and there.conj()[0].is_conj()
    there.real.fill_(2)
    torch.view_as_real(there)[:, 1] = 3
    assert there.tolist() == [2 + 3j] * 3
    assert torch.equal(z.npu().conj().cpu(), z.conj()) and torch.equal(z.conj().npu().cpu(), z.conj())


def on(x: Tensor, value: Tensor) -> Tensor:
    return value.to(x.device)


WRITTEN: dict[str, Act] = {
    "int": lambda x: x.__setitem__(0, 1.0),
    "row": lambda x: x.__setitem__(slice(1, 3), on(x, torch.ones(5))),
    "number of the host": lambda x: x.__setitem__((0, 0), torch.tensor(7.0)),
    "row of the host": lambda x: x.__setitem__(0, torch.ones(5)),
    "mask": lambda x: x.__setitem__(x > 0, 0),
    "mask, tensor": lambda x: x.__setitem__(x > 0, on(x, torch.tensor(3.0))),
    "mask of the host": lambda x: x.__setitem__(x.cpu() > 0, 5),
    "list": lambda x: x.__setitem__([0, 2], 9.0),
    "None": lambda x: x.__setitem__((None, 0), 2.0),
    "ellipsis": lambda x: x.__setitem__((..., 1), 3.0),
    "index": lambda x: x.__setitem__((slice(None), on(x, torch.tensor([0, 2]))), on(x, torch.zeros(4, 2))),
    "index of the host": lambda x: x.__setitem__(torch.tensor([1]), 2.0),
    "another dtype": lambda x: x.__setitem__(1, on(x, torch.arange(5))),
    "bool": lambda x: x.__setitem__(True, 1.0),
    "steps": lambda x: x.__setitem__((slice(None, None, 2), slice(None, None, 2)), 4.0),
    "masked_scatter": lambda x: x.masked_scatter_(x > 0, on(x, torch.arange(20.0))),
    "index_put": lambda x: x.index_put_((on(x, torch.tensor([0, 0])),), on(x, torch.tensor(1.0)), accumulate=True),
    "masked softmax": lambda x: x.copy_(torch.masked.softmax(x, 0, mask=x > -1)),
    "masked mean": lambda x: x[0].copy_(torch.masked.mean(x, 0, mask=x > 0).nan_to_num()),
}


@pytest.mark.parametrize("name", list(WRITTEN))
def test_written_into_as_on_the_cpu(name: str) -> None:
    torch.manual_seed(0)
    here = torch.randn(4, 5)
    before, there = here.clone(), here.npu()
    WRITTEN[name](here)
    WRITTEN[name](there)
    torch.testing.assert_close(there.cpu(), here)
    assert not torch.equal(here, before)


def test_arrays_of_numpy_are_for_the_host() -> None:
    with pytest.raises(TypeError, match=r"can't assign a numpy.ndarray to a torch.npu.FloatTensor"):
        torch.ones(2).npu()[0] = numpy.ones(2)
    with pytest.raises(TypeError, match="convert npu:0 device type tensor to numpy"):
        torch.ones(2).npu().numpy()
