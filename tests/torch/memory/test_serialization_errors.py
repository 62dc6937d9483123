"""Checkpoints that go wrong: torch's own errors with the code line of the device, nothing left behind; and files from elsewhere."""

from __future__ import annotations

import io
import os
import pickle
import subprocess
import sys
import threading
from pathlib import Path
from typing import Any

import pytest
import torch
import torch_npu
import torch_npu.utils

from tests.waiting import eventually

LINE = r"\[ERROR\] \d{4}-\d\d-\d\d-\d\d:\d\d:\d\d \(PID:\d+, Device:\d+, RankID:-?\d+\) "
PARAM, VALUE = LINE + "ERR00001 PTA invalid parameter$", LINE + "ERR00003 PTA invalid value$"


def saved(value: object, **options: Any) -> io.BytesIO:
    buffer = io.BytesIO()
    torch.save(value, buffer, **options)
    buffer.seek(0)
    return buffer


@pytest.mark.parametrize(
    ("place", "text"),
    [
        ("npu:99", r"NPU device 99 but torch.npu.device_count\(\) is 2"),
        ({"npu:0": "npu:99"}, "NPU device 99 but"),
        ("npux", r"don't know how to restore data location .* \(tagged with npux\)"),
        ("npu:-1", "Invalid device string: 'npu:-1'"),
        ("mps", "Storage device not recognized: mps"),
        (torch.device("cuda"), "on a CUDA device but torch.cuda.is_available"),
    ],
)
def test_wrong_places_are_torchs_errors_with_the_code(place: Any, text: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    with pytest.raises(RuntimeError, match=f"(?s){text}.*\n{PARAM}"):
        torch.load(saved(torch.ones(2).npu()), map_location=place)


def test_a_place_of_the_wrong_type() -> None:
    with pytest.raises(TypeError, match=f"(?s)not callable\n{PARAM}"):
        torch.load(saved(torch.ones(2).npu()), map_location=3)


@pytest.mark.filterwarnings("ignore::ResourceWarning")
def test_broken_files_end_with_the_code(tmp_path: Path) -> None:
    torch.ones(1).npu()
    content = saved(torch.ones(64).npu()).getvalue()
    path = tmp_path / "x.pt"
    for cut, kind in ((0, EOFError), (len(content) // 2, RuntimeError), (len(content) - 10, RuntimeError)):
        path.write_bytes(content[:cut])
        for weights_only in (True, False):
            with pytest.raises(kind, match=f"(?s){VALUE}"):
                torch.load(path, weights_only=weights_only)
    path.write_bytes(content.replace(b"_rebuild_tensor_v2", b"_rebuild_tensor_v9"))
    with pytest.raises((RuntimeError, pickle.UnpicklingError), match=f"(?s){VALUE}"):
        torch.load(path)


def test_absent_files_stay_errors_of_the_system(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError) as absent:
        torch.load(tmp_path / "absent.pt", map_location="npu")
    assert absent.value.errno == 2 and absent.value.filename == str(tmp_path / "absent.pt")
    with pytest.raises(IsADirectoryError):
        torch.load(tmp_path, map_location="npu")


def test_programs_without_the_device_see_plain_torch() -> None:
    program = (
        "import io, torch, torch_npu\n"
        "try: torch.load(io.BytesIO(b'PK\\x03\\x04' + bytes(50)))\n"
        "except RuntimeError as error: print('[ERROR]' in str(error))\n"
    )
    assert run(program).split() == ["False"]


def run(program: str, **environment: str) -> str:
    done = subprocess.run(
        [sys.executable, "-c", program], env={**os.environ, **environment}, capture_output=True, text=True, timeout=60
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_files_open_in_a_torch_without_the_device(tmp_path: Path) -> None:
    torch.npu.config.allow_internal_format = True
    try:
        padded = torch_npu.npu_format_cast(torch.arange(6.0).view(2, 3).npu(), 29)
    finally:
        torch.npu.config.allow_internal_format = False
    model = torch.nn.Linear(2, 2).npu()
    optimizer = torch.optim.Adam(model.parameters())
    model(torch.ones(1, 2).npu()).sum().backward()
    optimizer.step()
    torch.save({"x": padded, "model": model.state_dict(), "optimizer": optimizer.state_dict()}, tmp_path / "x.pt")
    program = (
        "import sys, torch\n"
        f"found = torch.load({str(tmp_path / 'x.pt')!r}, map_location='cpu')\n"
        "print(found['x'].tolist(), found['model']['weight'].device, found['optimizer']['state'][0]['step'].item(), "
        "'torch_npu' in sys.modules)"
    )
    told = run(program, TORCH_DEVICE_BACKEND_AUTOLOAD="0")
    assert told.strip() == "[[0.0, 1.0, 2.0], [3.0, 4.0, 5.0]] cpu 1.0 False"


@pytest.mark.parametrize("place", ["npu", "npu:1", {"cuda:0": "npu:1"}, lambda s, _tag: s.npu(1)])
def test_checkpoints_of_cuda(place: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    with monkeypatch.context() as patch:
        patch.setattr(torch.serialization, "location_tag", lambda _storage: "cuda:0")
        file = saved({"x": torch.arange(3.0)})
    result = torch.load(file, map_location=place)["x"]
    assert result.tolist() == [0.0, 1.0, 2.0] and str(result.device) == ("npu:0" if place == "npu" else "npu:1")


@pytest.mark.parametrize("place", ["npu:1", "cpu", None])
def test_mapped_files(place: str | None, tmp_path: Path) -> None:
    torch.save(torch.arange(5.0).npu(), tmp_path / "x.pt")
    result = torch.load(tmp_path / "x.pt", mmap=True, map_location=place)
    assert (str(result.device), result.tolist()) == (place or "npu:0", [0.0, 1.0, 2.0, 3.0, 4.0])


def test_the_old_file_format_warns_for_the_device_only() -> None:
    with pytest.warns(UserWarning, match="old file format"):
        saved(torch.ones(2).npu(), _use_new_zipfile_serialization=False)
    saved(torch.ones(2), _use_new_zipfile_serialization=False)


def test_a_failed_save_leaves_no_new_file(tmp_path: Path) -> None:
    broken = {"x": torch.ones(2).npu(), "code": lambda: None}
    with pytest.raises(AttributeError, match="pickle"):
        torch.save(broken, tmp_path / "new.pt")
    assert os.listdir(tmp_path) == []
    buffer = io.BytesIO(b"before")
    with pytest.raises(AttributeError, match="pickle"):
        torch.save(broken, buffer)  # what it does to a file object stays torch's affair
    with pytest.raises(RuntimeError, match="Is a directory"):
        torch.save(torch.ones(2).npu(), tmp_path)
    with pytest.raises(RuntimeError, match="Parent directory"):
        torch.save(torch.ones(2).npu(), tmp_path / "none" / "x.pt")


def finished() -> None:
    assert eventually(lambda: not any(thread.name == "torch_npu.save_async" for thread in threading.enumerate()))


def test_save_async_replaces_a_file_at_once_and_reports_errors(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "x.pt"
    path.write_bytes(b"old")
    told: list[BaseException] = []
    monkeypatch.setattr(threading, "excepthook", lambda args: told.append(args.exc_value))
    with monkeypatch.context() as patch:
        patch.setattr(os, "replace", lambda *_: (_ for _ in ()).throw(OSError("no room")))
        torch_npu.utils.save_async(torch.ones(3).npu(), path)
        finished()
    assert "could not write" in str(told[0]) and "no room" in str(told[0]) and "ERR00010 PTA" in str(told[0])
    assert path.read_bytes() == b"old" and os.listdir(tmp_path) == ["x.pt"]
    torch_npu.utils.save_async(torch.ones(3).npu(), path)
    finished()
    assert torch.load(path).tolist() == [1.0] * 3 and os.listdir(tmp_path) == ["x.pt"] and len(told) == 1
    with pytest.raises(RuntimeError, match="Parent directory"):
        torch_npu.utils.save_async(torch.ones(3).npu(), tmp_path / "none" / "x.pt")


def test_save_async_into_a_file_object() -> None:
    buffer = io.BytesIO()
    torch_npu.utils.save_async({"x": torch.ones(3).npu()}, buffer)
    finished()
    buffer.seek(0)
    assert torch.load(buffer)["x"].tolist() == [1.0] * 3
