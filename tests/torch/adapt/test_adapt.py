"""npu_native_functions.yaml with bodies in Python: declared, registered, bound, taken back."""

from __future__ import annotations

import gc
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
import torch_npu
from torch_npu import adapt

HEAD = "backend: NPU\ncpp_namespace: at_npu::native\n"
Load = Callable[..., adapt.Adapter]


@pytest.fixture
def load(tmp_path: Path) -> Iterator[Load]:
    """Loads a text with bodies, and takes everything back afterwards."""
    made: list[adapt.Adapter] = []

    def start(text: str, bodies: Any) -> adapt.Adapter:
        path = tmp_path / "npu_native_functions.yaml"
        path.write_text(HEAD + text)
        made.append(adapt.load(path, bodies=bodies))
        return made[-1]

    yield start
    for one in made:
        one.close()


CUSTOM = """
custom:
  - func: npu_adapt_cube(Tensor self, float a=1.0, *, int[]? sizes=None) -> Tensor
    variants: function, method
"""


def test_a_custom_operator_of_torch_operators(load: Load) -> None:
    def npu_adapt_cube(self: torch.Tensor, a: float = 1.0, sizes: list[int] | None = None) -> torch.Tensor:
        found = a * self * self * self
        return found if sizes is None else found.reshape(sizes)

    load(CUSTOM, {"npu_adapt_cube": npu_adapt_cube})
    x = torch.tensor([[1.0, -2.0], [3.0, 0.5]])
    for found in (
        torch.ops.npu.npu_adapt_cube(x.npu(), 2.0),
        torch_npu.npu_adapt_cube(x.npu(), 2.0),
        x.npu().npu_adapt_cube(2.0),
    ):
        assert found.device.type == "npu" and torch.equal(found.cpu(), 2 * x**3)
    assert torch_npu.npu_adapt_cube(x.npu(), sizes=[4]).shape == (4,)
    with pytest.raises(NotImplementedError, match="npu_adapt_cube"):
        torch.ops.npu.npu_adapt_cube(x)


def test_names_go_with_the_adapter(load: Load) -> None:
    adapter = load(CUSTOM, {"npu_adapt_cube": lambda self, a=1.0, sizes=None: self})
    assert hasattr(torch_npu, "npu_adapt_cube") and hasattr(torch.Tensor, "npu_adapt_cube")
    adapter.close()
    assert not hasattr(torch_npu, "npu_adapt_cube") and not hasattr(torch.Tensor, "npu_adapt_cube")


def test_an_operator_that_is_held_outlives_its_adapter(load: Load) -> None:
    adapter = load(CUSTOM, {"npu_adapt_cube": lambda self, a=1.0, sizes=None: self * 1})
    held = torch_npu.npu_adapt_cube
    adapter.close()
    with pytest.raises(NotImplementedError, match="npu_adapt_cube"):
        held(torch.ones(1).npu())
    load(CUSTOM, {"npu_adapt_cube": lambda self, a=1.0, sizes=None: self * 5})
    assert held(torch.ones(1).npu()).item() == 5


def test_an_adapter_that_nobody_keeps_stays(tmp_path: Path) -> None:
    path = tmp_path / "x.yaml"
    path.write_text(HEAD + "supported:\n  - erfinv\n")
    adapt.load(path, bodies={"erfinv": lambda self: self * 0 + 3})
    gc.collect()
    try:
        assert torch.erfinv(torch.zeros(1).npu()).item() == 3
    finally:
        adapt._load._open[-1].close()


def test_a_body_in_numpy_sees_the_memory_and_may_be_strided(load: Load) -> None:
    @adapt.numpy_body
    def npu_adapt_sort(self: Any, others: list[Any]) -> tuple[Any, Any]:
        assert isinstance(self, np.ndarray)
        return np.sort(self, -1), np.float32(sum(one.sum() for one in others))

    load(
        "custom:\n  - func: npu_adapt_sort(Tensor self, Tensor[] others) -> (Tensor, Tensor)\n",
        {"npu_adapt_sort": npu_adapt_sort},
    )
    x = torch.randn(4, 3)
    values, total = torch_npu.npu_adapt_sort(x.npu().t(), [x.npu(), x.npu() + 1])
    assert torch.equal(values.cpu(), x.t().sort(-1).values)
    assert total.device.type == "npu" and total.dim() == 0
    torch.testing.assert_close(total.cpu(), 2 * x.sum() + 12, rtol=1e-5, atol=1e-5)


def test_host_view_writes_to_the_device() -> None:
    for dtype in (torch.float32, torch.bfloat16, torch.bool, torch.int64):
        x = torch.ones(4, 6).to(dtype).npu()
        view = adapt.host_view(x[1:, ::2])
        assert view.device.type == "cpu" and view.shape == (3, 3)
        view.zero_()
        wanted = torch.ones(4, 6).to(dtype)
        wanted[1:, ::2] = 0
        assert torch.equal(x.cpu(), wanted)
    assert adapt.host_view(torch.empty(0, 3).npu()).shape == (0, 3)


def test_host_view_passes_numbers_through() -> None:
    for number in (1, 2.5, True, 1j, None):
        assert adapt.host_view(number) is number
    with pytest.raises(TypeError, match="host_view takes a tensor, a number or None, not str"):
        adapt.host_view("x")


