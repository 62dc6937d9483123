"""The compile configuration of a GraphProcessPoint: build options, and what its inputs shall be."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from softnpu.flow import codes, jsonfile
from softnpu.flow.errors import DfException
from softnpu.flow.jsonfile import Item, show
from softnpu.flow.planning.model_inputs import Input
from softnpu.flow.values import dtypes

# The numbers of DataFlow's types are those of aclDataType.
DTYPES = {str(one): int(one.dtype) for one in dtypes.ALL if one is not dtypes.DT_STRING}
_KEYS = ("build_options", "inputs_tensor_desc")
_MOST_INPUTS = 4096
_FORMATS = ("ND", "NCHW", "NHWC")


@dataclass(frozen=True)
class Described:
    """One entry of `inputs_tensor_desc`; no shape leaves that of the model."""

    dtype: int = 0
    shape: tuple[int, ...] | None = None
    format: str = "ND"


@dataclass(frozen=True)
class ModelConfig:
    """A configuration file; an empty one for a process point without."""

    build_options: dict[str, str] = field(default_factory=dict)
    inputs: tuple[Described, ...] = ()

    @property
    def layout(self) -> str:
        """NCHW or NHWC where the descriptions agree on one, else nothing."""
        found = {one.format for one in self.inputs} - {"ND"}
        return found.pop() if len(found) == 1 else ""


def read_config(path: str) -> ModelConfig:
    """Read and check a file; DfException says which entry is wrong."""
    if not path:
        return ModelConfig()
    item = jsonfile.read(path)
    item.note_unknown(_KEYS)
    options = item.object("build_options").values
    for key, value in options.items():
        if not isinstance(value, str):
            item.fail(f"build_options.{key}", f"is {show(value)}; write a text")
    return ModelConfig(
        dict(options), tuple(_described(one) for one in item.objects("inputs_tensor_desc", _MOST_INPUTS))
    )


def _described(item: Item) -> Described:
    word = item.get("data_type", str, "DT_FLOAT")
    if word not in DTYPES:
        item.fail("data_type", f"is {show(word)}; use one of {', '.join(DTYPES)}")
    shape = item.numbers("shape") if item.has("shape") else None
    if shape is not None and any(dim < -1 for dim in shape):
        item.fail("shape", f"is {show(shape)}; write sizes, -1 for any")
    form = item.get("format", str, "ND")
    if form not in _FORMATS:
        item.fail("format", f"is {show(form)}; use one of {', '.join(_FORMATS)}")
    return Described(DTYPES[word], None if shape is None else tuple(shape), form)


def input_shape_text(config: ModelConfig, inputs: Sequence[Input]) -> str:
    """What the compiler shall know about shapes, by name: `ge.inputShape`, else the descriptions, else any size where the
    model leaves one open."""
    told = config.build_options.get("ge.inputShape", "").strip().rstrip(";")
    if ":" in told:
        return told
    texts = [one.strip() for one in told.split(";")] if told else []
    if len(texts) > len(inputs):
        raise DfException(
            f"ge.inputShape is {told!r} with {len(texts)} shapes, the model has {len(inputs)} inputs.",
            codes.SHAPE_INVALID,
        )
    parts = []
    for index, one in enumerate(inputs):
        shape = config.inputs[index].shape if index < len(config.inputs) else None
        if index < len(texts):
            parts.append(f"{one.name}:{texts[index]}")
        elif shape is not None:
            parts.append(f"{one.name}:{_text(shape)}")
        elif one.shape is not None and any(dim < 0 for dim in one.shape):
            parts.append(f"{one.name}:{_text(one.shape)}")
    return ";".join(parts)


def _text(shape: Sequence[int]) -> str:
    return ",".join("-1" if dim < 0 else str(dim) for dim in shape)
