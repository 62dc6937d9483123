"""The page of operators, from the files of `ops/` and the tables of the frontends."""

from __future__ import annotations

from pathlib import Path

from generators.common import PAGE_MARK, SUPPORT

NO_CAFFE = (
    "CondTake", "Correlation", "FSRDetectionOutput", "Heatmap2Coord", "ImagePad", "Interpv2", "L2Normalize", "PSROIAlign", "PadChannel", "Resample",
    "SReLU", "SpatialTransformer", "WarpPerspective", "Yolo", "YoloV2DetectionOutput", "YoloV3DetectionOutput",
)  # fmt: skip


def operators_page() -> str:
    """Every CANN operator type with a file, and the names that ONNX operators get."""
    import onnx.defs as onnx_defs

    from softnpu import ops
    from softnpu.compiler.frontends.caffe.reader import MAKERS
    from softnpu.compiler.frontends.onnx import table

    rows = []
    for type_ in ops.types():
        operator = ops.find(type_)
        assert operator is not None
        schema = operator.schema
        how = " and ".join(
            name for name, body in (("ONNX", operator.lower), ("NumPy", operator.compute)) if body is not None
        )
        attrs = ", ".join(f"`{name}`" for name in schema.attrs)
        rows.append(
            f"| {type_} | {', '.join(schema.inputs)} | {', '.join(schema.outputs)} | {attrs} | {how} | {schema.note} |"
        )
    onnx = [
        f"| {name} | {type_ or 'by attributes and shapes'} |"
        for name, type_ in sorted(table.names().items())
        if onnx_defs.has(name)
    ]
    lines = [
        PAGE_MARK, "# Operators", "",
        f"{len(rows)} operators are described in `src/softnpu/ops`, in a file or a row each (single operators, Caffe, TensorFlow). \"How\" says whether they run as ONNX operators in the engine or in NumPy between its pieces.", "",
        "| CANN type | Inputs | Outputs | Attributes | How | Note |", "|---|---|---|---|---|---|", *rows, "",
        "## ONNX", "", "An ONNX operator keeps its own meaning, whatever it is called; those that are not in this table keep their own name. What onnxruntime can run, an `.om` can.", "",
        "| ONNX | CANN type |", "|---|---|", *onnx, "",
        "## Caffe", "", f"Layers: {', '.join(sorted(MAKERS))}.", "",
        "Not supported, since their meaning is not documented well enough to be computed: " + ", ".join(NO_CAFFE) + ".", "",
    ]  # fmt: skip
    return "\n".join(lines)


def tables() -> dict[Path, str]:
    """What code reads: nothing, operators are found by listing their folder."""
    return {}


def pages() -> dict[Path, str]:
    """What people read."""
    return {SUPPORT / "operators.md": operators_page()}
