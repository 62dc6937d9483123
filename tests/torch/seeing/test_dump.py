"""Dumps: operators of PyTorch as the files of CANN, as HDF5 (`torch.utils.dumper`)."""

from __future__ import annotations

import csv
import json
import re
import struct
import sys
import types
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import nn

from softnpu.graph.wire import decode
from softnpu.observe._dump_file import DUMP_DATA

npu = torch.npu
# DataType in ge_ir.proto, which dump files use.
BF16 = 27
NUMPY_TYPES = {
    1: np.float32, 2: np.float16, 3: np.int8, 4: np.uint8, 5: np.int16, 6: np.uint16, 7: np.int32, 8: np.int64,
    9: np.uint32, 10: np.uint64, 11: np.bool_, 12: np.float64, 16: np.complex64, 17: np.complex128, BF16: np.uint16,
}  # fmt: skip


def configuration(folder: Path, **change: Any) -> str:
    entry = {"dump_list": [], "dump_path": str(folder), "dump_mode": "all", "dump_op_switch": "on", **change}
    (folder / "dump.json").write_text(json.dumps({"dump": entry}))
    return str(folder / "dump.json")


def converted(path: Path) -> dict[str, list[np.ndarray]]:
    """What `msaccucmp convert` makes of a file: an array for each input and output."""
    data = path.read_bytes()
    length = struct.unpack_from("<Q", data)[0]
    message = decode(DUMP_DATA, data[8 : 8 + length])
    at = 8 + length
    arrays: dict[str, list[np.ndarray]] = {"input": [], "output": []}
    for word in ("input", "output"):
        for one in message.get(word, []):
            code, size = one["data_type"], one.get("size", 0)
            raw, at = data[at : at + size], at + size
            array = np.frombuffer(raw, NUMPY_TYPES[code]).reshape(one.get("shape", {}).get("dim", []))
            arrays[word].append((array.astype(np.uint32) << 16).view(np.float32) if code == BF16 else array)
    assert at == len(data)
    return arrays


def files(folder: Path, device: int = 0) -> dict[str, Path]:
    """Dump files by operator type, in the order in which they were written."""
    listed = sorted(folder.glob(f"*/{device}/*"), key=lambda path: int(path.name.split(".")[2]))
    return {path.name.split(".")[0]: path for path in listed}


@pytest.fixture(autouse=True)
def nothing_is_left() -> Any:
    yield
    npu.finalize_dump()


def test_the_example_of_the_guide(tmp_path: Path) -> None:
    npu.set_device("npu:0")
    npu.init_dump()
    npu.set_dump(configuration(tmp_path))
    a = torch.tensor([2, 2]).to("npu:0")
    a.add_(1)
    npu.finalize_dump()
    a.add_(1)
    (found,) = tmp_path.glob("*/*/*")
    assert re.fullmatch(r"\d{14}", found.parent.parent.name)
    assert found.parent.name == "0"
    assert re.fullmatch(r"Add\.add__\d+\.\d+\.\d+\.\d{16}", found.name)
    arrays = converted(found)
    assert [one.tolist() for one in arrays["input"]] == [[2, 2]], "the values before the call, which is in place"
    assert [one.tolist() for one in arrays["output"]] == [[3, 3]]


@pytest.mark.parametrize(
    "dtype", [torch.float32, torch.float16, torch.bfloat16, torch.int8, torch.int64, torch.bool, torch.complex64]
)
def test_values_of_all_types(tmp_path: Path, dtype: torch.dtype) -> None:
    x = (torch.randn(3, 5) * 4).to(dtype).npu()
    npu.init_dump()
    npu.set_dump(configuration(tmp_path))
    y = torch.cat([x.t(), x.t()])
    npu.finalize_dump()
    arrays = converted(files(tmp_path)["ConcatD"])
    wide = (lambda t: t.float()) if dtype == torch.bfloat16 else (lambda t: t)
    assert len(arrays["input"]) == 2
    for one in arrays["input"]:
        np.testing.assert_array_equal(one, wide(x.t().cpu()).numpy())
    np.testing.assert_array_equal(arrays["output"][0], wide(y.cpu()).numpy())


def test_a_training_step(tmp_path: Path) -> None:
    torch.manual_seed(0)
    model = nn.Sequential(nn.Conv2d(3, 4, 3), nn.ReLU(), nn.Flatten(), nn.Linear(4 * 36, 5)).npu()
    x = torch.randn(2, 3, 8, 8, device="npu")
    npu.init_dump()
    npu.set_dump(configuration(tmp_path, dump_mode="output"))
    out = model(x)
    loss = nn.functional.cross_entropy(out, torch.tensor([1, 2], device="npu"))
    loss.backward()
    npu.finalize_dump()
    results = files(tmp_path)
    assert {
        "Conv2D",
        "Relu",
        "Addmm",
        "LogSoftmaxV2",
        "NllLossForward",
        "NllLossBackward",
        "ConvolutionBackward",
    } <= set(results)
    linear = converted(results["Addmm"])
    assert linear["input"] == []
    np.testing.assert_array_equal(linear["output"][0], out.detach().cpu().numpy())
    grads = converted(results["ConvolutionBackward"])["output"]
    np.testing.assert_array_equal(grads[-2], model[0].weight.grad.cpu().numpy())


