"""`import torch_npu.onnx`: operators as `npu::NPU…` nodes, through atc and pyACL, against the operator itself."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
import torch
import torch_npu
import torch_npu.onnx

from tests.torch.onnx.runs import convert, export, run

Case = tuple[str, Callable[..., Any], tuple[torch.Tensor, ...]]


class Lambda(torch.nn.Module):
    def __init__(self, function: Callable[..., Any]) -> None:
        super().__init__()
        self.function = function

    def forward(self, *args: torch.Tensor) -> Any:
        return self.function(*args)


def _random(*shape: int, seed: int = 0) -> torch.Tensor:
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed))


def _boxes(count: int, seed: int = 0) -> torch.Tensor:
    place = torch.rand(count, 4, generator=torch.Generator().manual_seed(seed)) * 40
    return torch.cat((place[:, :2], place[:, :2] + place[:, 2:] + 4), 1)


X = _random(2, 4, 6, 8)
MAP = torch.arange(1.0, 37).reshape(1, 1, 6, 6)
ROIS = torch.tensor([[0.0, -2.0, -2.0, 22.0, 22.0]])
MORE_ROIS = torch.tensor([[0, 1.5, 2.0, 9.0, 12.5], [1, 0.0, 0.0, 30.0, 20.0], [1, 3.0, 4.0, 3.5, 4.5]])
MEANS, STDS = (0.0, 0.1, 0.0, 0.2), (0.1, 0.2, 0.2, 0.5)
CASES: list[Case] = [
    ("NPUFastGelu", lambda x: torch_npu.npu_fast_gelu(x), (X,)),
    ("NPUGelu", lambda x: torch_npu.npu_gelu(x, approximate="tanh"), (X,)),
    ("NPUGeGlu", lambda x: torch_npu.npu_geglu(x, dim=1), (X,)),
    ("NPURmsNorm", lambda x, g: torch_npu.npu_rms_norm(x, g, epsilon=1e-5), (X, _random(8, seed=1))),
    ("NPUAddRmsNorm", lambda x, y, g: torch_npu.npu_add_rms_norm(x, y, g), (X, X.flip(0), _random(8, seed=1))),
    ("NPURotaryMul", lambda x, c, s: torch_npu.npu_rotary_mul(x, c, s), (X, _random(1, 1, 6, 8), _random(1, 1, 6, 8, seed=2))),
    (
        "NPURotaryMul",
        lambda x, c, s: torch_npu.npu_rotary_mul(x, c, s, "interleave"),
        (X, _random(1, 1, 6, 8), _random(1, 1, 6, 8, seed=2)),
    ),
    ("NPUGroupNormSilu", lambda x, w, b: torch_npu.npu_group_norm_silu(x, w, b, 2)[0], (X, _random(4), _random(4, seed=3))),
    ("NPUOneHot", lambda x: torch_npu.npu_one_hot(x, depth=5, on_value=2, off_value=-1), (torch.tensor([0, 4, 2, 7]),)),
    ("NPUSlice", lambda x: torch_npu.npu_slice(x, [0, 1, 2, 3], [1, 2, 3, 4]), (X,)),
    (
        "NPUIndexing",
        lambda x: torch_npu.npu_indexing(x, [0, 1, 0, 0], [2, 4, 6, 8], [1, 2, 1, 3]),
        (X,),
    ),
    ("NPUFormatCast", lambda x: torch_npu.npu_format_cast(x, 29) * 2, (X,)),
    ("NPUDtypeCast", lambda x: torch_npu.npu_dtype_cast(x, torch.float16), (X,)),
    ("NPURoiAlign", lambda x, r: torch_npu.npu_roi_align(x, r, 0.25, 3, 3, 2, 0), (MAP, ROIS)),
    ("NPURoiAlign", lambda x, r: torch_npu.npu_roi_align(x, r, 0.5, 2, 3, 0, 1), (X, MORE_ROIS)),
    ("NPUIou", lambda a, b: torch_npu.npu_iou(a, b), (_boxes(5), _boxes(3, seed=1))),
    ("NPUIou", lambda a, b: torch_npu.npu_ptiou(a, b, 1), (_boxes(5), _boxes(3, seed=1))),
    ("NPUGiou", lambda a, b: torch_npu.npu_giou(a, b, True), (_boxes(5).t(), _boxes(5, seed=1).t())),
    ("NPUDiou", lambda a, b: torch_npu.npu_diou(a, b, True, True), (_boxes(5).t(), _boxes(3, seed=1).t())),
    ("NPUCiou", lambda a, b: torch_npu.npu_ciou(a, b, False, False), (_boxes(5).t(), _boxes(5, seed=1).t())),
    ("NPUBoundingBoxEncode", lambda a, b: torch_npu.npu_bounding_box_encode(a, b, *MEANS, *STDS), (_boxes(6), _boxes(6, seed=1))),
    (
        "NPUBoundingBoxDecode",
        lambda a, b: torch_npu.npu_bounding_box_decode(a, b, *MEANS, *STDS, (30, 50), 0.3),
        (_boxes(6), _random(6, 4)),
    ),
    (
        "NPUNmsV4",
        lambda b, s, i, t: torch_npu.npu_nms_v4(b, s, 6, i, t, True),
        (_boxes(12), torch.rand(12), torch.tensor(0.3), torch.tensor(0.1)),
    ),
    ("NPUScatterNdUpdate", lambda x, i, u: torch_npu.npu_scatter_nd_update(x, i, u), (_random(4, 3), torch.tensor([[2], [0]]), _random(2, 3))),
    ("NPUDynamicQuant", lambda x: torch_npu.npu_dynamic_quant(x), (_random(4, 16),)),
]  # fmt: skip


def _tuple(found: Any) -> tuple[torch.Tensor, ...]:
    return tuple(found) if isinstance(found, tuple | list) else (found,)


@pytest.mark.parametrize(("node", "function", "inputs"), CASES, ids=lambda one: one if isinstance(one, str) else "")
def test_a_node_runs_in_an_offline_model(
    node: str, function: Callable[..., Any], inputs: tuple[torch.Tensor, ...], tmp_path: Path
) -> None:
    given = tuple(one.npu() for one in inputs)
    wanted = [one.cpu().numpy() for one in _tuple(function(*given))]
    model = export(Lambda(function).npu().eval(), given, tmp_path / "model.onnx")
    nodes = [(one.domain, one.op_type) for one in onnx.load(model).graph.node]
    assert ("npu", node) in nodes
    result = run(convert(model), [one.numpy() for one in inputs])
    assert len(result) == len(wanted)
    for ours, theirs in zip(result, wanted, strict=True):
        assert ours.dtype == theirs.dtype and ours.shape == theirs.shape
        np.testing.assert_allclose(ours.astype(np.float64), theirs.astype(np.float64), rtol=1e-5, atol=1e-5)


def test_the_reference_s_roi_align(tmp_path: Path) -> None:
    module = Lambda(lambda x, r: torch_npu.npu_roi_align(x, r, 0.25, 3, 3, 2, 0))
    model = export(module, (MAP.npu(), ROIS.npu()), tmp_path / "roi.onnx")
    (found,) = run(convert(model), [MAP.numpy(), ROIS.numpy()])
    np.testing.assert_array_equal(found[0, 0], [[4.5, 6.5, 8.5], [16.5, 18.5, 20.5], [28.5, 30.5, 32.5]])


def test_nodes_keep_their_rank_where_sizes_are_dynamic(tmp_path: Path) -> None:
    module = Lambda(lambda x: torch_npu.npu_fast_gelu(x).flatten(1))
    axes = {"x": {0: "n"}, "y": {0: "n"}}
    names: dict[str, Any] = {"input_names": ["x"], "output_names": ["y"], "dynamic_axes": axes}
    model = export(module, (X.npu(),), tmp_path / "dynamic.onnx", **names)
    om = convert(model, "--input_shape=x:5,4,6,8")
    x = _random(5, 4, 6, 8, seed=9)
    (found,) = run(om, [x.numpy()])
    np.testing.assert_allclose(found, torch_npu.npu_fast_gelu(x.npu()).flatten(1).cpu().numpy(), rtol=1e-5, atol=1e-6)


PLAIN: list[tuple[str, Callable[..., Any], tuple[torch.Tensor, ...], str]] = [
    ("npu_linear", lambda x, w, b: torch_npu.npu_linear(x, w, b), (_random(3, 8), _random(5, 8), _random(5)), "Gemm MatMul"),
    ("npu_transpose", lambda x: torch_npu.npu_transpose(x, [0, 2, 1, 3]), (X,), "Transpose"),
    ("npu_broadcast", lambda x: torch_npu.npu_broadcast(x, [3, 8]), (_random(1, 8),), "Expand"),
    ("npu_conv2d", lambda x, w: torch_npu.npu_conv2d(x, w, None, (1, 1), (1, 1), (1, 1), 1), (X, _random(3, 4, 3, 3)), "Conv"),
    (
        "npu_conv3d",
        lambda x, w: torch_npu.npu_conv3d(x, w, None, (1, 1, 1), (0, 0, 0), (1, 1, 1), 1),
        (_random(1, 2, 4, 4, 4), _random(3, 2, 3, 3, 3)),
        "Conv",
    ),
    (
        "npu_conv_transpose2d",
        lambda x, w: torch_npu.npu_conv_transpose2d(x, w, None, (1, 1), (0, 0), (2, 2), (1, 1), 1),
        (X, _random(4, 3, 3, 3)),
        "ConvTranspose",
    ),
    ("npu_silu", lambda x: torch_npu.npu_silu(x), (X,), "Sigmoid"),
    ("npu_mish", lambda x: torch_npu.npu_mish(x), (X,), "Tanh"),
    ("npu_swiglu", lambda x: torch_npu.npu_swiglu(x), (X,), "Sigmoid"),
    ("npu_max", lambda x: torch_npu.npu_max(x, 1)[0], (X,), "ReduceMax TopK"),
    ("npu_min", lambda x: torch_npu.npu_min(x, 1)[0], (X,), "ReduceMin TopK"),
    ("npu_pad", lambda x: torch_npu.npu_pad(x, [1, 0, 0, 2]), (_random(3, 4),), "Pad"),
    ("npu_reshape", lambda x: torch_npu.npu_reshape(x, [8, 48]), (X,), "Reshape"),
    ("npu_confusion_transpose", lambda x: torch_npu.npu_confusion_transpose(x, (0, 2, 1, 3), (2, 6, 32), True), (X,), "Reshape"),
    ("npu_bmmV2", lambda x, y: torch_npu.npu_bmmV2(x, y, []), (_random(2, 3, 4), _random(2, 4, 5)), "MatMul"),
    ("npu_sort_v2", lambda x: torch_npu.npu_sort_v2(x), (X,), "TopK"),
    (
        "npu_fusion_attention",  # three of its seven results are ints, which no node could have
        lambda q, k, v: torch_npu.npu_fusion_attention(q, k, v, 2, "BSH", scale=0.5)[0],
        (_random(2, 8, 16), _random(2, 6, 16, seed=1), _random(2, 6, 16, seed=2)),
        "MatMul",
    ),
]  # fmt: skip


@pytest.mark.parametrize(("name", "function", "inputs", "types"), PLAIN, ids=[one[0] for one in PLAIN])
def test_plain_operators(
    name: str, function: Callable[..., Any], inputs: tuple[torch.Tensor, ...], types: str, tmp_path: Path
) -> None:
    given = tuple(one.npu() for one in inputs)
    wanted = function(*given).cpu().numpy()
    model = export(Lambda(function).eval(), given, tmp_path / "model.onnx")
    nodes = onnx.load(model).graph.node
    assert {one.domain for one in nodes} == {""}
    assert {one.op_type for one in nodes} & set(types.split())
    (found,) = run(convert(model), [one.numpy() for one in inputs])
    np.testing.assert_allclose(found, wanted, rtol=1e-4, atol=1e-5)


def test_the_tables() -> None:
    assert len(torch_npu.onnx.NODES) == 63 and len(torch_npu.onnx.PLAIN) == 21
    assert not set(torch_npu.onnx.NODES) & set(torch_npu.onnx.PLAIN)
    for name in (*torch_npu.onnx.NODES, *torch_npu.onnx.PLAIN):
        assert hasattr(torch.ops.npu, name), name


def test_a_node_without_an_operator_here_is_atc_s_error(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    from softnpu.cli import atc

    x, labels = _random(4, 6).npu(), torch.rand(4, 6).npu()
    module = Lambda(lambda x, y: torch_npu.npu_softmax_cross_entropy_with_logits(x, y))
    model = export(module, (x, labels), tmp_path / "loss.onnx")
    words = [f"--model={model}", "--framework=5", f"--output={tmp_path / 'loss'}", "--soc_version=Ascend910B3"]
    assert atc.main(words) != 0
    said = "".join(capsys.readouterr())
    assert "E16002" in said and "npu::NPUSoftmaxCrossEntropyWithLogits" in said
    assert "torch_npu.onnx.define" in " ".join(said.split())
    assert not (tmp_path / "loss.om").exists()


def test_tensors_live_through_pyacl(tmp_path: Path) -> None:
    x = _random(3, 4).npu()
    model = export(Lambda(lambda x: torch_npu.npu_fast_gelu(x)), (x,), tmp_path / "model.onnx")
    run(convert(model), [x.cpu().numpy()])
    assert torch.equal(x.cpu(), _random(3, 4)) and (x + 1).device.type == "npu"
