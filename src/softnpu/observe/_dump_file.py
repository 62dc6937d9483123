"""What stands in dump files: the DumpData message with the raw tensors behind it, statistics as CSV, overflow records.

Section 11.1 of the reference. Where the manuals are silent (columns of the statistics, numbers inside the overflow record)
the choice is ours and said so here.
"""

from __future__ import annotations

import csv
import hashlib
import io
import struct
from collections.abc import Iterator
from typing import Any

import numpy as np

from softnpu.base.dtypes import FORMAT_NAMES, DType, TensorFormat, element_size, to_ge
from softnpu.base.watch import NodeRun, Seen
from softnpu.graph.wire import Message, encode
from softnpu.spec._generated.dtypes import DTYPES

VERSION = "2.0"
NAME_LIMIT = 255  # bytes of a file name
_UNSAFE = str.maketrans(dict.fromkeys("./\\ ", "_"))
_BF16, _UINT8, _ND = DType.BF16, DType.UINT8, TensorFormat.ND
_HEAD_TEXT = 96  # characters that a shortened name keeps

_SHAPE = Message("Shape").add(dim=(1, "uint64", True))
_ORIGINAL = Message("OriginalOp").add(
    name=(1, "string"), output_index=(2, "uint32"), data_type=(3, "enum"), format=(4, "enum")
)
_OUTPUT = Message("OpOutput").add(
    data_type=(1, "enum"),
    format=(2, "enum"),
    shape=(3, _SHAPE),
    original_op=(4, _ORIGINAL),
    data=(5, "bytes"),
    size=(6, "uint64"),
    original_shape=(7, _SHAPE),
    sub_format=(8, "int32"),
    address=(9, "uint64"),
    offset=(11, "uint64"),
)
_INPUT = Message("OpInput").add(
    data_type=(1, "enum"),
    format=(2, "enum"),
    shape=(3, _SHAPE),
    data=(4, "bytes"),
    size=(5, "uint64"),
    original_shape=(6, _SHAPE),
    sub_format=(7, "int32"),
    address=(8, "uint64"),
    offset=(9, "uint64"),
)
DUMP_DATA = Message("DumpData").add(
    version=(1, "string"),
    dump_time=(2, "uint64"),
    output=(3, _OUTPUT, True),
    input=(4, _INPUT, True),
    op_name=(6, "string"),
)
_COLUMNS = (
    "Input/Output", "Index", "Data Size", "Data Type", "Format", "Shape", "Max Value", "Min Value", "Avg Value", "Count",
    "Nan Count", "Negative Inf Count", "Positive Inf Count",
)  # fmt: skip

# The overflow record: information on DHA, L2 and AI core (128, 128, 256 bytes), then their status (256, 256, 1024 bytes).
RECORD_BYTES = 2048
_CORE_INFO, _CORE_STATUS = 256, 1024
FLOAT_OVERFLOW, HALF_OVERFLOW = 0x20, 0x100


def safe(name: str) -> str:
    """A name as it may stand in paths."""
    return name.translate(_UNSAFE)


def file_name(kind: str, name: str, task: int, stream: int, timestamp: int, suffix: str = "") -> tuple[str, str]:
    """The name of a dump file, and the full one where it had to be shortened."""
    full = f"{safe(kind)}.{safe(name)}.{task}.{stream}.{timestamp}{suffix}"
    if len(full.encode()) <= NAME_LIMIT:
        return full, ""
    digest = hashlib.sha256(name.encode()).hexdigest()[:16]
    short = f"{safe(kind)[:_HEAD_TEXT]}.{digest}.{task}.{stream}.{timestamp}{suffix}"
    return short, full


def raw(seen: Seen) -> bytes:
    """The bytes of a tensor; none where it has no form outside of the engine."""
    return b"" if seen.array is None else np.ascontiguousarray(seen.array).tobytes()


def tensors(run: NodeRun, mode: str, time_us: int) -> Iterator[bytes]:
    """A dump file in pieces. `mode` is input, output or all."""
    inputs = run.inputs if mode in ("input", "all") else ()
    outputs = run.outputs if mode in ("output", "all") else ()
    message: dict[str, Any] = {"version": VERSION, "dump_time": time_us}
    message["output"] = [
        _described(tensor) | {"original_op": _original(run, tensor, at)} for at, tensor in enumerate(outputs)
    ]
    message["input"] = [_described(tensor) for tensor in inputs]
    message["op_name"] = run.name
    head = encode(DUMP_DATA, message)
    yield struct.pack("<Q", len(head)) + head
    for tensor in (*inputs, *outputs):
        yield raw(tensor)


