"""Whole conversions where much comes together: weights on disk, bodies, functions, AIPP and half precision."""

from __future__ import annotations

import os
import resource
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

import acl
from softnpu.executor import crowd

from .support import Client, convert

FLOAT = TensorProto.FLOAT


def info(name: str, *dims: int) -> Any:
    return helper.make_tensor_value_info(name, FLOAT, list(dims))


def save(
    path: Path,
    nodes: list[Any],
    inputs: list[Any],
    outputs: list[Any],
    weights: dict[str, Any] | None = None,
    **more: Any,
) -> Path:
    tensors = [numpy_helper.from_array(array, name) for name, array in (weights or {}).items()]
    graph = helper.make_graph(nodes, "g", inputs, outputs, tensors)
    domains = more.pop("domains", ())
    opsets = [helper.make_opsetid("", 13), *(helper.make_opsetid(one, 1) for one in domains)]
    model = helper.make_model(graph, opset_imports=opsets, ir_version=8, **more)
    onnx.save(model, str(path))
    return path


@pytest.mark.usefixtures("workshop")
def test_a_model_that_was_replaced_on_disk_keeps_its_weights(tmp_path: Path) -> None:
    """A second session, made when runs crowd, must not read the file that has the name by then."""

    def make(value: float, name: str) -> Path:
        weight = np.full((64, 64), value, np.float32)
        model = save(
            tmp_path / f"{name}.onnx",
            [helper.make_node("MatMul", ["x", "w"], ["y"])],
            [info("x", 1, 64)],
            [info("y", 1, 64)],
            {"w": weight},
        )
        return convert(model, tmp_path / name)

    client = Client(make(1.0, "first"))
    other = make(5.0, "second")
    os.replace(other, tmp_path / "first.om")
    x = np.ones((1, 64), np.float32)
    crowd.enter()  # another run goes on
    try:
        (result,) = client.run({"x": x})
    finally:
        crowd.leave()
        client.close()
    np.testing.assert_allclose(result, x @ np.ones((64, 64), np.float32))


@pytest.mark.usefixtures("workshop")
def test_an_asynchronous_run_notices_memory_that_was_freed(tmp_path: Path) -> None:
    model = save(tmp_path / "m.onnx", [helper.make_node("Relu", ["x"], ["y"])], [info("x", 4)], [info("y", 4)])
    number, _ = acl.mdl.load_from_file(str(convert(model, tmp_path / "m")))
    stream, _ = acl.rt.create_stream()
    datasets, pointers = [], []
    for _ in range(2):
        dataset, (pointer, _) = acl.mdl.create_dataset(), acl.rt.malloc(16, 0)
        acl.mdl.add_dataset_buffer(dataset, acl.create_data_buffer(pointer, 16))
        datasets.append(dataset)
        pointers.append(pointer)
    flag, _ = acl.rt.malloc(8, 0)
    acl.rt.memset(flag, 8, 0, 8)
    acl.rt.value_wait(flag, 1, 1, stream)  # holds the stream until the memory is gone
    assert acl.mdl.execute_async(number, *datasets, stream) == 0
    assert acl.rt.free(pointers[1]) == 0
    acl.rt.memset(flag, 8, 1, 1)
    assert acl.rt.synchronize_stream(stream) == 107000
    acl.rt.destroy_stream(stream)
    acl.mdl.unload(number)


def test_folding_does_not_fill_the_memory(tmp_path: Path) -> None:
    """300 bytes that ask for 14 GB."""
    nodes = [
        helper.make_node("ReduceProd", ["dims"], ["n"], keepdims=1),
        helper.make_node("ConstantOfShape", ["n"], ["big"]),
        helper.make_node("ReduceSum", ["big"], ["sum"], keepdims=0),
        helper.make_node("Add", ["x", "sum"], ["y"]),
    ]
    model = save(
        tmp_path / "bomb.onnx", nodes, [info("x", 4)], [info("y", 4)], {"dims": np.array([60000, 60000], np.int64)}
    )
    program = f"import sys; from softnpu.cli.atc import main; sys.exit(main(['--model={model}', '--framework=5', '--output={tmp_path}/b', '--soc_version=Ascend310P3']))"

    def limit() -> None:
        resource.setrlimit(resource.RLIMIT_AS, (6 << 30, 6 << 30))

    done = subprocess.run(
        [sys.executable, "-c", program], cwd=tmp_path, capture_output=True, text=True, timeout=60, preexec_fn=limit
    )
    assert done.returncode in (0, 255), done.stderr[-2000:]


@pytest.mark.usefixtures("workshop")
def test_functions_of_other_domains_keep_their_meaning(tmp_path: Path) -> None:
    """A function my::Size that sums is not ONNX's Size."""
    body = [helper.make_node("ReduceSum", ["a"], ["b"], keepdims=0)]
    function = helper.make_function("my", "Size", ["a"], ["b"], body, [helper.make_opsetid("", 13)])
    nodes = [helper.make_node("Size", ["x"], ["y"], domain="my")]
    model = save(tmp_path / "f.onnx", nodes, [info("x", 2, 3)], [info("y")], functions=[function], domains=["my"])
    client = Client(convert(model, tmp_path / "f"))
    x = np.arange(6, dtype=np.float32).reshape(2, 3)
    (result,) = client.run({"x": x})
    client.close()
    assert result.dtype == np.float32 and float(result) == x.sum()


