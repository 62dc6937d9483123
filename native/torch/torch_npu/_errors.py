"""Error codes: what an exception of torch_npu ends with, "[ERROR] time (PID:n, Device:n, RankID:n) ERR00001 PTA invalid parameter"."""

from __future__ import annotations

import os
import sys
import time
from enum import Enum

from torch_npu import _C, _environment


class SubModule(Enum):
    """Which part raises; the value is its number and its name in the line."""

    PTA = 0
    OPS = 1
    DIST = 2
    GRAPH = 3
    PROF = 4
    UNKNOWN = 99


class ErrCode(Enum):
    """What went wrong: number and text."""

    SUC = (0, "success")
    PARAM = (1, "invalid parameter")
    TYPE = (2, "invalid type")
    VALUE = (3, "invalid value")
    PTR = (4, "invalid pointer")
    INTERNAL = (5, "internal error")
    MEMORY = (6, "memory error")
    NOT_SUPPORT = (7, "feature not supported")
    NOT_FOUND = (8, "resource not found")
    UNAVAIL = (9, "resource unavailable")
    SYSCALL = (10, "system call failed")
    TIMEOUT = (11, "timeout error")
    PERMISSION = (12, "permission error")
    ACL = (100, "call acl api failed")
    HCCL = (200, "call hccl api failed")
    GE = (300, "call ge api failed")
    EXCEPT = (999, "application exception")


def is_compact() -> bool:
    """Whether the line is left away: when asked for, and where a person types at the interpreter."""
    return _environment.raw("TORCH_NPU_COMPACT_ERROR_OUTPUT") == "1" or hasattr(sys, "ps1")


def error_line(module: SubModule, code: ErrCode) -> str:
    """The line with its newline before it, to append to a message; empty when suppressed."""
    if is_compact():
        return ""
    number, text = code.value
    moment = time.strftime("%Y-%m-%d-%H:%M:%S")
    where = f"(PID:{os.getpid()}, Device:{_C._get_device()}, RankID:{_rank()})"
    return f"\n[ERROR] {moment} {where} ERR{module.value:02d}{number:03d} {module.name} {text}"


def _rank() -> int:
    """The rank in a distributed job, -1 outside of one."""
    value = _environment.raw("RANK")
    return int(value) if value.isdigit() else -1


def pta_error(code: ErrCode) -> str:
    """The line of the framework adapter itself."""
    return error_line(SubModule.PTA, code)


def ops_error(code: ErrCode) -> str:
    """The line of operators."""
    return error_line(SubModule.OPS, code)


def dist_error(code: ErrCode) -> str:
    """The line of process groups."""
    return error_line(SubModule.DIST, code)


def graph_error(code: ErrCode) -> str:
    """The line of graph capture and compilation."""
    return error_line(SubModule.GRAPH, code)


def prof_error(code: ErrCode) -> str:
    """The line of profilers."""
    return error_line(SubModule.PROF, code)
