"""Operators of PyTorch written to files as they run: `torch.npu.init_dump`, `set_dump`, `finalize_dump`, `dump_enable`.

The files are those that models of pyACL write (`softnpu.observe.dump`): one per operator, below dump_path/<time>/<device>, named
type.name.task.stream.time.
"""

from __future__ import annotations

import json
import os
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from torch_npu._errors import ErrCode, pta_error
from torch_npu.npu._lazy import _lazy_init

if TYPE_CHECKING:
    from torch_npu._watch.acl_files import OperatorDump

__all__ = ["dump_disable", "dump_enable", "finalize_dump", "init_dump", "set_dump"]

_CHOICES = {
    "dump_mode": ("input", "output", "all"),
    "dump_op_switch": ("on", "off"),
    "dump_data": ("tensor", "stats"),
    "dump_debug": ("on", "off"),
}


class _State:
    """What is being dumped now."""

    ready = False
    running: OperatorDump | None = None


_state = _State()


def init_dump() -> None:
    """Begin with dumps."""
    _lazy_init()
    _state.ready = True


def set_dump(cfg_file: str) -> None:
    """Write operators from here on as a JSON file says in its entry "dump": where, inputs or outputs or all, all operators
    (`dump_op_switch`: on) or none; `dump_list` may name some in "layer"."""
    if not os.path.exists(cfg_file):
        raise AssertionError(f"cfg_file {cfg_file} path does not exists." + pta_error(ErrCode.NOT_FOUND))
    if not _state.ready:
        raise RuntimeError("call torch.npu.init_dump() before set_dump" + pta_error(ErrCode.INTERNAL))
    _begin(_read(cfg_file))


def finalize_dump() -> None:
    """End with dumps."""
    _end()
    _state.ready = False


def dump_enable(path: str, ops: str | Sequence[str] | None = None, mode: str = "all") -> None:
    """Write operators below a folder, which is made: all of them or those of the given names ("add", "Add", "aten::add")."""
    if mode not in _CHOICES["dump_mode"]:
        raise ValueError(f"mode should be in {list(_CHOICES['dump_mode'])} but got {mode!r}" + pta_error(ErrCode.VALUE))
    _lazy_init()
    os.makedirs(path, exist_ok=True)
    names = [ops] if isinstance(ops, str) else list(ops or ())
    entry = [{"layer": names}] if names else []
    _begin({"dump_path": path, "dump_mode": mode, "dump_op_switch": "on", "dump_list": entry})


def dump_disable() -> None:
    """End what `dump_enable` began."""
    _end()


def _begin(section: dict[str, Any]) -> None:
    _end()
    if section.get("dump_op_switch", "off") == "on" or section.get("dump_debug") == "on":
        from torch_npu._watch.acl_files import OperatorDump  # what writes files is not needed at import

        _state.running = OperatorDump(section)
        _state.running.start()


def _end() -> None:
    running, _state.running = _state.running, None
    if running is not None:
        running.stop()


def _read(cfg_file: str) -> dict[str, Any]:
    """The entry "dump" of a configuration, checked."""
    try:
        with open(cfg_file, encoding="utf-8") as file:
            section: dict[str, Any] = json.load(file)["dump"]
        path, listed = section["dump_path"], section.get("dump_list", [])
        if not isinstance(listed, list) or not all(isinstance(entry, dict) for entry in listed):
            raise ValueError(f"dump_list is {listed!r}, a list of objects is expected")
    except (OSError, ValueError, KeyError, TypeError, AttributeError) as error:
        raise ValueError(
            f'{cfg_file} is no dump configuration ({error!r}); it should look like {{"dump": {{"dump_list": [], '
            f'"dump_path": "/tmp", "dump_mode": "all", "dump_op_switch": "on"}}}}' + pta_error(ErrCode.VALUE)
        ) from error
    for name, allowed in _CHOICES.items():
        if name in section and section[name] not in allowed:
            raise ValueError(
                f"{name} should be in {list(allowed)} but got {section[name]!r}" + pta_error(ErrCode.VALUE)
            )
    if not os.path.isdir(path):
        raise ValueError(f"dump_path {path} is no folder" + pta_error(ErrCode.NOT_FOUND))
    return section
