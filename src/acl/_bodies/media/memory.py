"""Bodies of `acl.media`: media memory."""

from __future__ import annotations

from typing import Any

from acl._bodies.rt.memory import _check_config
from softnpu.media.v1.lent import check_own
from softnpu.runtime.process import process

_ALIGN = 128


def dvpp_malloc(size: int) -> int:
    return dvpp_malloc_with_cfg(size, 0, {})


def dvpp_malloc_with_cfg(size: int, policy: int, cfg: dict[str, Any]) -> int:
    _check_config(cfg)
    owner = process()
    return owner.memory.allocate(owner.current().device, size, policy, kind="media", align=_ALIGN)


def dvpp_free(ptr: int) -> None:
    owner = process()
    owner.need_start()
    check_own(ptr)
    owner.memory.free(ptr, ("media",), "media")
