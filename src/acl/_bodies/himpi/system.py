"""Bodies of `acl.himpi`: system, memory, epoll."""

from __future__ import annotations

from typing import Any

from acl._bodies._common import on_failure
from softnpu.base.errors import Raise
from softnpu.media.v2.struct import same_count
from softnpu.media.v2.structs import CSC, EPOLL_EVENT, IMAGE_ALIGN, IMAGE_BASE
from softnpu.media.v2.sys.align import align_info
from softnpu.media.v2.sys.colour import get_matrix, set_matrix
from softnpu.media.v2.sys.system import need_system, stop, system
from softnpu.runtime.process import process

_ALIGN = 128
_MOST_EVENTS = 4096
_VERSION = (1, 0, 0)


def sys_init() -> None:
    system().start()


def sys_exit() -> None:
    stop()


def dvpp_malloc(dev_id: int, size: int) -> int:
    owner = process()
    owner.need_start()
    device = owner.device(dev_id)
    if not device.contexts:
        owner.current()  # says what to do
    return owner.memory.allocate(device, size, 0, kind="media", align=_ALIGN)


def dvpp_free(ptr: int) -> None:
    owner = process()
    owner.need_start()
    owner.memory.free(ptr, ("media",), "media")


def dvpp_get_version() -> tuple[int, int, int]:
    return _VERSION


def sys_create_epoll(size: int) -> int:
    return need_system("sys").epolls.create(size)


def sys_ctl_epoll(epfd: int, op: int, fd: int, event: dict[str, Any]) -> None:
    wanted = EPOLL_EVENT.read(event)
    need_system("sys").epolls.control(epfd, op, fd, wanted.events, wanted.data)


def sys_wait_epoll(epfd: int, max_events: int, timeout: int) -> tuple[list[dict[str, int]], int]:
    if not 0 <= max_events <= _MOST_EVENTS:
        raise Raise(TypeError(f"max_events is {max_events}, it must be 0 to {_MOST_EVENTS}"))
    events = [EPOLL_EVENT.zeros() for _ in range(max_events)]
    with on_failure(lambda: (events, 0)):
        ready = need_system("sys").epolls.get(epfd).wait(max_events, timeout)
    for event, (mask, data) in zip(events, ready, strict=False):
        event.update(events=mask, data=data)
    return events, len(ready)


def sys_close_epoll(epfd: int) -> None:
    need_system("sys").epolls.close(epfd)


def sys_set_chn_csc_matrix(mod: int, chn: int, matrix: int, coeff: dict[str, Any]) -> None:
    coefficients = CSC.read(coeff)
    set_matrix(need_system("sys"), mod, chn, matrix, coefficients)


def sys_get_chn_csc_matrix(mod: int, chn: int) -> tuple[int, dict[str, Any]]:
    with on_failure(lambda: (0, CSC.zeros())):
        return get_matrix(need_system("sys"), mod, chn)


def sys_get_image_align_info(module_types: list[int], n: int, base: dict[str, Any]) -> dict[str, Any]:
    same_count(n, module_types, "modules")
    wanted = IMAGE_BASE.read(base)
    with on_failure(lambda: (IMAGE_ALIGN.zeros(),)):
        return IMAGE_ALIGN.write(align_info(module_types, wanted))
