"""Settings from the environment: what is accepted, what is refused with a sentence, what falls back."""

from __future__ import annotations

import ast
import os
import re
import tomllib
from pathlib import Path

import pytest

from softnpu.base import config
from softnpu.base.config import LogSettings, Settings, byte_size, device_kinds, runtime_dir, visible_devices
from softnpu.base.errors import NpuError


@pytest.fixture(autouse=True)
def clean(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in list(os.environ):
        if name.startswith(("SOFTNPU_", "ASCEND_", "SLOG_", "XDG_")):
            monkeypatch.delenv(name)


def refused(name: str, value: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(name, value)
    with pytest.raises(NpuError) as caught:
        Settings()
    assert caught.value.code == 100000
    assert name in caught.value.text and caught.value.remedy


# ---- devices -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("value", "kinds"),
    [
        (None, ("host", "host")),
        ("", ("host", "host")),
        ("1", ("host",)),
        (" 3 ", ("host",) * 3),
        ("16", ("host",) * 16),
        ("host", ("host",)),
        ("host:4", ("host",) * 4),
        ("host,cuda:2", ("host", "cuda", "cuda")),
        ("host , host", ("host", "host")),
    ],
)
def test_device_kinds(value: str | None, kinds: tuple[str, ...], monkeypatch: pytest.MonkeyPatch) -> None:
    if value is not None:
        monkeypatch.setenv("SOFTNPU_DEVICES", value)
    assert device_kinds() == kinds


@pytest.mark.parametrize(
    "value",
    [
        "0",
        "17",
        "-1",
        "host:0",
        "host:17",
        "host:x",
        "npu",
        "host,",
        ",",
        "1.5",
        "²",
        "٣",
        "9" * 5000,
        "host:9" + "9" * 5000,
    ],
)
def test_device_kinds_refused(value: str, monkeypatch: pytest.MonkeyPatch) -> None:
    refused("SOFTNPU_DEVICES", value, monkeypatch)


@pytest.mark.parametrize(
    ("value", "seen"), [(None, (0, 1, 2)), ("2,0", (2, 0)), ("1,3", (1,)), ("", ()), ("0,0", (0,)), ("x", ())]
)
def test_visible_devices(value: str | None, seen: tuple[int, ...], monkeypatch: pytest.MonkeyPatch) -> None:
    if value is not None:
        monkeypatch.setenv("ASCEND_RT_VISIBLE_DEVICES", value)
    assert visible_devices(3) == seen


# ---- sizes and switches ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("value", "size"),
    [
        (None, None),
        ("", None),
        ("1", 1),
        ("4096", 4096),
        ("8G", 8 << 30),
        ("512m", 512 << 20),
        ("3KiB", 3 << 10),
        ("2GB", 2 << 30),
        ("1T", 1 << 40),
        ("7B", 7),
    ],
)
def test_byte_size(value: str | None, size: int | None, monkeypatch: pytest.MonkeyPatch) -> None:
    if value is not None:
        monkeypatch.setenv("SOFTNPU_MEMORY", value)
    assert byte_size("SOFTNPU_MEMORY") == size


@pytest.mark.parametrize("value", ["0", "-1", "G", "8X", "8GG", "1.5G", "eight", "²G", "9" * 5000, "8 G"])
def test_byte_size_refused(value: str, monkeypatch: pytest.MonkeyPatch) -> None:
    refused("SOFTNPU_MEMORY", value, monkeypatch)


@pytest.mark.parametrize(("value", "mode"), [(None, 1), ("host", 1), ("device", 0)])
def test_run_mode(value: str | None, mode: int, monkeypatch: pytest.MonkeyPatch) -> None:
    if value is not None:
        monkeypatch.setenv("SOFTNPU_RUN_MODE", value)
    assert Settings().run_mode == mode


def test_run_mode_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    refused("SOFTNPU_RUN_MODE", "cloud", monkeypatch)


