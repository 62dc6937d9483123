"""Profiles of a program that runs: `profiler_config.json` in a folder says what, and each change of it starts one.

The program calls `init(folder)` once and `step()` after each step. Keys of the file: start_step (-1: the next one), active, warmup,
prof_dir, analyse, record_shapes, profile_memory, with_stack, with_flops, with_modules, is_rank, rank_list, and in
experimental_config profiler_level, aic_metrics, export_type and the other options.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from torch_npu import _environment
from torch_npu.profiler import _folder
from torch_npu.profiler._say import never_raises, warn
from torch_npu.profiler.experimental_config import _ExperimentalConfig
from torch_npu.profiler.profiler import profile, tensorboard_trace_handler
from torch_npu.profiler.scheduler import Schedule

__all__ = ["init", "set_state", "start", "step"]

_FILE = "profiler_config.json"
_FLAGS = ("record_shapes", "profile_memory", "with_stack", "with_flops", "with_modules")
_DEFAULT = {
    "start_step": 0, "active": 1, "warmup": 0, "prof_dir": "./", "analyse": False, "is_rank": False, "rank_list": [],
    **dict.fromkeys(_FLAGS, False), "experimental_config": {"profiler_level": "Level0", "export_type": ["text"]},
}  # fmt: skip


class _State:
    """The folder that is looked at, and what runs."""

    path: Path | None = None
    changed = 0
    step = 0
    on = True
    waiting: dict[str, Any] | None = None
    running: profile | None = None
    left = 0


@never_raises
def init(path: str | None = None) -> None:
    """Look at a folder (PROF_CONFIG_PATH when none is given); a file with the defaults is made where there is none."""
    folder = Path(path or _environment.text("PROF_CONFIG_PATH", "."))
    folder.mkdir(parents=True, exist_ok=True)
    _State.path = folder / _FILE
    if not _State.path.exists():
        _State.path.write_text(json.dumps(_DEFAULT, indent=2))
    _State.changed = _State.path.stat().st_mtime_ns


@never_raises
def set_state(enabled: bool) -> None:
    """False: changes of the file are not looked at until True."""
    _State.on = bool(enabled)


@never_raises
def start(config_path: str | None = None) -> None:
    """Profile from the next step on, as this file says, or the one of the folder."""
    path = Path(config_path) if config_path else _State.path
    if path is None or not path.is_file():
        raise ValueError(f"there is no configuration file {path}: call init(folder) or give its path")
    _State.waiting = {**_DEFAULT, **json.loads(path.read_text()), "start_step": -1}


@never_raises
def step() -> None:
    """A step is over."""
    if _State.path is None:
        raise RuntimeError("call dynamic_profile.init(folder) before the first step")
    _State.step += 1
    _advance()
    _look()
    wanted = _State.waiting
    if wanted is not None and _State.running is None and wanted["start_step"] in (-1, _State.step):
        _State.waiting = None
        _begin(wanted)


def _look() -> None:
    """Whether the file was changed."""
    if not _State.on or _State.path is None or not _State.path.exists():
        return
    moment = _State.path.stat().st_mtime_ns
    if moment == _State.changed:
        return
    _State.changed = moment
    wanted = {**_DEFAULT, **json.loads(_State.path.read_text())}
    if wanted["start_step"] not in (-1,) and wanted["start_step"] < _State.step:
        warn(
            f"start_step {wanted['start_step']} of {_State.path} is over, this is step {_State.step}: no profile is made"
        )
        return
    _State.waiting = wanted


def _begin(wanted: dict[str, Any]) -> None:
    if wanted["is_rank"] and _folder.rank() not in wanted["rank_list"]:
        return
    active, warmup = int(wanted["active"]), int(wanted["warmup"])
    options = {name: wanted["experimental_config"][name] for name in wanted["experimental_config"]}
    _State.running = profile(
        schedule=Schedule(wait=0, warmup=warmup, active=active, repeat=1),
        on_trace_ready=tensorboard_trace_handler(wanted["prof_dir"], analyse_flag=bool(wanted["analyse"])),
        experimental_config=_ExperimentalConfig(**options),
        **{name: bool(wanted[name]) for name in _FLAGS},
    )
    _State.left = active + warmup
    _State.running.start()


def _advance() -> None:
    """The profile that runs has a step more."""
    if _State.running is None:
        return
    _State.running.step()
    _State.left -= 1
    if _State.left == 0:
        _State.running.stop()
        _State.running = None
