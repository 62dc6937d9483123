"""Processes that look for each other and do not find: the errors of torch, with the words that the guides explain."""

from __future__ import annotations

import re
import socket
from collections.abc import Callable, Iterator
from functools import wraps
from typing import Any

from torch.distributed import DistError

from torch_npu._errors import ErrCode, dist_error

_SIGNS = ("timed out", "Timed out", "failed to connect", "cannot be retrieved", "Connection refused")
_TARGET = re.compile(r"\(([^()\s]+), \d+\)")


def _is_known(host: str) -> bool:
    """Whether the host's name or address means something here."""
    try:
        socket.getaddrinfo(host, None)
    except socket.gaierror:
        return False
    return True


def explained(error: Exception) -> Exception | None:
    """The error with its cause before it, of the same class; None where the cause is another. torch says the same for a host that it
    does not know as for one that does not answer."""
    text = str(error)
    if not any(sign in text for sign in _SIGNS):
        return None
    target = _TARGET.search(text)
    if target is not None and not _is_known(target[1]):
        words, code = "host not found.", ErrCode.PARAM
        advice = "MASTER_ADDR (or the address in init_method) is no host that this one knows: set the address of the host of rank 0"
    else:
        words, code = "connect() timed out.", ErrCode.TIMEOUT
        advice = (
            "Rank 0 was not started, MASTER_ADDR or MASTER_PORT are wrong, or a firewall blocks the port; or fewer processes than "
            "WORLD_SIZE were started"
        )
    return type(error)(f"{words} {advice}. ({text}){dist_error(code)}")


def with_causes(original: Callable[..., Iterator[Any]]) -> Callable[..., Iterator[Any]]:
    """`rendezvous`, which is a generator: errors come when it is asked for the next store."""

    @wraps(original)
    def rendezvous(*args: Any, **kwargs: Any) -> Iterator[Any]:
        try:
            yield from original(*args, **kwargs)
        except (DistError, RuntimeError) as error:
            explanation = explained(error)
            if explanation is None:
                raise
            raise explanation from error

    return rendezvous
