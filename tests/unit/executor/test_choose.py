"""Which engine a model gets, what is remembered, and what a damaged program is refused for."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from onnx import TensorProto, helper, numpy_helper

from softnpu.base.errors import NpuError
from softnpu.compiler import build
from softnpu.compiler.options.rows import Options
from softnpu.executor import choose
from softnpu.executor.engines.base import Place
from softnpu.executor.engines.nodewise import NodewiseEngine
from softnpu.executor.engines.onnxruntime import OrtEngine
from softnpu.graph.om import Om, StoredProgram
from softnpu.graph.onnx_def import GRAPH
from softnpu.graph.wire import encode

DAMAGED = 145006
WEIGHT = np.random.default_rng(0).standard_normal((32, 32)).astype(np.float32)


@pytest.fixture(autouse=True)
def _fresh(fresh: None, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SOFTNPU_ENGINE", "onnxruntime")


@pytest.fixture
def path(tmp_path: Path) -> Path:
    x, y = (helper.make_tensor_value_info(name, TensorProto.FLOAT, [4, 32]) for name in "xy")
    nodes = [helper.make_node("MatMul", ["x", "w"], ["y"], "dense")]
    graph = helper.make_graph(nodes, "g", [x], [y], [numpy_helper.from_array(WEIGHT, "w")])
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 13)], ir_version=8)
    (tmp_path / "m.onnx").write_bytes(model.SerializeToString())
    options = {
        "model": str(tmp_path / "m.onnx"),
        "framework": 5,
        "output": str(tmp_path / "m"),
        "soc_version": "Ascend310P3",
    }
    return build.build(Options(options)).files[0]


def product(engine: Any) -> Any:
    x = np.random.default_rng(1).standard_normal((4, 32)).astype(np.float32)
    y = np.empty((4, 32), np.float32)
    engine.plan([Place("x", 0, x.shape, int(x.ctypes.data))], [Place("y", 0, y.shape, int(y.ctypes.data))]).run()
    np.testing.assert_allclose(y, x @ WEIGHT, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize(("engine", "kind"), [("onnxruntime", OrtEngine), ("nodewise", NodewiseEngine)])
def test_what_the_user_says(engine: str, kind: type, path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SOFTNPU_ENGINE", engine)
    source = Om.open(path)
    engine = choose.open_model(source, source.info())
    assert isinstance(engine, kind)
    product(engine)
    engine.close()


def test_openvino_where_it_is_installed(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("openvino")
    monkeypatch.setenv("SOFTNPU_ENGINE", "openvino")
    source = Om.open(path)
    engine = choose.open_model(source, source.info())
    assert engine.name == "openvino"
    product(engine)


def test_a_watched_model_runs_node_by_node(path: Path) -> None:
    source = Om.open(path)
    assert isinstance(choose.open_model(source, source.info(), nodewise=True), NodewiseEngine)


def test_from_memory_the_weights_are_kept(path: Path) -> None:
    data = bytearray(path.read_bytes())
    source = Om(data)
    engine = choose.open_model(source, source.info())
    data[:] = bytes(len(data))
    product(engine)


def test_the_faster_engine_is_remembered(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """With `auto` a slow model is measured once; the second time the answer comes from the cache."""
    asked: list[Path] = []
    monkeypatch.setenv("SOFTNPU_ENGINE", "auto")
    monkeypatch.setattr(choose.openvino, "installed", lambda: True)
    monkeypatch.setattr(choose, "_key", lambda program: "key")
    monkeypatch.setattr(choose, "_seconds", lambda engine, info: 1.0)
    monkeypatch.setattr(choose, "_measure", lambda where: asked.append(where) or "onnxruntime")
    source = Om.open(path)
    for _ in range(2):
        engine = choose.open_model(source, source.info())
        assert isinstance(engine, OrtEngine)
        engine.close()
    assert len(asked) == 1


def test_a_quick_model_is_not_measured(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def never(_path: Path) -> str:
        raise AssertionError("measured")

    monkeypatch.setenv("SOFTNPU_ENGINE", "auto")
    monkeypatch.setattr(choose.openvino, "installed", lambda: True)
    monkeypatch.setattr(choose, "_key", lambda program: "key")
    monkeypatch.setattr(choose, "_seconds", lambda engine, info: 1e-5)
    monkeypatch.setattr(choose, "_measure", never)
    source = Om.open(path)
    assert isinstance(choose.open_model(source, source.info()), OrtEngine)


def test_a_cache_with_nonsense_is_asked_anew(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(choose, "_key", lambda program: "key")
    program = Om.open(path).programs()[0]
    assert choose._remembered(program) is None
    choose._remember(program, "onnxruntime")
    assert choose._remembered(program) == "onnxruntime"
    (file,) = (choose.config.cache_dir() / "engines").iterdir()
    file.write_text("windows")
    assert choose._remembered(program) is None


def test_open_shapes_are_never_compared(path: Path) -> None:
    info = Om.open(path).info()
    assert choose._fixed(info)
    info.inputs[0].dims = [-1, 32]
    assert not choose._fixed(info)
    info.inputs[0].dims, info.gears = [4, 32], [[1]]
    assert not choose._fixed(info)


# ---- programs that are not ours --------------------------------------------------------------------------------------


def program(graph: dict[str, Any]) -> StoredProgram:
    return StoredProgram(memoryview(b""), memoryview(encode(GRAPH, graph)), [])


def test_a_program_may_not_name_other_files() -> None:
    outside = {"name": "w", "dims": [1], "data_type": 1, "data_location": 1}
    outside["external_data"] = [{"key": "location", "value": "/etc/passwd"}]
    node = {"op_type": "Constant", "output": ["c"], "attribute": [{"name": "value", "t": outside, "type": 4}]}
    for graph in ({"initializer": [outside]}, {"node": [node]}):
        with pytest.raises(NpuError) as caught:
            choose._check_self_contained(program(graph))
        assert caught.value.code == DAMAGED
    choose._check_self_contained(program({"node": [{"op_type": "Relu", "name": "location"}]}))


def test_a_program_that_the_engine_refuses(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    source = Om.open(path)
    bad = program({"node": [{"op_type": "NoSuchOperator", "input": ["x"], "output": ["y"]}], "name": "g"})
    monkeypatch.setattr(source, "programs", lambda: [bad])
    with pytest.raises(NpuError) as caught:
        choose.open_model(source, source.info())
    assert caught.value.code == DAMAGED


def test_weights_outside_of_the_file(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    source = Om.open(path)
    good = source.programs()[0]
    weight = good.weights[0]
    moved = StoredProgram(good.model, good.graph, [weight._replace(offset=weight.offset + 10**6)])
    monkeypatch.setattr(source, "programs", lambda: [moved])
    with pytest.raises(NpuError) as caught:
        choose.open_model(source, source.info())
    assert caught.value.code == DAMAGED
