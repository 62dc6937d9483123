"""The doors through which files come in, each with what must hold behind it: documented codes, nothing left behind."""

from __future__ import annotations

import contextlib
import io
import re
import traceback
import warnings
from pathlib import Path
from random import Random
from typing import Any

import numpy as np

import acl
from acl import _boundary
from softnpu.base import log as plog
from softnpu.base.errors import codes
from softnpu.cli import atc
from softnpu.runtime.process import reset
from softnpu.spec._generated.atc_errors import ERRORS
from softnpu.spec._generated.codes import TABLE

BLOCK = re.compile(r"^(E[A-Z]?\d+): \[PID: \d+\] \S+ (.*)$", re.MULTILINE)
OLD = b"the model of before"
MOST_BYTES = 64 << 20  # larger buffers are not made for a hostile description


class Defect(Exception):
    """What must not happen behind a door."""


class Watch:
    """Notes the tracebacks that the program would only log: those of the catch-all handlers."""

    def __init__(self) -> None:
        self.seen: list[str] = []
        internal, defect = _boundary._internal, atc._defect

        def note_internal(name: str, error: Exception) -> Any:
            self.seen.append(f"{name}: " + "".join(traceback.format_exception(error)))
            return internal(name, error)

        def note_defect(error: Exception) -> Any:
            self.seen.append("atc: " + "".join(traceback.format_exception(error)))
            return defect(error)

        _boundary._internal = note_internal  # before the first function of the face is built
        atc._defect = note_defect

    def check(self) -> None:
        """Raise for what was noted since the last time."""
        if self.seen:
            text = "\n".join(self.seen)
            self.seen.clear()
            raise Defect(text)


# ---- atc -------------------------------------------------------------------------------------------------------------


