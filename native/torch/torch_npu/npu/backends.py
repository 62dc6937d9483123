"""Switches that programs for CUDA turn (attention kernels, linear algebra library): here they only warn. And operator dumps."""

from __future__ import annotations

import json
import os
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from torch_npu._errors import ErrCode, pta_error
from torch_npu.npu._lazy import _lazy_init

_DUMP_MODES = ("input", "output", "all")
_SWITCHES = ("on", "off")
_dump: dict[str, Any] = {"active": False, "config": None}


def _no_effect(name: str) -> None:
    warnings.warn(f"torch.npu.{name} isn't implemented! It has no effect on npu.", stacklevel=3)


def preferred_linalg_library(backend: str | None = None) -> None:
    """There is one library for linear algebra."""
    _no_effect(f"preferred_linalg_library({backend!r})")


def flash_sdp_enabled() -> bool:
    """Attention is chosen by torch."""
    _no_effect("flash_sdp_enabled")
    return True


def mem_efficient_sdp_enabled() -> bool:
    """Attention is chosen by torch."""
    _no_effect("mem_efficient_sdp_enabled")
    return True


def math_sdp_enabled() -> bool:
    """Attention is chosen by torch."""
    _no_effect("math_sdp_enabled")
    return True


def enable_flash_sdp(enabled: bool) -> None:
    """Attention is chosen by torch."""
    _no_effect(f"enable_flash_sdp({enabled})")


def enable_mem_efficient_sdp(enabled: bool) -> None:
    """Attention is chosen by torch."""
    _no_effect(f"enable_mem_efficient_sdp({enabled})")


def enable_math_sdp(enabled: bool) -> None:
    """Attention is chosen by torch."""
    _no_effect(f"enable_math_sdp({enabled})")


@contextmanager
def sdp_kernel(
    enable_flash: bool = True, enable_math: bool = True, enable_mem_efficient: bool = True
) -> Iterator[None]:
    """Attention is chosen by torch."""
    _no_effect(f"sdp_kernel(enable_flash={enable_flash}, enable_math={enable_math}, {enable_mem_efficient=})")
    yield


def init_dump() -> None:
    """Begin with dumps."""
    _lazy_init()
    _dump["active"] = True


def set_dump(cfg_file: str) -> None:
    """Which operators are written where: a JSON file with the entry "dump".

    The file is checked. Operators of PyTorch are not written yet, which a warning says; models of pyACL are, through acl.mdl.
    """
    if not os.path.exists(cfg_file):
        raise AssertionError(f"cfg_file {cfg_file} path does not exists." + pta_error(ErrCode.NOT_FOUND))
    if not _dump["active"]:
        raise RuntimeError("call torch.npu.init_dump() before set_dump" + pta_error(ErrCode.INTERNAL))
    _dump["config"] = _read_dump(cfg_file)
    warnings.warn("torch.npu.set_dump: operators of PyTorch are not dumped on this device", stacklevel=2)


def _read_dump(cfg_file: str) -> dict[str, Any]:
    """The entry "dump" of a configuration, checked."""
    try:
        with open(cfg_file, encoding="utf-8") as file:
            config = json.load(file)["dump"]
        path, mode, switch = config["dump_path"], config.get("dump_mode", "output"), config.get("dump_op_switch", "off")
    except (OSError, ValueError, KeyError, TypeError, AttributeError) as error:
        raise ValueError(
            f'{cfg_file} is no dump configuration ({error!r}); it should look like {{"dump": {{"dump_list": [], '
            f'"dump_path": "/tmp", "dump_mode": "all", "dump_op_switch": "on"}}}}' + pta_error(ErrCode.VALUE)
        ) from error
    for name, value, allowed in (("dump_mode", mode, _DUMP_MODES), ("dump_op_switch", switch, _SWITCHES)):
        if value not in allowed:
            raise ValueError(f"{name} should be in {list(allowed)} but got {value!r}" + pta_error(ErrCode.VALUE))
    if not os.path.isdir(path):
        raise ValueError(f"dump_path {path} is no folder" + pta_error(ErrCode.NOT_FOUND))
    return config


def finalize_dump() -> None:
    """End with dumps."""
    _dump["active"], _dump["config"] = False, None
