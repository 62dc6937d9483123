"""`SOFTNPU_TORCH=chip`: what the chosen chip's adapter cannot do, from the rows in `src/softnpu/spec/torch/adapter.toml`; and float16
that saturates, on chips without inf and nan and where `INF_NAN_MODE_ENABLE=0` asks for it.
"""

from __future__ import annotations

import atexit
import sys
from collections.abc import Iterator
from functools import wraps
from typing import Any

import torch

from softnpu.base.config import Settings
from torch_npu import _C
from torch_npu._environment import chip_mode, flag, one_of
from torch_npu._errors import ErrCode, pta_error
from torch_npu._runtime.devices import Soc, soc

_RULES, _ONE_DEVICE, _SATURATES = 1, 2, 4  # the bits of csrc/device/chip.h
_STREAMS = ("8", "32")


def chip() -> Soc:
    """The chip row of the devices."""
    return soc(Settings().soc)


def saturates() -> bool:
    """Whether float16 has no inf and nan: asked for, on a chip that has them by force; always on a chip without them in chip mode."""
    asked = not flag("INF_NAN_MODE_ENABLE", default=True)
    if chip().inf_nan:
        return asked and flag("INF_NAN_MODE_FORCE_DISABLE")
    return asked or chip_mode()


def _generation(rows: dict[str, Any], family: str) -> dict[str, Any]:
    generations: list[dict[str, Any]] = rows["generation"]
    for row in generations:
        if family in row["families"]:
            return row
    known = ", ".join(family for row in generations for family in row["families"])
    raise RuntimeError(
        f"SOFTNPU_TORCH=chip: no adapter is known for chips of the family {family!r}, only for {known}: choose another chip with "
        "SOFTNPU_SOC, or unset SOFTNPU_TORCH" + pta_error(ErrCode.NOT_SUPPORT)
    )


def _of(rows: list[dict[str, Any]], generation: str, owner: Soc) -> Iterator[dict[str, Any]]:
    """The rows of a generation that hold for a chip."""
    for row in rows:
        lacks = row.get("chips_without")
        if generation in row["generations"] and (lacks is None or not getattr(owner, lacks)):
            yield row


def _declare(rows: dict[str, Any], generation: str, owner: Soc) -> None:
    """Hand the rows to the C++ side."""
    _C._moves(rows["moving"]["operators"])
    for row in _of(rows["missing"], generation, owner):
        _C._lacks(row["operators"])
    for row in _of(rows["dtypes"], generation, owner):
        _C._refuse_dtypes(row["operators"], [getattr(torch, name) for name in row["refused"]], row["title"])
    for row in _of(rows["one_dtype"], generation, owner):
        _C._wants_one_dtype(row["operators"])


def _keep_device_in_backward() -> None:
    """In 2021 backward without `set_device` before it began with device 0, for good."""
    original = torch.autograd.backward

    @wraps(original)
    def backward(*args: Any, **kwargs: Any) -> None:
        _C._keep_device()
        original(*args, **kwargs)

    torch.autograd.backward = backward


def _complain_at_exit() -> None:
    """In 2021 a device that was used without `set_device` made the shutdown fail."""
    if _C._used_device_that_was_not_set():
        print(
            "Error in atexit._run_exitfuncs:\nRuntimeError: npuSynchronizeDevice: NPU error, error code is 0: a device other than npu:0 "
            "was used without torch.npu.set_device; call it before anything else" + pta_error(ErrCode.ACL),
            file=sys.stderr,
        )


def install() -> None:
    """Read what the environment asks for. Without a wish nothing is strict, and the C++ side has one word to look at."""
    _C._set_streams_per_device(int(one_of("STREAMS_PER_DEVICE", _STREAMS, "32")))
    bits, backend = (_SATURATES if saturates() else 0), ""
    if chip_mode():
        from softnpu.spec._generated.torch_adapter import ROWS  # only here: most programs never need them

        generation = _generation(ROWS, chip().family)
        _declare(ROWS, generation["name"], chip())
        bits, backend = bits | _RULES, generation.get("backend", "")
        if generation["one_device"]:
            bits |= _ONE_DEVICE
            _keep_device_in_backward()
            atexit.register(_complain_at_exit)
    if bits:
        _C._set_strict(chip().name, backend, flag("TORCH_NPU_FALLBACK_CPU_DISABLE"), bits)