@pytest.mark.parametrize(
    ("value", "checks"),
    [
        ("", set()),
        ("leaks", {"leaks"}),
        ("leaks, trace", {"leaks", "trace"}),
        ("strict", {"strict", "leaks", "trace"}),
        (",,leaks,", {"leaks"}),
    ],
)
def test_checks_are_a_list_of_words(value: str, checks: set[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SOFTNPU_CHECK", value)
    assert Settings().checks == checks


def test_checks_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    refused("SOFTNPU_CHECK", "leaks,everything", monkeypatch)


def test_settings_have_defaults() -> None:
    settings = Settings()
    assert (settings.soc, settings.memory, settings.overcommit, settings.visible) == (
        "Ascend910B3",
        None,
        False,
        (0, 1),
    )


# ---- directories -------------------------------------------------------------------------------------------------------


def test_runtime_directory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    assert runtime_dir() == tmp_path / f"softnpu-{os.getuid()}"
    monkeypatch.setenv("XDG_RUNTIME_DIR", str(tmp_path / "missing"))
    assert runtime_dir() == tmp_path / f"softnpu-{os.getuid()}", "a session directory that is not there does not count"
    monkeypatch.setenv("XDG_RUNTIME_DIR", str(tmp_path))
    assert runtime_dir() == tmp_path / "softnpu"
    monkeypatch.setenv("SOFTNPU_RUNTIME_DIR", str(tmp_path / "own"))
    assert runtime_dir() == tmp_path / "own"


def test_log_directory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    assert LogSettings().directory == tmp_path / "ascend" / "log"
    monkeypatch.setenv("ASCEND_WORK_PATH", "/work")
    assert LogSettings().directory == Path("/work/log")
    monkeypatch.setenv("ASCEND_PROCESS_LOG_PATH", "/own")
    assert LogSettings().directory == Path("/own")


# ---- log settings never complain ---------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("value", "files"), [(None, 10), ("1", 1), ("1000", 1000), ("0", 10), ("1001", 10), ("x", 10), ("9" * 5000, 10)]
)
def test_log_files(value: str | None, files: int, monkeypatch: pytest.MonkeyPatch) -> None:
    if value is not None:
        monkeypatch.setenv("ASCEND_HOST_LOG_FILE_NUM", value)
    assert LogSettings().files == files


def test_module_levels(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ASCEND_MODULE_LOG_LEVEL", "GE=0: runtime = 2 :HCCL=9:=1:TBE")
    assert LogSettings().modules == {"GE": 0, "RUNTIME": 2}


# ---- the page ----------------------------------------------------------------------------------------------------------


def test_every_variable_that_is_read_is_documented() -> None:
    """`config.py` and `cann.py` are the only doors to the environment; what they name has a row."""
    folder = Path(config.__file__).parent
    text = "".join((folder / name).read_text() for name in ("config.py", "cann.py"))
    groups = tomllib.loads((folder.parent / "spec/environment.toml").read_text(encoding="utf-8"))["group"]
    rows = " ".join(f"{row['name']} {row['meaning']}" for group in groups for row in group["variable"])
    used = set(re.findall(r'"((?:SOFTNPU|ASCEND|SLOG)_[A-Z_]+)"', text))
    assert used and {name for name in used if name not in rows} <= {"ASCEND_TOOLKIT_HOME", "ASCEND_HOME_PATH"}


def _reads_environment(source: str) -> bool:
    """Whether code asks the environment; texts that become code of others do not count."""
    nodes = ast.walk(ast.parse(source))
    return any(isinstance(node, ast.Attribute) and node.attr in ("environ", "getenv") for node in nodes)


def test_no_other_door_to_the_environment() -> None:
    source = Path(config.__file__).parents[2]
    doors = {"config.py", "cann.py"}
    guilty = [
        path.name for path in source.rglob("*.py") if path.name not in doors and _reads_environment(path.read_text())
    ]
    assert guilty == []
