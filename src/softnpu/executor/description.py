"""The description of a model that programs ask questions of (`acl.mdl.create_desc` and its readers)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from softnpu.base.errors import NpuError, codes
from softnpu.executor.model import Model
from softnpu.graph.om import ModelInfo, Om, TensorInfo, attr_value

MAX_NAME = 127
MAX_ITEMS = 128
_MAX_GEARS_ASKED = 4096


@dataclass
class ModelDesc:
    """Empty until `get_desc` fills it."""

    info: ModelInfo | None = None
    number: int = 0
    model: Model | None = None
    source: Om | None = None

    def fill(self, info: ModelInfo, source: Om, model: Model | None = None) -> None:
        """Take over what a model says of itself."""
        self.info, self.source, self.model = info, source, model
        self.number = model.id if model is not None else 0

    def need(self) -> ModelInfo:
        """The content; raises while there is none."""
        if self.info is None:
            raise NpuError(
                codes.INVALID_PARAM, "the model description is empty", "fill it with acl.mdl.get_desc(desc, model_id)"
            )
        return self.info

    def tensor(self, side: str, index: int) -> TensorInfo:
        """An input or output by its index."""
        tensors = self.need().inputs if side == "input" else self.need().outputs
        if index >= len(tensors):
            raise NpuError(
                codes.INVALID_PARAM,
                f"{side} {index} does not exist, the model has {len(tensors)}",
                f"see acl.mdl.get_num_{side}s; count from 0",
            )
        return tensors[index]

    def name(self, side: str, index: int) -> str:
        """The name that programs get; long ones are shortened, to something that no other tensor is called."""
        name = self.tensor(side, index).name
        if len(name) <= MAX_NAME:
            return name
        info = self.need()
        taken = {tensor.name for tensor in (*info.inputs, *info.outputs)}
        short = wish = f"acl_modelId_{self.number}_{side}_{index}"
        counter = 0
        while short in taken:
            short, counter = f"{wish}_{counter}", counter + 1
        return short

    def find(self, side: str, name: str) -> int:
        """The index of an input or output by its name."""
        tensors = self.need().inputs if side == "input" else self.need().outputs
        for index in range(len(tensors)):
            if name in (tensors[index].name, self.name(side, index)):
                return index
        if side == "output":  # the name of the tensor alone is what most people know
            close = [index for index, tensor in enumerate(tensors) if tensor.name.rpartition(":")[2] == name]
            if len(close) == 1:
                return close[0]
        known = ", ".join(tensor.name for tensor in tensors)
        raise NpuError(codes.INVALID_PARAM, f"the model has no {side} named {name!r}", f"it has: {known}")

    def real_name(self, name: str) -> str | None:
        """The full name behind a shortened one."""
        for side in ("input", "output"):
            tensors = self.need().inputs if side == "input" else self.need().outputs
            for index, tensor in enumerate(tensors):
                if name in (tensor.name, self.name(side, index)):
                    return tensor.name
        return None

    def dims(self, side: str, index: int, dims: list[int] | None = None) -> dict[str, Any]:
        """Dims as the dictionary of the binding."""
        tensor = self.tensor(side, index)
        return _dims(self.name(side, index), tensor.dims if dims is None else dims)

    def input_dims_v2(self, index: int) -> dict[str, Any]:
        """The dims of the memory that an input takes, which static AIPP makes another than the model's."""
        tensor = self.tensor("input", index)
        return self.dims("input", index, tensor.dims_v2 or tensor.dims)

    def current_output_dims(self, index: int) -> dict[str, Any]:
        """The dims of an output under the gear that was set last."""
        info = self.need()
        if any(tensor.ranges for tensor in info.inputs):
            raise NpuError(
                codes.API_NOT_SUPPORT,
                "a model with a shape range has no current output dims",
                "read acl.mdl.get_dataset_tensor_desc after the run",
            )
        if not info.gear_outputs:
            return self.dims("output", index)
        self.tensor("output", index)
        gear = self.model.gear if self.model is not None else None
        if gear is None:
            gear = info.run.largest_gear
        return self.dims("output", index, info.gear_outputs[gear][index])

    def ranges(self, index: int) -> dict[str, Any]:
        """The range of every dim of an input."""
        tensor = self.tensor("input", index)
        pairs = tensor.ranges or [(dim, dim) for dim in tensor.dims]
        return {"rangeCount": len(pairs), "range": [list(pair) for pair in pairs]}

    def batches(self) -> dict[str, Any]:
        """The batch sizes the model was built for."""
        info = self.need()
        batches = [gear[0] for gear in info.gears] if info.gear_kind == "batch" else []
        _limit(len(batches))
        return {"batchCount": len(batches), "batch": batches}

    def resolutions(self) -> dict[str, Any]:
        """The resolutions the model was built for."""
        info = self.need()
        resolutions = [list(gear) for gear in info.gears] if info.gear_kind == "hw" else []
        _limit(len(resolutions))
        return {"hwCount": len(resolutions), "hw": resolutions}

    def gear_count(self, index: int) -> int:
        """The number of dims gears."""
        info = self.need()
        if index != (1 << 64) - 1:
            raise NpuError(codes.INVALID_PARAM, f"index {index} is not possible here", "pass -1")
        return len(info.gears) if info.gear_kind == "dims" else 0

    def gears(self, index: int, count: int) -> list[dict[str, Any]]:
        """The dims of all inputs, one behind the other, for each gear."""
        real = self.gear_count(index)
        if count < real or count > _MAX_GEARS_ASKED:
            raise NpuError(
                codes.INVALID_PARAM,
                f"gear_count is {count}, the model has {real} gears",
                "pass what acl.mdl.get_input_dynamic_gear_count returns",
                values=(None,) if count > _MAX_GEARS_ASKED else None,
            )
        return [_dims("", dims) for dims in self.need().gear_inputs[:real]]

    def op_attr(self, op: str, attr: str) -> str:
        """The names of the original operators behind one of the model's, each after its length in brackets."""
        if attr != "_datadump_original_op_names":
            raise NpuError(
                codes.INVALID_PARAM, f"the attribute {attr!r} cannot be asked", "only _datadump_original_op_names can"
            )
        self.need()
        if self.source is None:
            return ""
        for graph in self.source.model_def().get("graph", ()):
            for node in graph.get("op", ()):
                if node.get("name") == op:
                    names = attr_value(node.get("attr", {}).get(attr, {})) or []
                    return "".join(f"[{len(name)}]{name}" for name in names)
        raise NpuError(
            codes.INVALID_PARAM,
            f"the model has no operator named {op!r}",
            "atc --mode=1 lists the operators of a model",
        )


def _dims(name: str, dims: list[int]) -> dict[str, Any]:
    _limit(len(dims))
    return {"name": name, "dimCount": len(dims), "dims": list(dims)}


def _limit(count: int) -> None:
    if count > MAX_ITEMS:
        raise NpuError(
            codes.STORAGE_OVER_LIMIT,
            f"{count} are more than the {MAX_ITEMS} that the answer can hold",
            "use fewer dims or gears",
        )
