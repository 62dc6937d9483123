"""A loaded model and its bindings: tolerance, plans that are kept, memory that is gone, overflow, spans, unloading."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from onnx import TensorProto, helper

import acl
from softnpu.base.errors import NpuError
from softnpu.base.tensor import DataBuffer, TensorDesc
from softnpu.base.trace import Span, bus
from softnpu.compiler import build
from softnpu.compiler.options.rows import Options
from softnpu.executor import model as rooms
from softnpu.executor.model import TOLERANCE, Given, Model
from softnpu.graph.om import Om
from softnpu.runtime.process import process
from tests.support import ok

PARAM, UNLOADED, DAMAGED = 145000, 145003, 145006


@pytest.fixture(autouse=True)
def _runtime(runtime: None, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SOFTNPU_ENGINE", "onnxruntime")


def convert(folder: Path, op: str = "Neg", shape: tuple[Any, ...] = (50,), **options: Any) -> Path:
    x = helper.make_tensor_value_info("x", TensorProto.FLOAT, list(shape))
    graph = helper.make_graph(
        [helper.make_node(op, ["x"], ["y"], "n")], "g", [x], [helper.make_empty_tensor_value_info("y")]
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 13)], ir_version=8)
    (folder / "m.onnx").write_bytes(model.SerializeToString())
    common = {
        "model": str(folder / "m.onnx"),
        "framework": 5,
        "output": str(folder / "m"),
        "soc_version": "Ascend310P3",
    }
    return build.build(Options({**common, **options})).files[0]


def load(path: Path) -> Model:
    return Model(Om.open(path), process().current(), 5)


@pytest.fixture
def model(tmp_path: Path) -> Model:
    return load(convert(tmp_path))


class Room:
    """Device memory, and what is in it."""

    def __init__(self, size: int, array: Any = None) -> None:
        owner = process()
        self.address = owner.memory.allocate(owner.current().device, size, 0)
        self.size = size
        if array is not None:
            owner.memory.store(self.address, array.tobytes())

    def buffer(self, size: int | None = None) -> DataBuffer:
        return DataBuffer(self.address, self.size if size is None else size)

    def array(self, dtype: Any = np.float32) -> Any:
        return np.frombuffer(process().memory.read(self.address, self.size), dtype).copy()

    def free(self) -> None:
        ok(acl.rt.free(self.address))


def given(*buffers: DataBuffer) -> Given:
    return Given(list(buffers), {})


def floats(count: int = 50) -> Any:
    return np.random.default_rng(count).standard_normal(count).astype(np.float32)


def run(model: Model, source: DataBuffer, target: DataBuffer) -> Any:
    return model.run(model.prepare(given(source), given(target)))


def code(call: Any, *args: Any) -> int:
    with pytest.raises(NpuError) as caught:
        call(*args)
    return caught.value.code


# ---- tolerance -------------------------------------------------------------------------------------------------------


def test_the_tolerance_is_that_of_hardware() -> None:
    assert TOLERANCE == 64


@pytest.mark.parametrize("missing", [0, 1, TOLERANCE])
def test_inputs_that_are_a_little_short(missing: int, model: Model) -> None:
    x = floats()
    source, target = Room(256, x), Room(256)
    assert run(model, source.buffer(200 - missing), target.buffer(200)) == [(50,)]
    result = target.array(np.uint8)[: 200 - missing]
    assert result.tobytes() == (-x).tobytes()[: 200 - missing]


@pytest.mark.parametrize("missing", [1, TOLERANCE])
def test_outputs_that_are_a_little_short(missing: int, model: Model) -> None:
    x = floats()
    source, target = Room(256, x), Room(256, np.full(256, 0xAB, np.uint8))
    run(model, source.buffer(200), target.buffer(200 - missing))
    result = target.array(np.uint8)
    assert result[: 200 - missing].tobytes() == (-x).tobytes()[: 200 - missing]
    assert (result[200 - missing :] == 0xAB).all()


@pytest.mark.parametrize("side", [0, 1])
def test_beyond_the_tolerance(side: int, model: Model) -> None:
    sizes = [200, 200]
    sizes[side] -= TOLERANCE + 1
    rooms_ = [Room(256), Room(256)]
    buffers = [room.buffer(size) for room, size in zip(rooms_, sizes, strict=True)]
    assert code(run, model, *buffers) == PARAM


def test_a_short_input_is_read_anew_with_every_run(model: Model) -> None:
    source, target = Room(256), Room(256)
    for seed in range(3):
        x = np.full(50, seed, np.float32)
        process().memory.store(source.address, x.tobytes())
        run(model, source.buffer(196), target.buffer(200))
        np.testing.assert_array_equal(target.array()[:49], -x[:49])


# ---- plans -----------------------------------------------------------------------------------------------------------


def test_a_plan_is_found_again(model: Model) -> None:
    source, target = Room(256, floats()), Room(256)
    first = model.prepare(given(source.buffer(200)), given(target.buffer(200)))
    assert model.prepare(given(source.buffer(200)), given(target.buffer(200))) is first
    assert model.prepare(given(source.buffer(201)), given(target.buffer(200))) is not first
    assert model.prepare(given(source.buffer(200)), given(Room(256).buffer(200))) is not first


def test_plans_do_not_grow_without_end(model: Model) -> None:
    source = Room(256, floats())
    target = Room(1 << 16)
    for index in range(3 * rooms._MAX_PLANS):
        run(model, source.buffer(200), DataBuffer(target.address + 64 * index, 200))
        assert len(model._plans) <= rooms._MAX_PLANS


def test_the_sides_of_a_call_are_not_mixed_up(tmp_path: Path) -> None:
    model = load(convert(tmp_path, "Neg", (4,)))
    a, b = Room(64, floats(4)), Room(64)
    run(model, a.buffer(16), b.buffer(16))
    assert code(model.prepare, given(a.buffer(16), b.buffer(16)), given()) == PARAM
    assert code(model.prepare, given(), given(a.buffer(16), b.buffer(16))) == PARAM


def test_outputs_without_memory_are_allocated_each_time(model: Model) -> None:
    source = Room(256, floats())
    seen = []
    for _ in range(3):
        target = DataBuffer(0, 0)
        run(model, source.buffer(200), target)
        assert target.address and target.size == 200
        seen.append(target.address)
        result = np.frombuffer(process().memory.read(target.address, 200), np.float32)
        np.testing.assert_array_equal(result, -floats())
    assert len(set(seen)) == 3


# ---- memory that is gone ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize("side", [0, 1])
@pytest.mark.parametrize("short", [False, True])
def test_freed_memory_is_noticed(side: int, short: bool, model: Model) -> None:
    size = 180 if short else 200
    places = [Room(256, floats()), Room(256)]
    buffers = [room.buffer(size) for room in places]
    run(model, *buffers)
    run(model, *buffers)
    places[side].free()
    with pytest.raises(NpuError, match="freed"):
        run(model, *buffers)


# ---- results ---------------------------------------------------------------------------------------------------------


def test_values_decide_the_dims(tmp_path: Path) -> None:
    model = load(convert(tmp_path, "NonZero", (6,)))
    assert model.open_outputs and not model.ranged
    source, target = Room(64, np.float32([0, 1, 0, 1, 1, 0])), Room(256)
    assert run(model, source.buffer(24), target.buffer()) == [(1, 3)]
    assert target.array(np.int64)[:3].tolist() == [1, 3, 4]


def test_ranges(tmp_path: Path) -> None:
    model = load(convert(tmp_path, "Neg", ("n", 3), input_shape="x:1~4,3", input_format="ND"))
    assert model.ranged
    source, target = Room(256, floats(12)), Room(256)

    def prepare(*dims: int) -> Any:
        return model.prepare(Given([source.buffer()], {0: TensorDesc(0, list(dims), 2)}), given(target.buffer()))

    for n in (1, 4, 2):
        assert model.run(prepare(n, 3)) == [(n, 3)]
        np.testing.assert_array_equal(target.array()[: 3 * n], -floats(12)[: 3 * n])
    assert prepare(2, 3) is prepare(2, 3) and prepare(2, 3) is not prepare(1, 3)
    for dims in ((5, 3), (0, 3), (2, 4), (6,), (2, 3, 1)):
        assert code(prepare, *dims) == 100000


def test_a_span_for_every_run(model: Model) -> None:
    spans: list[Span] = []
    source, target = Room(256, floats()), Room(256)
    stop = bus.subscribe(spans.append)
    try:
        run(model, source.buffer(200), target.buffer(200))
    finally:
        stop()
    (span,) = (span for span in spans if span.kind == "model")
    assert (span.name, span.detail["model_id"], span.detail["engine"]) == ("m", 5, "onnxruntime")
    assert span.start <= span.end


@pytest.mark.parametrize(("value", "overflow"), [(1.0, False), (np.inf, True), (np.nan, True)])
def test_status_check(value: float, overflow: bool, tmp_path: Path) -> None:
    model = load(convert(tmp_path, status_check=1))
    device = process().current().device
    device.overflow = False
    source, target = Room(256, np.full(50, value, np.float32)), Room(256)
    run(model, source.buffer(200), target.buffer(200))
    assert device.overflow is overflow


def test_unloaded(model: Model) -> None:
    source, target = Room(256, floats()), Room(256)
    ready = model.prepare(given(source.buffer(200)), given(target.buffer(200)))
    model.run(ready)
    model.close()
    assert code(model.run, ready) == UNLOADED


def test_names_that_do_not_fit_the_program(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    source = Om.open(convert(tmp_path))
    info = source.info()
    info.run.engine_outputs = []
    monkeypatch.setattr(source, "info", lambda: info)
    assert code(Model, source, process().current()) == DAMAGED
