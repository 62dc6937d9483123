"""Options of `init` and of graphs: what can be checked before anything runs."""

from __future__ import annotations

import difflib
import os
import re
from collections.abc import Callable
from typing import Any

from softnpu.flow import codes, log
from softnpu.flow.errors import DfException

PREFIX = "softnpu.flow."
_GIB = 2**30
_MAX_POOLS, _MIN_POOL, _MAX_POOL = 128, 1024, 256 * _GIB
_MAX_LIMIT = 2 * _GIB
_POOL = re.compile(r"(\d{1,12}):(\d{1,12})", re.ASCII)


def _memory(text: str) -> str:
    pools = text.split(",")
    if len(pools) > _MAX_POOLS:
        return f"write at most {_MAX_POOLS} pools"
    total = 0
    for pool in pools:
        match = _POOL.fullmatch(pool.strip())
        if not match:
            return f"write size:limit in bytes for every pool, not {pool.strip()[:40]!r}"
        size, limit = int(match[1]), int(match[2])
        if not _MIN_POOL <= size <= _MAX_POOL:
            return f"a pool has {_MIN_POOL} to {_MAX_POOL} bytes, not {size}"
        if limit and not _MIN_POOL <= limit <= _MAX_LIMIT:
            return f"the limit of a pool is 0 or {_MIN_POOL} to {_MAX_LIMIT} bytes, not {limit}"
        total += size
    return "" if total <= _MAX_POOL else f"all pools together have at most {_MAX_POOL} bytes, not {total}"


def _matches(pattern: str, advice: str) -> Callable[[str], str]:
    compiled = re.compile(pattern, re.ASCII)
    return lambda text: "" if compiled.fullmatch(text) else advice


def _folder(text: str) -> str:
    return "" if os.path.isdir(text) else "name a folder that exists"


_filled = _matches(r".+", "write the path of a file")

_CHECKS: dict[str, Callable[[str], str]] = {
    "ge.flowGraphMemMaxSize": _memory,
    "ge.graph_key": _matches(r"[A-Za-z0-9_-]{1,128}", "use 1 to 128 letters, digits, _ and -"),
    "ge.graph_compiler_cache_dir": _folder,
    "ge.runFlag": _matches(r"[01]", 'use "1" to run, "0" to compile only'),
    "ge.graphRunMode": _matches(r"[01]", 'use "0"'),
    "ge.exec.deviceId": _matches(r"\d{1,5}", 'write the number of a device, like "0"'),
    "ge.exec.logicalDeviceId": _matches(r"\[\d{1,5}:\d{1,5}\]", 'write "[node:device]", like "[0:0]"'),
    "ge.experiment.data_flow_deploy_info_path": _filled,
}
# Known, with nothing to check before the model compiler sees them.
_PASSED = {
    "ge.socVersion",
    "ge.exec.logicalDeviceClusterDeployMode",
    "ge.exec.precision_mode",
    "ge.externalWeight",
}
_ENGINES = ("embedded", "inline", "ray", "stub")
# Our own switches: a row makes a key known.
OWN: dict[str, Callable[[str], str]] = {
    "softnpu.flow.engine": _matches("|".join(_ENGINES), f"use one of {', '.join(_ENGINES)}"),
    "softnpu.flow.on_death": _matches("restart|end", "use restart or end"),
    "softnpu.flow.restarts": _matches(r"\d{1,3}", "write a number"),
    "softnpu.flow.strict": _matches("[01]", 'use "0" or "1"'),
    "softnpu.flow.memory": _matches(r"\d{1,12}[KMGTkmgt]?", 'write a size such as "4G"'),
    "softnpu.flow.workspace": _matches("[01]", 'use "0" or "1"'),
    "softnpu.flow.timeline": _filled,
    "softnpu.flow.metrics_token": _matches(r"[A-Za-z0-9._~-]{8,128}", "use 8 to 128 letters, digits, . _ ~ -"),
    "softnpu.flow.ray_address": _filled,
    "softnpu.flow.metrics_port": _matches(r"\d{1,5}", "write a port number"),
}


def check(options: Any) -> None:
    """Refuse options that cannot be meant, with 145000; those that only a real engine knows are accepted and logged."""
    if not isinstance(options, dict):
        raise DfException(f"options are a {type(options).__name__}; pass a dict of texts", codes.PARAM_INVALID)
    for key, value in options.items():
        if not isinstance(key, str) or not isinstance(value, str):
            raise DfException(f"option {key!r}: {value!r}: keys and values have to be str", codes.PARAM_INVALID)
        advice = _advice(key, value)
        if advice:
            raise DfException(f"option {key} is {value[:200]!r}: {advice}", codes.PARAM_INVALID)


def _advice(key: str, value: str) -> str:
    if key.startswith(PREFIX):
        if key in OWN:
            return OWN[key](value)
        near = difflib.get_close_matches(key, OWN, 1)
        return f"there is no such option; {f'is {near[0]} meant' if near else 'known are ' + ', '.join(OWN)}"
    if key in _CHECKS:
        return _CHECKS[key](value)
    if key not in _PASSED:
        log.info("option %s=%s means nothing to this engine and is ignored", key, value)
    return ""
