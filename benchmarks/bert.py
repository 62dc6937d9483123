"""BERT-base as an ONNX file: real topology and sizes, seeded random weights, as exporters write it."""

from __future__ import annotations

from pathlib import Path

import numpy as np

HIDDEN, HEADS, INNER, VOCABULARY, POSITIONS = 768, 12, 3072, 30522, 512


def write(path: Path, layers: int = 12, sequence: int = 128) -> None:
    """Write the model: input_ids, attention_mask, token_type_ids → last hidden state and pooled output."""
    import onnx
    from onnx import TensorProto, helper, numpy_helper

    random = np.random.default_rng(0)
    nodes: list[onnx.NodeProto] = []
    weights: list[onnx.TensorProto] = []

    def weight(name: str, *shape: int, scale: float = 0.02) -> str:
        weights.append(numpy_helper.from_array((random.standard_normal(shape, np.float32) * scale), name))
        return name

    def const(name: str, value: object, dtype: str = "float32") -> str:
        weights.append(numpy_helper.from_array(np.array(value, dtype), name))
        return name

    def op(kind: str, *inputs: str, **attrs: object) -> str:
        name = f"{kind}_{len(nodes)}"
        nodes.append(helper.make_node(kind, list(inputs), [name], name=name, **attrs))
        return name

    def norm(x: str, name: str) -> str:
        return op(
            "LayerNormalization",
            x,
            const(f"{name}.g", np.ones(HIDDEN)),
            const(f"{name}.b", np.zeros(HIDDEN)),
            axis=-1,
            epsilon=1e-12,
        )

    def dense(x: str, name: str, a: int, b: int) -> str:
        return op("Add", op("MatMul", x, weight(f"{name}.w", a, b)), weight(f"{name}.bias", b))

    ids, mask, kinds = "input_ids", "attention_mask", "token_type_ids"
    words = op("Gather", weight("words", VOCABULARY, HIDDEN), ids)
    types = op("Gather", weight("types", 2, HIDDEN), kinds)
    x = norm(op("Add", op("Add", words, types), weight("positions", 1, sequence, HIDDEN)), "embed")
    wide = op("Unsqueeze", op("Cast", mask, to=TensorProto.FLOAT), const("axes", [1, 2], "int64"))
    bias = op("Mul", op("Sub", const("one", 1.0), wide), const("low", -10000.0))
    heads = const("heads", [0, 0, HEADS, HIDDEN // HEADS], "int64")
    whole = const("whole", [0, 0, HIDDEN], "int64")
    scale, root = const("scale", 8.0), const("root", 1.4142135)
    half, one = const("half", 0.5), "one"
    for layer in range(layers):
        name = f"layer{layer}"
        q, k, v = (op("Reshape", dense(x, f"{name}.{part}", HIDDEN, HIDDEN), heads) for part in "qkv")
        q, v = op("Transpose", q, perm=[0, 2, 1, 3]), op("Transpose", v, perm=[0, 2, 1, 3])
        scores = op("Div", op("MatMul", q, op("Transpose", k, perm=[0, 2, 3, 1])), scale)
        mixed = op("MatMul", op("Softmax", op("Add", scores, bias), axis=-1), v)
        joined = op("Reshape", op("Transpose", mixed, perm=[0, 2, 1, 3]), whole)
        x = norm(op("Add", dense(joined, f"{name}.out", HIDDEN, HIDDEN), x), f"{name}.n1")
        inner = dense(x, f"{name}.up", HIDDEN, INNER)
        gelu = op("Mul", op("Mul", inner, op("Add", op("Erf", op("Div", inner, root)), one)), half)
        x = norm(op("Add", dense(gelu, f"{name}.down", INNER, HIDDEN), x), f"{name}.n2")
    first = op("Gather", x, const("zero", 0, "int64"), axis=1)
    pooled = op("Tanh", op("Gemm", first, weight("pool.w", HIDDEN, HIDDEN), weight("pool.b", HIDDEN)))
    inputs = [helper.make_tensor_value_info(name, TensorProto.INT64, [1, sequence]) for name in (ids, mask, kinds)]
    outputs = [
        helper.make_tensor_value_info(x, TensorProto.FLOAT, [1, sequence, HIDDEN]),
        helper.make_tensor_value_info(pooled, TensorProto.FLOAT, [1, HIDDEN]),
    ]
    graph = helper.make_graph(nodes, "bert", inputs, outputs, weights)
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    onnx.save(model, str(path))
