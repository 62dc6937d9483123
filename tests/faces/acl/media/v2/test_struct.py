"""acl.himpi: how dictionaries are read and written, case by case."""

from __future__ import annotations

from typing import Any

import pytest

import acl
from softnpu.base.errors import Raise
from softnpu.media.v2.struct import Struct
from tests.faces.acl.media.v2.support import (
    FOREVER,
    GRAY,
    ILLEGAL_PARAM,
    NULL_PTR,
    VPC,
    done,
    noise,
    pic,
    planes,
    region,
)

INNER = Struct("inner", a="i32", b="f64")
OUTER = Struct("outer", u="u32", i="i32", p="ptr", f="f64", row="u8[3]", inner=INNER, many=[INNER, 2])
STRICT = Struct("strict", ("row",), row="i32[2]")


def read(struct: Struct, given: Any) -> dict[str, Any]:
    """What a structure takes from a value, as a dict."""
    try:
        return struct.write(struct.read(given))
    except Raise as raised:
        raise raised.exception from None


ZEROS = {"u": 0, "i": 0, "p": 0, "f": 0.0, "row": [0, 0, 0], "inner": {"a": 0, "b": 0.0}, "many": []}


@pytest.mark.parametrize(
    ("given", "want"),
    [
        ({}, {}),
        ({"unknown": 5, 7: 8}, {}),
        ({"u": 5, "i": -5, "p": 1 << 63, "f": 2.5}, {"u": 5, "i": -5, "p": 1 << 63, "f": 2.5}),
        ({"u": 5.0, "i": "5", "p": None, "f": "x"}, {}),
        ({"f": 3}, {"f": 3.0}),
        ({"u": True, "f": True}, {"u": 1}),
        ({"u": -1}, {"u": 0xFFFFFFFF}),
        ({"row": [1]}, {"row": [1, 0, 0]}),
        ({"row": (1, 2, 3)}, {"row": [1, 2, 3]}),
        ({"row": 5}, {}),
        ({"row": [1, "x", 2.5]}, {"row": [1, 0, 0]}),
        ({"inner": {"a": 4}}, {"inner": {"a": 4, "b": 0.0}}),
        ({"inner": None, "many": None}, {}),
        ({"many": [{}, {"b": 1.5}]}, {"many": [{"a": 0, "b": 0.0}, {"a": 0, "b": 1.5}]}),
    ],
)
def test_a_dictionary_fills_the_structure(given: dict[Any, Any], want: dict[str, Any]) -> None:
    assert read(OUTER, given) == ZEROS | want


@pytest.mark.parametrize(
    ("given", "error", "words"),
    [
        (None, TypeError, "outer"),
        ([], TypeError, "outer"),
        ({"inner": 5}, TypeError, "inner"),
        ({"inner": [1]}, TypeError, "inner"),
        ({"many": {}}, TypeError, "many"),
        ({"many": [5]}, TypeError, "inner"),
        ({"many": [{}] * 3}, ValueError, "many.*2"),
        ({"row": [0] * 4}, ValueError, "row.*3"),
        ({"row": [256]}, ValueError, "row"),
        ({"u": 1 << 32}, ValueError, "u is"),
        ({"i": 1 << 31}, ValueError, "i is"),
        ({"p": 1 << 64}, ValueError, "p is"),
        ({"inner": {"a": 1 << 40}}, ValueError, "a is"),
    ],
)
def test_wrong_values_are_refused_by_name(given: Any, error: type[Exception], words: str) -> None:
    with pytest.raises(error, match=words):
        read(OUTER, given)


def test_required_keys_of_a_structure_are_asked_for() -> None:
    assert read(STRICT, {"row": [1, 2]}) == {"row": [1, 2]}
    with pytest.raises(TypeError, match="row"):
        read(STRICT, {})
    with pytest.raises(TypeError, match="row"):
        read(STRICT, {"row": 5})
    with pytest.raises(ValueError, match="row"):
        read(STRICT, {"row": [1]})


def test_every_dictionary_is_a_fresh_one() -> None:
    """No dictionary that is handed out shares anything with another."""
    first, second = OUTER.zeros(), OUTER.zeros()
    assert first == second == ZEROS
    first["row"][0] = first["inner"]["a"] = 9
    assert OUTER.zeros() == second == ZEROS


# ---- the same through the interface ----------------------------------------------------------------------------------


