"""Checkpoints: where tensors land, old files, broken files, pickle and deepcopy."""

from __future__ import annotations

import copy
import gc
import io
import os
import pickle
import threading
import zipfile
from collections import OrderedDict
from pathlib import Path
from typing import Any

import pytest
import torch
import torch_npu
import torch_npu.utils
from torch_npu.utils.storage import _rebuild_npu_tensor

from tests.waiting import eventually

pytestmark = pytest.mark.filterwarnings("ignore:npu tensors were saved in torch's old file format")
VALUES = [0.0, 1.0, 2.0, 3.0]


def saved(value: object, **options: Any) -> io.BytesIO:
    buffer = io.BytesIO()
    torch.save(value, buffer, **options)
    buffer.seek(0)
    return buffer


def allocated() -> int:
    return torch_npu._C._memory_stats(0)["allocated_bytes"]["all"]["current"]


@pytest.mark.parametrize("zipped", [True, False])
@pytest.mark.parametrize(
    ("place", "device"),
    [
        (None, "npu:1"),
        ("cpu", "cpu"),
        ("npu:0", "npu:0"),
        ("npu", "npu:0"),
        (torch.device("npu", 0), "npu:0"),
        ({"npu:1": "npu:0"}, "npu:0"),
        ({"npu:1": "cpu"}, "cpu"),
        (lambda storage, _tag: storage, "cpu"),
        (lambda storage, _tag: storage.npu(0), "npu:0"),
        ("meta", "meta"),
    ],
)
@pytest.mark.parametrize("weights_only", [True, False])
def test_checkpoint_lands_where_asked(place: Any, device: str, zipped: bool, weights_only: bool) -> None:
    x = torch.tensor(VALUES, device="npu:1")
    file = saved({"x": x, "part": x[1:], "turned": x.view(2, 2).t()}, _use_new_zipfile_serialization=zipped)
    found = torch.load(file, map_location=place, weights_only=weights_only)
    assert {str(value.device) for value in found.values()} == {device}
    if device != "meta":
        assert found["x"].tolist() == VALUES and found["turned"].tolist() == [[0.0, 2.0], [1.0, 3.0]]
        found["x"][1] = 9.0
        assert found["part"][0].item() == 9.0  # views still share their storage


def test_cpu_checkpoint_onto_the_device() -> None:
    file = saved({"x": torch.tensor(VALUES), "n": 3})
    result = torch.load(file, map_location="npu:1")
    assert str(result["x"].device) == "npu:1" and result["x"].tolist() == VALUES and result["n"] == 3


@pytest.mark.parametrize(
    "dtype", [torch.float16, torch.bfloat16, torch.int8, torch.bool, torch.complex64, torch.float8_e4m3fn]
)
def test_every_kind_of_number_survives(dtype: torch.dtype) -> None:
    x = torch.tensor([1, 0, 1, 1]).to(dtype)
    ways = [lambda value: torch.load(saved(value)), copy.deepcopy]
    if dtype != torch.float8_e4m3fn:  # torch itself cannot pickle these
        ways.append(lambda value: pickle.loads(pickle.dumps(value)))
    for way in ways:
        back = way(x.npu())
        assert back.device.type == "npu" and torch.equal(back.cpu().view(torch.uint8), x.view(torch.uint8))


def test_model_and_optimizer_go_on_where_they_stopped() -> None:
    torch.manual_seed(0)
    data = torch.randn(6, 4, device="npu")

    def step(model: torch.nn.Module, optimizer: torch.optim.Optimizer) -> float:
        optimizer.zero_grad()
        loss = model(data).square().mean()
        loss.backward()
        optimizer.step()
        return loss.item()

    model = torch.nn.Sequential(torch.nn.Linear(4, 4), torch.nn.BatchNorm1d(4)).npu()
    optimizer = torch.optim.Adam(model.parameters())
    step(model, optimizer)
    file = saved({"model": model.state_dict(), "optimizer": optimizer.state_dict()})
    again = torch.nn.Sequential(torch.nn.Linear(4, 4), torch.nn.BatchNorm1d(4)).npu()
    other = torch.optim.Adam(again.parameters())
    state = torch.load(file, map_location="cpu")
    again.load_state_dict(state["model"])
    other.load_state_dict(state["optimizer"])
    assert [step(model, optimizer) for _ in range(3)] == [step(again, other) for _ in range(3)]


@pytest.mark.parametrize("place", ["npu:99", "npu:2"])
def test_absent_device_is_named(place: str) -> None:
    with pytest.raises(
        RuntimeError, match=rf"deserialize object on NPU device {place[4:]} but torch.npu.device_count\(\) is 2"
    ):
        torch.load(saved(torch.ones(2)), map_location=place)


