"""Passes that remove what does nothing, and what must stay."""

from __future__ import annotations

from pathlib import Path

import numpy as np
from onnx import TensorProto
from onnx.helper import make_node as op

from softnpu.compiler.passes.cleanup import (
    cast_cast,
    cast_remove,
    common_subexpression,
    copy_removal,
    squeeze_unsqueeze,
    transpose_pair,
)
from tests.unit.compiler.onnx_graphs import load, model, types
from tests.unit.compiler.passes.pass_graphs import X, check


def test_copies_go_away(tmp_path: Path) -> None:
    nodes = [
        op("Identity", ["x"], ["a"]),
        op("Dropout", ["a"], ["b", "mask"]),
        op("Transpose", ["b"], ["c"], perm=[0, 1, 2, 3]),
        op("Reshape", ["c", "shape"], ["d"]),
        op("Concat", ["d"], ["e"], axis=1),
        op("Relu", ["e"], ["y"]),
    ]
    graph = check(copy_removal, nodes, X, {"shape": np.array([2, 4, 6, -1], np.int64)}, tmp_path, count=(5, 5))
    assert types(graph) == ["Relu"]


def test_copies_that_matter_stay(tmp_path: Path) -> None:
    check(copy_removal, [op("Identity", ["x"], ["y"])], X, {}, tmp_path, count=(1, 0))
    check(
        copy_removal,
        [op("Identity", ["x"], ["y"]), op("Relu", ["y"], ["z"])],
        X,
        {},
        tmp_path,
        ("y", "z"),
        count=(1, 0),
    )
    nodes = [
        op("Dropout", ["x"], ["a", "mask"]),
        op("Cast", ["mask"], ["m"], to=TensorProto.FLOAT),
        op("Mul", ["a", "m"], ["y"]),
    ]
    check(copy_removal, nodes, X, {}, tmp_path, count=(0, 0))


def test_casts_that_do_nothing_go_away(tmp_path: Path) -> None:
    def cast(source: str, target: str, to: int):
        return op("Cast", [source], [target], to=to)

    F, H, I8, I32 = TensorProto.FLOAT, TensorProto.FLOAT16, TensorProto.INT8, TensorProto.INT32
    relu = op("Relu", ["b"], ["y"])
    assert types(check(cast_remove, [cast("x", "b", F), relu], X, {}, tmp_path)) == ["Relu"]
    check(cast_remove, [cast("x", "y", F)], X, {}, tmp_path, count=(1, 0))
    half = {"x": (H, [2, 3])}
    nodes = [cast("x", "a", F), cast("a", "b", H), op("Neg", ["b"], ["y"])]
    assert types(check(cast_cast, nodes, half, {}, tmp_path)) == ["Neg"]
    nodes = [cast("x", "a", I32), cast("a", "y", F)]
    assert types(check(cast_cast, nodes, {"x": (I8, [2, 3])}, {}, tmp_path)) == ["Cast"]
    nodes = [cast("x", "a", H), cast("a", "y", F)]  # rounds
    check(cast_cast, nodes, X, {}, tmp_path, count=(1, 0))
    nodes = [cast("x", "a", I32), cast("a", "y", F)]  # cuts the fraction off
    check(cast_cast, nodes, X, {}, tmp_path, count=(1, 0))


def test_lossless_agrees_with_numpy() -> None:
    numbers = {
        0: "f4",
        1: "f2",
        2: "i1",
        3: "i4",
        4: "u1",
        6: "i2",
        7: "u2",
        8: "u4",
        9: "i8",
        10: "u8",
        11: "f8",
        12: "?",
    }
    for first, own in numbers.items():
        for second, other in numbers.items():
            if second == 12 or (first in (3, 9, 10, 8) and second in (0, 1, 11)):
                continue  # NumPy calls int64 → double safe, which it is not
            assert cast_cast.lossless(first, second) == np.can_cast(own, other, "safe"), (own, other)
    assert not cast_cast.lossless(9, 11)
    assert cast_cast.lossless(3, 11)
    assert not cast_cast.lossless(3, 0)


