"""Where the code that asks is running: inside which node, on which device, as which instance."""

from __future__ import annotations

import threading

from softnpu.flow import log
from softnpu.flow.body import InstanceInfo


class Current(threading.local):
    """The place of the call that this thread is in."""

    instance: InstanceInfo | None = None


current = Current()
_process: InstanceInfo | None = None


def become(instance: InstanceInfo) -> None:
    """This whole process is the worker of one node: threads that user code starts are in that place too."""
    global _process
    _process = instance


def instance_info(question: str) -> InstanceInfo | None:
    """The place, or None with a line in the log."""
    info = current.instance or _process
    if info is None:
        log.error("%s answers only inside a node of a running graph", question)
    return info


def get_running_device_id() -> int | None:
    """The device of this instance; None outside of a node."""
    info = instance_info("get_running_device_id")
    return None if info is None else info.device_id


def get_running_instance_id() -> int | None:
    """The number of this instance of the node; None outside of a node."""
    info = instance_info("get_running_instance_id")
    return None if info is None else info.instance_id


def get_running_instance_num() -> int | None:
    """How many instances the node has; None outside of a node."""
    info = instance_info("get_running_instance_num")
    return None if info is None else info.instance_num
