"""`-s`: the device comes from the environment variable NPU_CALCULATE_DEVICE."""

from __future__ import annotations

import re

import libcst as cst

from softnpu.migrate.reading.names import Names
from softnpu.migrate.rewriting.edits import EditList
from softnpu.migrate.rewriting.placement import Placer

VARIABLE = "NPU_CALCULATE_DEVICE"
DEVICE = f"f'npu:{{{VARIABLE}}}'"
# Words of arguments that are no device, or one that must stay.
_STAYS = re.compile(
    rf"cpu|dtype|float|half|double|\bint|long|bool|byte|short|memory_format|channels|grad|rank|lambda|meta|{VARIABLE}"
)
_IS_DEVICE = re.compile(r"cuda|npu|gpu|device", re.IGNORECASE)
_OWN_DEVICE = re.compile(r"\b(self|args|opt|opts|cfg|config|hparams|FLAGS)\.(\w+\.)*device\b|(?<![.\w])device\b")


class DeviceArguments(cst.CSTVisitor):
    """Replaces the device arguments of `to`, `cuda`, `set_device`, `torch.device` and `torch.load`."""

    def __init__(self, names: Names, edits: EditList) -> None:
        super().__init__()
        self.names, self.edits = names, edits
        self.used = False

    def visit_Call(self, node: cst.Call) -> None:
        full = self.names.full(node.func)
        method = node.func.attr.value if isinstance(node.func, cst.Attribute) else ""
        if full in ("torch.device", "torch.cuda.set_device", "torch.npu.set_device"):
            self._all(node)
        elif full == "torch.load":
            self._one(node, "map_location", 1, exact=True)
        elif method in ("cuda", "npu") and not full.startswith("torch."):
            self._one(node, "device", 0, exact=False)
        elif method == "to" and not full:
            self._one(node, "device", 0, exact=True)

    def _all(self, node: cst.Call) -> None:
        text = " ".join(self.names.text(argument.value) for argument in node.args)
        if node.args and not _STAYS.search(text):
            start, end = self.names.span(node.args[0])[0], self.names.span(node.args[-1].value)[1]
            self._replace(start, end, text)

    def _one(self, node: cst.Call, keyword: str, index: int, exact: bool) -> None:
        """Replace one argument; `exact`: only where its text is certainly a device."""
        named = [
            argument for argument in node.args if argument.keyword is not None and argument.keyword.value == keyword
        ]
        positional = [argument for argument in node.args if argument.keyword is None and not argument.star]
        chosen = named or positional[index : index + 1]
        if not chosen:
            return
        text = self.names.text(chosen[0].value)
        if _STAYS.search(text) or (exact and not _is_device(text)):
            return
        self._replace(*self.names.span(chosen[0].value), text)

    def _replace(self, start: int, end: int, old: str) -> None:
        self.used = True
        self.edits.add(start, end, DEVICE, f"Take the device from {VARIABLE} instead of {old}")


def _is_device(text: str) -> bool:
    """Whether an argument names a device; the device of another tensor may be the CPU and does not count."""
    if ".device" in text or text.endswith("device"):
        return bool(_OWN_DEVICE.search(text))
    return bool(_IS_DEVICE.search(text))


def device_lines(placer: Placer, entry: bool) -> list[str]:
    """The lines that define the device; in an entry file they also make it the current one."""
    torch = placer.local("torch")
    lines = [] if placer.local("os") == "os" else ["import os"]
    lines += [] if torch or not entry else ["import torch"]
    lines += [
        f"{VARIABLE} = 0",
        f"if os.getenv('{VARIABLE}', '').isdigit():",
        f"    {VARIABLE} = int(os.environ['{VARIABLE}'])",
    ]
    if entry:
        torch = torch or "torch"
        lines += [
            f"if {torch}.npu.current_device() != {VARIABLE}:",
            f"    {torch}.npu.set_device({DEVICE})",
        ]
    return lines


def is_entry(names: Names) -> bool:
    """Whether a module has an `if __name__ == "__main__"`."""
    for statement in names.module.body:
        if isinstance(statement, cst.If) and "__main__" in names.text(statement.test):
            return True
    return False
