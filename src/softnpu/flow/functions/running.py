"""Where the code that asks is running: inside which node, on which device, as which instance."""

from __future__ import annotations

import threading

from softnpu.flow import log
from softnpu.flow.body import Place


class Current(threading.local):
    """The place of the call that this thread is in."""

    place: Place | None = None


current = Current()
_process: Place | None = None


def become(place: Place) -> None:
    """This whole process is the worker of one node: threads that user code starts are in that place too."""
    global _process
    _process = place


def place(question: str) -> Place | None:
    """The place, or None with a line in the log."""
    found = current.place or _process
    if found is None:
        log.error("%s answers only inside a node of a running graph", question)
    return found


def get_running_device_id() -> int | None:
    """The device of this instance; None outside of a node."""
    found = place("get_running_device_id")
    return None if found is None else found.device_id


def get_running_instance_id() -> int | None:
    """The number of this instance of the node; None outside of a node."""
    found = place("get_running_instance_id")
    return None if found is None else found.instance_id


def get_running_instance_num() -> int | None:
    """How many instances the node has; None outside of a node."""
    found = place("get_running_instance_num")
    return None if found is None else found.instance_num
