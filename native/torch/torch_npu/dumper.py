"""`torch.utils.dumper`: inputs and outputs of all operators in a `with` block as an HDF5 file, loaded ones instead of the program's,
or only the operators that overflow."""

from __future__ import annotations

import os
import time
from types import TracebackType
from typing import Any

import torch

from torch_npu import npu
from torch_npu._errors import ErrCode, pta_error
from torch_npu._watch import h5
from torch_npu._watch.looking import Looking, named_arguments, named_results, short_name, tensors_in, written_names

__all__ = ["dumper", "get_op_map"]

_FLAGS = ("enabled", "use_dump", "use_load", "check_overflow", "load_with_acl_dump")


def get_op_map() -> tuple[dict[str, str], dict[str, str]]:
    """Names of operators and of arguments that differ between CPU or GPU and NPU: none, both run torch's own operators here."""
    return {}, {}


def _refuse(text: str, code: ErrCode = ErrCode.PARAM) -> None:
    raise RuntimeError(text + pta_error(code))


def _dump_file(dump_path: str | None) -> str:
    """A name that ends in .h5, or a folder, in which the file is named after the time."""
    path = dump_path or "."
    if os.path.isdir(path):
        now = time.time()
        stamp = time.strftime("%Y%m%d_%H%M%S", time.localtime(now)) + f".{int(now % 1 * 1e6):06d}"
        return os.path.join(path, f"{stamp}.h5")
    if not path.endswith(".h5"):
        _refuse(f"dump_path should be a folder that exists or a name that ends in .h5 but got {dump_path!r}")
    return path


def _load_file(load_file_path: str | None, dump_file: str) -> str:
    path = load_file_path or ""
    if not path.endswith(".h5") or not os.path.isfile(path):
        _refuse(f"load_file_path should be an .h5 file that exists but got {load_file_path!r}", ErrCode.NOT_FOUND)
    if os.path.abspath(path) == os.path.abspath(dump_file):
        _refuse(f"load_file_path and dump_path are the same file {path}: dump to another one")
    return path


class dumper:
    """One of dump, load and overflow check. The operators of this thread are seen, on every device."""

    _active = False

    def __init__(
        self,
        enabled: bool = True,
        use_dump: bool = False,
        use_load: bool = False,
        check_overflow: bool = False,
        dump_path: str | None = None,
        load_file_path: str | None = None,
        load_with_acl_dump: bool = False,
    ) -> None:
        flags: tuple[object, ...] = (enabled, use_dump, use_load, check_overflow, load_with_acl_dump)
        for name, value in zip(_FLAGS, flags, strict=True):
            if not isinstance(value, bool):
                _refuse(f"{name} should be a bool but got {type(value).__name__}", ErrCode.TYPE)
        if use_dump + use_load + check_overflow > 1:
            _refuse("dump mode, load mode and check overflow mode can not run together!")
        self.enabled = enabled and (use_dump or use_load or check_overflow)
        self.use_dump, self.use_load, self.check_overflow = use_dump, use_load, check_overflow
        self.load_with_acl_dump = load_with_acl_dump
        self.entered = False
        if not self.enabled:
            return
        if (check_overflow or load_with_acl_dump) and not npu.is_available():
            _refuse("check_overflow and load_with_acl_dump need an NPU, there is none", ErrCode.UNAVAIL)
        self.dump_path = _dump_file(dump_path)
        loads = use_load or (
            use_dump and load_file_path
        )  # the guide's second run dumps what it makes of the first's inputs
        self.load_file_path = _load_file(load_file_path, self.dump_path) if loads else None

    def __enter__(self) -> dumper:
        if self.entered or (self.enabled and dumper._active):
            _refuse(
                "dumper is not reentrant: leave the block of the first one before entering another", ErrCode.INTERNAL
            )
        self.entered = True
        if self.enabled:
            self._look = _Look(self, h5.library())
            dumper._active = True
            self._look.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.entered = False
        if self.enabled:
            dumper._active = False
            self._look.stop()


class _Look(Looking):
    """What a dumper does with each operator."""

    def __init__(self, owner: dumper, h5py: Any) -> None:
        super().__init__()
        self._owner, self._h5py = owner, h5py
        self._number = 0
        self._out: Any = None if owner.check_overflow else h5py.File(owner.dump_path, "w")
        self._in: Any = h5py.File(owner.load_file_path, "r") if owner.load_file_path else None
        self._acl: Any = None
        if owner.load_with_acl_dump:
            from torch_npu._watch.acl_files import OperatorDump  # what writes these files is not needed at import

            folder = os.path.dirname(os.path.abspath(owner.dump_path))
            self._acl = OperatorDump({"dump_path": folder, "dump_mode": "all", "dump_op_switch": "on"})

    def stop(self) -> None:
        super().stop()
        for file in (self._in, self._out):
            if file is not None:
                file.close()

    def wants(self, args: Any, kwargs: Any) -> bool:
        return True  # files of different devices are compared with one another

    def look(self, func: Any, args: Any, kwargs: Any) -> Any:
        name, number = short_name(func), self._number
        self._number += 1
        group = f"/{name}/{number}"
        if self._in is not None:
            args, kwargs = self._loaded(func, args, kwargs, f"{group}/input")
        arguments = named_arguments(func, args, kwargs)
        if self._owner.check_overflow:
            return self._checked(func, args, kwargs, name, number)
        print(f"IR: {name} SeqId: {number} dump inputs")
        h5.write(self._out, f"{group}/input", arguments)
        result = self._acl.look(func, args, kwargs) if self._acl is not None else func(*args, **kwargs)
        print(f"IR: {name} SeqId: {number} dump outputs")
        h5.write(self._out, f"{group}/output", named_results(func, result))
        return result

    def _loaded(self, func: Any, args: Any, kwargs: Any, group: str) -> tuple[tuple[Any, ...], dict[str, Any]]:
        """The arguments with the values of the file; one that the operator changes keeps its memory."""
        written = written_names(func)
        changed = {}
        for name, value in named_arguments(func, args, kwargs).items():
            new = h5.loaded(self._in, group, name, value)
            if name in written and isinstance(value, torch.Tensor) and new is not value:
                value.copy_(new)
                new = value
            changed[name] = new
        values = list(changed.values())
        return tuple(values[: len(args)]), {name: changed[name] for name in kwargs}

    def _checked(self, func: Any, args: Any, kwargs: Any, name: str, number: int) -> Any:
        arguments = named_arguments(func, args, kwargs)
        before = {key: _copied(value) for key, value in arguments.items()} if written_names(func) else arguments
        finite = _finite(arguments)
        result = func(*args, **kwargs)
        results = named_results(func, result)
        if finite and not _finite(results):
            print(f"IR: {name} SeqId: {number} is overflow!")
            if self._out is None:
                self._out = self._h5py.File(self._owner.dump_path, "w")
            h5.write(self._out, f"/{name}/{number}/input", before)
            h5.write(self._out, f"/{name}/{number}/output", results)
        return result


def _copied(value: Any) -> Any:
    if isinstance(value, torch.Tensor):
        return value.detach().clone()
    if isinstance(value, list | tuple) and any(isinstance(element, torch.Tensor) for element in value):
        return [_copied(element) for element in value]
    return value


def _finite(values: dict[str, Any]) -> bool:
    """Whether no floating-point tensor has inf or nan."""
    return all(bool(tensor.isfinite().all()) for _, tensor in tensors_in(values) if tensor.is_floating_point())
