"""Places in torch that name devices one by one, and do not know ours."""

from __future__ import annotations

import atexit
import sys
import time
from functools import wraps
from importlib import import_module
from pathlib import Path
from types import TracebackType
from typing import Any

import torch
import torch.utils.checkpoint
import torch.utils.collect_env

import softnpu
from torch_npu._environment import chip_mode, raw
from torch_npu._errors import ErrCode, SubModule, error_line, pta_error
from torch_npu._runtime.devices import process
from torch_npu._runtime.face import torch_with_npu

_TRANSFER = "TORCH_TRANSFER_TO_NPU"
_EXIT_PATIENCE = 0.2  # seconds


def refuse_other_accelerator(kind: str) -> None:
    """`kind` is the accelerator that torch had before this package came. In chip mode there may be none, as in the product; otherwise npu
    lives beside it (many have a torch that was built for CUDA), and `torch.accelerator` means npu."""
    if kind not in ("cpu", "npu") and chip_mode():
        raise RuntimeError(
            f"Two accelerators cannot be used at the same time in PyTorch: npu and {kind}. "
            f"Use a torch without {kind}, unset SOFTNPU_TORCH=chip, or set TORCH_DEVICE_BACKEND_AUTOLOAD=0 and leave torch_npu away."
            + pta_error(ErrCode.NOT_SUPPORT)
        )


def _add_error_line() -> None:
    """An uncaught exception that did not come from torch_npu ends with a line that says so, as Ascend's do."""
    original = sys.excepthook

    def excepthook(kind: type[BaseException], value: BaseException, trace: TracebackType | None) -> None:
        original(kind, value, trace)
        line = error_line(SubModule.UNKNOWN, ErrCode.EXCEPT).strip()
        if line and issubclass(kind, Exception) and "[ERROR]" not in str(value):
            print(line, file=sys.stderr)

    sys.excepthook = excepthook


def _describe() -> str:
    """What a bug report needs to know about the devices."""
    lines = [f"torch_npu version: {sys.modules['torch_npu'].__version__} (softnpu {softnpu.__version__})"]
    for index, device in enumerate(process().devices):
        lines.append(f"NPU {index}: {device.soc.name}, {device.info.memory_bytes >> 20} MiB")
    return "\n".join(lines)


def _with_devices(original: Any) -> Any:
    @wraps(original)
    def get_pretty_env_info() -> str:
        return f"{original()}\n\n{_describe()}"

    return get_pretty_env_info


def _other_threads_run() -> bool:
    """Whether a thread beside the first is at work, as Linux tells."""
    for status in Path("/proc/self/task").glob("*/stat"):
        try:
            text = status.read_text()
        except OSError:  # the thread has ended
            continue
        number, _, rest = text.partition(" ")
        if number != Path("/proc/self").resolve().name and rest.rpartition(")")[2].split()[0] == "R":
            return True
    return False


def _let_backward_end() -> None:
    """torch's threads for backward drop their last reference under the GIL a moment after backward returned; one that waits for it
    while the interpreter ends would abort the process. So they get the GIL before."""
    package = sys.modules.get("torch_npu")  # gone when its import failed
    if package is None or not package.npu.is_initialized():
        return
    deadline = time.monotonic() + _EXIT_PATIENCE
    time.sleep(0.002)
    while _other_threads_run() and time.monotonic() < deadline:
        time.sleep(0.002)


def install() -> None:
    """Uninitialised parameters may move to the device; checkpointing, collect_env and uncaught errors know it."""
    atexit.register(_let_backward_end)
    torch_with_npu.nn.parameter.UninitializedTensorMixin._allowed_methods.append(torch_with_npu.Tensor.npu)
    torch.utils.checkpoint.DefaultDeviceType.set_device_type("npu")
    collect_env: Any = torch.utils.collect_env
    collect_env.get_pretty_env_info = _with_devices(collect_env.get_pretty_env_info)
    _add_error_line()


def transfer_if_asked() -> None:
    """TORCH_TRANSFER_TO_NPU=1: programs written for cuda run on npu."""
    value = raw(_TRANSFER, "0")
    if value not in ("0", "1"):
        raise ValueError(f"{_TRANSFER} must be 0 or 1, not {value!r}: set it to 1 to let cuda mean npu, or unset it")
    if value == "0":
        return
    try:
        import_module("torch_npu.contrib.transfer_to_npu")
    except ModuleNotFoundError as error:
        if error.name not in ("torch_npu.contrib", "torch_npu.contrib.transfer_to_npu"):
            raise
        raise ModuleNotFoundError(
            f"{_TRANSFER}=1 asks for torch_npu.contrib.transfer_to_npu, which this softnpu-torch does not have: "
            "unset the variable and write npu where the program says cuda",
            name=error.name,
        ) from error
