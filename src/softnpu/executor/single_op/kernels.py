"""Kernels that programs register: selectors choose one for given tensors, but no binary can run on this machine.

An operator type that has a meaning of its own here is run by it, after its selector chose a registered kernel.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from softnpu.base.errors import NpuError, codes
from softnpu.base.log import ERROR, WARNING, log
from softnpu.compiler.single_op.description import SingleOp, operator_of

Selector = Callable[[int, list[int], int, list[int], int, int], object]


@dataclass
class Kernel:
    """The binary of a kernel, as far as it matters here."""

    name: str
    size: int
    engine: int


@dataclass
class KernelDesc:
    """What a selector says about the kernel it chose."""

    kernel_id: str = ""
    block_dim: int = 0
    arguments: bytes = b""
    workspaces: list[int] = field(default_factory=list)


class KernelBook:
    """Selectors and kernels by operator type, and what was chosen."""

    def __init__(self) -> None:
        self._selectors: dict[str, Selector] = {}
        self._kernels: dict[tuple[str, str], Kernel] = {}
        self._chosen: dict[str, dict[str, KernelDesc]] = {}
        self._told: set[str] = set()

    def register(self, op_type: str, selector: Selector) -> None:
        """Give a type its selector."""
        if op_type in self._selectors:
            raise NpuError(
                codes.BIN_SELECTOR_ALREADY_REGISTERED,
                f"the operator type {op_type!r} has a compile function already",
                "call acl.op.unregister_compile_func first",
            )
        self._selectors[op_type] = selector

    def unregister(self, op_type: str) -> None:
        """Take the selector of a type away, and what it chose."""
        self._selectors.pop(op_type, None)
        self._chosen.pop(op_type, None)

    def add(self, op_type: str, kernel_id: str, kernel: Kernel) -> None:
        """Register a kernel."""
        if (op_type, kernel_id) in self._kernels:
            raise NpuError(
                codes.KERNEL_ALREADY_REGISTERED,
                f"the kernel {kernel_id!r} of {op_type!r} was registered before",
                "use another kernel id",
            )
        self._kernels[op_type, kernel_id] = kernel

    def has_selector(self, op_type: str) -> bool:
        """Whether a type has a selector."""
        return op_type in self._selectors

    def choose(self, op: SingleOp, call: Callable[[Selector, KernelDesc], object]) -> None:
        """Let the selector of a type choose a kernel for given tensors, and remember the choice."""
        selector = self._selectors.get(op.op)
        if selector is None:
            raise NpuError(
                codes.BIN_SELECTOR_NOT_REGISTERED,
                f"the operator type {op.op!r} has no compile function",
                "call acl.op.register_compile_func first",
            )
        desc = KernelDesc()
        answer = _answer(op.op, call, selector, desc)
        if isinstance(answer, int) and answer:
            raise NpuError(
                answer, f"the compile function of {op.op!r} answered {answer}", "see what the function checks"
            )
        if (op.op, desc.kernel_id) not in self._kernels:
            raise NpuError(
                codes.KERNEL_NOT_FOUND,
                f"the compile function of {op.op!r} chose the kernel {desc.kernel_id!r}, which is not registered",
                "register it with acl.op.create_kernel, and name it in acl.op.set_kernel_args",
            )
        self._chosen.setdefault(op.op, {})[repr(op.key())] = desc

    def meaning(self, op_type: str, asked: SingleOp) -> str:
        """The type whose meaning stands for a kernel; raises when nothing was chosen or there is none."""
        if repr(asked.key()) not in self._chosen.get(op_type, {}):
            raise NpuError(
                codes.OP_NOT_FOUND,
                f"no kernel was chosen for these tensors of {op_type!r}",
                "call acl.op.update_params with the same descriptions and attributes first",
            )
        for name in (op_type, "".join(part[:1].upper() + part[1:] for part in op_type.split("_"))):
            if operator_of(name) is not None:
                if op_type not in self._told:
                    self._told.add(op_type)
                    text = (
                        f"the kernel of {op_type!r} is a binary for an NPU; the built-in meaning of {name} runs instead"
                    )
                    log().write(WARNING, text, "ASCENDCL", "execute")
                return name
        raise NpuError(
            codes.API_NOT_SUPPORT,
            f"the kernel of {op_type!r} is a binary for an NPU, which cannot run here",
            "only operator types that softnpu knows can stand for a kernel; docs/support/operators.md lists them",
        )


def _answer(op_type: str, call: Callable[[Selector, KernelDesc], object], selector: Selector, desc: KernelDesc) -> Any:
    try:
        return call(selector, desc)
    except NpuError:
        raise
    except Exception as error:
        log().write(
            ERROR,
            f"the compile function of {op_type!r} raised {type(error).__name__}: {error}",
            "ASCENDCL",
            "update_params",
        )
        raise NpuError(
            codes.FAILURE,
            f"the compile function of {op_type!r} raised {type(error).__name__}: {error}",
            "correct the function",
        ) from error
