"""The API development guide: its ways to export custom operators, and the porting guide's to export checkpoints, run to numbers."""

from __future__ import annotations

import runpy
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
import torch
import torch_npu.onnx
from torch_npu._patches import onnx_names

from softnpu.cli import atc
from tests.paths import PROGRAMS
from tests.torch.onnx.runs import convert, export, run

GUIDE = PROGRAMS / "operator_guide"


@pytest.fixture
def program(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[[str], dict[str, Any]]]:
    """Runs a program of the guide in an empty folder; what it registers is taken back."""
    onnx_names.install()
    monkeypatch.chdir(tmp_path)

    def start(name: str) -> dict[str, Any]:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            return runpy.run_path(str(GUIDE / f"{name}.py"), run_name="__main__")

    yield start
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # only way one registers for opset 11
        torch.onnx.unregister_custom_op_symbolic("npu::npu_roi_align", 11)


def _nodes_of(path: Path) -> list[str]:
    return [f"{one.domain}::{one.op_type}" for one in onnx.load(path).graph.node if one.domain]


@pytest.mark.parametrize(
    ("name", "file"), [("onnx_npu_symbolic", "npu_roi_align"), ("onnx_npu_function", "npu_op_module")]
)
def test_npu_operator(name: str, file: str, program: Callable[[str], dict[str, Any]], tmp_path: Path) -> None:
    made = program(name)
    model = tmp_path / f"{file}.onnx"
    assert _nodes_of(model) == ["torch::npu_roi_align"]
    (found,) = run(convert(model), [made["a"].detach().cpu().numpy()])
    wanted = made["output"].detach().cpu().numpy()
    assert np.abs(wanted).max() > 0.1
    np.testing.assert_allclose(found, wanted, rtol=1e-4, atol=1e-5)


def test_way_one_without_registration_is_torch_s_error(tmp_path: Path) -> None:
    class Model(torch.nn.Module):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return torch.ops.npu.npu_transpose(x, [1, 0])

    with pytest.raises(torch.onnx.errors.UnsupportedOperatorError, match="npu::npu_transpose"):
        export(Model(), (torch.rand(2, 3),), tmp_path / "x.onnx")


