"""What several bodies share: marks for the boundary, checks, what a failure hands out."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from types import TracebackType
from typing import Any

from softnpu.base.errors import NpuError, codes


def raw(function: Callable[..., Any]) -> Callable[..., Any]:
    """Mark a body that looks up its handles itself."""
    function.raw_handles = True  # type: ignore[attr-defined]
    return function


def refuses(function: Callable[..., Any]) -> Callable[..., Any]:
    """Mark a body that only answers why the thing cannot be done."""
    function.refuses = True  # type: ignore[attr-defined]
    return function


def milliseconds(timeout_ms: int) -> float | None:
    """A timeout in seconds, None for -1 (for ever); 0 and everything below -1 is refused."""
    if timeout_ms == -1:
        return None
    if timeout_ms <= 0:
        raise NpuError(
            codes.RT_PARAM_INVALID,
            f"timeout {timeout_ms} ms is not valid",
            "pass -1 to wait for ever, or a positive number",
        )
    return timeout_ms / 1000


class on_failure:
    """What a failed call hands out beside its code, where that is not the usual value of a failure."""

    __slots__ = ("_values",)

    def __init__(self, values: Callable[[], tuple[Any, ...]]) -> None:
        self._values = values

    def __enter__(self) -> None:
        pass

    def __exit__(
        self, _kind: type[BaseException] | None, error: BaseException | None, _at: TracebackType | None
    ) -> None:
        if isinstance(error, NpuError) and error.values is None:
            error.values = self._values()


def channel_fields(space: dict[str, Any], prefix: str, names: Iterable[str]) -> None:
    """Put the functions that set and get the fields of a video channel's description into a file of bodies."""

    def add(name: str, function: Callable[..., Any]) -> None:
        function.__module__ = space["__name__"]
        space[name] = function

    for field in names:
        add(f"{prefix}_set_channel_desc_{field}", lambda desc, value, field=field: desc.put(field, value))
        add(f"{prefix}_get_channel_desc_{field}", lambda desc, field=field: getattr(desc, field) or 0)