@pytest.mark.parametrize("place", ["nput", "cuda:0"])
def test_foreign_place_is_torchs_error(place: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    with pytest.raises(RuntimeError):
        torch.load(saved(torch.ones(2).npu()), map_location=place)


@pytest.mark.filterwarnings("ignore::ResourceWarning")
def test_broken_files_raise_and_leave_nothing_on_the_device(tmp_path: Path) -> None:
    whole = saved({"x": torch.ones(64, 64).npu()}).getvalue()
    old = saved({"x": torch.ones(64, 64).npu()}, _use_new_zipfile_serialization=False).getvalue()
    broken = [b"", b"garbage" * 9, *(part[: len(part) * cut // 10] for part in (whole, old) for cut in (1, 5, 9))]
    gc.collect()
    before = allocated()
    for i, content in enumerate(broken):
        path = tmp_path / f"{i}.pt"
        path.write_bytes(content)
        with pytest.raises((RuntimeError, EOFError, OSError, pickle.UnpicklingError)):
            torch.load(path)
    gc.collect()
    assert allocated() == before
    assert torch.load(io.BytesIO(whole))["x"].sum().item() == 4096


def test_weights_only_refuses_code() -> None:
    class Evil:
        def __reduce__(self) -> tuple[Any, ...]:
            return os.getpid, ()

    with pytest.raises(pickle.UnpicklingError, match="Weights only load failed"):
        torch.load(saved({"x": torch.ones(1).npu(), "e": Evil()}), weights_only=True)


class _OldTensor:
    """Pickles as torch_npu 1.x pickled its tensors."""

    def __init__(self, value: torch.Tensor) -> None:
        self.value = value

    def __reduce_ex__(self, _protocol: int) -> tuple[Any, ...]:
        x = self.value
        return _rebuild_npu_tensor, (
            x._typed_storage(),
            x.storage_offset(),
            tuple(x.size()),
            x.stride(),
            True,
            OrderedDict(),
            29,
        )


@pytest.mark.parametrize("weights_only", [True, False])
@pytest.mark.parametrize("place", [None, "cpu"])
def test_checkpoints_of_torch_npu_1(place: str | None, weights_only: bool) -> None:
    x = torch.tensor(VALUES).npu()
    file = saved({"w": _OldTensor(x.view(2, 2)[1:])})
    result = torch.load(file, map_location=place, weights_only=weights_only)["w"]
    assert result.tolist() == [[2.0, 3.0]] and result.requires_grad
    assert result.device.type == (place or "npu")


def test_file_says_npu_and_holds_the_bytes_only() -> None:
    x = torch.tensor(VALUES, device="npu:1")
    with zipfile.ZipFile(saved(x)) as archive:
        names = {name.partition("/")[2]: archive.read(name) for name in archive.namelist()}
    assert b"npu:1" in names["data.pkl"]
    assert names["data/0"] == x.cpu().numpy().tobytes()


def test_pickle_and_deepcopy_keep_gradients_parameters_and_sharing() -> None:
    parameter = torch.nn.Parameter(torch.tensor(VALUES).npu())
    twin = copy.deepcopy(parameter)
    assert type(twin) is torch.nn.Parameter and twin.is_npu and twin.data_ptr() != parameter.data_ptr()
    leaf = torch.tensor(VALUES, device="npu", requires_grad=True)
    leaf.grad = torch.ones(4).npu()
    second = copy.deepcopy(leaf)
    assert second.grad.tolist() == [1.0] * 4 and second.grad.data_ptr() != leaf.grad.data_ptr()
    back = pickle.loads(pickle.dumps({"a": parameter, "b": parameter}))
    assert back["a"] is back["b"] and back["a"].requires_grad and back["a"].tolist() == VALUES
    x = torch.tensor(VALUES).npu()
    whole, part = copy.deepcopy((x, x[2:]))
    whole[2] = 7.0
    assert part[0].item() == 7.0 and x[2].item() == 2.0


def test_legacy_storage_names_in_old_files_load() -> None:
    text = saved(torch.tensor(VALUES).npu(), _use_new_zipfile_serialization=False).getvalue()
    older = text.replace(b"ctorch\nFloatStorage\n", b"ctorch.npu\nFloatStorage\n")
    assert older != text
    for weights_only in (True, False):
        assert torch.load(io.BytesIO(older), weights_only=weights_only).tolist() == VALUES


def test_save_async_writes_the_values_of_the_call(tmp_path: Path) -> None:
    x = torch.tensor(VALUES).npu()
    path = tmp_path / "async.pt"
    assert torch_npu.utils.save_async({"x": x}, path, model=torch.nn.Linear(1, 1)) is None
    x.zero_()
    assert eventually(lambda: not any(thread.name == "torch_npu.save_async" for thread in threading.enumerate()))
    assert torch.load(path)["x"].tolist() == VALUES
    with pytest.raises(TypeError, match=r"model must be a torch.nn.Module or None, not str"):
        torch_npu.utils.save_async({}, path, model="model")