def test_squeeze_and_unsqueeze_cancel(tmp_path: Path) -> None:
    inputs = {"x": [2, 1, 3, 1]}
    axes = {"axes": np.array([1, 3], np.int64), "same": np.array([-1, 1], np.int64), "less": np.array([1], np.int64)}
    relu = op("Relu", ["b"], ["y"])
    nodes = [op("Squeeze", ["x", "axes"], ["a"]), op("Unsqueeze", ["a", "same"], ["b"]), relu]
    assert types(check(squeeze_unsqueeze, nodes, inputs, axes, tmp_path)) == ["Relu"]
    nodes = [op("Unsqueeze", ["x", "axes"], ["a"]), op("Squeeze", ["a", "axes"], ["b"]), relu]
    assert types(check(squeeze_unsqueeze, nodes, inputs, axes, tmp_path)) == ["Relu"]
    nodes = [op("Squeeze", ["x", "axes"], ["a"]), op("Unsqueeze", ["a", "less"], ["b"]), relu]
    check(squeeze_unsqueeze, nodes, inputs, axes, tmp_path, count=(0, 0))
    nodes = [op("Squeeze", ["x"], ["a"], axes=[1]), op("Unsqueeze", ["a"], ["b"], axes=[1]), relu]
    assert types(check(squeeze_unsqueeze, nodes, inputs, {}, tmp_path, opset=11)) == ["Relu"]


def test_transposes_cancel_or_join(tmp_path: Path) -> None:
    relu = op("Relu", ["b"], ["y"])
    there, back = op("Transpose", ["x"], ["a"], perm=[0, 2, 3, 1]), op("Transpose", ["a"], ["b"], perm=[0, 3, 1, 2])
    assert types(check(transpose_pair, [there, back, relu], X, {}, tmp_path)) == ["Relu"]
    again = op("Transpose", ["a"], ["b"], perm=[3, 0, 1, 2])
    graph = check(transpose_pair, [there, again, relu], X, {}, tmp_path)
    assert types(graph) == ["Transpose", "Relu"]
    turned = [op("Transpose", ["x"], ["a"]), op("Transpose", ["a"], ["b"])]
    assert types(check(transpose_pair, [*turned, relu], X, {}, tmp_path)) == ["Relu"]
    other = op("Relu", ["a"], ["z"])
    check(transpose_pair, [there, again, relu, other], X, {}, tmp_path, ("y", "z"), count=(1, 0))


def test_equal_nodes_are_one(tmp_path: Path) -> None:
    nodes = [
        op("LeakyRelu", ["x"], ["a"], alpha=0.1),
        op("LeakyRelu", ["x"], ["b"], alpha=0.1),
        op("LeakyRelu", ["x"], ["c"], alpha=0.2),
        op("Mul", ["a", "k"], ["d"]),
        op("Mul", ["b", "l"], ["e"]),
        op("Sum", ["c", "d", "e"], ["y"]),
    ]
    constants = {"k": np.array(2, np.float32), "l": np.array(2, np.float32)}
    graph = check(common_subexpression, nodes, X, constants, tmp_path, count=(2, 2))
    assert sorted(types(graph)) == ["AccumulateNV2", "LeakyRelu", "LeakyRelu", "Mul"]


def test_chance_and_results_are_not_joined(tmp_path: Path) -> None:
    nodes = [op("Relu", ["x"], ["y"]), op("Relu", ["x"], ["z"])]
    check(common_subexpression, nodes, X, {}, tmp_path, ("y", "z"), count=(1, 0))
    nodes = [op("RandomNormalLike", ["x"], ["a"]), op("RandomNormalLike", ["x"], ["b"]), op("Add", ["a", "b"], ["y"])]
    graph = load(model(nodes, X, ["y"]), tmp_path)
    assert common_subexpression.run(graph) == (0, 0)
