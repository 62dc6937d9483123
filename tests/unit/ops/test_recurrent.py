"""Recurrent layers against loops and ONNX's reference evaluator."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from tests.caffe_support import net, op
from tests.caffe_support import run as run_net
from tests.unit.ops.support import Array, close, floats, match, rand, reference, run, sigmoid


def lstm(
    x: Array, cont: Array, w: Array, b: Array, u: Array, h: Array, c: Array, static: Array
) -> tuple[Array, Array, Array]:
    actual = []
    for step, mark in zip(x, cont, strict=True):
        gates = step @ w.T + b + static + (h * mark[:, None]) @ u.T
        i, f, o, g = np.split(gates, 4, 1)
        c = mark[:, None] * sigmoid(f) * c + sigmoid(i) * np.tanh(g)
        h = sigmoid(o) * np.tanh(c)
        actual.append(h)
    return np.stack(actual), h[None], c[None]


CONT = np.array([[0, 1], [1, 1], [0, 1], [1, 0]], np.float32)


def test_common_recurrent() -> None:
    x, w, r, b = floats(4, 2, 3), floats(1, 20, 3), floats(1, 20, 5), floats(1, 40)
    expected = reference("LSTM", [x, w, r, b], outputs=3, opset=14, hidden_size=5)
    for actual, wanted in zip(run("CommonLSTM", [x, w, r, b], outputs=3, hidden_size=5), expected, strict=True):
        close(actual, wanted, 1e-4)
    w, r, b = floats(1, 15, 3), floats(1, 15, 5), floats(1, 30)
    expected = reference("GRU", [x, w, r, b], outputs=2, opset=14, hidden_size=5, linear_before_reset=1)
    for actual, wanted in zip(
        run("CommonGRU", [x, w, r, b], outputs=2, hidden_size=5, linear_before_reset=1), expected, strict=True
    ):
        close(actual, wanted, 1e-4)


def test_dynamic_rnn_is_the_lstm_of_onnx() -> None:
    x, w, r, b = floats(4, 2, 3), floats(20, 3), floats(20, 5), floats(20)
    y, _, last = reference(
        "LSTM", [x, w[None], r[None], np.concatenate([b, b * 0])[None]], outputs=3, opset=14, hidden_size=5
    )
    i, o, f, c = (np.split(part, 4) for part in (w, r, b, b))  # ONNX stacks i, o, f, c
    columns = np.concatenate([i[k] for k in (0, 3, 2, 1)]).T
    inner = np.concatenate([o[k] for k in (0, 3, 2, 1)]).T
    bias = np.concatenate([f[k] for k in (0, 3, 2, 1)])
    assert len(c) == 4
    actual = run("DynamicRNN", [x, np.concatenate([columns, inner]), bias], outputs=8)
    close(actual[0], y[:, 0], 1e-4)
    close(actual[2][-1], last[0], 1e-4)
    lengths = np.array([2, 4], np.int32)
    short = run("DynamicRNN", [x, np.concatenate([columns, inner]), bias, lengths], outputs=8)
    close(short[0][2:, 0], np.zeros((2, 5)))
    close(short[1][-1][0], y[1, 0, 0], 1e-4)


@pytest.mark.parametrize("after", [True, False])
def test_dynamic_gru_is_the_gru_of_onnx(after: bool) -> None:
    x, w, r, bi, bh = floats(4, 2, 3), floats(15, 3), floats(15, 5), floats(15), floats(15)
    y, _ = reference(
        "GRU",
        [x, w[None], r[None], np.concatenate([bi, bh])[None]],
        outputs=2,
        opset=14,
        hidden_size=5,
        linear_before_reset=int(after),
    )
    actual = run("DynamicGRUV2", [x, w.T.copy(), r.T.copy(), bi, bh], outputs=6, reset_after=after)
    close(actual[0], y[:, 0], 1e-4)


def test_lstm_starts_again_where_a_sequence_does() -> None:
    x, w, b, u = rand(4, 2, 3), rand(20, 3), rand(20), rand(20, 5, seed=2)
    zero = np.zeros((2, 5), np.float32)
    wanted = lstm(x, CONT, w, b, u, zero, zero, np.zeros(20))
    for actual, part in zip(op("LSTM", x, CONT, w, b, u, outputs=3, num_output=5), wanted, strict=True):
        match(actual, part)
    static, ws, h0, c0 = rand(2, 6), rand(20, 6, seed=4), rand(1, 2, 5, seed=5), rand(1, 2, 5, seed=6)
    wanted = lstm(x, CONT, w, b, u, h0[0], c0[0], static @ ws.T)
    for actual, part in zip(
        op("LSTM", x, CONT, w, b, u, static, h0, c0, ws, outputs=3, num_output=5), wanted, strict=True
    ):
        match(actual, part)


def test_the_lstm_layer_of_a_net(tmp_path: Path) -> None:
    text = """
    layer { name: "x" type: "Input" top: "x" input_param { shape { dim: 4 dim: 2 dim: 3 } } }
    layer { name: "c" type: "ContinuationIndicator" top: "c" continuation_indicator_param { time_step: 4 batch_size: 2 } }
    layer { name: "y" type: "LSTM" bottom: "x" bottom: "c" top: "y" recurrent_param { num_output: 5 } }
    """
    x, w, b, u = rand(4, 2, 3), rand(20, 3), rand(20), rand(20, 5, seed=2)
    cont = np.ones((4, 2), np.float32)
    cont[0] = 0
    zero = np.zeros((2, 5), np.float32)
    match(run_net(net(tmp_path, text, {"y": [w, b, u]}), x)[0], lstm(x, cont, w, b, u, zero, zero, np.zeros(20))[0])


def test_rnn_and_its_cell() -> None:
    x, w, b, u, v, d = rand(4, 2, 3), rand(5, 3), rand(5), rand(5, 5, seed=2), rand(5, 5, seed=3), rand(5, seed=4)
    hidden, outs = rand(2, 5, seed=7), []
    start = hidden
    for step, mark in zip(x, CONT, strict=True):
        hidden = np.tanh(step @ w.T + b + (hidden * mark[:, None]) @ u.T)
        outs.append(np.tanh(hidden @ v.T + d))
    actual = op("RNN", x, CONT, None, start[None], w, b, None, u, v, d, outputs=2, num_output=5)
    match(actual[0], np.stack(outs))
    match(actual[1], hidden[None])
    cell = op("BasicRNNCell", x[0], CONT[0], None, start, w, b, u, v, d, outputs=2, num_output=5)
    match(cell[0], outs[0])
