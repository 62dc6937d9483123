"""The body of the transposed convolutions: layouts of CANN on one side, ONNX's ConvTranspose on the other."""

from collections.abc import Sequence

from softnpu.ops.common.builder import Builder, OpError, Site

_LAYOUTS = {0: "NCHW", 1: "NHWC", 16: "HWCN", 27: "NDHWC", 30: "NCDHW", 31: "DHWCN", 36: "DHWNC"}
_LAST_TO_FILTER = {"NHWC": "HWCN", "NDHWC": "DHWCN"}


def lower_transposed(b: Builder, n: Site, space: str, default: str) -> str:
    """`space` names the spatial dims (HW, DHW); inputs are input_size, x, filter, bias?, offset_w?."""
    layout, canonical = str(n.attr("data_format", default)), f"NC{space}"
    x = _permute(b, n.input(1), layout, canonical)
    weights = _permute(b, n.input(2), _filter_layout(n, layout, canonical), canonical)
    axes = [layout.index(letter) for letter in space]
    strides, dilations = (_pick(n, key, axes) for key in ("strides", "dilations"))
    pads = [int(pad) for pad in n.need("pads")]
    before, after = pads[0::2], pads[1::2]
    padding = _output_padding(n, layout, space, strides, dilations, pads)
    bias = n.inputs[3] if n.has(3) else None
    if n.has(4):
        raise OpError(f"{n.type} {n.name!r} has offset_w, which is not supported; leave it out")
    y = b.op(
        "ConvTranspose", x, weights, bias, strides=strides, dilations=dilations, pads=[*before, *after],
        output_padding=padding, group=int(n.attr("groups", 1)),
    )  # fmt: skip
    return _permute(b, str(y), canonical, layout)


def _filter_layout(n: Site, layout: str, canonical: str) -> str:
    format_ = n.input_formats[2] if len(n.input_formats) > 2 else -1
    filter_layout = _LAYOUTS.get(format_, "")
    if sorted(filter_layout) == sorted(canonical):
        return filter_layout
    return canonical if layout == canonical else _LAST_TO_FILTER[layout]


def _permute(b: Builder, x: str, source: str, target: str) -> str:
    if sorted(source) != sorted(target):
        raise OpError(f"a layout of {source} cannot become {target}; correct data_format")
    return x if source == target else b.transpose(x, [source.index(letter) for letter in target])


def _pick(n: Site, key: str, axes: Sequence[int]) -> list[int]:
    numbers = [int(number) for number in n.attr(key, ())] or [1] * (len(axes) + 2)
    return [numbers[axis] for axis in axes] if len(numbers) == len(axes) + 2 else numbers


def _output_padding(
    n: Site, layout: str, space: str, strides: list[int], dilations: list[int], pads: list[int]
) -> list[int]:
    """What the attribute says, or what is missing to the size of the constant input_size."""
    axes = [layout.index(letter) for letter in space]
    size = n.constants[0]
    wanted = [int(size.reshape(-1)[axis]) for axis in axes] if size is not None and size.size == len(layout) else []
    if not wanted or not all(wanted):
        return _pick(n, "output_padding", axes) if n.attr("output_padding") else [0] * len(space)
    shape, filters = n.shape(1), n.shape(2)
    letters = _filter_layout(n, layout, f"NC{space}")
    missing = []
    for i, axis in enumerate(axes):
        kernel = dilations[i] * (filters[letters.index(space[i])] - 1) + 1
        missing.append(wanted[i] - ((shape[axis] - 1) * strides[i] + kernel - pads[2 * i] - pads[2 * i + 1]))
    if any(count < 0 for count in missing):
        raise OpError(
            f"{n.type} {n.name!r} cannot give the size {wanted}: {missing} rows and columns too few; check input_size, pads and strides"
        )
    return missing
