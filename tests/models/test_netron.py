"""Netron's own reader opens our files: operators of CANN, attributes, shapes and types of edges, weights with their bytes."""

from __future__ import annotations

import base64
import importlib.metadata
import json
import shutil
import subprocess
from pathlib import Path
from typing import Any

import onnx
import pytest
from onnx import numpy_helper

from softnpu.cli import atc
from tests.models.nets import BIAS, WEIGHT, attention, convolution
from tests.models.support import convert, package_folder

DUMP = Path(__file__).with_name("netron_dump.mjs")
TIME_LIMIT_S = 60
Shown = dict[str, dict[str, Any]]  # what Netron shows of each node, by name


@pytest.fixture(scope="module")
def netron(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Netron's scripts as modules for Node; they lie in a package for browsers, which does not say what they are."""
    if shutil.which("node") is None:
        pytest.skip("node is not installed, which runs Netron's reader: apt-get install nodejs")
    source = package_folder("netron", "pip install netron")
    folder = tmp_path_factory.mktemp("netron")
    for path in [*source.glob("*.js"), source / "om-metadata.json"]:
        shutil.copy(path, folder)
    version = importlib.metadata.version("netron")
    (folder / "package.json").write_text(json.dumps({"name": "netron", "version": version, "type": "module"}))
    return folder


def look(netron: Path, om: Path) -> Shown:
    """What Netron makes of a file of ours."""
    command = ["node", str(DUMP), str(netron), str(om)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=TIME_LIMIT_S)
    assert done.returncode == 0, done.stderr
    document = json.loads(done.stdout)
    assert document["format"] == "DaVinci OM"
    assert len(document["graphs"]) == 1
    return {node["name"]: node for node in document["graphs"][0]["nodes"]}


def one(shown: Shown, kind: str) -> dict[str, Any]:
    """The only node of a type."""
    nodes = [node for node in shown.values() if node["type"] == kind]
    assert len(nodes) == 1, f"{kind}: {[(node['name'], node['type']) for node in shown.values()]}"
    return nodes[0]


def edges(node: dict[str, Any], side: str) -> list[tuple[str, list[int]]]:
    """Types and shapes on one side of a node."""
    values = [value for group in node[side].values() for value in group]
    return [(value["type"]["dtype"], value["type"]["shape"]) for value in values]


def weights(node: dict[str, Any]) -> list[bytes]:
    """The bytes of the constants that go into a node."""
    values = [value for group in node["inputs"].values() for value in group]
    return [base64.b64decode(value["data"]) for value in values if "data" in value]


def check_convolution(shown: Shown, batch: int) -> None:
    """The convolution with everything that Netron shows of it, weights apart."""
    conv = one(shown, "Conv2D")
    assert edges(conv, "inputs") == [("float32", [batch, 3, 8, 8]), ("float32", [4, 3, 3, 3]), ("float32", [4])]
    assert edges(conv, "outputs") == [("float32", [batch, 4, 4, 4])]
    wanted = {"strides": [1, 1, 2, 2], "pads": [1, 1, 1, 1], "dilations": [1, 1, 1, 1], "groups": 1}
    assert conv["attributes"].items() >= (wanted | {"data_format": "NCHW"}).items()


def test_a_static_net(workshop: Path, netron: Path) -> None:
    shown = look(netron, convert(convolution(workshop), workshop / "net"))
    assert [node["type"] for node in shown.values()] == ["Data", "Conv2D", "Relu", "Sigmoid", "Add", "NetOutput"]
    check_convolution(shown, batch=2)
    assert weights(one(shown, "Conv2D")) == [WEIGHT.tobytes(), BIAS.tobytes()]
    assert edges(one(shown, "Add"), "inputs") == [("float32", [2, 4, 4, 4])] * 2
    names = [value["name"] for group in shown["sum"]["inputs"].values() for value in group]
    assert names == ["relu:0", "sigmoid:0"]


def test_a_net_with_aipp(workshop: Path, netron: Path) -> None:
    config = workshop / "aipp.cfg"
    config.write_text(
        "aipp_op { aipp_mode: static input_format: RGB888_U8 src_image_size_w: 8 src_image_size_h: 8 mean_chn_0: 9 }"
    )
    shown = look(netron, convert(convolution(workshop), workshop / "net", f"--insert_op_conf={config}"))
    aipp = one(shown, "Aipp")
    assert edges(aipp, "inputs") == [("uint8", [2, 8, 8, 3])]
    assert edges(aipp, "outputs") == [("float32", [2, 3, 8, 8])]
    check_convolution(shown, batch=2)


def test_a_net_with_gears(workshop: Path, netron: Path) -> None:
    words = ("--input_shape=data:-1,3,8,8", "--dynamic_batch_size=1,4")
    shown = look(netron, convert(convolution(workshop, "n"), workshop / "net", *words))
    assert shown["ascend_mbatch_shape_data"]["type"] == "Data"
    assert edges(shown["ascend_mbatch_shape_data"], "outputs") == [("int32", [1])]
    check_convolution(shown, batch=-1)
    assert weights(one(shown, "Conv2D")) == [WEIGHT.tobytes(), BIAS.tobytes()]


def test_a_net_with_open_dims(workshop: Path, netron: Path) -> None:
    shown = look(netron, convert(convolution(workshop, "n"), workshop / "net", "--input_shape=data:-1,3,8,8"))
    check_convolution(shown, batch=-1)
    assert edges(one(shown, "NetOutput"), "inputs") == [("float32", [-1, 4, 4, 4])]


def test_a_net_with_weights_in_a_file(workshop: Path, netron: Path) -> None:
    om = convert(convolution(workshop), workshop / "net", "--external_weight=2")
    shown = look(netron, om)
    check_convolution(shown, batch=2)
    assert not any(weights(one(shown, "Conv2D"))), "the weights are not in the .om"
    files = list((workshop / "weight").iterdir())
    assert len(files) == 1 and WEIGHT.tobytes() in files[0].read_bytes()


def test_a_single_operator(workshop: Path, netron: Path, capsys: pytest.CaptureFixture[str]) -> None:
    desc = {"format": "ND", "shape": [3, 5], "type": "float16"}
    said = [{"op": "Add", "input_desc": [desc, desc], "output_desc": [desc], "name": "add"}]
    (workshop / "ops.json").write_text(json.dumps(said))
    code = atc.main(["--singleop=ops.json", "--output=ops", "--soc_version=Ascend310P3"])
    assert code == 0, capsys.readouterr().out
    shown = look(netron, workshop / "ops" / "add.om")
    add = one(shown, "Add")
    assert edges(add, "inputs") == [("float16", [3, 5])] * 2
    assert edges(add, "outputs") == [("float16", [3, 5])]


def test_attention(workshop: Path, netron: Path) -> None:
    path = attention(workshop)
    shown = look(netron, convert(path, workshop / "attention"))
    kinds = {node["type"] for node in shown.values()}
    assert {"Data", "SoftmaxV2", "Add", "NetOutput"} <= kinds
    assert any("MatMul" in kind for kind in kinds) and any("LayerNorm" in kind for kind in kinds)
    assert edges(one(shown, "SoftmaxV2"), "outputs") == [("float32", [2, 6, 6])]
    wanted = {array.name: numpy_helper.to_array(array).tobytes() for array in onnx.load(path).graph.initializer}
    for word in "qkv":
        assert wanted[f"w{word}"] in [data for node in shown.values() for data in weights(node)]
