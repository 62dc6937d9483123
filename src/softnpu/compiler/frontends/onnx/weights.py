"""Tensors of an ONNX file: inside of it, in files beside it, sparse."""

from __future__ import annotations

import contextlib
from pathlib import Path
from typing import Any

import numpy as np

from softnpu.base.dtypes import from_onnx
from softnpu.compiler.errors import AtcError
from softnpu.compiler.frontends import check_rank
from softnpu.compiler.frontends.files import map_file
from softnpu.graph.ir import Constant
from softnpu.graph.onnx_def import EXTERNAL, TENSOR, tensor_bytes, tensor_constant
from softnpu.graph.wire import encode

_STRING = 8


class Weights:
    """The contents of a model's tensors; files beside the model are mapped once."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.files: dict[str, memoryview] = {}

    def constant(self, tensor: dict[str, Any], name: str) -> Constant:
        """A tensor as a constant; raises for one that is damaged."""
        if tensor.get("data_type", 0) == _STRING:  # the message itself is the content
            return Constant(13, tuple(tensor.get("dims", ())), encode(TENSOR, {**tensor, "name": name}))
        try:
            check_rank(tensor.get("dims", ()))
            if tensor.get("data_location", 0) == EXTERNAL:
                return self._external(tensor, name)
            return tensor_constant(tensor)
        except (ValueError, OverflowError) as error:
            raise AtcError(
                "E10041",
                f"The weight [{name}] is damaged: {error}",
                "the file is cut off or faulty",
                "export the model again",
            ) from error

    def _external(self, tensor: dict[str, Any], name: str) -> Constant:
        fields = {entry.get("key", ""): entry.get("value", "") for entry in tensor.get("external_data", ())}
        location = fields.get("location", "")
        folder = self.path.resolve().parent
        target = (folder / location).resolve()
        if not location or folder not in target.parents:
            raise ValueError(f"its external file {location!r} lies outside of the model's folder")
        size = tensor_bytes(tensor)
        assert size is not None
        offset, length = int(fields.get("offset") or 0), int(fields.get("length") or size)
        data = self.files.get(location)
        if data is None:
            data = self.files[location] = map_file(target)
        if length != size or not 0 <= offset <= len(data) - length:
            raise ValueError(
                f"{length} bytes at {offset} of {location} (which has {len(data)}) are not its {size} bytes"
            )
        return Constant(
            from_onnx(tensor.get("data_type", 0)), tuple(tensor.get("dims", ())), data[offset : offset + length]
        )

    def whole(self, op: dict[str, Any]) -> dict[str, Any]:
        """An operator whose tensors, also those in bodies inside, hold their content themselves."""
        if not op.get("attribute"):
            return op
        return {**op, "attribute": [self._whole_attribute(attribute) for attribute in op["attribute"]]}

    def _whole_attribute(self, attribute: dict[str, Any]) -> dict[str, Any]:
        whole = dict(attribute)
        if "t" in whole:
            whole["t"] = self._inside(whole["t"])
        if "tensors" in whole:
            whole["tensors"] = [self._inside(tensor) for tensor in whole["tensors"]]
        if "g" in whole:
            whole["g"] = self._whole_graph(whole["g"])
        if "graphs" in whole:
            whole["graphs"] = [self._whole_graph(body) for body in whole["graphs"]]
        return whole

    def _whole_graph(self, graph: dict[str, Any]) -> dict[str, Any]:
        weights = [self._inside(tensor) for tensor in graph.get("initializer", ())]
        return {**graph, "node": [self.whole(op) for op in graph.get("node", ())], "initializer": weights}

    def _inside(self, tensor: dict[str, Any]) -> dict[str, Any]:
        if tensor.get("data_location", 0) != EXTERNAL:
            return tensor
        name = tensor.get("name", "")
        kept = {key: value for key, value in tensor.items() if key not in ("external_data", "data_location")}
        return {**kept, "raw_data": self.constant(tensor, name).data}


def dense(sparse: dict[str, Any], name: str) -> Constant:
    """A sparse tensor with all of its elements."""
    with contextlib.suppress(TypeError, ValueError, IndexError, OverflowError):
        values = tensor_constant(sparse.get("values", {})).array()
        indices = tensor_constant(sparse.get("indices", {})).array()
        dims = tuple(sparse.get("dims", ()))
        if 0 <= int(np.prod(dims)) <= 1 << 28:
            full = np.zeros(dims, values.dtype)
            if indices.ndim == 1:
                full.reshape(-1)[indices] = values
            else:
                full[tuple(indices.T)] = values
            return Constant.of(full)
    raise AtcError(
        "E10041",
        f"The sparse weight [{name}] is damaged or too large",
        "the file is faulty",
        "export the model with dense weights",
    )
