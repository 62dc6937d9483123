"""acl.mdl: AIPP of loaded models: types, static parameters, sets attached to one or two pictures."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import acl
from tests.faces.acl.models.support import INVALID, Memory, Net, dataset, load
from tests.support import message, ok

ID, NO_AIPP, LENGTH, FAILURE = 145003, 145015, 145012, 500001
NONE = 0xFFFFFFFF
WITHOUT, STATIC, PICTURE, PARAMETERS = range(4)
BLOCK = "ascend_dynamic_aipp_data"
RGB, UINT8, NHWC = 3, 4, 1
RNG = np.random.default_rng(8)


@pytest.fixture(autouse=True)
def _engine(runtime: None, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SOFTNPU_ENGINE", "onnxruntime")


def pixels(*shape: int) -> Any:
    return RNG.integers(0, 256, shape, np.uint8)


def half(*values: float) -> Any:
    """Factors are kept as float16."""
    return np.array(values, np.float16).astype(np.float32)


def rgb_set(width: int = 8, height: int = 8, batch: int = 1) -> int:
    handle: int = acl.mdl.create_aipp(batch)
    ok(acl.mdl.set_aipp_input_format(handle, RGB))
    ok(acl.mdl.set_aipp_src_image_size(handle, width, height))
    return handle


def prepared(picture: Any, mean: Any = 0, factor: Any = 1) -> Any:
    """RGB888, (n, h, w, 3), as the model takes it: (value - mean) * factor, channels first."""
    return ((picture.astype(np.float32) - np.float32(mean)) * np.float32(factor)).transpose(0, 3, 1, 2)


# ---- what a model says -----------------------------------------------------------------------------------------------


def test_every_input_tells_its_kind_of_aipp() -> None:
    assert acl.mdl.get_aipp_type(load("conv"), 0) == (WITHOUT, NONE, 0)
    assert acl.mdl.get_aipp_type(load("static_aipp"), 0) == (STATIC, NONE, 0)
    number = load("dynamic_aipp")
    assert acl.mdl.get_aipp_type(number, 0) == (PICTURE, 1, 0)
    assert acl.mdl.get_aipp_type(number, 1) == (PARAMETERS, NONE, 0)
    number = load("two_pictures")
    assert [acl.mdl.get_aipp_type(number, i) for i in range(4)] == [
        (PICTURE, 2, 0),
        (PICTURE, 3, 0),
        (PARAMETERS, NONE, 0),
        (PARAMETERS, NONE, 0),
    ]


def test_types_of_what_is_not_there() -> None:
    assert acl.mdl.get_aipp_type(99, 0)[-1] == ID
    assert acl.mdl.get_aipp_type(load("conv"), 5)[-1] == INVALID
    assert len(acl.mdl.get_aipp_type(99, 0)) == 3


def test_the_parameters_of_static_aipp() -> None:
    info, ret = acl.mdl.get_first_aipp_info(load("static_aipp"), 0)
    assert ret == 0
    wanted = {
        "inputFormat": RGB, "cscSwitch": 0, "rbuvSwapSwitch": 0, "axSwapSwitch": 0, "srcImageSizeW": 10, "srcImageSizeH": 9,
        "cropSwitch": 1, "loadStartPosW": 1, "loadStartPosH": 0, "cropSizeW": 8, "cropSizeH": 8, "resizeSwitch": 0,
        "paddingSwitch": 0, "leftPaddingSize": 0, "rightPaddingSize": 0, "topPaddingSize": 0, "bottomPaddingSize": 0,
        "meanChn0": 104, "meanChn1": 117, "meanChn2": 123, "meanChn3": 0, "minChn0": 0.0,
        "varReciChn0": 0.5, "varReciChn1": 0.25, "varReciChn2": 2.0,
    }  # fmt: skip
    assert {key: info[key] for key in wanted} == wanted
    documented = {
        "singleLineMode",
        "resizeOutputW",
        "resizeOutputH",
        "srcFormat",
        "srcDatatype",
        "srcDimNum",
        "shapeCount",
    }
    documented |= {"outDims", "aippExtend", "matrixR0C0", "matrixR0C1", "matrixR1C0", "matrixR1C1", "matrixR1C2"}
    documented |= {"matrixR2C2"} | {f"{word}Bias{i}" for word in ("output", "input") for i in range(3)}
    assert documented <= set(info)
    assert info["shapeCount"] == len(info["outDims"]) == 1
    (shape,) = info["outDims"]
    assert set(shape) == {"srcDims", "srcSize", "aippOutdims", "aippOutSize"}
    assert shape["srcSize"] == 9 * 10 * 3
    assert set(shape["srcDims"]) == {"name", "dimCount", "dims"}
    assert sorted(shape["aippOutdims"]["dims"]) == [1, 3, 8, 8]


@pytest.mark.parametrize("name", ["conv", "dynamic_aipp"])
def test_a_model_without_static_aipp_has_no_parameters(name: str) -> None:
    assert acl.mdl.get_first_aipp_info(load(name), 0) == (None, NO_AIPP)
    assert acl.mdl.get_first_aipp_info(77, 0) == (None, ID)


# ---- static ----------------------------------------------------------------------------------------------------------


def test_static_aipp_prepares_the_picture() -> None:
    net = Net("static_aipp")
    assert acl.mdl.get_input_size_by_index(net.desc, 0) == 9 * 10 * 3
    assert (acl.mdl.get_input_data_type(net.desc, 0), acl.mdl.get_input_format(net.desc, 0)) == (UINT8, NHWC)
    assert ok(acl.mdl.get_input_dims_v2(net.desc, 0))["dims"] == [1, 9, 10, 3]
    picture = pixels(1, 9, 10, 3)
    (result,) = net.run(picture)
    cut = picture[:, 0:8, 1:9]
    np.testing.assert_allclose(result, -prepared(cut, [104, 117, 123], [0.5, 0.25, 2]), rtol=1e-3, atol=1e-3)


def test_a_static_picture_of_another_size() -> None:
    net = Net("static_aipp")
    assert acl.mdl.execute(net.id, dataset(Memory(8 * 8 * 3)), net.output_dataset) != 0
    assert "270 bytes" in message()


# ---- dynamic, one picture --------------------------------------------------------------------------------------------


def test_dynamic_aipp_takes_its_parameters_from_the_set() -> None:
    net = Net("dynamic_aipp")
    assert acl.mdl.get_input_size_by_index(net.desc, 0) == 500
    assert acl.mdl.get_input_size_by_index(net.desc, 1) == ok(acl.mdl.get_aipp_data_size(1)) == 160
    picture = pixels(1, 8, 8, 3)
    parameters = rgb_set()
    ok(acl.mdl.set_aipp_dtc_pixel_mean(parameters, 10, 20, 30, 0, 0))
    ok(acl.mdl.set_aipp_pixel_var_reci(parameters, 0.1, 0.2, 0.3, 0, 0))
    assert acl.mdl.set_input_aipp(net.id, net.input_dataset, net.index(BLOCK), parameters) == 0
    (result,) = net.run(picture)
    np.testing.assert_allclose(result, -prepared(picture, [10, 20, 30], half(0.1, 0.2, 0.3)), rtol=1e-6, atol=1e-6)
    assert acl.mdl.destroy_aipp(parameters) == 0
    (again,) = net.run(picture)  # the set was written into the input's memory and may go
    np.testing.assert_array_equal(again, result)


def test_another_set_for_the_next_run() -> None:
    net = Net("dynamic_aipp")
    first, second = pixels(1, 8, 8, 3), pixels(1, 10, 12, 3)
    ok(acl.mdl.set_input_aipp(net.id, net.input_dataset, 1, rgb_set()))
    np.testing.assert_array_equal(net.run(first)[0], -prepared(first))
    cropped = rgb_set(12, 10)
    ok(acl.mdl.set_aipp_crop_params(cropped, 1, 3, 2, 8, 8, 0))
    ok(acl.mdl.set_input_aipp(net.id, net.input_dataset, 1, cropped))
    np.testing.assert_array_equal(net.run(second)[0], -prepared(second[:, 2:10, 3:11]))


def test_the_block_in_memory() -> None:
    net = Net("dynamic_aipp")
    parameters = rgb_set()
    ok(acl.mdl.set_aipp_dtc_pixel_mean(parameters, 10, 20, 30, 40, 0))
    ok(acl.mdl.set_aipp_pixel_var_reci(parameters, 0.5, 2, 4, 1, 0))
    ok(acl.mdl.set_input_aipp(net.id, net.input_dataset, 1, parameters))
    block = net.inputs[1].get(np.uint8, 160)
    assert (block[0], block[4]) == (5, 1)  # the block counts formats in its own way: RGB888 is 5
    assert block[8:16].view(np.int32).tolist() == [8, 8]
    assert block[64 + 56 : 64 + 64].view(np.int16).tolist() == [10, 20, 30, 40]
    assert block[64 + 72 : 64 + 80].view(np.float16).tolist() == [0.5, 2, 4, 1]


def test_a_run_without_a_set() -> None:
    net = Net("dynamic_aipp")
    net.inputs[1].put(np.zeros(160, np.uint8))
    assert net.execute(pixels(1, 8, 8, 3)) != 0
    assert "set_input_aipp" in message()


def test_a_set_is_attached_only_where_it_belongs() -> None:
    net, parameters = Net("dynamic_aipp"), rgb_set()
    call = acl.mdl.set_input_aipp
    assert call(55, net.input_dataset, 1, parameters) == ID
    assert call(net.id, 0, 1, parameters) == INVALID
    assert call(net.id, net.input_dataset, 1, 0) == INVALID
    assert call(net.id, net.input_dataset, 0, parameters) == INVALID  # the picture, not the parameters
    assert call(net.id, net.input_dataset, 9, parameters) == INVALID
    assert call(net.id, dataset(net.inputs[0]), 1, parameters) == INVALID
    assert call(net.id, dataset(net.inputs[0], acl.create_data_buffer(0, 160)), 1, parameters) == INVALID
    assert call(net.id, dataset(net.inputs[0], Memory(159)), 1, parameters) == LENGTH
    assert call(load("conv"), net.input_dataset, 0, parameters) == INVALID


@pytest.mark.parametrize(
    ("made", "word"),
    [
        (lambda: rgb_set(9, 8), "width"),
        (lambda: rgb_set(8, 7), "height"),
        (lambda: rgb_set(batch=2), "batch"),
        (lambda: rgb_set(20, 20), "max_src_image_size"),
        (lambda: acl.mdl.create_aipp(1), "format"),
    ],
)
def test_sets_that_do_not_fit(made: Any, word: str) -> None:
    net = Net("dynamic_aipp")
    assert acl.mdl.set_input_aipp(net.id, net.input_dataset, 1, made()) == INVALID
    assert word in message()


def test_a_picture_that_is_shorter_than_its_set_says() -> None:
    net = Net("dynamic_aipp")
    inputs = dataset(Memory(191), net.inputs[1])
    ok(acl.mdl.set_input_aipp(net.id, inputs, 1, rgb_set()))
    assert acl.mdl.execute(net.id, inputs, net.output_dataset) != 0


def test_dynamic_aipp_by_picture_index() -> None:
    net = Net("dynamic_aipp")
    picture = pixels(1, 8, 8, 3)
    assert acl.mdl.set_aipp_by_input_index(net.id, net.input_dataset, 0, rgb_set()) == 0
    np.testing.assert_array_equal(net.run(picture)[0], -prepared(picture))
    assert acl.mdl.set_aipp_by_input_index(net.id, net.input_dataset, 1, rgb_set()) == FAILURE
    assert acl.mdl.set_aipp_by_input_index(load("conv"), net.input_dataset, 0, rgb_set()) == FAILURE
    assert acl.mdl.set_aipp_by_input_index(55, net.input_dataset, 0, rgb_set()) == ID


# ---- dynamic, gears and two pictures ---------------------------------------------------------------------------------


@pytest.mark.parametrize("batch", [1, 2])
def test_dynamic_aipp_with_batches(batch: int) -> None:
    """The set is made for the largest gear; a smaller run takes its first pictures."""
    net = Net("dynamic_aipp_batch")
    ok(acl.mdl.set_dynamic_batch_size(net.id, net.input_dataset, net.index(), batch))
    parameters = rgb_set(batch=2)
    for index in range(2):
        ok(acl.mdl.set_aipp_dtc_pixel_mean(parameters, 5 * index, 6 * index, 7 * index, 0, index))
    ok(acl.mdl.set_input_aipp(net.id, net.input_dataset, net.index(BLOCK), parameters))
    pictures = pixels(batch, 8, 8, 3)
    net.outputs[0].put(np.full((2, 3, 8, 8), 7777, np.float32))
    ok(net.execute(pictures))
    results = net.output(0, 2, 3, 8, 8)
    for index in range(batch):
        wanted = -prepared(pictures[index : index + 1], np.array([5, 6, 7]) * index)
        np.testing.assert_allclose(results[index : index + 1], wanted)
    assert (results[batch:] == 7777).all()


def test_two_pictures_have_sets_of_their_own() -> None:
    net = Net("two_pictures")
    left, right = pixels(1, 8, 8, 3), pixels(1, 9, 10, 3)
    first, second = rgb_set(), rgb_set(10, 9)
    ok(acl.mdl.set_aipp_dtc_pixel_mean(first, 1, 2, 3, 0, 0))
    ok(acl.mdl.set_aipp_crop_params(second, 1, 2, 1, 8, 8, 0))
    ok(acl.mdl.set_aipp_pixel_var_reci(second, 0.5, 0.5, 0.5, 0, 0))
    assert acl.mdl.set_aipp_by_input_index(net.id, net.input_dataset, 0, first) == 0
    assert acl.mdl.set_aipp_by_input_index(net.id, net.input_dataset, 1, second) == 0
    (result,) = net.run(left, right)
    wanted = prepared(left, [1, 2, 3]) + prepared(right[:, 1:9, 2:10], 0, 0.5)
    np.testing.assert_allclose(result, wanted, rtol=1e-6, atol=1e-6)
    assert acl.mdl.set_aipp_by_input_index(net.id, net.input_dataset, 2, first) == FAILURE
