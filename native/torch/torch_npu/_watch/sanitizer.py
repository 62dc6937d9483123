"""The sanitizer (TORCH_NPU_SANITIZER): finds work on two streams that touches the same memory without waiting.

Here work is over when a call returns, so such a program has no wrong results; on a chip it has, now and then. The bookkeeping is
that of torch's sanitizer for CUDA; this module feeds it. It sees the operators of the thread that enabled it and of the backward
passes which that thread starts.
"""

from __future__ import annotations

import sys
import weakref
from typing import Any

import torch
from torch.cuda import _sanitizer as bookkeeping

from torch_npu._runtime import stream_ids as ids
from torch_npu._watch.looking import Looking, named_arguments, named_results, tensors_in, written_names

__all__ = ["NPUSanitizer", "NPUSanitizerErrors", "enable_npu_sanitizer", "npu_sanitizer"]

_DEVICE_SHIFT = 40


class NPUSanitizerErrors(bookkeeping.CUDASanitizerErrors):
    """The races that one operator has with work before it."""

    def __str__(self) -> str:
        return f"detected {len(self.errors)} errors"


def _number(stream: torch.Stream) -> int:
    return ids.plain(stream.stream_id) | stream.device_index << _DEVICE_SHIFT


def _memory(tensor: torch.Tensor) -> int:
    return tensor.data_ptr() or id(tensor)


class _Watch(Looking):
    """Tells the bookkeeping which memory each operator reads and writes, and how streams wait for one another."""

    def __init__(self) -> None:
        super().__init__()
        self._book = bookkeeping.EventHandler()
        self._known: set[int] = set()

    def look(self, func: Any, args: Any, kwargs: Any) -> Any:
        changed = written_names(func)
        names: dict[int, list[str]] = {}
        read: set[int] = set()
        written: set[int] = set()
        for name, tensor in tensors_in(named_arguments(func, args, kwargs)):
            if tensor.device.type == "npu":
                writes = name in changed or name.rpartition("_")[0] in changed
                (written if writes else read).add(self._meet(tensor, name, names))
        result = func(*args, **kwargs)
        outputs = {
            self._meet(tensor, name, names)
            for name, tensor in tensors_in(named_results(func, result))
            if tensor.device.type == "npu"
        }
        written |= outputs - read
        stream = torch.accelerator.current_stream()
        errors = self._book._handle_kernel_launch(
            _number(stream), read - written, written, outputs, func._schema, names
        )
        if errors:
            for error in errors:
                print(str(error).replace("CSAN", "NSAN"), file=sys.stderr)
            raise NPUSanitizerErrors(errors)
        return result

    def _meet(self, tensor: torch.Tensor, name: str, names: dict[int, list[str]]) -> int:
        """Note a piece of memory under a name; when it is freed what was done with it is forgotten."""
        address = _memory(tensor)
        names.setdefault(address, []).append(name)
        if address not in self._known:
            self._known.add(address)
            self._book._handle_memory_allocation(address)
            weakref.finalize(tensor.untyped_storage(), self._forget, address).atexit = False
        return address

    def _forget(self, address: int) -> None:
        self._known.discard(address)
        self._book._handle_memory_deallocation(address)

    # ---- what torch_npu.npu.streams tells ------------------------------------------------------------------------------

    def recorded(self, event: torch.Event, stream: torch.Stream) -> None:
        """An event was recorded in a stream."""
        self._book._handle_event_record(id(event), _number(stream))

    def waits(self, event: torch.Event, stream: torch.Stream) -> None:
        """A stream waits for an event."""
        self._book._handle_event_wait(id(event), _number(stream))

    def host_waits(self, what: torch.Event | torch.Stream | None) -> None:
        """The program waits for an event, a stream, or for everything: so does all that it starts later."""
        if what is None:
            self._book._handle_device_synchronization()
        elif isinstance(what, torch.Stream):
            self._book._handle_stream_synchronization(_number(what))
        else:
            self._book._handle_event_synchronization(id(what))


class NPUSanitizer:
    """Switches the watch on and off."""

    def __init__(self) -> None:
        self._watch: _Watch | None = None

    @property
    def enabled(self) -> bool:
        """Whether it looks."""
        return self._watch is not None

    def enable(self) -> None:
        """Look from now on."""
        if self._watch is None:
            self._watch = _Watch()
            ids.listeners.append(self._watch)
            self._watch.start()

    def disable(self) -> None:
        """Look no more."""
        watch, self._watch = self._watch, None
        if watch is not None:
            watch.stop()
            ids.listeners.remove(watch)


npu_sanitizer = NPUSanitizer()


def enable_npu_sanitizer() -> None:
    """Look for races from now on; best at the very beginning of a program."""
    npu_sanitizer.enable()