def _described(seen: Seen) -> dict[str, Any]:
    shape = {"dim": [max(dim, 0) for dim in seen.shape]}
    size = 0 if seen.array is None else seen.array.nbytes
    return {
        "data_type": to_ge(seen.dtype),
        "format": seen.format,
        "shape": shape,
        "size": size,
        "original_shape": shape,
        "address": seen.address,
    }


def _original(run: NodeRun, seen: Seen, index: int) -> dict[str, Any]:
    name = run.origin[-1] if run.origin else run.name  # of several operators in one, the last makes the result
    return {"name": name, "output_index": index, "data_type": to_ge(seen.dtype), "format": seen.format}


def numbers(seen: Seen) -> np.ndarray[Any, Any] | None:
    """The values of a tensor as numbers that NumPy can count with."""
    array = seen.array
    if array is None:
        return None
    if seen.dtype == _BF16:
        return (array.astype(np.uint32) << 16).view(np.float32)
    return array


def statistics(run: NodeRun, mode: str) -> bytes:
    """One row for each tensor (columns: our choice)."""
    text = io.StringIO()
    table = csv.writer(text, lineterminator="\n")
    table.writerow(_COLUMNS)
    for side, wanted, listed in (("Input", "input", run.inputs), ("Output", "output", run.outputs)):
        if mode in (wanted, "all"):
            table.writerows(_row(side, index, seen) for index, seen in enumerate(listed))
    return text.getvalue().encode()


def _row(side: str, index: int, seen: Seen) -> list[Any]:
    kind = DTYPES[seen.dtype][0].removeprefix("ACL_") if seen.dtype in DTYPES else str(seen.dtype)
    shape = "x".join(map(str, seen.shape))
    values = numbers(seen)
    count = 0 if values is None else values.size
    head = [side, index, count * element_size(seen.dtype), kind, FORMAT_NAMES.get(seen.format, "ND"), shape]
    if values is None or not count or np.iscomplexobj(values):
        return [*head, "", "", "", count, "", "", ""]
    plain = values.astype(np.float64) if values.dtype.kind == "f" else values
    known = plain[~np.isnan(plain)] if plain.dtype.kind == "f" else plain
    signs = [0, 0, 0]
    if plain.dtype.kind == "f":
        signs = [int(np.isnan(plain).sum()), int(np.isneginf(plain).sum()), int(np.isposinf(plain).sum())]
    with np.errstate(all="ignore"):
        spread = [known.max(), known.min(), known.mean(dtype=np.float64)] if known.size else ["nan"] * 3
    return [*head, *spread, count, *signs]


# ---- overflow --------------------------------------------------------------------------------------------------------


def overflow_status(run: NodeRun) -> int:
    """AI-core status bits of a run: what left the range of its type although all that went in was finite.

    Only floating point is looked at: integers wrap here as there, and nothing in the result shows it.
    """
    if not all(_finite(seen) for seen in run.inputs) or all(_finite(seen) for seen in run.outputs):
        return 0
    return HALF_OVERFLOW if run.type == "Cast" else FLOAT_OVERFLOW


def _finite(seen: Seen) -> bool:
    values = numbers(seen)
    return values is None or values.dtype.kind not in "fc" or bool(np.isfinite(values).all())


def overflow_record(run: NodeRun, status: int, time_us: int) -> Iterator[bytes]:
    """The overflow file in pieces. Numbers are 64 bits wide (our choice): model, stream, task, task type, addresses, block."""
    record = bytearray(RECORD_BYTES)
    struct.pack_into("<8Q", record, _CORE_INFO, run.model_id, max(run.stream, 0), run.task, 0, 0, 0, 0, 0)
    struct.pack_into("<Q", record, _CORE_STATUS, status)
    output = {"data_type": to_ge(_UINT8), "format": _ND, "shape": {"dim": [RECORD_BYTES]}, "size": RECORD_BYTES}
    head = encode(DUMP_DATA, {"version": VERSION, "dump_time": time_us, "output": [output], "op_name": "Node_OpDebug"})
    yield struct.pack("<Q", len(head)) + head
    yield bytes(record)
