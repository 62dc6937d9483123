"""Whole conversions: what is left behind when they fail, external weights, reports, and what the file says."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import onnxruntime
import pytest
from onnx import TensorProto, helper, numpy_helper

from softnpu.compiler import build
from softnpu.compiler.errors import AtcError
from softnpu.compiler.inspection import precheck
from softnpu.compiler.lowering import engine_check
from softnpu.compiler.options.rows import Options
from softnpu.compiler.single_op.build import build_single_ops
from softnpu.executor import choose
from softnpu.executor.engines.base import Place
from softnpu.graph.om import Om
from tests.unit.compiler.onnx_graphs import model

WEIGHT = np.random.default_rng(1).standard_normal((64, 16)).astype(np.float32)
X = np.random.default_rng(2).standard_normal((2, 64)).astype(np.float32)


@pytest.fixture(autouse=True)
def _here(fresh: None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("SOFTNPU_ENGINE", "onnxruntime")


def dense() -> onnx.ModelProto:
    nodes = [helper.make_node("MatMul", ["x", "w"], ["m"], "dense"), helper.make_node("Relu", ["m"], ["y"], "relu")]
    return model(nodes, {"x": (2, 64)}, ["y"], {"w": WEIGHT})


def options(proto: onnx.ModelProto | None = None, **more: Any) -> Options:
    if proto is not None:
        Path("m.onnx").write_bytes(proto.SerializeToString())
    return Options({"model": "m.onnx", "framework": 5, "output": "out/m", "soc_version": "Ascend310P3", **more})


def compute(path: Path, x: Any = X) -> Any:
    source = Om.open(path)
    info = source.info()
    engine = choose.open_model(source, info)
    result = np.empty(info.outputs[0].dims, np.float32)
    names = info.run.engine_inputs[0], info.run.engine_outputs[0]
    places = [
        [Place(name, 0, array.shape, int(array.ctypes.data))] for name, array in zip(names, (x, result), strict=True)
    ]
    engine.plan(*places).run()
    engine.close()
    return result


def files(folder: Path = Path("out")) -> list[str]:
    return sorted(str(path.relative_to(folder)) for path in folder.rglob("*") if path.is_file())


# ---- results ---------------------------------------------------------------------------------------------------------


def test_a_conversion_tells_its_progress() -> None:
    told: list[tuple[str, float]] = []
    result = build.build(options(dense()), lambda stage, share: told.append((stage, share)))
    assert result.files == [Path("out/m.om")] and files() == ["m.om"]
    np.testing.assert_allclose(compute(result.files[0]), np.maximum(X @ WEIGHT, 0), rtol=1e-4, atol=1e-5)
    shares = [share for _, share in told]
    assert shares == sorted(shares) and shares[0] == 0.0 and shares[-1] == 1.0


@pytest.mark.parametrize(("output", "name"), [("a/b/c", "c.om"), ("a/model.om", "model.om"), ("v1.5", "v1.5.om")])
def test_where_the_file_goes(output: str, name: str) -> None:
    (path,) = build.build(options(dense(), output=output)).files
    assert path.name == name and path.exists()


def test_what_the_file_says() -> None:
    (path,) = build.build(options(dense())).files
    source = Om.open(path)
    head, info = source.head(), source.info()
    assert head["name"] == "m" and head["soc_version"] == "Ascend310P3" and head["framework_type"] == "5"
    assert head["attr_model_out_nodes_name"] == ["relu:0:y"]
    assert (info.inputs[0].name, info.inputs[0].dims, info.inputs[0].size) == ("x", [2, 64], 512)
    assert (info.outputs[0].name, info.outputs[0].dims, info.outputs[0].size) == ("relu:0:y", [2, 16], 128)
    assert info.weight_size >= WEIGHT.nbytes


@pytest.mark.parametrize("folding", [True, False])
def test_without_folding_the_numbers_are_the_same(folding: bool) -> None:
    nodes = [helper.make_node("Neg", ["w"], ["n"], "neg"), helper.make_node("MatMul", ["x", "n"], ["y"], "dense")]
    proto = model(nodes, {"x": (2, 64)}, ["y"], {"w": WEIGHT})
    (path,) = build.build(options(proto, oo_constant_folding=folding)).files
    np.testing.assert_allclose(compute(path), X @ -WEIGHT, rtol=1e-4, atol=1e-5)


def test_the_same_model_twice_is_the_same_file() -> None:
    (first,) = build.build(options(dense(), output="one")).files
    (second,) = build.build(options(dense(), output="two")).files
    a, b = (path.read_bytes() for path in (first, second))
    assert len(a) == len(b)


# ---- failures leave what was there -----------------------------------------------------------------------------------


def bad_operator() -> onnx.ModelProto:
    proto = dense()
    proto.graph.node[1].op_type = "NoSuchOperator"
    return proto


def bad_types() -> onnx.ModelProto:
    """Passes the reader; the engine refuses it."""
    proto = dense()
    proto.graph.node[1].CopyFrom(helper.make_node("BitwiseNot", ["m"], ["y"], "relu"))
    proto.opset_import[0].version = 18
    proto.graph.output[0].ClearField("type")
    return proto


def no_model() -> onnx.ModelProto:
    return onnx.ModelProto()


@pytest.mark.parametrize("made", [bad_operator, bad_types, no_model])
@pytest.mark.parametrize("external", [0, 1])
def test_a_failure_leaves_the_old_file(made: Any, external: int) -> None:
    build.build(options(dense(), external_weight=external))
    before = {name: (Path("out") / name).read_bytes() for name in files()}
    with pytest.raises(AtcError):
        build.build(options(made(), external_weight=external))
    assert {name: (Path("out") / name).read_bytes() for name in files()} == before


@pytest.mark.parametrize("made", [bad_operator, bad_types])
def test_a_failure_leaves_nothing_new(made: Any) -> None:
    with pytest.raises(AtcError):
        build.build(options(made(), external_weight=1))
    assert not Path("out").exists() or files() == []


def test_a_failure_while_writing(monkeypatch: pytest.MonkeyPatch) -> None:
    build.build(options(dense()))
    before = Path("out/m.om").read_bytes()

    def refuse(*_args: Any) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(engine_check, "check", refuse)
    with pytest.raises(AtcError) as caught:
        build.build(options(dense()))
    assert caught.value.code == "E10042" and "No space left" in caught.value.message
    assert files() == ["m.om"] and Path("out/m.om").read_bytes() == before


@pytest.mark.skipif(os.getuid() == 0, reason="root may write everywhere")
def test_a_folder_that_cannot_be_written() -> None:
    Path("out").mkdir(mode=0o500)
    with pytest.raises(AtcError):
        build.build(options(dense()))


# ---- external weights ------------------------------------------------------------------------------------------------


def test_external_weights_stand_in_a_file_beside() -> None:
    (path,) = build.build(options(dense(), external_weight=1)).files
    assert files() == ["m.om", "weight/m_weight_combined"]
    blob = Path("out/weight/m_weight_combined").read_bytes()
    assert WEIGHT.tobytes() in blob
    assert WEIGHT.tobytes() not in path.read_bytes()
    np.testing.assert_allclose(compute(path), np.maximum(X @ WEIGHT, 0), rtol=1e-4, atol=1e-5)
    folder = Path("elsewhere")
    Path("out").rename(folder)
    np.testing.assert_allclose(compute(folder / "m.om"), np.maximum(X @ WEIGHT, 0), rtol=1e-4, atol=1e-5)


def test_weights_of_the_source_in_another_file() -> None:
    proto = dense()
    onnx.save(
        proto, "m.onnx", save_as_external_data=True, all_tensors_to_one_file=True, location="w.bin", size_threshold=0
    )
    (path,) = build.build(options()).files
    Path("w.bin").unlink()
    np.testing.assert_allclose(compute(path), np.maximum(X @ WEIGHT, 0), rtol=1e-4, atol=1e-5)


# ---- refusals --------------------------------------------------------------------------------------------------------


def test_mindspore_models_are_refused() -> None:
    Path("m.air").write_bytes(b"x")
    with pytest.raises(AtcError) as caught:
        build.build(options(model="m.air", framework=1))
    assert caught.value.code == "E10055"
    assert "MindSpore" in caught.value.message and "ONNX" in caught.value.solution


@pytest.mark.parametrize("side", ["input", "output"])
def test_strings_cannot_go_in_or_out(side: str) -> None:
    string = TensorProto.STRING
    if side == "input":
        node = helper.make_node("StringNormalizer", ["x"], ["y"], "s")
        proto = model([node], {"x": (string, (2,))}, ["y"])
    else:
        node = helper.make_node("Cast", ["x"], ["y"], "cast", to=string)
        proto = model([node], {"x": (2,)}, ["y"])
    with pytest.raises(AtcError) as caught:
        build.build(options(proto))
    assert caught.value.code == "E10055" and "strings" in caught.value.message


# ---- mode 3 ----------------------------------------------------------------------------------------------------------


def test_the_report_of_mode_3() -> None:
    report = precheck.check(options(dense()))
    rows = {row["name"]: row["result"] for row in report["op"]}
    assert (report["result"], report["fail"]) == ("success", 0)
    assert report["total"] == report["pass"] == len(rows)
    assert rows["dense"] == rows["relu"] == "success"
    json.dumps(report)


def test_the_report_names_what_fails() -> None:
    report = precheck.check(options(bad_operator()))
    assert (report["result"], report["fail"]) == ("failed", 1)
    (row,) = (row for row in report["op"] if row["result"] == "failed")
    assert row["name"] == "relu" and "NoSuchOperator" in row["cause"][0]["message"]
    assert not Path("out").exists()


def test_all_unknown_operators_are_told_at_once() -> None:
    proto = dense()
    for node in proto.graph.node:
        node.op_type = f"Strange{node.op_type}"
    with pytest.raises(AtcError) as caught:
        build.build(options(proto))
    assert caught.value.code == "E16002"
    assert "StrangeMatMul" in caught.value.message and "StrangeRelu" in caught.value.message
    assert "torch_npu.onnx.define" not in str(caught.value)  # which is for operators of one's own domain


# ---- single operators ------------------------------------------------------------------------------------------------


def test_a_folder_of_single_operators() -> None:
    def tensor(shape: list[int]) -> dict[str, Any]:
        return {"format": "ND", "type": "float", "shape": shape}

    rows = [
        {"op": "Add", "input_desc": [tensor([2, 3])] * 2, "output_desc": [tensor([2, 3])]},
        {"op": "Neg", "input_desc": [tensor([4])], "output_desc": [tensor([4])]},
    ]
    Path("ops.json").write_text(json.dumps(rows))
    told: list[str] = []
    result = build_single_ops(
        Options({"singleop": "ops.json", "output": "out", "soc_version": "Ascend310P3"}),
        lambda stage, _: told.append(stage),
    )
    assert len(result.files) == 2 and sorted(path.name for path in result.files) == files()
    assert [Om.open(path).info().run.single_op["op"] for path in result.files] == ["Add", "Neg"]
    x = np.float32([1, -2, 3, -4])
    np.testing.assert_array_equal(compute(result.files[1], x), -x)
    assert told[0] == "compiling Add" and told[-1] == "done"


# ---- engines read what was written -----------------------------------------------------------------------------------


def test_the_program_is_plain_onnx() -> None:
    """onnx's checker and onnxruntime take the stored program, with its weights in it, as any ONNX model."""
    (path,) = build.build(options(dense())).files
    source = Om.open(path)
    data = source.programs()[0].onnx_inline(source.all_weights())
    onnx.checker.check_model(onnx.load_from_string(data))
    session = onnxruntime.InferenceSession(data, providers=["CPUExecutionProvider"])
    np.testing.assert_allclose(session.run(None, {"x": X})[0], np.maximum(X @ WEIGHT, 0), rtol=1e-4, atol=1e-5)
    (stored,) = (tensor for tensor in onnx.load_from_string(data).graph.initializer if list(tensor.dims) == [64, 16])
    np.testing.assert_array_equal(numpy_helper.to_array(stored), WEIGHT)