def _twice_first(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
    return x + (x + y)


def test_python_operator(
    program: Callable[[str], dict[str, Any]], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    made = program("onnx_python")
    model = tmp_path / "custom_python_module_demo.onnx"
    types = ["Custom::CustomClassOp_Add", "ATen::CustomClassOp_Add", "C10::CustomClassOp_Add"]
    assert _nodes_of(model) == types * 4
    words = [f"--model={model}", "--framework=5", f"--output={tmp_path / 'custom'}", "--soc_version=Ascend910B3"]
    assert atc.main(words) != 0
    assert "No parser is registered for the operator type [ATen::CustomClassOp_Add" in "".join(capsys.readouterr())
    shape = (8, 10, 1024)
    for word in types:
        torch_npu.onnx.define(model, word, _twice_first, (torch.rand(shape), torch.rand(shape)))
    (found,) = run(convert(model), [])
    w, w1 = made["model"].weight.detach(), made["model"].weight1

    def add(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        first = _twice_first(x, y)
        return _twice_first(_twice_first(x, first), y)

    wanted = add(add(w, w1 + w), add(w1, add(w, w1)))
    np.testing.assert_allclose(found, wanted.numpy(), rtol=1e-4, atol=1e-4)


@pytest.mark.slow
def test_cpp_operator(
    program: Callable[[str], dict[str, Any]], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TORCH_EXTENSIONS_DIR", str(tmp_path))
    made = program("onnx_cpp")
    model = tmp_path / "custom_demo.onnx"
    assert _nodes_of(model) == ["custom_namespace::custom_add"]
    x, y = made["x"], made["y"]
    on_npu = torch.ops.custom_namespace.custom_add(x.npu(), y.npu())
    assert on_npu.device.type == "npu" and torch.equal(on_npu.cpu(), x + y)
    torch_npu.onnx.define(model, "custom_namespace::custom_add", torch.add, (x, y))
    (found,) = run(convert(model), [x.numpy(), y.numpy()])
    np.testing.assert_array_equal(found, (x + y).numpy())


def test_an_unknown_name_in_the_domain_onnx_is_an_error(tmp_path: Path) -> None:
    class Wrong(torch.autograd.Function):
        @staticmethod
        def forward(ctx: Any, x: torch.Tensor) -> torch.Tensor:
            return x + 1

        @staticmethod
        def symbolic(g: Any, x: Any) -> Any:
            return g.op("onnx::CustomClassOp_Add", x)

    class Model(torch.nn.Module):
        def forward(self, x: torch.Tensor) -> Any:
            return Wrong.apply(x)

    with pytest.raises(Exception, match="CustomClassOp_Add"):
        onnx.checker.check_model(onnx.load(export(Model(), (torch.rand(2),), tmp_path / "wrong.onnx")))


# what `define` refuses


@pytest.mark.parametrize(
    ("operator", "body", "count", "said"),
    [
        ("custom_add", torch.add, 2, "must be 'domain::Name', not 'custom_add'"),
        ("other::Thing", torch.add, 2, "has no node of type other::Thing; its own types are npu::NPUFastGelu"),
        ("npu::NPUFastGelu", torch.add, 2, "takes 2 tensors and gives 1; its nodes have 1 inputs and 1 outputs"),
    ],
)
def test_define_says_what_is_wrong(operator: str, body: Any, count: int, said: str, tmp_path: Path) -> None:
    class Model(torch.nn.Module):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return torch_npu.npu_fast_gelu(x)

    model = export(Model(), (torch.rand(2),), tmp_path / "model.onnx")
    before = model.read_bytes()
    with pytest.raises(ValueError, match=said):
        torch_npu.onnx.define(model, operator, body, (torch.rand(2),) * count)
    assert model.read_bytes() == before


# porting guide, "Exporting an ONNX model"


class Net(torch.nn.Module):
    """Stands for the guide's resnet50 and mobilenet_v2: torchvision is not installed here, and nothing depends on the layers."""

    def __init__(self) -> None:
        super().__init__()
        self.features = torch.nn.Sequential(
            torch.nn.Sequential(torch.nn.Conv2d(3, 8, 3, 2, 1, bias=False), torch.nn.BatchNorm2d(8), torch.nn.ReLU6())
        )
        self.classifier = torch.nn.Linear(8, 10)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.classifier(self.features(x).mean((2, 3)))


@pytest.mark.filterwarnings("ignore:You are using the legacy:DeprecationWarning")
@pytest.mark.filterwarnings("ignore:The feature will be removed:DeprecationWarning")
def test_a_pth_file_becomes_an_offline_model(tmp_path: Path) -> None:
    onnx_names.install()
    trained = Net().npu()
    trained(torch.randn(4, 3, 32, 32).npu()).sum().backward()
    torch.save(trained.state_dict(), tmp_path / "resnet50.pth")

    model = Net()
    model.load_state_dict(torch.load(tmp_path / "resnet50.pth", map_location="cpu"))
    model.eval()
    dummy_input = torch.randn(1, 3, 32, 32)
    path = tmp_path / "resnet50_official.onnx"
    torch.onnx.export(
        model,
        dummy_input,
        str(path),
        input_names=["input"],
        output_names=["output"],
        opset_version=11,
        dynamic_axes={"input": {0: "batch_size"}, "output": {0: "batch_size"}},
    )
    assert onnx.load(path).opset_import[0].version == 11
    x = torch.randn(2, 3, 32, 32)
    (found,) = run(convert(path, "--input_shape=input:2,3,32,32"), [x.numpy()])
    with torch.no_grad():
        np.testing.assert_allclose(found, trained.eval()(x.npu()).cpu().numpy(), rtol=1e-4, atol=1e-5)


def proc_nodes_module(checkpoint: dict[str, Any], AttrName: str) -> dict[str, Any]:
    new_state_dict = {}
    for key, value in checkpoint[AttrName].items():
        name = key[7:] if key[0:7] == "module." else key[0:]
        new_state_dict[name] = value
    return new_state_dict


@pytest.mark.filterwarnings("ignore:You are using the legacy:DeprecationWarning")
@pytest.mark.filterwarnings("ignore:The feature will be removed:DeprecationWarning")
def test_a_pth_tar_file_with_prefixes(tmp_path: Path) -> None:
    onnx_names.install()
    trained = Net().npu().eval()
    state = {f"module.{name}": value for name, value in trained.state_dict().items()}
    torch.save({"epoch": 1, "state_dict": state}, tmp_path / "mobilenet_cpu.pth.tar")

    checkpoint = torch.load(tmp_path / "mobilenet_cpu.pth.tar", map_location=torch.device("cpu"))
    checkpoint["state_dict"] = proc_nodes_module(checkpoint, "state_dict")
    model = Net()
    model.load_state_dict(checkpoint["state_dict"])
    model.eval()
    path = tmp_path / "mobilenetV2_npu.onnx"
    names: dict[str, Any] = {"input_names": ["actual_input_1"], "output_names": ["output1"]}
    torch.onnx.export(model, torch.randn(1, 3, 32, 32), str(path), **names, opset_version=11)
    x = torch.randn(1, 3, 32, 32)
    (found,) = run(convert(path), [x.numpy()])
    with torch.no_grad():
        np.testing.assert_allclose(found, trained(x.npu()).cpu().numpy(), rtol=1e-4, atol=1e-5)


def test_the_older_registry_says_what_is_registered() -> None:
    onnx_names.install()
    import torch.onnx.symbolic_registry as registry

    assert registry.is_registered_op("npu_roi_align", "", 11) and registry.is_registered_op("relu", "aten", 11)
    assert not registry.is_registered_op("npu_no_such_thing", "", 11)
    registry.register_op("Thing", lambda g, x: g.op("mine::Thing", x), "mine", 11)
    assert registry.is_registered_op("Thing", "mine", 11)
    torch.onnx.unregister_custom_op_symbolic("mine::Thing", 11)
