"""Model nodes: files compiled in the application, bodies called directly."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import numpy as np
import onnxruntime
import pytest

from softnpu.flow import codes
from softnpu.flow.errors import DfException
from softnpu.flow.message import EOS, PICKLE, PICKLED, Message, Payload
from softnpu.flow.models import build as model_build
from softnpu.flow.models.build import ModelSource, build, build_all
from tests.dataflow.dataflow_support import arithmetic, arrays, call, started, tensor, tensorflow_difference

TENSORFLOW, ONNX, MINDSPORE = 1, 2, 3
A = np.arange(6, dtype=np.float32).reshape(2, 3)
B = np.linspace(-1, 1, 6, dtype=np.float32).reshape(2, 3)


def config(folder: Path, **content: Any) -> str:
    path = folder / "compile.json"
    path.write_text(json.dumps(content), encoding="utf-8")
    return str(path)


def described(kind: str, *shapes: list[int]) -> list[dict[str, Any]]:
    return [{"data_type": kind, "shape": shape} for shape in shapes]


# ---- what is computed -----------------------------------------------------------------------------------------------------


def test_onnx_model_gives_what_onnxruntime_and_the_formula_give(tmp_path: Path) -> None:
    path = arithmetic(tmp_path / "model.onnx")
    body = started(build(ModelSource(ONNX, str(path), "node", 2, 2)), 2, 2)
    code, sent = call(body, tensor(A), tensor(B))
    reference = onnxruntime.InferenceSession(str(path), providers=["CPUExecutionProvider"]).run(None, {"A": A, "B": B})
    assert code == 0
    for found, wanted, formula in zip(arrays(sent), reference, [A + B, (A + B) * A - B], strict=True):
        np.testing.assert_allclose(found, wanted, rtol=1e-6)
        np.testing.assert_allclose(found, formula, rtol=1e-6)


def test_results_of_calls_do_not_share_memory(tmp_path: Path) -> None:
    body = started(build(ModelSource(ONNX, str(arithmetic(tmp_path / "model.onnx")))), 2, 2)
    _, first = call(body, tensor(A), tensor(B))
    kept = [one.copy() for one in arrays(first)]
    call(body, tensor(A + 100), tensor(B - 7))
    for found, wanted in zip(arrays(first), kept, strict=True):
        np.testing.assert_array_equal(found, wanted)


def test_envelope_of_the_first_input_passes_through(tmp_path: Path) -> None:
    body = started(build(ModelSource(ONNX, str(arithmetic(tmp_path / "model.onnx")))), 2, 2)
    first = tensor(A, trans_id=7)
    first.start_time, first.end_time, first.user_data = 3, 9, b"mine"
    _, sent = call(body, first, tensor(B, trans_id=8))
    assert [(one.trans_id, one.start_time, one.end_time, one.user_data, one.msg_type) for one in sent.values()] == [
        (7, 3, 9, b"mine", 0)
    ] * 2


def test_end_of_stream_passes_through_and_half_of_the_inputs_fails(tmp_path: Path) -> None:
    body = started(build(ModelSource(ONNX, str(arithmetic(tmp_path / "model.onnx")))), 2, 2)
    empty = Message()
    empty.flags = EOS
    code, sent = call(body, empty, empty)
    assert code == 0 and all(one.null and one.flags == EOS for one in sent.values()) and len(sent) == 2
    assert call(body, tensor(A), Message()) == (codes.PARAM_INVALID, {})


def test_tensorflow_model_in_the_order_of_input_data_names(tmp_path: Path) -> None:
    path = str(tensorflow_difference(tmp_path / "model.pb"))
    a, b = np.array([5, 7, 9], np.float32), np.array([1, 2, 3], np.float32)
    for names, wanted in (("A,B", a - b), ("B, A", b - a)):
        spec = build(ModelSource(TENSORFLOW, path, "node", 2, 1, {"input_data_names": names}))
        code, sent = call(started(spec, 2, 1), tensor(a), tensor(b))
        assert code == 0
        np.testing.assert_array_equal(arrays(sent)[0], wanted)
    with pytest.raises(DfException, match="input_data_names is 'A,X'"):
        build(ModelSource(TENSORFLOW, path, load_params={"input_data_names": "A,X"}))


@pytest.mark.parametrize("framework", [TENSORFLOW, ONNX])
def test_descriptor_changes_the_type_of_the_inputs(tmp_path: Path, framework: int) -> None:
    path = (tensorflow_difference if framework == TENSORFLOW else arithmetic)(tmp_path / "model", (3,))
    told = config(tmp_path, inputs_tensor_desc=described("DT_INT32", [3], [3]))
    spec = build(ModelSource(framework, str(path), "node", 2, config_path=told))
    a, b = np.array([2**24 + 1, 7, 9], np.int32), np.array([1, 2, 3], np.int32)  # the first is no float32
    body = started(spec, 2, 2)
    code, sent = call(body, tensor(a), tensor(b))
    found = arrays(sent)[0]
    assert code == 0 and found.dtype == np.int32
    np.testing.assert_array_equal(found, a - b if framework == TENSORFLOW else a + b)
    assert call(body, tensor(a.astype(np.float32)), tensor(b))[0] == codes.DATATYPE_INVALID


@pytest.mark.parametrize(
    ("text", "good", "bad"),
    [
        ("-1,3;-1,3", [1, 5], []),
        ("1~4,3;1~4,3", [1, 4], [5]),
        ("A:2~3,3;B:2~3,3", [2, 3], [1, 4]),
        ("2,3;2,3", [2], [1]),
        ("", [1, 9], []),
    ],
)
def test_input_shapes_by_index_and_by_name(tmp_path: Path, text: str, good: list[int], bad: list[int]) -> None:
    path = arithmetic(tmp_path / "model.onnx", ("rows", 3))
    told = config(tmp_path, build_options={"ge.inputShape": text} if text else {})
    body = started(build(ModelSource(ONNX, str(path), "node", 2, 2, config_path=told)), 2, 2)
    for rows in good:
        a = np.arange(rows * 3, dtype=np.float32).reshape(rows, 3)
        code, sent = call(body, tensor(a), tensor(a + 1))
        assert code == 0
        np.testing.assert_array_equal(arrays(sent)[0], 2 * a + 1)
    for rows in bad:
        a = np.zeros((rows, 3), np.float32)
        assert call(body, tensor(a), tensor(a)) == (codes.SHAPE_INVALID, {})


def test_gears_are_found_by_the_shapes(tmp_path: Path) -> None:
    path = arithmetic(tmp_path / "model.onnx", ("rows", 3))
    told = config(tmp_path, build_options={"ge.inputShape": "A:-1,3;B:-1,3", "ge.dynamicBatchSize": "1,4"})
    body = started(build(ModelSource(ONNX, str(path), "node", 2, 2, config_path=told)), 2, 2)
    for rows, wanted in ((1, 0), (4, 0), (2, codes.SHAPE_INVALID)):
        a = np.ones((rows, 3), np.float32)
        code, sent = call(body, tensor(a), tensor(a))
        assert code == wanted
        if not code:
            np.testing.assert_array_equal(arrays(sent)[0], 2 * a)


def test_offline_models_are_taken_as_they_are(tmp_path: Path) -> None:
    spec = build(ModelSource(ONNX, str(arithmetic(tmp_path / "model.onnx"))))
    for name in ("model.om", "export.air"):
        path = tmp_path / name
        path.write_bytes(spec.data["om"])
        again = build(ModelSource(MINDSPORE, str(path), "node", 2, 2))
        assert again.data["path"] == str(path)
        for one in (again, model_build.embedded(again)):
            code, sent = call(started(one, 2, 2), tensor(A), tensor(B))
            assert code == 0
            np.testing.assert_array_equal(arrays(sent)[0], A + B)


def test_mapped_inputs_and_outputs(tmp_path: Path) -> None:
    source = ModelSource(ONNX, str(arithmetic(tmp_path / "model.onnx")), "node", 2, 1, inputs=(1, 0), outputs=(1,))
    code, sent = call(started(build(source), 2, 1), tensor(A), tensor(B))
    assert code == 0 and list(sent) == [0]
    np.testing.assert_allclose(arrays(sent)[0], (A + B) * B - A, rtol=1e-6)


# ---- what is refused ------------------------------------------------------------------------------------------------------


def test_wrong_inputs_end_the_transaction_and_not_the_node(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    body = started(build(ModelSource(ONNX, str(arithmetic(tmp_path / "model.onnx")))), 2, 2)
    assert call(body, tensor(A), tensor(B.astype(np.int32))) == (codes.DATATYPE_INVALID, {})
    assert call(body, tensor(A), tensor(B[:1])) == (codes.SHAPE_INVALID, {})
    assert call(body, tensor(A)) == (codes.PARAM_INVALID, {})
    assert call(body, tensor(A), Message(Payload(PICKLE, b"", (b"x",)), PICKLED)) == (codes.DATATYPE_INVALID, {})
    said = capsys.readouterr().out
    for text in ("input 1 (B) has the type int32", "the model takes [2, 3]", "1 inputs came, the model has 2: A, B"):
        assert text in said
    assert call(body, tensor(A), tensor(B))[0] == 0


@pytest.mark.parametrize(
    ("change", "text"),
    [
        ({"path": "none.onnx"}, "does not exist"),
        ({"input_num": 3}, "the node has 3 inputs, the model 2: A, B"),
        ({"output_num": 3}, "the node has 3 outputs, the model only 2"),
        ({"framework": MINDSPORE}, "export the model as ONNX"),
        ({"framework": TENSORFLOW}, "no frozen TensorFlow graph|operators"),
        (
            {"config": {"inputs_tensor_desc": described("DT_FLOAT", [2, 3])}},
            "describes 1 inputs, the model has 2: A, B",
        ),
        (
            {"config": {"inputs_tensor_desc": described("DT_FLOTE", [2, 3])}},
            "data_type is 'DT_FLOTE'; use one of DT_FLOAT",
        ),
        ({"config": {"inputs_tensor_desc": described("DT_FLOAT", [2, -3], [2, 3])}}, "shape is"),
        ({"config": {"build_options": {"ge.inputShape": "2,3;2,3;1"}}}, "3 shapes, the model has 2 inputs"),
        ({"config": {"build_options": {"ge.inputShape": 5}}}, "build_options.ge.inputShape is 5"),
        ({"config": {"build_options": {"ge.inputShape": "2;2"}}}, "E10"),
        ({"config": {"build_options": {"ge.exec.precision_mode": "none"}}}, "precision_mode"),
    ],
)
def test_what_cannot_be_compiled_is_told_before_anything_runs(
    tmp_path: Path, change: dict[str, Any], text: str
) -> None:
    settings: dict[str, Any] = {"framework": ONNX, "path": str(arithmetic(tmp_path / "model.onnx")), "input_num": 2}
    settings |= change
    if (content := settings.pop("config", None)) is not None:
        settings["config_path"] = config(tmp_path, **content)
    with pytest.raises(DfException, match=text) as caught:
        build(ModelSource(**settings))
    assert caught.value.error_code in (codes.PARAM_INVALID, codes.SHAPE_INVALID)


def test_damaged_offline_model(tmp_path: Path) -> None:
    path = tmp_path / "model.om"
    path.write_bytes(b"IMOD" + bytes(400))
    with pytest.raises(DfException, match=r"model\.om.*damaged"):
        build(ModelSource(MINDSPORE, str(path)))


# ---- many models, and the cache ---------------------------------------------------------------------------------------------


def test_parallel_build_keeps_the_order(tmp_path: Path) -> None:
    sources = [ModelSource(ONNX, str(arithmetic(tmp_path / f"m{n}.onnx", (n, 3))), f"m{n}") for n in (1, 2, 4)]
    for parallel in (False, True):
        for rows, spec in zip((1, 2, 4), build_all(sources, parallel), strict=True):
            a = np.ones((rows, 3), np.float32)
            assert call(started(spec, 2, 2), tensor(a), tensor(a))[0] == 0
    with pytest.raises(DfException):
        build_all([*sources, ModelSource(ONNX, "none.onnx")], True)


def test_compile_cache_hits_until_the_model_changes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from softnpu.compiler import build as compiler

    path, cache = arithmetic(tmp_path / "model.onnx"), tmp_path / "cache"
    source = ModelSource(
        ONNX, str(path), "net", options={"ge.graph_compiler_cache_dir": str(cache), "ge.graph_key": "key-1"}
    )
    with pytest.raises(DfException, match="no folder"):
        build(source)
    cache.mkdir()
    build(source)
    assert sorted(os.listdir(cache)) == ["key-1_net.idx", "key-1_net.om"]
    runs: list[object] = []
    real = compiler.build
    monkeypatch.setattr(compiler, "build", lambda options: runs.append(options) or real(options))
    spec = build(source)
    assert not runs
    np.testing.assert_array_equal(arrays(call(started(spec, 2, 2), tensor(A), tensor(B))[1])[0], A + B)
    arithmetic(path, (4, 3))
    changed = build(source)
    assert len(runs) == 1
    wide = np.ones((4, 3), np.float32)
    assert call(started(changed, 2, 2), tensor(wide), tensor(wide))[0] == 0
    with pytest.raises(DfException, match="letters, digits"):
        build(ModelSource(ONNX, str(path), options={**source.options, "ge.graph_key": "a/b"}))


def test_nothing_is_left_in_the_working_or_temporary_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = arithmetic(tmp_path / "model.onnx")
    (tmp_path / "work").mkdir()
    (tmp_path / "temporary").mkdir()
    monkeypatch.chdir(tmp_path / "work")
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path / "temporary"))
    build(ModelSource(ONNX, str(path)))
    with pytest.raises(DfException):
        build(ModelSource(ONNX, str(path), output_num=9))
    assert not os.listdir(tmp_path / "work") and not os.listdir(tmp_path / "temporary")
