"""`init` and `finalize`: the options of the program, and the graphs that run."""

from __future__ import annotations

import atexit
import contextlib
import os
from typing import Any

from softnpu.flow import codes, log, settings
from softnpu.flow.application import options
from softnpu.flow.drawing import naming
from softnpu.flow.errors import DfException
from softnpu.flow.state import state as state

ENGINE = "softnpu.flow.engine"
RUN_MODE = "ge.graphRunMode"


def init(flow_options: dict[str, str]) -> None:
    """Keep the options for the graphs to come. A second call is ignored."""
    options.check(flow_options)
    with state.lock:
        if state.options is not None:
            log.warning("df.init was already called; this call is ignored. Call df.finalize first for other options.")
            return
        flow_options[RUN_MODE] = "0"
        state.options = flow_options
        state.owner = os.getpid()


def current_options() -> dict[str, str]:
    """The options of `init`; DfException 145001 before it."""
    if state.options is None:
        raise DfException(
            "df.init has not been called: call it with a dict of options (may be empty) first.", codes.NOT_INIT
        )
    return state.options


def engine(values: dict[str, Any]) -> str:
    """The engine that options or the environment ask for."""
    return settings.load(values).engine


def finalize() -> None:
    """End all graphs and forget the options; names start anew."""
    with state.lock:
        graphs, state.graphs = state.graphs, []
        state.options = None
        naming.restart()
    if state.owner != os.getpid():
        return
    with contextlib.ExitStack() as stack:  # each of them, even if one fails
        for graph in graphs:
            stack.callback(graph.close)


def finalize_at_exit() -> None:
    """Called after an engine has started, so that graphs end before what the engine itself ends at exit."""
    atexit.unregister(finalize)
    atexit.register(finalize)
