"""Invoked closures: models and nested graphs that a UDF runs by key."""

from __future__ import annotations

import threading
import time
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from softnpu.base.errors import NpuError
from softnpu.flow import codes
from softnpu.flow.bodies.closure import Closures
from softnpu.flow.bodies.model import ModelBody
from softnpu.flow.body import InstanceInfo
from softnpu.flow.models.build import ModelSource, build
from softnpu.flow.plan import INPUT, MODEL_LOADER, BodySpec, Function, Node, Plan, Port
from tests.dataflow.dataflow_support import arithmetic, arrays, tensor

ONNX = 2
A = np.arange(6, dtype=np.float32).reshape(2, 3)
B = np.linspace(-1, 1, 6, dtype=np.float32).reshape(2, 3)


def closures(tmp_path: Path) -> Any:

    return Closures({"net": build(ModelSource(ONNX, str(arithmetic(tmp_path / "model.onnx"))))})


def test_closure_runs_a_model_by_key(tmp_path: Path) -> None:
    running = closures(tmp_path)
    for timeout in (-1, 5000):
        code, outputs = running.run("net", [tensor(A, trans_id=5), tensor(B)], timeout)
        assert code == 0 and [message.trans_id for message in outputs] == [5, 5]
        np.testing.assert_array_equal(arrays(dict(enumerate(outputs)))[0], A + B)
        assert not any(message.payload.owned for message in outputs)
    running.close()


def test_every_failure_of_a_closure_is_564000(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    running = closures(tmp_path)
    for key, inputs, timeout in (
        ("other", [tensor(A), tensor(B)], -1),
        ("net", [tensor(A)], -1),
        ("net", [], -1),
        ("net", [tensor(A), tensor(B[:1])], 1000),
        ("net", [tensor(A), tensor(B)], -2),
    ):
        assert running.run(key, inputs, timeout) == (codes.FUNC_FAILED, [])
    said = capsys.readouterr().out
    assert "there are: net" in said and "the model takes [2, 3]" in said and "timeout is -2" in said
    assert running.run("net", [tensor(A), tensor(B)], -1)[0] == 0
    running.close()


def test_closure_that_takes_too_long_is_given_up_and_blocks_nobody(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:

    running, gate, runs = closures(tmp_path), threading.Event(), []
    real = ModelBody.results

    def slow(self: Any, messages: Any) -> Any:
        runs.append(1)
        gate.wait(20)
        return real(self, messages)

    monkeypatch.setattr(ModelBody, "results", slow)
    for _ in range(3):
        began = time.monotonic()
        assert running.run("net", [tensor(A), tensor(B)], 100) == (codes.FUNC_FAILED, [])
        assert 0.08 < time.monotonic() - began < 15
    began = time.monotonic()
    running.close()
    assert time.monotonic() - began < 10
    gate.set()
    helpers = [thread for thread in threading.enumerate() if thread.name == "closure-net"]
    for thread in helpers:
        assert thread.daemon
        thread.join(10)
    assert len(runs) == 1  # what was given up before it began was never begun


def nested(tmp_path: Path) -> Plan:
    """A graph of one model: what a FlowGraphProcessPoint becomes."""
    spec = build(ModelSource(ONNX, str(arithmetic(tmp_path / "model.onnx"))))
    node = Node("net", 2, 2, (Function("net", (0, 1), (0, 1)),), spec)
    edges = {Port(INPUT, 0): (Port(0, 0),), Port(INPUT, 1): (Port(0, 1),)}
    return Plan("inner", ("a", "b"), (node,), edges, (Port(0, 0), Port(0, 1)))


def test_closure_runs_a_nested_graph(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:

    running = Closures({"graph": nested(tmp_path)})
    for turn in range(3):
        code, outputs = running.run("graph", [tensor(A + turn, trans_id=40 + turn), tensor(B)], 5000)
        assert code == 0 and [message.trans_id for message in outputs] == [40 + turn] * 2
        np.testing.assert_allclose(arrays(dict(enumerate(outputs)))[1], (A + turn + B) * (A + turn) - B, rtol=1e-6)
        assert running.run("graph", [tensor(A), tensor(B[:1])], 5000) == (codes.FUNC_FAILED, [])
    assert running.run("graph", [tensor(A)], -1) == (codes.FUNC_FAILED, [])
    assert "the graph has 2" in capsys.readouterr().out
    running.close()


def test_model_that_cannot_be_loaded_fails_at_the_start() -> None:

    broken = BodySpec(MODEL_LOADER, {"name": "x", "om": b"IMOD" + bytes(400), "inputs": [], "outputs": []})
    with pytest.raises(NpuError):
        Closures({"net": broken}).start(InstanceInfo("node", 1, 1))
