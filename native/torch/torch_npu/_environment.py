"""The one door of torch_npu to environment variables. What they are is in softnpu's `spec/environment.toml`.

Values are read when they are asked for: a program may set them between imports. A value that makes no sense is an error which names
the variable, the value and what would do.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from contextlib import contextmanager

_AUTOLOAD = "TORCH_DEVICE_BACKEND_AUTOLOAD"
_MODES = ("lenient", "chip")


def raw(name: str, default: str = "") -> str:
    """The value as it stands."""
    return os.environ.get(name, default)


def text(name: str, default: str = "") -> str:
    """The value without blanks around it; `default` when unset or empty."""
    return os.environ.get(name, "").strip() or default


def one_of(name: str, choices: Sequence[str], default: str) -> str:
    """A word from a list."""
    value = text(name, default)
    if value not in choices:
        raise ValueError(f"{name} must be one of {', '.join(choices)}, not {value!r}")
    return value


def flag(name: str, default: bool = False) -> bool:
    """0 or 1."""
    return one_of(name, ("0", "1"), "1" if default else "0") == "1"


def number(name: str, default: int, low: int, high: int) -> int:
    """A whole number in a range."""
    written = text(name, str(default))
    try:
        whole = int(written)
    except ValueError:
        whole = low - 1
    if not low <= whole <= high:
        raise ValueError(f"{name} must be a number from {low} to {high}, not {written!r}")
    return whole


def chip_mode() -> bool:
    """Whether the chip's own limits hold (`SOFTNPU_TORCH=chip`)."""
    return one_of("SOFTNPU_TORCH", _MODES, "lenient") == "chip"


@contextmanager
def without_autoload() -> Iterator[None]:
    """Inside, `import torch` loads no packages of devices."""
    before = os.environ.get(_AUTOLOAD)
    os.environ[_AUTOLOAD] = "0"
    try:
        yield
    finally:
        if before is None:
            del os.environ[_AUTOLOAD]
        else:
            os.environ[_AUTOLOAD] = before