def content(folder: Path) -> dict[str, bytes]:
    """The files below a folder."""
    return {str(path.relative_to(folder)): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


def convert(argv: list[str], out: Path, rng: Random, watch: Watch) -> str:
    """Run atc; returns its code, "0" when it succeeded."""
    old = rng.random() < 0.5
    if old:
        (out / "case.om").write_bytes(OLD)
        (out / "case.json").write_bytes(OLD)
        (out / "weight").mkdir(exist_ok=True)
        (out / "weight" / "case_weight_combined").write_bytes(OLD)
    folders = (out, Path.cwd())
    before = [content(folder) for folder in folders]
    said = io.StringIO()
    with contextlib.redirect_stdout(said), contextlib.redirect_stderr(said), warnings.catch_warnings():
        warnings.simplefilter("error")
        warnings.simplefilter("ignore", RuntimeWarning)  # NumPy's, about numbers that are no numbers
        status = atc.main(argv)
    watch.check()
    after = [content(folder) for folder in folders]
    if status == 0:
        left = [name for folder in after for name in folder if name.startswith(".") or ".part" in name or "/." in name]
        if left:
            raise Defect(f"temporary files are left: {left}")
        return "0"
    text = said.getvalue()
    blocks = BLOCK.findall(text)
    if status != 255 or not blocks:
        raise Defect(f"exit status {status} without an error block: {text[-2000:]}")
    code, message = blocks[0]
    if code not in ERRORS:
        raise Defect(f"the code {code} is not documented: {message}")
    if not message.strip() or "Traceback (most" in text:
        raise Defect(f"a message that says nothing or too much: {text[-2000:]}")
    if after != before and not ("--mode=3" in argv and status == 255):
        changed = [
            name
            for a, b in zip(before, after, strict=True)
            for name in a.keys() | b.keys()
            if a.get(name) != b.get(name)
        ]
        raise Defect(f"{code}, but files were changed: {changed}: {message}")
    return code


# ---- acl.mdl ---------------------------------------------------------------------------------------------------------


def start() -> None:
    """A fresh acl with a device."""
    plog.reset()
    reset()
    if acl.init() or acl.rt.set_device(0):
        raise RuntimeError("acl does not start")


def code_of(answer: Any, name: str) -> int:
    """The code of an answer; it must be a documented one."""
    code = answer[-1] if isinstance(answer, tuple) else answer
    if not isinstance(code, int) or (code and code not in TABLE):
        raise Defect(f"{name} answered {answer!r}, which is no documented code")
    if code == codes.INTERNAL_ERROR:
        raise Defect(f"{name} answered {code}")
    return code


def read_desc(desc: int) -> tuple[int, int]:
    """Ask a description everything; returns the numbers of inputs and outputs."""
    inputs, outputs = acl.mdl.get_num_inputs(desc), acl.mdl.get_num_outputs(desc)
    for word, count in (("input", inputs), ("output", outputs)):
        for index in range(min(count, 20) + 1):
            name = getattr(acl.mdl, f"get_{word}_name_by_index")(desc, index)
            for part in ("size_by_index", "format", "data_type"):
                getattr(acl.mdl, f"get_{word}_{part}")(desc, index)
            for part in ("dims", "dims_v2", "dims_range", "cur"):
                call = f"get_cur_{word}_dims" if part == "cur" else f"get_{word}_{part}"
                if hasattr(acl.mdl, call):
                    code_of(getattr(acl.mdl, call)(desc, index), call)
            if name and "\0" not in name:
                code_of(getattr(acl.mdl, f"get_{word}_index_by_name")(desc, name), "index_by_name")
                acl.mdl.get_tensor_real_name(desc, name)
    code_of(acl.mdl.get_dynamic_batch(desc), "get_dynamic_batch")
    code_of(acl.mdl.get_dynamic_hw(desc, -1), "get_dynamic_hw")
    count, code = acl.mdl.get_input_dynamic_gear_count(desc, -1)
    if not code:
        code_of(acl.mdl.get_input_dynamic_dims(desc, -1, count), "get_input_dynamic_dims")
    acl.mdl.get_op_attr(desc, "relu", "_datadump_original_op_names")
    return inputs, outputs


def dataset(desc: int, word: str, count: int, allocated: list[int]) -> int:
    """A dataset with buffers of the sizes that the description says."""
    handle = acl.mdl.create_dataset()
    for index in range(count):
        size = getattr(acl.mdl, f"get_{word}_size_by_index")(desc, index)
        size = min(size or 4096, MOST_BYTES)
        address, code = acl.rt.malloc(size, 0)
        if code:
            raise RuntimeError(f"no memory for a buffer of {size} bytes: {code}")
        acl.rt.memset(address, size, 0, size)
        allocated.append(address)
        acl.mdl.add_dataset_buffer(handle, acl.create_data_buffer(address, size))
        if word == "input":
            dims, code = acl.mdl.get_input_dims(desc, index)
            if not code and any(dim < 0 for dim in dims["dims"]):
                shape = [dim if dim >= 0 else 8 for dim in dims["dims"]]
                tensor = acl.create_tensor_desc(acl.mdl.get_input_data_type(desc, index), shape, 2)
                acl.mdl.set_dataset_tensor_desc(handle, tensor, index)
    return int(handle)


def use(number: int, watch: Watch) -> str:
    """Describe and run a loaded model."""
    desc = acl.mdl.create_desc()
    code_of(acl.mdl.get_desc(desc, number), "get_desc")
    inputs, outputs = read_desc(desc)
    for index in range(min(inputs, 20) + 1):
        code_of(acl.mdl.get_aipp_type(number, index), "get_aipp_type")
        code_of(acl.mdl.get_first_aipp_info(number, index), "get_first_aipp_info")
    allocated: list[int] = []
    inputs_set, outputs_set = (
        dataset(desc, "input", min(inputs, 50), allocated),
        dataset(desc, "output", min(outputs, 50), allocated),
    )
    shape = next(
        (i for i in range(inputs) if acl.mdl.get_input_name_by_index(desc, i) == "ascend_mbatch_shape_data"), 0
    )
    code_of(acl.mdl.set_dynamic_batch_size(number, inputs_set, shape, 2), "set_dynamic_batch_size")
    code_of(acl.mdl.set_dynamic_hw_size(number, inputs_set, shape, 8, 8), "set_dynamic_hw_size")
    dims, _ = acl.mdl.get_input_dynamic_dims(desc, -1, 100)
    if dims:
        code_of(acl.mdl.set_input_dynamic_dims(number, inputs_set, shape, dims[0]), "set_input_dynamic_dims")
    watch.check()
    code = code_of(acl.mdl.execute(number, inputs_set, outputs_set), "execute")
    read_desc(desc)
    for handle in (inputs_set, outputs_set):
        for index in range(acl.mdl.get_dataset_num_buffers(handle)):
            acl.destroy_data_buffer(acl.mdl.get_dataset_buffer(handle, index))
        acl.mdl.destroy_dataset(handle)
    for address in allocated:
        acl.rt.free(address)
    acl.mdl.destroy_desc(desc)
    return f"run {code}"


def load(path: Path, rng: Random, watch: Watch) -> str:
    """Every door of an `.om`; returns the codes."""
    data = path.read_bytes()
    room = np.frombuffer(data or b"\0", np.uint8)
    address, size = int(room.ctypes.data), len(data)
    desc = acl.mdl.create_desc()
    code_of(acl.mdl.query_size(str(path)), "query_size")
    code_of(acl.mdl.query_size_from_mem(address, size), "query_size_from_mem")
    described = code_of(acl.mdl.get_desc_from_file(desc, str(path)), "get_desc_from_file")
    if not described:
        read_desc(desc)
    watch.check()
    code_of(acl.op.load(address, size), "op.load")
    watch.check()
    in_memory = rng.random() < 0.5
    number, code = acl.mdl.load_from_mem(address, size) if in_memory else acl.mdl.load_from_file(str(path))
    code_of(code, "load")
    watch.check()
    outcome = f"load {code}"
    if not code:
        outcome = use(number, watch)
        watch.check()
        code_of(acl.mdl.unload(number), "unload")
    acl.mdl.destroy_desc(desc)
    watch.check()
    return outcome


# ---- acl.init --------------------------------------------------------------------------------------------------------


def configure(path: Path, watch: Watch) -> str:
    """acl.init and acl.mdl.set_dump with a configuration file."""
    reset()
    code = code_of(acl.init(str(path)), "init")
    acl.finalize()
    reset()
    acl.init()
    acl.rt.set_device(0)
    acl.mdl.init_dump()
    dump = code_of(acl.mdl.set_dump(str(path)), "set_dump")
    acl.mdl.finalize_dump()
    watch.check()
    return f"init {code} dump {dump}"
