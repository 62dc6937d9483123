"""Seed 000 (npu_model): its example as printed, where its tensors lie, and the same modules exported (level 2)."""

from __future__ import annotations

import hashlib
import importlib
import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from torch import nn

import dataflow as df
from tests.paths import PROGRAMS

SEED = PROGRAMS / "npu_model_page"
PRINTED = "37794955b142731d78d53a56c79194c7723b214128e87b4a9392ab7663cbbdc0"  # sha256 of the page's block of code
TIME_LIMIT_S = 120
WAIT = 30_000
FLOAT = df.DT_FLOAT


def _needs_stand_in() -> bool:
    """PyPI has torchvision for torch with CUDA only; beside ours it does not import."""
    try:
        importlib.import_module("torchvision.transforms")
    except (ImportError, RuntimeError):
        return True
    return False


def expected(image: torch.Tensor) -> torch.Tensor:
    """The page's four steps in plain torch; the crop by hand, zeros around pictures that are too small."""
    lack = [max(512 - size, 0) for size in image.shape[-2:]]
    image = F.pad(image, (lack[1] // 2, lack[1] - lack[1] // 2, lack[0] // 2, lack[0] - lack[0] // 2))
    top, left = [round((size - 512) / 2) for size in image.shape[-2:]]
    image = image[..., top : top + 512, left : left + 512]
    image = (F.interpolate(image, size=(256, 256), mode="bilinear") - 0.5) / 0.5
    return F.interpolate(image * 0.5 + 0.5, size=(512, 512), mode="bilinear")


def test_the_program_has_the_printed_text() -> None:
    text = (SEED / "program.py").read_text(encoding="utf-8")
    printed = text.split("# fmt: off\n")[1].split("# fmt: on\n")[0]
    assert hashlib.sha256(printed.encode()).hexdigest() == PRINTED


@pytest.mark.parametrize("engine", ["embedded", "inline"])
def test_the_program_as_printed(engine: str, tmp_path: Path) -> None:
    torch.manual_seed(7)
    images = [torch.rand(1, 3, *size) for size in ((768, 768), (600, 901), (400, 700))]
    torch.save(images, tmp_path / "images.pt")
    env = {key: value for key, value in os.environ.items() if not key.startswith(("SOFTNPU_", "ASCEND_"))}
    if _needs_stand_in():
        env["PYTHONPATH"] = str(SEED / "stand_ins")
    found = subprocess.run(
        [sys.executable, str(SEED / "program.py"), "images.pt", "results.pt", engine],
        cwd=tmp_path,
        env=env,
        capture_output=True,
        text=True,
        timeout=TIME_LIMIT_S,
    )
    assert found.returncode == 0, found.stdout + found.stderr
    results = torch.load(tmp_path / "results.pt")
    for image, result in zip(images, results, strict=True):
        assert result.device.type == "cpu"
        torch.testing.assert_close(result, expected(image))
    rows = json.loads(found.stdout)
    assert {row["node"] for row in rows} == {
        f"{name}_fnode" for name in ("preprocess", "FakeModel1", "FakeModel2", "postprocess")
    }
    assert len({row["pid"] for row in rows}) == 1, "nodes of one device share a process"
    # a call is counted when it has ended, which is after its result has left
    assert all(len(images) - 1 <= row["calls"] <= len(images) and row["failures"] == 0 for row in rows)


# ---- in this process --------------------------------------------------------------------------------------------------------


@pytest.fixture(params=["embedded", "inline"])
def engine(request: pytest.FixtureRequest) -> Iterator[str]:
    df.finalize()
    df.init({"softnpu.flow.engine": request.param})
    yield request.param
    df.finalize()


def results_of(graph: Any, inputs: dict[Any, Any]) -> list[Any]:
    assert graph.feed(inputs, timeout=WAIT) == 0
    found, code = graph.fetch(timeout=WAIT)
    assert code == 0
    return list(found)


def test_tensors_stay_where_they_are_between_nodes_of_one_device(engine: str) -> None:
    def mark(*tensors: torch.Tensor) -> torch.Tensor:
        return torch.tensor([os.getpid(), *(one.data_ptr() for one in tensors)]).npu()

    @df.npu_model(num_returns=2)
    def first(image: Any) -> Any:
        made = image[..., 1:-1, 1:-1].contiguous()
        return made, mark(made)

    @df.npu_model()
    class Middle(nn.Module):
        @df.method(num_returns=2)
        def forward(self, image: Any) -> Any:
            made = image * 2
            return made, mark(image, made)

    @df.npu_model(num_returns=2)
    def last(image: Any) -> Any:
        return image + 1, mark(image)

    data = df.FlowData()
    cropped, told_first = first.fnode()(data)
    doubled, told_middle = Middle.fnode().forward(cropped)
    result, told_last = last.fnode()(doubled)
    _, told_other = last.fnode()(cropped)  # a second consumer of the same tensor
    graph = df.FlowGraph([result, told_first, told_middle, told_last, told_other])
    given = torch.rand(1, 3, 64, 64)
    found, *told = results_of(graph, {data: given})
    torch.testing.assert_close(found, given[..., 1:-1, 1:-1] * 2 + 1)
    (pid, made), (pid_2, seen, made_2), (pid_3, seen_2), (pid_4, seen_3) = [one.tolist() for one in told]
    assert {pid, pid_2, pid_3, pid_4} == {pid} and (pid == os.getpid()) == (engine == "inline")
    assert seen == seen_3 == made and seen_2 == made_2 and made_2 != made


class Normalised(nn.Module):
    """The page's second model with something to learn, so that weights travel too."""

    def __init__(self, channels: int = 4) -> None:
        super().__init__()
        torch.manual_seed(3)
        self.mean, self.std = 0.5, 0.5
        self.conv = nn.Conv2d(3, channels, 3, padding=1)

    @df.method()
    def forward(self, input_image: Any) -> Any:
        return F.relu(self.conv((input_image - self.mean) / self.std))


@pytest.mark.parametrize(
    ("shape", "sizes"),
    [([1, 3, 48, 48], [(1, 48, 48), (1, 48, 48)]), ([-1, 3, -1, -1], [(1, 48, 48), (2, 20, 33), (1, 48, 48)])],
    ids=["static", "dynamic"],
)
def test_level_2_between_functions_of_level_1(engine: str, shape: list[int], sizes: list[tuple[int, ...]]) -> None:
    @df.npu_model()
    def preprocess(input_image: Any) -> Any:
        return input_image[..., 2:-2, 2:-2]

    @df.npu_model()
    def postprocess(input_image: Any) -> Any:
        return F.interpolate(input_image * 0.5 + 0.5, size=(40, 40), mode="bilinear")

    model = df.npu_model(optimize_level=2, input_descs=[df.TensorDesc(dtype=FLOAT, shape=shape)])(Normalised)
    data = df.FlowData()
    graph = df.FlowGraph([postprocess.fnode()(model.fnode(5)(preprocess.fnode()(data)))])
    reference = Normalised(5)
    for batch, height, width in sizes:
        image = torch.rand(batch, 3, height + 4, width + 4)
        [found] = results_of(graph, {data: image})
        with torch.no_grad():
            wanted = reference.forward(image[..., 2:-2, 2:-2])
        torch.testing.assert_close(
            found, F.interpolate(wanted * 0.5 + 0.5, size=(40, 40), mode="bilinear"), rtol=1e-4, atol=1e-5
        )


def test_level_2_refuses_a_shape_that_was_not_described(engine: str, capfd: pytest.CaptureFixture[str]) -> None:
    model = df.npu_model(optimize_level=2, input_descs=[df.TensorDesc(FLOAT, [1, 3, 48, 48])])(Normalised)
    data = df.FlowData()
    graph = df.FlowGraph([model.fnode()(data)])
    assert graph.feed({data: torch.rand(1, 3, 48, 47)}, timeout=WAIT) == 0
    _, code = graph.fetch(timeout=WAIT)
    assert code == 145000
    assert "[1, 3, 48, 47], the model takes [1, 3, 48, 48]" in "".join(capfd.readouterr())
    [found] = results_of(graph, {data: torch.rand(1, 3, 48, 48)})
    assert found.get_shape() == [1, 4, 48, 48]  # a model gives a df.Tensor


def test_results_of_npu_model_are_fetched_with_their_flow_info(engine: str) -> None:
    @df.npu_model(num_returns=2)
    def two(x: Any) -> Any:
        return (x * 2).t(), x.to(torch.int16)

    data = df.FlowData()
    graph = df.FlowGraph(list(two.fnode()(data)))
    info = df.FlowInfo(start_time=5, end_time=9)
    info.set_user_data(b"frame 3")
    given = torch.arange(6.0).reshape(2, 3)
    assert graph.feed_data({data: given.t().contiguous().t()}, info, timeout=WAIT) == 0
    found, told, code = graph.fetch_data(timeout=WAIT)
    assert code == 0 and (told.start_time, told.end_time, told.transaction_id) == (5, 9, 1)
    assert bytes(told.get_user_data(7)) == b"frame 3"
    assert all(type(one) is df.Tensor for one in found)
    assert found[0].numpy().tolist() == [[0, 6], [2, 8], [4, 10]]
    assert found[1].numpy().dtype == "int16" and found[1].numpy().tolist() == given.tolist()


def test_a_decorated_function_says_how_it_is_used() -> None:
    @df.npu_model()
    def double(x: Any) -> Any:
        return x * 2

    for values in ((1,), (1, 2), ()):
        with pytest.raises(TypeError, match=r"double\.fnode\(\); the plain function is double\.__wrapped__"):
            double(*values)
    assert double.__wrapped__(4) == 8
