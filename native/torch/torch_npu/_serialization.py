"""Checkpoints. torch's own `save` and `load` know the device; here is what they miss: the code line of errors, old files, files
that a failed save leaves behind, and saving beside the work."""

from __future__ import annotations

import contextlib
import io
import os
import pickle
import threading
import warnings
from collections.abc import Callable, Iterator
from functools import wraps
from pathlib import Path
from typing import Any

import torch

from torch_npu._errors import ErrCode, pta_error

_FIRST = 5  # before torch's own rows in the registry of devices, which begin at 10
_BROKEN = (RuntimeError, ValueError, TypeError, EOFError, pickle.UnpicklingError)
_seen = threading.local()


def _names_npu(place: Any) -> bool:
    """Whether a `map_location` speaks of the device."""
    if isinstance(place, dict):
        return any(_names_npu(one) for pair in place.items() for one in pair)
    return "npu" in str(place) if isinstance(place, (str, torch.device)) else False


def _with_code(error: Exception, place: Any) -> None:
    """End the text of an error with the code line, if the device has to do with it: it is named, or this program uses it."""
    text = str(error.args[0]) if len(error.args) == 1 else ""
    if len(error.args) > 1 or "[ERROR]" in text:
        return
    if _names_npu(place) or "npu" in text.lower() or torch.npu.is_initialized():
        about_place = isinstance(error, TypeError) or "device" in text or "restore data location" in text
        error.args = (text + pta_error(ErrCode.PARAM if about_place else ErrCode.VALUE),)


def _load(original: Callable[..., Any]) -> Callable[..., Any]:
    @wraps(original)
    def load(f: Any, map_location: Any = None, *args: Any, **kwargs: Any) -> Any:
        try:
            return original(f, map_location, *args, **kwargs)
        except _BROKEN as error:
            _with_code(error, map_location)
            raise

    return load


def _note_npu(storage: Any) -> None:
    """A tagger that leaves the tag to torch: it only remembers that a file holds something of the device."""
    if storage.device.type == "npu":
        _seen.npu = True


@contextlib.contextmanager
def _no_remains(f: Any) -> Iterator[None]:
    """A save that fails leaves no broken file where none was before."""
    new = isinstance(f, (str, os.PathLike)) and not os.path.lexists(f)
    try:
        yield
    except BaseException:
        if new:
            with contextlib.suppress(OSError):  # the first error is the one to tell
                os.unlink(f)
        raise


def _save(original: Callable[..., Any]) -> Callable[..., Any]:
    @wraps(original)
    def save(obj: object, f: Any, *args: Any, **kwargs: Any) -> None:
        _seen.npu = False
        with _no_remains(f):
            original(obj, f, *args, **kwargs)
        zipped = args[2] if len(args) > 2 else kwargs.get("_use_new_zipfile_serialization", True)
        by_hand = not isinstance(obj, (torch.TypedStorage, torch.UntypedStorage))  # those are how torch itself pickles
        if _seen.npu and not zipped and by_hand:
            warnings.warn(
                "npu tensors were saved in torch's old file format: leave _use_new_zipfile_serialization at True, "
                "unless a very old torch has to read the file",
                stacklevel=2,
            )

    return save


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


def install() -> None:
    """Put `load` and `save` in their places, and allow what old checkpoints name, also with `weights_only=True`."""
    from torch_npu.utils.storage import _rebuild_npu_tensor

    torch.serialization.add_safe_globals([_rebuild_npu_tensor])
    torch.serialization.register_package(_FIRST, _note_npu, lambda _storage, _location: None)
    torch.load = torch.serialization.load = _load(torch.serialization.load)
    torch.save = torch.serialization.save = _save(torch.serialization.save)