def test_which_operators(tmp_path: Path) -> None:
    x = torch.ones(3, device="npu:1")
    npu.init_dump()
    npu.set_dump(configuration(tmp_path, dump_op_switch="off"))
    x + 1
    assert not list(tmp_path.glob("*/*/*")), "off: nothing is written"
    npu.set_dump(configuration(tmp_path, dump_list=[{"layer": ["mul", "Sub"]}], dump_mode="input"))
    torch.ones(2) + 1
    (x + 1) * 2 - 3
    x.view(3, 1).t()
    npu.finalize_dump()
    results = files(tmp_path, device=1)
    assert list(results) == ["Mul", "Sub"]
    assert converted(results["Mul"])["input"][0].tolist() == [2, 2, 2]
    assert converted(results["Mul"])["output"] == []


def test_statistics_of_an_operator_are_rows_of_a_table(tmp_path: Path) -> None:
    npu.init_dump()
    npu.set_dump(configuration(tmp_path, dump_data="stats"))
    torch.tensor([1.0, -4.0], device="npu").abs()
    npu.finalize_dump()
    (found,) = tmp_path.glob("*/*/Abs*.csv")
    table = list(csv.DictReader(found.read_text().splitlines()))
    assert [(row["Input/Output"], float(row["Max Value"])) for row in table] == [("Input", 1.0), ("Output", 4.0)]


def test_what_is_refused(tmp_path: Path) -> None:
    with pytest.raises(AssertionError, match=r"cfg_file nowhere\.json path does not exists\."):
        npu.set_dump("nowhere.json")
    with pytest.raises(RuntimeError, match="init_dump"):
        npu.set_dump(configuration(tmp_path))
    npu.init_dump()
    for wrong in (
        {"dump_mode": "some"},
        {"dump_op_switch": True},
        {"dump_path": str(tmp_path / "no")},
        {"dump_list": 3},
    ):
        with pytest.raises(ValueError, match=next(iter(wrong))):
            npu.set_dump(configuration(tmp_path, **wrong))
    (tmp_path / "dump.json").write_text("[1")
    with pytest.raises(ValueError, match="is no dump configuration"):
        npu.set_dump(str(tmp_path / "dump.json"))


def test_dump_enable(tmp_path: Path) -> None:
    x = torch.tensor([1.0, 2.0], device="npu")
    npu.dump_enable(str(tmp_path / "made"), "exp")
    y = x.exp()
    x.sin()
    npu.dump_disable()
    x.exp()
    results = files(tmp_path / "made")
    assert list(results) == ["Exp"]
    np.testing.assert_array_equal(converted(results["Exp"])["output"][0], y.cpu().numpy())
    with pytest.raises(ValueError, match="mode should be in"):
        npu.dump_enable(str(tmp_path), mode="some")


def test_a_dump_may_end_inside_another_mode(tmp_path: Path) -> None:
    from torch.utils.flop_counter import FlopCounterMode

    x = torch.ones(2, 2, device="npu")
    npu.dump_enable(str(tmp_path))
    with FlopCounterMode(display=False) as flops:
        npu.dump_disable()
        x @ x
    assert flops.get_total_flops() == 16
    assert not list(tmp_path.glob("*/*/*"))


# ---- torch.utils.dumper ------------------------------------------------------------------------------------------------


class Dataset:
    def __init__(self, data: np.ndarray) -> None:
        self.data, self.attrs = data, {}

    def __getitem__(self, key: tuple[()]) -> np.ndarray:
        assert key == ()
        return self.data


class File(dict):
    """As much of h5py.File as the dumper uses; files live in `disk`."""

    disk: dict[str, File] = {}

    def __new__(cls, path: str, mode: str) -> File:
        if mode == "w":
            cls.disk[path] = super().__new__(cls)
            Path(path).touch()
        return cls.disk[path]

    def __init__(self, path: str, mode: str) -> None:
        self.open = True

    def create_dataset(self, path: str, data: np.ndarray) -> Dataset:
        assert self.open and path not in self
        self[path] = Dataset(np.array(data))
        return self[path]

    def close(self) -> None:
        self.open = False


@pytest.fixture
def h5(monkeypatch: pytest.MonkeyPatch) -> dict[str, File]:
    monkeypatch.setattr(File, "disk", {})
    monkeypatch.setitem(sys.modules, "h5py", types.SimpleNamespace(File=File))
    return File.disk


def test_dumper_needs_h5py(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "h5py", None)
    with pytest.raises(RuntimeError, match="package h5py"), torch.utils.dumper(use_dump=True, dump_path=str(tmp_path)):
        pass
    with torch.utils.dumper(use_dump=True, enabled=False):
        torch.ones(1).npu() + 1


