"""Nested tensors, sparse ones (refused), subclasses, modes that see every call, fake tensors: on npu."""

from __future__ import annotations

import copy
from typing import Any

import pytest

torch = pytest.importorskip("torch")
pytest.importorskip("torch_npu")
from torch import Tensor, nn  # noqa: E402
from torch._subclasses.fake_tensor import FakeTensorMode  # noqa: E402
from torch.nn import functional as F  # noqa: E402
from torch.utils._python_dispatch import TorchDispatchMode  # noqa: E402
from torch.utils._pytree import tree_map  # noqa: E402

LAYOUTS = [torch.strided, torch.jagged]
pytestmark = [
    pytest.mark.filterwarnings("ignore:The PyTorch API of nested tensors"),
    pytest.mark.filterwarnings("ignore:ComplexHalf support"),
    pytest.mark.filterwarnings("ignore:Sparse"),
    pytest.mark.filterwarnings("ignore:.*[Ss]parse invariant"),
]


@pytest.fixture(autouse=True)
def seed() -> None:
    torch.manual_seed(0)


def parts(grad: bool = False) -> list[Tensor]:
    return [torch.randn(2, 4, requires_grad=grad), torch.randn(3, 4, requires_grad=grad)]


def padded(x: Tensor) -> Tensor:
    return torch.nested.to_padded_tensor(x, 0.0)


@pytest.mark.parametrize("layout", LAYOUTS)
def test_nested_tensors(layout: torch.layout) -> None:
    here = torch.nested.nested_tensor(parts(), layout=layout)
    there = here.npu()
    assert there.is_nested and there.device.type == "npu" and "npu:0" in repr(there)
    assert [u.shape for u in there.unbind()] == [u.shape for u in here.unbind()]
    assert there.unbind()[0].device.type == "npu"
    torch.testing.assert_close(padded(there.cpu()), padded(here))
    layer = nn.Linear(4, 3)
    wanted, found = padded(layer(here * 2).relu()), padded(copy.deepcopy(layer).npu()(there * 2).relu())
    assert found.device.type == "npu"
    torch.testing.assert_close(found.cpu(), wanted)


@pytest.mark.parametrize("layout", LAYOUTS)
def test_gradients_reach_the_parts(layout: torch.layout) -> None:
    here = parts(grad=True)
    there = [p.detach().npu().requires_grad_() for p in here]
    for leaves in (here, there):
        padded(torch.nested.as_nested_tensor(leaves, layout=layout) * 2).square().sum().backward()
    for a, b in zip(here, there, strict=True):
        torch.testing.assert_close(b.grad.cpu(), a.grad)


@pytest.mark.parametrize("layout", LAYOUTS)
def test_attention_over_nested_tensors(layout: torch.layout) -> None:
    rows = [torch.randn(2, 2, 4), torch.randn(3, 2, 4)]
    here = torch.nested.nested_tensor(rows, layout=layout).transpose(1, 2)
    there = torch.nested.nested_tensor(rows, layout=layout, device="npu").transpose(1, 2)
    if layout == torch.strided:
        here, there = here.contiguous(), there.contiguous()
    wanted, found = (F.scaled_dot_product_attention(x, x, x).transpose(1, 2) for x in (here, there))
    for a, b in zip(wanted.unbind(), found.unbind(), strict=True):
        torch.testing.assert_close(b.cpu(), a)


def test_encoder_with_padding_takes_its_fast_path() -> None:
    layer = nn.TransformerEncoderLayer(8, 2, 16, batch_first=True)
    here = nn.TransformerEncoder(layer, 2).eval()
    there, x = copy.deepcopy(here).npu(), torch.randn(2, 3, 8)
    mask = torch.tensor([[False, False, True], [False, False, False]])
    with torch.no_grad():
        wanted, found = here(x, src_key_padding_mask=mask), there(x.npu(), src_key_padding_mask=mask.npu())
    torch.testing.assert_close(found.cpu(), wanted)


