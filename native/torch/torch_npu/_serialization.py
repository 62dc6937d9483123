"""Checkpoints. torch's own `save` and `load` know the device; here is what they miss: old files, and saving beside the work."""

from __future__ import annotations

import io
import os
import threading
from typing import Any

import torch


def _write(target: Any, content: memoryview) -> None:
    if isinstance(target, (str, os.PathLike)):
        with open(target, "wb") as file:
            file.write(content)
    else:
        target.write(content)


def save_async(obj: object, f: Any, *args: Any, model: torch.nn.Module | None = None, **kwargs: Any) -> None:
    """`torch.save` whose file is written by a thread: values are those of now, the interpreter does not end before the file is
    there. The original holds `model` back until it has been copied; here the copy is over when this returns."""
    if model is not None and not isinstance(model, torch.nn.Module):
        raise TypeError(f"model must be a torch.nn.Module or None, not {type(model).__name__}")
    buffer = io.BytesIO()
    torch.save(obj, buffer, *args, **kwargs)
    threading.Thread(target=_write, args=(f, buffer.getbuffer()), name="torch_npu.save_async").start()


def install() -> None:
    """Allow what old checkpoints name, also with `weights_only=True`."""
    from torch_npu.utils.storage import _rebuild_npu_tensor

    torch.serialization.add_safe_globals([_rebuild_npu_tensor])
