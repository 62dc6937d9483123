"""The compile configuration of a GraphProcessPoint: build options, and what its inputs shall be."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from softnpu.flow import codes, jsonfile
from softnpu.flow.errors import DfException
from softnpu.flow.jsonfile import Item, show
from softnpu.flow.models.inputs import Input
from softnpu.flow.values import dtypes

# The numbers of DataFlow's types are those of aclDataType.
DTYPES = {str(kind): int(kind.dtype) for kind in dtypes.ALL if kind is not dtypes.DT_STRING}
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
        formats = {described.format for described in self.inputs} - {"ND"}
        return formats.pop() if len(formats) == 1 else ""


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
        dict(options), tuple(_described(each) for each in item.objects("inputs_tensor_desc", _MOST_INPUTS))
    )


def _described(item: Item) -> Described:
    type_name = item.get("data_type", str, "DT_FLOAT")
    if type_name not in DTYPES:
        item.fail("data_type", f"is {show(type_name)}; use one of {', '.join(DTYPES)}")
    shape = item.numbers("shape") if item.has("shape") else None
    if shape is not None and any(dim < -1 for dim in shape):
        item.fail("shape", f"is {show(shape)}; write sizes, -1 for any")
    form = item.get("format", str, "ND")
    if form not in _FORMATS:
        item.fail("format", f"is {show(form)}; use one of {', '.join(_FORMATS)}")
    return Described(DTYPES[type_name], None if shape is None else tuple(shape), form)


def input_shape_text(config: ModelConfig, inputs: Sequence[Input]) -> str:
    """What the compiler shall know about shapes, by name: `ge.inputShape`, else the descriptions, else any size where the
    model leaves one open."""
    told = config.build_options.get("ge.inputShape", "").strip().rstrip(";")
    if ":" in told:
        return told
    texts = [text.strip() for text in told.split(";")] if told else []
    if len(texts) > len(inputs):
        raise DfException(
            f"ge.inputShape is {told!r} with {len(texts)} shapes, the model has {len(inputs)} inputs.",
            codes.SHAPE_INVALID,
        )
    parts = []
    for index, model_input in enumerate(inputs):
        shape = config.inputs[index].shape if index < len(config.inputs) else None
        if index < len(texts):
            parts.append(f"{model_input.name}:{texts[index]}")
        elif shape is not None:
            parts.append(f"{model_input.name}:{_text(shape)}")
        elif model_input.shape is not None and any(dim < 0 for dim in model_input.shape):
            parts.append(f"{model_input.name}:{_text(model_input.shape)}")
    return ";".join(parts)


def _text(shape: Sequence[int]) -> str:
    return ",".join("-1" if dim < 0 else str(dim) for dim in shape)