def test_dumper_layout(tmp_path: Path, h5: dict[str, File], capsys: pytest.CaptureFixture[str]) -> None:
    path = str(tmp_path / "model.h5")
    x = torch.tensor([[1.5, 2.0]], dtype=torch.half, device="npu")
    with torch.utils.dumper(use_dump=True, dump_path=path) as dump:
        x.t().mul(3)
        torch.cat([x, x], 1)
        torch.ones(2).add_(1)
    assert isinstance(dump, torch.utils.dumper)
    assert capsys.readouterr().out.splitlines()[:2] == ["IR: mul SeqId: 0 dump inputs", "IR: mul SeqId: 0 dump outputs"]
    file = h5[path]
    assert not file.open
    assert {"/mul/0/input/self", "/mul/0/input/other", "/mul/0/output/output", "/cat/1/input/dim"} <= set(file)
    assert {"/cat/1/input/tensors/tensors_0", "/cat/1/input/tensors/tensors_1"} <= set(file)
    one = file["/mul/0/input/self"]
    assert one.attrs == {"DeviceType": 10, "DataType": 10, "FormatType": 2, "Type": 0, "Stride": [1, 2]}
    assert one.data.dtype == np.float32, "half is stored as float32"
    assert one.data.tolist() == [[1.5], [2.0]]
    assert file["/mul/0/output/output"].data.tolist() == [[4.5], [6.0]]
    assert file["/cat/1/input/dim"].attrs["Type"] == 1
    host = next(one for name, one in file.items() if name.startswith("/add_/") and name.endswith("/input/self"))
    assert (host.attrs["DeviceType"], host.attrs["DataType"], host.data.tolist()) == (0, 1, [1, 1])


def test_dumper_loads(tmp_path: Path, h5: dict[str, File]) -> None:
    first, second = str(tmp_path / "cpu.h5"), str(tmp_path / "npu.h5")
    with torch.utils.dumper(use_dump=True, dump_path=first):
        wanted = torch.tensor([1.0, 2.0]).mul(torch.tensor([3.0, 4.0])).add_(1)
    x, y = torch.zeros(2, device="npu"), torch.zeros(2, device="npu")
    with torch.utils.dumper(use_load=True, load_file_path=first, dump_path=second, load_with_acl_dump=True):
        result = x.mul(y).add_(1)
    assert torch.equal(result.cpu(), wanted)
    assert h5[second]["/mul/0/output/output"].data.tolist() == [3, 8]
    assert converted(files(tmp_path)["Mul"])["output"][0].tolist() == [3, 8]
    z = torch.zeros(3, device="npu")
    with (
        pytest.raises(RuntimeError, match="file is of another program"),
        torch.utils.dumper(use_load=True, load_file_path=first, dump_path=second),
    ):
        z.mul(2)


def test_dumper_finds_overflow(tmp_path: Path, h5: dict[str, File], capsys: pytest.CaptureFixture[str]) -> None:
    x = torch.tensor([60000.0, 1.0], dtype=torch.half, device="npu")
    with torch.utils.dumper(check_overflow=True, dump_path=str(tmp_path), load_file_path=""):
        x.add(1)
        x.mul_(2)
        x.sub(1)
    assert capsys.readouterr().out == "IR: mul_ SeqId: 1 is overflow!\n"
    (path,) = h5
    assert re.fullmatch(r"\d{8}_\d{6}\.\d{6}\.h5", Path(path).name)
    assert h5[path]["/mul_/1/input/self"].data.tolist() == [60000, 1], "what went in"
    assert np.isinf(h5[path]["/mul_/1/output/output"].data[0])


def test_dumper_checks_its_arguments(tmp_path: Path, h5: dict[str, File]) -> None:
    make = torch.utils.dumper
    for pair in ({"use_dump": True, "use_load": True}, {"use_dump": True, "check_overflow": True}):
        with pytest.raises(RuntimeError, match="dump mode, load mode and check overflow mode can not run together!"):
            make(**pair)
    for name in ("enabled", "use_dump", "use_load", "check_overflow", "load_with_acl_dump"):
        with pytest.raises(RuntimeError, match=f"{name} should be a bool"):
            make(**{name: 1})
    with pytest.raises(RuntimeError, match=r"ends in \.h5"):
        make(use_dump=True, dump_path=str(tmp_path / "a.txt"))
    with pytest.raises(RuntimeError, match="load_file_path should be an"):
        make(use_load=True, dump_path=str(tmp_path), load_file_path=str(tmp_path / "no.h5"))
    (tmp_path / "one.h5").touch()
    with pytest.raises(RuntimeError, match="the same file"):
        make(use_load=True, dump_path=str(tmp_path / "one.h5"), load_file_path=str(tmp_path / "one.h5"))
    one = make(use_dump=True, dump_path=str(tmp_path))
    with one, pytest.raises(RuntimeError, match="not reentrant"):
        one.__enter__()
    with make(use_dump=True, dump_path=str(tmp_path)), pytest.raises(RuntimeError, match="not reentrant"):
        make(use_dump=True, dump_path=str(tmp_path)).__enter__()
    assert torch.utils.get_op_map() == ({}, {})
