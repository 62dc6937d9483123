"""AIPP configuration files: what they say, and every way in which they can be wrong."""

from __future__ import annotations

import re
from pathlib import Path

import numpy as np
import pytest

from softnpu.compiler.errors import AtcError
from softnpu.compiler.passes.aipp.config import AIPP_OP, AippConfig, from_text, read
from softnpu.graph.wire import decode, encode

SAMPLE = """
# the configuration of a public resnet sample
aipp_op {
    aipp_mode: static
    related_input_rank: 0
    src_image_size_w: 256
    src_image_size_h : 224
    input_format: YUV420SP_U8
    csc_switch: true
    rbuv_swap_switch: false
    matrix_r0c0: 256   matrix_r0c1: 0   matrix_r0c2: 359
    matrix_r1c0: 256   matrix_r1c1: -88 matrix_r1c2: -183
    matrix_r2c0: 256   matrix_r2c1: 454 matrix_r2c2: 0
    input_bias_0: 0  input_bias_1: 128  input_bias_2: 128
    crop: true
    load_start_pos_w: 16; load_start_pos_h: 0
    crop_size_w: 224, crop_size_h: 224
    mean_chn_0: 104 mean_chn_1: 117 mean_chn_2: 123
    min_chn_0: 0.1
    var_reci_chn_0: 0.0171 var_reci_chn_1: [0.0175]
}
"""


def static(body: str, mode: str = "static") -> str:
    return f"aipp_op {{ aipp_mode: {mode} {body} }}"


RGB = "input_format: RGB888_U8 "


def only(text: str) -> AippConfig:
    (config,) = from_text(text)
    return config


def test_a_whole_configuration_is_read(tmp_path: Path) -> None:
    path = tmp_path / "aipp.cfg"
    path.write_text(SAMPLE)
    (config,) = read(path)
    assert (config.rank, config.name, config.dynamic, config.unused) == (0, "", False, ())
    p = config.params
    assert p is not None
    assert (p.input_format, p.csc, p.rbuv_swap, p.src_w, p.src_h) == (1, True, False, 256, 224)
    assert (p.crop, p.crop_start_w, p.crop_start_h, p.crop_w, p.crop_h) == (True, 16, 0, 224, 224)
    assert p.matrix == (256, 0, 359, 256, -88, -183, 256, 454, 0)
    assert (p.input_bias, p.mean) == ((0, 128, 128), (104, 117, 123, 0))
    assert p.min == (float(np.float16(0.1)), 0.0, 0.0, 0.0)
    assert p.var_reci == (float(np.float16(0.0171)), float(np.float16(0.0175)), 1.0, 1.0)


def test_missing_numbers_of_colour_conversion() -> None:
    yuv = only(static("input_format: YUV420SP_U8 csc_switch: true matrix_r0c0: 7")).params
    rgb = only(static(RGB + "csc_switch: true")).params
    assert yuv is not None and rgb is not None
    assert yuv.matrix == (7, 516, 0, 298, -100, -208, 298, 0, 409)
    assert (yuv.input_bias, rgb.output_bias) == ((16, 128, 128), (16, 128, 128))
    assert rgb.matrix == (66, 129, 25, -38, -74, 112, 112, -94, -18)


def test_the_numbers_of_the_fields() -> None:
    """Field numbers of the schema, not only names: the message survives its binary form under them."""
    numbers = {
        "aipp_mode": 1,
        "related_input_name": 6,
        "mean_chn_3": 19,
        "var_reci_chn_3": 21,
        "matrix_r0c0": 30,
        "matrix_r2c2": 38,
        "output_bias_0": 39,
    }
    numbers |= {"input_bias_2": 44, "input_format": 51, "resize": 64, "bottom_padding_size": 71, "padding_value": 72}
    assert {name: AIPP_OP.by_name[name].number for name in numbers} == numbers
    assert decode(AIPP_OP, encode(AIPP_OP, {"matrix_r2c2": [5]})) == {"matrix_r2c2": [5]}


def test_several_inputs_are_told_apart() -> None:
    first, second = from_text(static(RGB) + static(RGB + "related_input_rank: 3"))
    assert (first.rank, second.rank) == (0, 3)
    named = from_text(static(RGB + 'related_input_name: "a"') + static(RGB + 'related_input_name: "b"'))
    assert [config.name for config in named] == ["a", "b"]


