"""The stored program: it is ONNX that onnx and onnxruntime read, with weights inside, beside or in a file."""

from __future__ import annotations

import struct
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import onnxruntime
import pytest
from onnx import TensorProto, helper, numpy_helper

from softnpu.base.errors import NpuError
from softnpu.graph.ir import Constant
from softnpu.graph.onnx_def import GRAPH, make_value_info
from softnpu.graph.program import (
    ALIGN,
    INLINE_BYTES,
    KERNEL_MAGIC,
    Program,
    Weights,
    check_weights,
    kernel_item,
    program_bytes,
    stored,
)
from softnpu.graph.wire import decode

DAMAGED = 145006
LARGE = np.random.default_rng(0).standard_normal((32, 16)).astype(np.float32)
SMALL = np.float32([1, 2, 3, 4] * 4)
X = np.random.default_rng(1).standard_normal((3, 32)).astype(np.float32)


def program(**constants: Any) -> Program:
    """y = x @ large + small"""
    nodes = [
        helper.make_node("MatMul", ["x", "large"], ["m"], "dense"),
        helper.make_node("Add", ["m", "small"], ["y"], "bias"),
    ]
    graph = helper.make_graph(nodes, "g", [], [])
    arrays = {"large": LARGE, "small": SMALL, **constants}
    return Program(
        nodes=decode(GRAPH, memoryview(graph.SerializeToString()))["node"],
        inputs=[make_value_info("x", 0, (3, 32))],
        outputs=[make_value_info("y", 0, (3, 16))],
        constants={
            name: value if isinstance(value, Constant) else Constant.of(value) for name, value in arrays.items()
        },
        opsets={"": 13},
        functions=[],
        ir_version=8,
        name="net",
    )


def written(**constants: Any) -> tuple[bytes, bytes]:
    """The program, and the weight partition."""
    weights = Weights()
    data = program_bytes(program(**constants), weights)
    return data, b"".join(bytes(piece) for piece in weights.pieces)


def run(data: bytes, options: Any = None) -> Any:
    return onnxruntime.InferenceSession(data, options, providers=["CPUExecutionProvider"]).run(None, {"x": X})[0]


def test_with_the_weights_inside() -> None:
    data, blob = written()
    program = stored(memoryview(data)).onnx_inline(memoryview(blob))
    model = onnx.load_from_string(program)
    onnx.checker.check_model(model)
    assert model.producer_name == "softnpu" and model.graph.name == "net"
    tensors = {tensor.name: numpy_helper.to_array(tensor) for tensor in model.graph.initializer}
    np.testing.assert_array_equal(tensors["large"], LARGE)
    np.testing.assert_array_equal(tensors["small"], SMALL)
    np.testing.assert_allclose(run(program), X @ LARGE + SMALL, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("base", [0, 4096])
def test_with_the_weights_in_a_file(base: int, tmp_path: Path) -> None:
    data, blob = written()
    (tmp_path / "w.bin").write_bytes(b"\xee" * base + blob)
    options = onnxruntime.SessionOptions()
    options.add_session_config_entry("session.model_external_initializers_file_folder_path", str(tmp_path))
    program = stored(memoryview(data)).onnx("w.bin", base)
    np.testing.assert_allclose(run(program, options), X @ LARGE + SMALL, rtol=1e-4, atol=1e-5)
    (tensor,) = (tensor for tensor in onnx.load_from_string(program).graph.initializer if tensor.name == "large")
    assert tensor.data_location == TensorProto.EXTERNAL


def test_what_stands_in_the_table() -> None:
    data, blob = written()
    (row,) = stored(memoryview(data)).weights
    name, dtype, dims, offset, size = row
    assert (name, dtype, dims, size) == ("large", TensorProto.FLOAT, [32, 16], LARGE.nbytes)
    assert offset % ALIGN == 0 and blob[offset : offset + size] == LARGE.tobytes()


@pytest.mark.parametrize(("count", "inside"), [(INLINE_BYTES // 4, True), (INLINE_BYTES // 4 + 1, False)])
def test_small_constants_stand_in_the_program(count: int, inside: bool) -> None:
    data, _ = written(extra=np.zeros(count, np.float32))
    names = {weight.name for weight in stored(memoryview(data)).weights}
    assert ("extra" not in names) == inside


def test_strings_are_kept() -> None:
    tensor = helper.make_tensor("other name", TensorProto.STRING, [2], [b"one", b"zwei"])
    data, blob = written(words=Constant(13, (2,), tensor.SerializeToString()))
    model = onnx.load_from_string(stored(memoryview(data)).onnx_inline(memoryview(blob)))
    (tensor,) = (tensor for tensor in model.graph.initializer if tensor.name == "words")
    assert list(tensor.string_data) == [b"one", b"zwei"]


def test_a_constant_is_stored_once() -> None:
    weights = Weights()
    constant = Constant.of(LARGE)
    assert weights.add(constant) == weights.add(constant)
    other = weights.add(Constant.of(np.zeros(3, np.int8)))
    last = weights.add(Constant.of(LARGE))
    assert other == LARGE.nbytes and last % ALIGN == 0 and last >= other + 3
    assert weights.size == sum(len(piece) for piece in weights.pieces) == last + LARGE.nbytes


def test_kernel_items() -> None:
    data = b"".join(kernel_item("näme", b"\1\2\3"))
    assert struct.unpack_from("<III", data) == (KERNEL_MAGIC, 5, 3)
    assert data[12:] == "näme".encode() + b"\1\2\3"


def test_every_cut_is_noticed() -> None:
    data, _ = written()
    for length in [*range(40), *range(40, len(data), 37), len(data) - 1]:
        with pytest.raises(NpuError) as caught:
            stored(memoryview(data[:length]))
        assert caught.value.code == DAMAGED


@pytest.mark.parametrize(
    "table", [b"{}", b"[1]", b'[["a"]]', b"[", b'[["a",1,"x",0,0]]', b'[["a",1,["b"],0,0]]', b"[" * 5000]
)
def test_tables_that_are_wrong(table: bytes) -> None:
    data = struct.pack("<QQQ", 0, 0, len(table)) + table
    if table == b"{}":
        assert stored(memoryview(data)).weights == []
        return
    with pytest.raises(NpuError) as caught:
        stored(memoryview(data))
    assert caught.value.code == DAMAGED


@pytest.mark.parametrize(
    "row",
    [
        ("w", 1, [4], 0, 17),
        ("w", 1, [4], 90, 16),
        ("w", 1, [4], -1, 16),
        ("w", 1, [-4], 0, 16),
        ("w", 0, [4], 0, 16),
        ("w", 99, [4], 0, 16),
        ("w", 1, [1 << 40, 1 << 40], 0, 16),
    ],
)
def test_weights_outside_of_the_partition(row: Any) -> None:
    check_weights([("w", 1, [4], 84, 16)], 100)
    with pytest.raises(NpuError) as caught:
        check_weights([row], 100)
    assert caught.value.code == DAMAGED and "'w'" in str(caught.value)
