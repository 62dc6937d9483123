"""`torch_npu.utils.save_async`: checkpoints that are written beside the work."""

from __future__ import annotations

import contextlib
import io
import os
import threading
from pathlib import Path
from typing import Any

import torch

from torch_npu._errors import ErrCode, pta_error


def _write_file(path: str, content: memoryview) -> None:
    """Write beside the target and rename: a reader sees the old file or the whole new one."""
    part = f"{path}.{os.getpid()}-{threading.get_native_id()}.part"
    try:
        with open(part, "xb") as file:
            file.write(content)
        os.replace(part, path)
    except BaseException:
        with contextlib.suppress(OSError):  # the first error is the one to tell
            os.unlink(part)
        raise


def _write(target: Any, content: memoryview) -> None:
    """The thread's work. Its exception goes to `threading.excepthook`, which prints it."""
    try:
        if isinstance(target, str):
            _write_file(target, content)
        else:
            target.write(content)
    except Exception as error:
        raise RuntimeError(
            f"save_async could not write {target!r}: {error}; the file is as it was before" + pta_error(ErrCode.SYSCALL)
        ) from error


def save_async(obj: object, f: Any, *args: Any, model: torch.nn.Module | None = None, **kwargs: Any) -> None:
    """`torch.save` whose file is written by a thread: values are those of now, the interpreter does not end before the file is
    there. The original holds `model` back until it has been copied; here the copy is over when this returns."""
    if model is not None and not isinstance(model, torch.nn.Module):
        raise TypeError(
            f"model must be a torch.nn.Module or None, not {type(model).__name__}" + pta_error(ErrCode.TYPE)
        )
    target = os.path.realpath(f) if isinstance(f, (str, os.PathLike)) else f
    if isinstance(target, str) and not Path(target).parent.is_dir():
        raise RuntimeError(f"Parent directory {Path(target).parent} does not exist." + pta_error(ErrCode.NOT_FOUND))
    buffer = io.BytesIO()
    torch.save(obj, buffer, *args, **kwargs)
    threading.Thread(target=_write, args=(target, buffer.getbuffer()), name="torch_npu.save_async").start()
