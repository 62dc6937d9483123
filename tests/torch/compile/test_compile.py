"""torch.compile, torch.export and tracing on npu tensors."""

from __future__ import annotations

import copy
import subprocess
import sys
import warnings
from collections.abc import Iterator
from pathlib import Path

import pytest
import torch
import torch_npu  # noqa: F401
from torch import Tensor, nn

from tests.torch.networks import SMALL, loss_of  # isort: skip

GRAPHS = ["aot_eager", "npugraphs", "npugraph_ex"]
COMPILERS = ["inductor", "npu"]


@pytest.fixture(autouse=True)
def fresh() -> Iterator[None]:
    """No compiled graphs from other tests, and the compiler's own deprecations are not ours."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        torch.compiler.reset()  # the first time it imports the compiler
        yield


def mixed(x: Tensor, y: Tensor) -> Tensor:
    return (torch.sin(x) * y + 1).softmax(-1) @ y.t()


def check(function: object, backend: str, *inputs: Tensor) -> None:
    """Values and gradients, on several calls: the first captures or compiles, the others use it."""
    compiled = torch.compile(function, backend=backend)
    for shift in range(3):
        here = [(one + shift).requires_grad_() for one in inputs]
        there = [one.detach().npu().requires_grad_() for one in here]
        expected, found = function(*here), compiled(*there)
        assert found.device.type == "npu"
        expected.square().sum().backward()
        found.square().sum().backward()
        torch.testing.assert_close(found.cpu(), expected, rtol=1e-4, atol=1e-5)
        for mine, theirs in zip(there, here, strict=True):
            torch.testing.assert_close(mine.grad.cpu(), theirs.grad, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("backend", ["eager", *GRAPHS])
def test_values_and_gradients(backend: str) -> None:
    check(mixed, backend, torch.randn(4, 6), torch.randn(4, 6))


@pytest.mark.slow
@pytest.mark.parametrize("backend", COMPILERS)
def test_inductor_values_and_gradients(backend: str) -> None:
    check(mixed, backend, torch.randn(4, 6), torch.randn(4, 6))


def test_inductor_writes_c_for_npu() -> None:
    """One kernel for the whole expression, called on npu memory."""
    from torch._inductor.utils import run_and_get_code

    x = torch.randn(64, device="npu")
    result, (code,) = run_and_get_code(torch.compile(lambda a: (a.sin() + a.cos()).relu() * 2, backend="npu"), x)
    torch.testing.assert_close(result, (x.sin() + x.cos()).relu() * 2)
    assert result.device.type == "npu"
    assert code.count("cpp_fused") >= 1 and "extern_kernels" not in code.split("def call")[1]
    assert "device='npu:0'" in code


@pytest.mark.slow
def test_inductor_reductions_indices_and_shapes() -> None:
    def function(x: Tensor, places: Tensor) -> tuple[Tensor, ...]:
        picked = x[places]
        return picked.mean(0), picked.argmax(1), torch.where(picked > 0, picked, -1).cumsum(0), x.view(-1)[::2].sum()

    compiled = torch.compile(function, backend="inductor", dynamic=True)
    for rows in (5, 9):
        x, places = torch.randn(rows, 7), torch.tensor([3, 1, 1])
        for mine, theirs in zip(compiled(x.npu(), places.npu()), function(x, places), strict=True):
            torch.testing.assert_close(mine.cpu(), theirs)


def losses(model: nn.Module, step: object, batches: list[tuple[Tensor, Tensor]]) -> list[float]:
    optimizer, found = torch.optim.SGD(model.parameters(), lr=0.05), []
    for inputs, targets in batches:
        optimizer.zero_grad()
        loss = loss_of(step(inputs), targets)
        loss.backward()
        optimizer.step()
        found.append(loss.item())
    return found


def check_training(name: str, backend: str) -> None:
    torch.manual_seed(0)
    case = SMALL[name]
    model = case.make()
    twin = copy.deepcopy(model).npu()
    batches = [case.batch() for _ in range(4)]
    expected = losses(model, model, batches)
    result = losses(twin, torch.compile(twin, backend=backend), [(a.npu(), b.npu()) for a, b in batches])
    assert result == pytest.approx(expected, rel=1e-3)


@pytest.mark.parametrize("backend", GRAPHS)
def test_a_model_trains_alike(backend: str) -> None:
    check_training("gpt2", backend)


@pytest.mark.slow
@pytest.mark.parametrize("name", ["resnet", "vit", "bert", "gpt2"])
def test_models_train_alike_in_inductor(name: str) -> None:
    check_training(name, "npu")


@pytest.mark.parametrize("backend", ["npugraphs", "npugraph_ex"])
def test_graph_backends_keep_old_results_and_mutations(backend: str) -> None:
    double = torch.compile(lambda a: a * 2, backend=backend)
    results = [double(torch.full((3,), float(i), device="npu")) for i in range(4)]
    assert [one[0].item() for one in results] == [0, 2, 4, 6]

    def count(a: Tensor) -> Tensor:
        a.add_(1)
        return a * 10

    compiled, a = torch.compile(count, backend=backend), torch.zeros(2, device="npu")
    assert [compiled(a)[0].item() for _ in range(3)] == [10, 20, 30]
    assert a.tolist() == [3, 3]


def test_graph_backends_take_other_shapes_and_host_values() -> None:
    shape = torch.compile(lambda a: a.sum() + a.shape[0], backend="npugraphs")
    assert [shape(torch.ones(n, device="npu")).item() for n in (2, 3, 4)] == [4, 6, 8]
    masked = torch.compile(lambda a: a[a > 1] * 2, backend="npugraphs")
    for values in ([1.0, 2.0], [2.0, 3.0], [0.0, 5.0]):
        assert masked(torch.tensor(values, device="npu")).tolist() == [2 * v for v in values if v > 1]


def test_names_are_listed() -> None:
    assert {"npu", "npugraphs", "npugraph_ex", "inductor"} <= set(torch._dynamo.list_backends())


def test_graph_breaks_and_devices() -> None:
    def function(x: Tensor) -> Tensor:
        y = torch.zeros(3, device=x.device) + x
        if y.sum().item() > 0:
            return y.to("cpu").npu() + 1
        return y - 1

    compiled = torch.compile(function, backend="aot_eager")
    for value in (1.0, -1.0):
        x = torch.full((3,), value, device="npu")
        assert torch.equal(compiled(x), function(x))


def test_an_exported_program_computes_what_the_model_does() -> None:
    torch.manual_seed(0)
    model = SMALL["vit"].make().eval().npu()
    images = SMALL["vit"].batch()[0].npu()
    program = torch.export.export(model, (images,))
    torch.testing.assert_close(program.module()(images), model(images))
    assert all(one.device.type == "npu" for one in program.state_dict.values())


def test_exported_programs_are_saved_and_loaded(tmp_path: Path) -> None:
    model = nn.Sequential(nn.Linear(3, 4), nn.ReLU()).npu()
    x = torch.randn(5, 3, device="npu")
    rows = torch.export.Dim("rows", min=2, max=64)
    program = torch.export.export(model, (x,), dynamic_shapes=({0: rows},))
    torch.export.save(program, tmp_path / "model.pt2")
    loaded = torch.export.load(tmp_path / "model.pt2").module()
    y = torch.randn(9, 3, device="npu")
    torch.testing.assert_close(loaded(y), model(y))


def test_jit_trace(tmp_path: Path) -> None:
    model = nn.Sequential(nn.Conv2d(3, 4, 3), nn.BatchNorm2d(4), nn.ReLU()).eval().npu()
    x = torch.randn(1, 3, 8, 8, device="npu")
    traced = torch.jit.trace(model, x)
    torch.testing.assert_close(traced(x), model(x))
    traced.save(tmp_path / "model.pt")
    torch.testing.assert_close(torch.jit.load(tmp_path / "model.pt", map_location="npu")(x), model(x))


def test_fake_tensors_know_npu() -> None:
    from torch._subclasses.fake_tensor import FakeTensorMode

    with FakeTensorMode():
        x = torch.empty(1 << 20, 1 << 20, device="npu")
        assert ((x @ x).sum(0).device.type, (x @ x).shape) == ("npu", (1 << 20, 1 << 20))


def test_the_import_does_not_load_the_compiler() -> None:
    code = "import torch, torch_npu, sys; print([m for m in sys.modules if m.startswith(('torch._dynamo', 'torch._inductor'))])"
    found = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert found.stdout.strip() == "[]"


def test_inductor_stays_on_the_device_of_its_inputs() -> None:
    def branches(x: Tensor) -> Tensor:
        return torch.cond(x.sum() > 0, lambda x: (x * 2).sin() + 1, lambda x: x.cos() - 3, (x,))

    for index in (0, 1):
        x = torch.rand(4, device=f"npu:{index}")
        for function in (lambda x: x * 2 + 1, branches):
            made = torch.compile(function)(x)
            assert made.device == x.device
            torch.testing.assert_close(made, function(x))
    linear = nn.Linear(3, 3).npu(1)
    given = torch.rand(2, 3, device="npu:1")
    torch.testing.assert_close(torch.compile(linear)(given), linear(given))


@pytest.mark.parametrize("backend", ["eager", "aot_eager"])
def test_streams_inside_compiled_functions(backend: str) -> None:
    side = torch.npu.Stream()

    def block(x: Tensor) -> Tensor:
        with torch.npu.stream(side):
            y = x + 1
        return y * 3

    def plain(x: Tensor) -> Tensor:
        torch.npu.set_stream(side)
        y = x * 2
        torch.npu.set_stream(torch.npu.default_stream())
        return y - 1

    x = torch.ones(3, device="npu")
    for function in (block, plain):
        torch.testing.assert_close(torch.compile(function, backend=backend)(x), function(x))
    assert torch.npu.current_stream() == torch.npu.default_stream()


def _causal(b: Tensor, h: Tensor, row: Tensor, column: Tensor) -> Tensor:
    return row >= column


def test_flex_attention() -> None:
    from torch.nn.attention.flex_attention import create_block_mask, flex_attention

    host = [torch.randn(2, 2, 64, 16) for _ in range(3)]
    q, k, v = (one.npu().requires_grad_() for one in host)
    hidden = torch.ones(64, 64, dtype=torch.bool).triu(1)
    mask = create_block_mask(_causal, None, None, 64, 64, device="npu")
    rows = [one.clone().requires_grad_() for one in host]
    scores = (rows[0] @ rows[1].mT / 4 + 0.5).masked_fill(hidden, -torch.inf)
    wanted = scores.softmax(-1) @ rows[2]
    found, level = flex_attention(
        q, k, v, score_mod=lambda score, b, h, i, j: score + 0.5, block_mask=mask, return_lse=True
    )
    torch.testing.assert_close(found.cpu(), wanted, rtol=1e-5, atol=1e-5)
    torch.testing.assert_close(level.cpu(), scores.logsumexp(-1), rtol=1e-5, atol=1e-5)
    found.sum().backward()
    wanted.sum().backward()
    for one, other in zip((q, k, v), rows, strict=True):
        torch.testing.assert_close(one.grad.cpu(), other.grad, rtol=1e-4, atol=1e-5)


@pytest.mark.slow
def test_compiled_flex_attention() -> None:
    from torch.nn.attention.flex_attention import create_block_mask, flex_attention

    host = [torch.randn(2, 2, 64, 16) for _ in range(3)]
    hidden = torch.ones(64, 64, dtype=torch.bool).triu(1)
    wanted = (host[0] @ host[1].mT / 4).masked_fill(hidden, -torch.inf).softmax(-1) @ host[2]
    mask = create_block_mask(_causal, None, None, 64, 64, device="npu")
    compiled = torch.compile(flex_attention)
    result = compiled(*(one.npu() for one in host), block_mask=mask)
    torch.testing.assert_close(result.cpu(), wanted, rtol=1e-5, atol=1e-5)
    with pytest.raises(Exception, match="neither derivatives nor return_lse on npu"):
        compiled(*(one.npu().requires_grad_() for one in host), block_mask=mask)
