"""Models through atc and acl.mdl against onnxruntime's session.run (and OpenVINO where installed), copies included."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
from _models import Client, bert, convert, folder, ocr, resnet50
from _tools import Result, interleaved

import acl

THREADS = len(os.sched_getaffinity(0))
Feeds = dict[str, np.ndarray[Any, Any]]


def _session(path: Path) -> Any:
    import onnxruntime

    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = THREADS
    options.log_severity_level = 4
    return onnxruntime.InferenceSession(str(path), options, providers=["CPUExecutionProvider"])


def _openvino(path: Path, feeds: Feeds) -> Callable[[], Any] | None:
    try:
        import openvino
    except ImportError:
        return None
    core = openvino.Core()
    model = core.read_model(str(path))
    model.reshape({name: list(array.shape) for name, array in feeds.items()})
    compiled = core.compile_model(
        model,
        "CPU",
        {"PERFORMANCE_HINT": "LATENCY", "INFERENCE_PRECISION_HINT": "f32", "INFERENCE_NUM_THREADS": THREADS},
    )
    request = compiled.create_infer_request()
    return lambda: request.infer(feeds)


def _compare(name: str, model: Path, feeds: Feeds, *options: str) -> list[Result]:
    session, client = _session(model), Client(convert(model, *options))
    ours = client.bind(*feeds.values())
    peers: dict[str, Callable[[], Any]] = {"onnxruntime": lambda: session.run(None, feeds)}
    other = _openvino(model, feeds)
    if other is not None:
        peers["openvino"] = other
    times = interleaved(ours, *peers.values(), rounds=15, pause=0.1)
    rows = []
    wishes = {"onnxruntime": 0.98, "openvino": 0.97}
    best = min(times[1:])
    for peer, seconds in zip(peers, times[1:], strict=True):
        ratio = seconds / times[0]
        counts = peer == "onnxruntime" or seconds == best
        rows.append(
            Result(
                f"{name}",
                f"{times[0] * 1e3:.2f} ms",
                f"{peer} {seconds * 1e3:.2f} ms",
                f"{ratio:.3f}",
                f"≥ {wishes[peer]}" if counts else "–",
                ratio >= wishes[peer] or not counts,
            )
        )
    client.close()
    return rows


def _aipp(name: str, model: Path, size: tuple[int, int], wish: float, *options: str) -> Result:
    """uint8 pictures with static AIPP against NumPy preprocessing and onnxruntime."""
    config = folder() / "bench_aipp.cfg"
    config.write_text(
        "aipp_op { aipp_mode: static input_format: RGB888_U8 "
        "mean_chn_0: 124 mean_chn_1: 116 mean_chn_2: 104 var_reci_chn_0: 0.0171 var_reci_chn_1: 0.0175 var_reci_chn_2: 0.0174 }\n"
    )
    session = _session(model)
    input_name = session.get_inputs()[0].name
    picture = np.random.default_rng(0).integers(0, 256, (1, *size, 3), np.uint8)
    mean, scale = np.array([124, 116, 104], np.float32), np.array([0.0171, 0.0175, 0.0174], np.float32)

    def plain() -> None:
        data = (picture.astype(np.float32) - mean) * scale
        session.run(None, {input_name: np.ascontiguousarray(data.transpose(0, 3, 1, 2))})

    client = Client(convert(model, f"--insert_op_conf={config}", *options, name=f"{model.stem}_aipp"))
    ours, peer = interleaved(client.bind(picture), plain, rounds=15, pause=0.1)
    client.close()
    ratio = peer / ours
    return Result(
        f"{name}, uint8 with AIPP",
        f"{ours * 1e3:.2f} ms",
        f"NumPy + onnxruntime {peer * 1e3:.2f} ms",
        f"{ratio:.2f}",
        f"≥ {wish}" if wish else "– (preprocessing is 2 % of it)",
        ratio >= wish,
    )


def _overhead() -> Result:
    """What a call costs beside the engine: a model with one node."""
    import onnx
    from onnx import TensorProto, helper

    path = folder() / "relu.onnx"
    graph = helper.make_graph(
        [helper.make_node("Relu", ["x"], ["y"])], "g",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, [1, 16])], [helper.make_tensor_value_info("y", TensorProto.FLOAT, [1, 16])],
    )  # fmt: skip
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 13)], ir_version=8), str(path))
    session, client = _session(path), Client(convert(path))
    feeds = {"x": np.zeros((1, 16), np.float32)}
    count = 2000
    ours, peer = interleaved(
        lambda: [client.execute() for _ in range(count)], lambda: [session.run(None, feeds) for _ in range(count)]
    )
    client.close()
    ours, peer = ours / count * 1e6, peer / count * 1e6
    return Result(
        "acl.mdl.execute, one node",
        f"{ours:.1f} µs",
        f"session.run {peer:.1f} µs",
        f"{ours / peer:.2f}",
        "≤ 30 µs more",
        ours - peer <= 30,
    )


def results() -> list[Result]:
    """All rows."""
    acl.init()
    acl.rt.set_device(0)
    random = np.random.default_rng(0)
    rows = [_overhead()]
    for batch in (1, 8):
        rows += _compare(
            f"ResNet-50, batch {batch}",
            resnet50(batch),
            {"actual_input_1": random.random((batch, 3, 224, 224), np.float32)},
        )
    ids = {name: np.ones((1, 128), np.int64) for name in ("input_ids", "attention_mask", "token_type_ids")}
    rows += _compare("BERT-base, sequence 128", bert(), ids)
    detector = ocr("det")
    if detector is not None:
        rows += _compare(
            "PP-OCR det 640 x 640",
            detector,
            {"x": random.random((1, 3, 640, 640), np.float32)},
            "--input_shape=x:1,3,640,640",
        )
        rows.append(_aipp("PP-OCR det 640 x 640", detector, (640, 640), 1.2, "--input_shape=x:1,3,640,640"))
    rows.append(_aipp("ResNet-50", resnet50(1), (224, 224), 0.0))
    acl.finalize()
    return rows
