"""Checkpoints. torch's own `save` and `load` know the device; here is what they miss: the code line of errors, old files, and files
that a failed save leaves behind."""

from __future__ import annotations

import contextlib
import os
import pickle
import threading
import warnings
from collections.abc import Callable, Iterator
from functools import wraps
from typing import Any

import torch

from torch_npu import npu
from torch_npu._errors import ErrCode, pta_error
from torch_npu.utils.storage import _rebuild_npu_tensor

_FIRST = 5  # before torch's own rows in the registry of devices, which begin at 10
_BROKEN = (RuntimeError, ValueError, TypeError, EOFError, pickle.UnpicklingError)
_seen = threading.local()


def _names_npu(map_location: Any) -> bool:
    """Whether a `map_location` speaks of the device."""
    if isinstance(map_location, dict):
        return any(_names_npu(end) for pair in map_location.items() for end in pair)
    return "npu" in str(map_location) if isinstance(map_location, (str, torch.device)) else False


def _with_code(error: Exception, map_location: Any) -> None:
    """End the text of an error with the code line, if the device has to do with it: it is named, or this program uses it."""
    text = str(error.args[0]) if len(error.args) == 1 else ""
    if len(error.args) > 1 or "[ERROR]" in text:
        return
    if _names_npu(map_location) or "npu" in text.lower() or npu.is_initialized():
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


def install() -> None:
    """Put `load` and `save` in their places, and allow what old checkpoints name, also with `weights_only=True`."""
    torch.serialization.add_safe_globals([_rebuild_npu_tensor])
    torch.serialization.register_package(_FIRST, _note_npu, lambda _storage, _location: None)
    torch.load = torch.serialization.load = _load(torch.serialization.load)
    torch.save = torch.serialization.save = _save(torch.serialization.save)
