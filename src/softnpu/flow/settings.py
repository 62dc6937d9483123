"""How graphs are run: the settings of this room, with its own kind of error."""

from __future__ import annotations

from softnpu.base import config
from softnpu.base.errors import NpuError
from softnpu.flow import codes
from softnpu.flow.errors import DfException


def load(options: dict[str, str] | None) -> config.FlowSettings:
    """Options before environment variables; DfException 145000 for a value that means nothing."""
    try:
        return config.FlowSettings.load(options)
    except NpuError as problem:
        raise DfException(f"{problem.text}: {problem.remedy}.", codes.PARAM_INVALID) from problem