def test_an_operator_of_aten_gets_another_body_and_its_own_back(load: Load) -> None:
    seen = []

    def erfinv(self: torch.Tensor) -> torch.Tensor:
        seen.append(self.shape)
        return torch.erfinv(adapt.host_view(self)).npu()

    x = torch.tensor([0.1, -0.5])
    adapter = load("supported:\n  - erfinv\n", {"erfinv": erfinv})
    assert torch.equal(torch.erfinv(x.npu()).cpu(), torch.erfinv(x)) and seen == [(2,)]
    leaf = x.npu().requires_grad_()
    torch.erfinv(leaf).sum().backward()
    other = x.clone().requires_grad_()
    torch.erfinv(other).sum().backward()
    torch.testing.assert_close(leaf.grad.cpu(), other.grad)
    assert len(seen) >= 2
    count = len(seen)
    adapter.close()
    torch.erfinv(x.npu())
    assert len(seen) == count


def test_overloads_and_in_place_and_out(load: Load) -> None:
    called = []

    def body(name: str) -> Callable[..., Any]:
        def run(
            self: torch.Tensor, other: torch.Tensor, alpha: float = 1, out: torch.Tensor | None = None
        ) -> torch.Tensor:
            called.append(name)
            result = torch.add(adapt.host_view(self), adapt.host_view(other), alpha=alpha)
            target = self if name == "add___Tensor" else out
            return result.npu() if target is None else target.copy_(result)

        return run

    text = "supported:\n  - add.Tensor\n  - func: add_.Tensor\n    op_api: all_version\n  - add.out\n"
    load(text, {name: body(name) for name in ("add__Tensor", "add___Tensor", "add__out")})
    x, y = torch.randn(3), torch.randn(3)
    assert torch.equal((x.npu() + y.npu()).cpu(), x + y)
    z = x.npu()
    z += y.npu()
    assert torch.equal(z.cpu(), x + y)
    out = torch.empty(3).npu()
    torch.add(x.npu(), y.npu(), alpha=2, out=out)
    torch.testing.assert_close(out.cpu(), x + 2 * y)
    assert called == ["add__Tensor", "add___Tensor", "add__out"]
    assert torch.equal((x.npu() + 1).cpu(), x + 1) and torch.equal(
        (2.5 + x.npu()).cpu(), x + 2.5
    )  # numbers come as numbers


def test_custom_autograd(load: Load) -> None:
    class Square(torch.autograd.Function):
        @staticmethod
        def forward(ctx: Any, x: torch.Tensor) -> torch.Tensor:
            ctx.save_for_backward(x)
            return x * x

        @staticmethod
        def backward(ctx: Any, grad: torch.Tensor) -> torch.Tensor:
            (x,) = ctx.saved_tensors
            return grad * 10 * x

    load("custom_autograd:\n  - func: npu_adapt_square(Tensor self) -> Tensor\n", {"npu_adapt_square": Square.apply})
    x = torch.tensor([1.0, 2.0]).npu().requires_grad_()
    torch_npu.npu_adapt_square(x).sum().backward()
    assert x.grad.tolist() == [10.0, 20.0]
    with torch.inference_mode():
        assert torch_npu.npu_adapt_square(x.detach()).tolist() == [1.0, 4.0]


def test_dispatch_names_keys_and_bodies(load: Load) -> None:
    text = """
custom:
  - func: npu_adapt_scaled(Tensor self) -> Tensor
    dispatch:
      NPU: on_npu
      CPU: on_cpu
      Meta: shape
    exposed: False
    tags: pt2_compliant_tag
"""
    load(text, {"on_npu": lambda self: self * 2, "on_cpu": lambda self: self * 3, "shape": torch.empty_like})
    assert torch.ops.npu.npu_adapt_scaled(torch.ones(1).npu()).item() == 2
    assert torch.ops.npu.npu_adapt_scaled(torch.ones(1)).item() == 3
    assert torch.ops.npu.npu_adapt_scaled(torch.ones(5, device="meta")).shape == (5,)
    assert not hasattr(torch_npu, "npu_adapt_scaled")
    assert torch.Tag.pt2_compliant_tag in torch.ops.npu.npu_adapt_scaled.default.tags


def test_an_operator_of_torch_npu_is_called_unless_dispatch_replaces_it(load: Load) -> None:
    x = torch.randn(4).npu()
    before = torch_npu.npu_fast_gelu(x)
    load("custom:\n  - func: npu_fast_gelu(Tensor self) -> Tensor\n", {})
    assert torch.equal(torch_npu.npu_fast_gelu(x), before)
    adapter = load(
        "custom:\n  - func: npu_fast_gelu(Tensor self) -> Tensor\n    dispatch:\n      NPU: mine\n",
        {"mine": lambda self: self * 0},
    )
    assert torch_npu.npu_fast_gelu(x).count_nonzero() == 0
    adapter.close()
    assert torch.equal(torch_npu.npu_fast_gelu(x), before)


def test_bodies_from_a_file(tmp_path: Path) -> None:
    (tmp_path / "my.yaml").write_text(HEAD + "custom:\n  - func: npu_adapt_minus(Tensor self) -> Tensor\n")
    (tmp_path / "bodies.py").write_text("def npu_adapt_minus(self):\n    return -self\n")
    adapter = adapt.load(tmp_path / "my.yaml", bodies=tmp_path / "bodies.py")
    assert torch_npu.npu_adapt_minus(torch.ones(1).npu()).item() == -1
    adapter.close()


def test_missing_bodies_are_named(load: Load) -> None:
    with pytest.raises(adapt.AdaptError, match=r"the bodies lack add__Tensor \(for add.Tensor, line 4\)"):
        load("supported:\n  - add.Tensor\n", {})
    assert (torch.ones(1).npu() + 1).item() == 2


@pytest.mark.parametrize("arguments", [{}, {"bodies": {}, "sources": ["x.cpp"]}])
def test_bodies_or_sources(arguments: dict[str, Any], tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="either bodies"):
        adapt.load(tmp_path / "x.yaml", **arguments)