def test_sparse_tensors_are_refused_with_words() -> None:
    a, weight = torch.eye(3).npu(), torch.randn(3, 2).npu().requires_grad_()
    attempts = (
        lambda: a.to_sparse(),
        lambda: a.to_sparse_csr(),
        lambda: a.to_sparse_bsr((1, 1)),
        lambda: torch.eye(3).to_sparse().npu(),
        lambda: torch.sparse_coo_tensor([[0], [0]], [1.0], device="npu"),
        lambda: torch.sparse.mm(torch.eye(3).to_sparse(), a),
        lambda: torch.eye(3).to_sparse_csr().npu() @ a,
        lambda: F.embedding(torch.tensor([0]).npu(), weight, sparse=True).sum().backward(),
        lambda: F.embedding_bag(torch.tensor([[0]]).npu(), weight, sparse=True).sum().backward(),
    )
    for attempt in attempts:
        with pytest.raises(NotImplementedError, match=r"sparse tensors are (not supported on npu|refused)"):
            attempt()


class Doubled(torch.Tensor):
    """Multiplies whatever is computed with it by two."""

    @classmethod
    def __torch_function__(cls, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        result = super().__torch_function__(func, types, args, kwargs or {})
        return torch.Tensor.mul(result.as_subclass(Tensor), 2) if func is torch.add else result


class Seen(TorchDispatchMode):
    def __init__(self) -> None:
        super().__init__()
        self.calls: list[tuple[str, str]] = []

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        result = func(*args, **(kwargs or {}))
        self.calls.append((str(func), result.device.type if isinstance(result, Tensor) else ""))
        return result


class Logged(torch.Tensor):
    """A wrapper around an npu tensor: torch sees its device, the operators see what is inside."""

    @staticmethod
    def __new__(cls, inner: Tensor) -> Logged:
        return torch.Tensor._make_wrapper_subclass(cls, inner.shape, dtype=inner.dtype, device=inner.device)

    def __init__(self, inner: Tensor) -> None:
        self.inner = inner

    @classmethod
    def __torch_dispatch__(cls, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        inside = tree_map(lambda x: x.inner if isinstance(x, Logged) else x, (args, kwargs or {}))
        return tree_map(lambda x: Logged(x) if isinstance(x, Tensor) else x, func(*inside[0], **inside[1]))


def test_subclasses_and_modes() -> None:
    x = torch.ones(3).npu()
    assert torch.add(x.as_subclass(Doubled), 1).tolist() == [4, 4, 4]
    assert type(x.as_subclass(Doubled) * 3) is Doubled
    with Seen() as seen:
        (x @ x + 1).relu_()
    assert seen.calls == [("aten.dot.default", "npu"), ("aten.add.Tensor", "npu"), ("aten.relu_.default", "npu")]
    logged = Logged(x) * 3 + Logged(x)
    assert logged.device.type == "npu" and type(logged) is Logged and logged.inner.tolist() == [4, 4, 4]


def test_fake_and_meta_tensors() -> None:
    before = torch.npu.memory_allocated()
    with FakeTensorMode() as mode:
        x = torch.empty(1 << 15, 1 << 15, device="npu")
        y = nn.functional.softmax(x @ x.t(), -1, dtype=torch.float32)
        assert y.device == torch.device("npu:0") and y.shape == (1 << 15, 1 << 15)
        assert (y > 0).dtype == torch.bool and F.adaptive_avg_pool2d(x[None, None], 2).shape == (1, 1, 2, 2)
        assert torch.fft.rfft(torch.empty(4, 8, device="npu", dtype=torch.half)).dtype == torch.complex32
    assert mode.from_tensor(torch.ones(2).npu()).device.type == "npu"
    assert torch.npu.memory_allocated() == before
    made = torch.empty_like(torch.ones(2, 3, device="meta"), device="npu")
    assert made.device.type == "npu" and torch.ones(2, device="npu").to("meta").device.type == "meta"
