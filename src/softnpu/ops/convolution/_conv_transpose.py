"""The body of the transposed convolutions: layouts of CANN on one side, ONNX's ConvTranspose on the other."""

from collections.abc import Sequence

from softnpu.ops.common.builder import Builder, OpError, Site

_WORDS = {0: "NCHW", 1: "NHWC", 16: "HWCN", 27: "NDHWC", 30: "NCDHW", 31: "DHWCN", 36: "DHWNC"}
_LAST_TO_FILTER = {"NHWC": "HWCN", "NDHWC": "DHWCN"}


def lower_transposed(b: Builder, n: Site, space: str, default: str) -> str:
    """`space` names the spatial dims (HW, DHW); inputs are input_size, x, filter, bias?, offset_w?."""
    layout, canonical = str(n.attr("data_format", default)), f"NC{space}"
    x = _permute(b, n.input(1), layout, canonical)
    weights = _permute(b, n.input(2), _filter_layout(n, layout, canonical), canonical)
    places = [layout.index(letter) for letter in space]
    strides, dilations = (_pick(n, key, places) for key in ("strides", "dilations"))
    pads = [int(one) for one in n.need("pads")]
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
    word = _WORDS.get(format_, "")
    if sorted(word) == sorted(canonical):
        return word
    return canonical if layout == canonical else _LAST_TO_FILTER[layout]


def _permute(b: Builder, x: str, source: str, target: str) -> str:
    if sorted(source) != sorted(target):
        raise OpError(f"a layout of {source} cannot become {target}; correct data_format")
    return x if source == target else b.transpose(x, [source.index(letter) for letter in target])


def _pick(n: Site, key: str, places: Sequence[int]) -> list[int]:
    given = [int(one) for one in n.attr(key, ())] or [1] * (len(places) + 2)
    return [given[place] for place in places] if len(given) == len(places) + 2 else given


def _output_padding(
    n: Site, layout: str, space: str, strides: list[int], dilations: list[int], pads: list[int]
) -> list[int]:
    """What the attribute says, or what is missing to the size of the constant input_size."""
    places = [layout.index(letter) for letter in space]
    size = n.constants[0]
    wanted = [int(size.reshape(-1)[place]) for place in places] if size is not None and size.size == len(layout) else []
    if not wanted or not all(wanted):
        return _pick(n, "output_padding", places) if n.attr("output_padding") else [0] * len(space)
    shape, filters = n.shape(1), n.shape(2)
    letters = _filter_layout(n, layout, f"NC{space}")
    found = []
    for i, place in enumerate(places):
        kernel = dilations[i] * (filters[letters.index(space[i])] - 1) + 1
        found.append(wanted[i] - ((shape[place] - 1) * strides[i] + kernel - pads[2 * i] - pads[2 * i + 1]))
    if any(one < 0 for one in found):
        raise OpError(
            f"{n.type} {n.name!r} cannot give the size {wanted}: {found} rows and columns too few; check input_size, pads and strides"
        )
    return found