def test_a_dynamic_configuration_is_read() -> None:
    config = only(static("max_src_image_size: 752640 related_input_rank: 1", "dynamic"))
    assert (config.dynamic, config.max_src_image_size, config.rank, config.unused) == (True, 752640, 1, ())
    assert only(static("max_src_image_size: 1 mean_chn_0: 5", "dynamic")).unused == ("mean_chn_0",)


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("aipp_op { aipp_mode: static\n  input_fromat: RGB888_U8 }", "line 2, column 3: .*input_fromat"),
        ("aipp_op { aipp_mode: static", "line 1, column 28"),
        ("aipp_op { aipp_mode: stat }", "aipp_mode must be one of .*static"),
        ("", "no aipp_op"),
        ("multi_shape_op { mode: batch }", "multi_shape_op"),
        ("aipp_op { " + RGB + "}", "aipp_mode is missing"),
        (static(RGB) + static(RGB), "same input .*rank 0"),
        (static(RGB + 'related_input_name: "a"') * 2, "same input .*'a'"),
        (static(RGB + 'related_input_name: "a"') + static(RGB + "related_input_rank: 1"), "both used"),
        (
            static(RGB) + static("max_src_image_size: 5 related_input_rank: 1", "dynamic"),
            "static in one aipp_op and dynamic",
        ),
        (static("src_image_size_w: 4 src_image_size_h: 4"), "input_format is missing"),
        (static("input_format: RAW10"), "input_format is RAW10"),
        (static("", "dynamic"), "max_src_image_size is 0"),
        (static("max_src_image_size: -1", "dynamic"), "max_src_image_size cannot be -1"),
        (static(RGB + "src_image_size_w: -2 src_image_size_h: 2"), "src_image_size_w is -2; allowed is 0 to 4096"),
        (static(RGB + "src_image_size_w: 4098 src_image_size_h: 2"), "src_image_size_w is 4098"),
        (static(RGB + "src_image_size_w: 1 src_image_size_h: 2"), "src_image_size_w is 1, allowed is 2 to 4096"),
        (static(RGB + "src_image_size_w: 4"), "4 x 0"),
        (
            static("input_format: YUV420SP_U8 src_image_size_w: 4 src_image_size_h: 3"),
            "4 x 3; YUV420SP_U8 needs an even size",
        ),
        (static("input_format: YUYV_U8 src_image_size_w: 3 src_image_size_h: 3"), "even width"),
        (static(RGB + "crop: true"), "src_image_size_w and src_image_size_h are missing"),
        (static(RGB + "padding: true"), "with padding on"),
        (
            static(
                RGB
                + "src_image_size_w: 8 src_image_size_h: 8 crop: true crop_size_w: 5 load_start_pos_w: 4 crop_size_h: 2"
            ),
            "load_start_pos_w 4 .* crop_size_w 5 .* 8",
        ),
        (static(RGB + "src_image_size_w: 8 src_image_size_h: 8 crop: true crop_size_w: 5"), "give both or none"),
        (
            static(RGB + "src_image_size_w: 8 src_image_size_h: 8 crop: true padding: true"),
            "crop_size_w and crop_size_h are missing",
        ),
        (static(RGB + "left_padding_size: 33"), "left_padding_size is 33; allowed is 0 to 32"),
        (static(RGB + "mean_chn_2: 256"), "mean_chn_2 is 256"),
        (static(RGB + "min_chn_1: -0.5"), "min_chn_1 is -0.5"),
        (static(RGB + "min_chn_1: nan"), "min_chn_1 is nan"),
        (static(RGB + "var_reci_chn_3: 65505"), "var_reci_chn_3 is 65505"),
        (static(RGB + "var_reci_chn_3: 1 var_reci_chn_3: 2"), "var_reci_chn_3 is given 2 times"),
        (static(RGB + "matrix_r1c2: 32768"), "matrix_r1c2 is 32768"),
        (static(RGB + "input_bias_0: 256"), "input_bias_0 is 256"),
        (static("input_format: YUV400_U8 csc_switch: true"), "YUV400_U8 has no colour"),
        (static(RGB + "resize: true"), "resize is true"),
        (static(RGB + "support_rotation: true"), "support_rotation"),
        (static(RGB + "input_edge_idx: 1"), "input_edge_idx is 1"),
        (static(RGB) + static(RGB + "related_input_rank: 1 mean_chn_0: 999"), "aipp_op number 2: mean_chn_0 is 999"),
    ],
)
def test_mistakes_are_named(text: str, reason: str) -> None:
    with pytest.raises(AtcError) as caught:
        from_text(text)
    assert caught.value.code == "E10052"
    assert re.search(reason, caught.value.message), caught.value.message


def test_files_that_cannot_be_read(tmp_path: Path) -> None:
    with pytest.raises(AtcError) as caught:
        read(tmp_path / "none.cfg")
    assert caught.value.code == "E21001" and "none.cfg" in caught.value.message
    path = tmp_path / "binary.cfg"
    path.write_bytes(b"aipp_op \xff")
    with pytest.raises(AtcError, match="byte 8 is not UTF-8"):
        read(path)
    path.write_bytes(b"#" * ((1 << 20) + 1))
    with pytest.raises(AtcError, match="larger than"):
        read(path)