def test_missing_and_wrong_keys_are_0(chn: int) -> None:
    out = pic(GRAY, 32, 32)
    assert acl.himpi.vpc_convert_color(chn, {}, out, 0) == (0, VPC | NULL_PTR)
    src = pic(GRAY, 32, 32)
    del src["picture_width"]
    assert acl.himpi.vpc_convert_color(chn, src, out, 0) == (0, VPC | ILLEGAL_PARAM)
    src["picture_width"] = 32.0
    assert acl.himpi.vpc_convert_color(chn, src, out, 0) == (0, VPC | ILLEGAL_PARAM)
    src["picture_address"] = None
    assert acl.himpi.vpc_convert_color(chn, src, out, 0) == (0, VPC | NULL_PTR)


def test_other_keys_are_ignored(chn: int) -> None:
    data = noise(32, 32)
    src, out = pic(GRAY, 32, 32, data), pic(GRAY, 32, 32)
    done(chn, acl.himpi.vpc_convert_color(chn, {**src, "picture_colour": "blue", 5: 6}, out, FOREVER))
    assert (planes(out)[0] == data).all()


def test_wrong_nested_values_are_named(chn: int) -> None:
    src = pic(GRAY, 32, 32)
    with pytest.raises(TypeError, match="dest_pic_info"):
        acl.himpi.vpc_crop(chn, src, [{"dest_pic_info": 5}], 1, 0)
    with pytest.raises(TypeError, match="scalar_value"):
        acl.himpi.vpc_copy_make_border(chn, src, src, {"scalar_value": [1.0]}, 0)
    assert acl.himpi.vpc_crop(chn, src, [{"crop_region": region(0, 0, 8, 8)}], 1, 0) == (0, VPC | NULL_PTR)


def test_numbers_and_lists_that_do_not_fit(chn: int) -> None:
    src = pic(GRAY, 32, 32)
    with pytest.raises(ValueError, match="picture_width"):
        acl.himpi.vpc_convert_color(chn, {**src, "picture_width": 1 << 32}, src, 0)
    with pytest.raises(ValueError, match=r"map_value_y_or_r.*256"):
        acl.himpi.vpc_equalize_hist(chn, src, src, {"map_value_y_or_r": [0] * 257}, 0)
    with pytest.raises(ValueError, match="map_value_y_or_r"):
        acl.himpi.vpc_equalize_hist(chn, src, src, {"map_value_y_or_r": [256]}, 0)
    with pytest.raises(ValueError, match="val"):
        acl.himpi.vpc_copy_make_border(chn, src, src, {"scalar_value": {"val": [0.0] * 5}}, 0)


def test_a_short_table_is_0_at_its_end(chn: int) -> None:
    data = noise(32, 32)
    src, out = pic(GRAY, 32, 32, data), pic(GRAY, 32, 32)
    done(chn, acl.himpi.vpc_equalize_hist(chn, src, out, {"map_value_y_or_r": list(range(100))}, FOREVER))
    assert (planes(out)[0] == (data * (data < 100))).all()


def test_missing_keys_are_named(chn: int) -> None:
    src = pic(GRAY, 32, 32)
    with pytest.raises(TypeError, match="clut"):
        acl.himpi.vpc_draw_osd(chn, {"src": src, "dst": src, "count": 1, "osd": [{}]}, 0)
    with pytest.raises(ValueError, match="clut"):
        acl.himpi.vpc_draw_osd(chn, {"src": src, "dst": src, "count": 1, "osd": [{}], "clut": [0] * 15}, 0)
    with pytest.raises(TypeError, match="reserved"):
        acl.himpi.vpc_gaussian_blur(chn, {"src": src, "dst": src, "gaussian_blur_cfg": {}}, 0)


@pytest.mark.parametrize("arguments", [(), (0,), (0, {}, {}, 0, 0), (0, [], {}, 0), ("0", {}, {}, 0), (0, {}, {}, 0.5)])
def test_wrong_arguments_are_type_errors(chn: int, arguments: tuple[Any, ...]) -> None:
    with pytest.raises(TypeError):
        acl.himpi.vpc_convert_color(*arguments)


def test_keywords_are_refused(chn: int) -> None:
    with pytest.raises(TypeError):
        acl.himpi.vpc_destroy_chn(chn=chn)


def test_codes_are_not_negative(chn: int) -> None:
    assert acl.himpi.vpc_convert_color(chn, {}, {}, 0) == (0, 0xA0078006)