def branches(tmp_path: Path) -> Path:
    """An If whose branches take the model's input by its name."""

    def branch(op: str) -> Any:
        return helper.make_graph([helper.make_node(op, ["x"], ["o"])], op, [], [info("o", 1, 3, 4, 4)])

    nodes = [
        helper.make_node("ReduceMax", ["x"], ["top"], keepdims=0),
        helper.make_node("Greater", ["top", "zero"], ["flag"]),
        helper.make_node("If", ["flag"], ["y"], then_branch=branch("Neg"), else_branch=branch("Abs")),
    ]
    return save(tmp_path / "if.onnx", nodes, [info("x", 1, 3, 4, 4)], [info("y", 1, 3, 4, 4)], {"zero": np.float32(0)})


@pytest.mark.usefixtures("workshop")
def test_bodies_take_an_input_that_aipp_changes(tmp_path: Path) -> None:
    config = tmp_path / "aipp.cfg"
    config.write_text("aipp_op { aipp_mode: static input_format: RGB888_U8 mean_chn_0: 10 }")
    client = Client(convert(branches(tmp_path), tmp_path / "if", f"--insert_op_conf={config}", soc="Ascend310P3"))
    picture = np.random.default_rng(0).integers(0, 256, (1, 4, 4, 3), np.uint8)
    (result,) = client.run({"x": picture})
    client.close()
    wanted = picture.astype(np.float32).transpose(0, 3, 1, 2)
    wanted[:, 0] -= 10
    np.testing.assert_array_equal(result, -wanted)


@pytest.mark.usefixtures("workshop")
def test_bodies_take_an_input_that_comes_as_half(tmp_path: Path) -> None:
    client = Client(convert(branches(tmp_path), tmp_path / "if", "--input_fp16_nodes=x"))
    x = np.linspace(-1, 2, 48).astype(np.float16).reshape(1, 3, 4, 4)
    (result,) = client.run({"x": x})
    client.close()
    np.testing.assert_array_equal(result, -x.astype(np.float32))


@pytest.mark.usefixtures("workshop")
def test_external_tensors_inside_bodies_are_read(tmp_path: Path) -> None:
    (tmp_path / "data.bin").write_bytes(np.arange(4, dtype=np.float32).tobytes())
    tensor = TensorProto(name="w", data_type=FLOAT, dims=[4], data_location=TensorProto.EXTERNAL)
    for key, value in (("location", "data.bin"), ("offset", "0"), ("length", "16")):
        tensor.external_data.add(key=key, value=value)

    def branch(op: str) -> Any:
        return helper.make_graph([helper.make_node(op, ["x", "w"], ["o"])], op, [], [info("o", 4)], [tensor])

    nodes = [helper.make_node("If", ["flag"], ["y"], then_branch=branch("Add"), else_branch=branch("Mul"))]
    flag = helper.make_tensor_value_info("flag", TensorProto.BOOL, [])
    model = save(tmp_path / "e.onnx", nodes, [flag, info("x", 4)], [info("y", 4)])
    x = np.array([3, 4, 5, 6], np.float32)
    client = Client(convert(model, tmp_path / "e"))
    for value, wanted in ((True, x + np.arange(4)), (False, x * np.arange(4))):
        (result,) = client.run({"flag": np.array(value), "x": x})
        np.testing.assert_array_equal(result, wanted.astype(np.float32))
    client.close()


@pytest.mark.usefixtures("workshop")
def test_an_input_can_be_an_output(tmp_path: Path) -> None:
    model = save(
        tmp_path / "io.onnx", [helper.make_node("Relu", ["x"], ["y"])], [info("x", 4)], [info("y", 4), info("x", 4)]
    )
    client = Client(convert(model, tmp_path / "io"))
    x = np.array([-1, 2, -3, 4], np.float32)
    first, second = client.run({"x": x})
    client.close()
    np.testing.assert_array_equal(first, np.maximum(x, 0))
    np.testing.assert_array_equal(second, x)


@pytest.mark.usefixtures("workshop")
def test_half_precision_saturates_where_the_chip_does(tmp_path: Path) -> None:
    nodes = [helper.make_node("Exp", ["x"], ["a"]), helper.make_node("Sqrt", ["x"], ["b"])]
    model = save(tmp_path / "s.onnx", nodes, [info("x", 2)], [info("a", 2), info("b", 2)])
    x = np.array([12, -1], np.float32)
    for soc, exp, root in (("Ascend310P3", 65504.0, 0.0), ("Ascend910B3", np.inf, np.nan)):
        client = Client(convert(model, tmp_path / soc, "--precision_mode=force_fp16", soc=soc))
        a, b = client.run({"x": x})
        client.close()
        assert a[0] == exp
        np.testing.assert_array_equal(b[1], np.float32(root))
