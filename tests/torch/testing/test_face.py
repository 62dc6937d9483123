"""torch_npu.testing's inputs and skips, and how one test method becomes many."""

from __future__ import annotations

import unittest
from typing import Any

import numpy as np
import pytest

torch = pytest.importorskip("torch")
torch_npu = pytest.importorskip("torch_npu")

from torch_npu.testing import common_distributed, common_utils, testcase  # noqa: E402
from torch_npu.testing.decorator import (  # noqa: E402
    Dtypes,
    Formats,
    graph_mode,
    instantiate_ops_tests,
    instantiate_tests,
)


def ran(cls: type) -> unittest.TestResult:
    result = unittest.TestResult()
    unittest.defaultTestLoader.loadTestsFromTestCase(cls).run(result)
    return result


def names(cls: type) -> list[str]:
    return list(unittest.defaultTestLoader.getTestCaseNames(cls))


# inputs


@pytest.mark.parametrize("dtype", [np.float32, np.float16, np.float64, np.int8, np.uint8, np.int32, np.int64, np.bool_])
@pytest.mark.parametrize("shape", [(), (5,), [2, 3], (4, 3, 2)])
def test_common_tensor(dtype: Any, shape: Any) -> None:
    on_cpu, on_npu = common_utils.create_common_tensor([dtype, -1, shape], 1, 100)
    assert on_cpu.device.type == "cpu" and on_npu.device == torch.device("npu:0")
    assert on_cpu.dtype == on_npu.dtype == torch.from_numpy(np.empty(0, dtype)).dtype
    assert tuple(on_cpu.shape) == tuple(shape) and torch.equal(on_cpu, on_npu.cpu())
    if dtype is not np.bool_:
        assert bool((on_cpu >= 1).all()) and bool((on_cpu <= 100).all())


def test_common_tensor_values() -> None:
    indices = common_utils.create_common_tensor([np.int64, -1, (400,)], 0, 3)[0]
    assert sorted(set(indices.tolist())) == [0, 1, 2]  # an index below the limit, as gather needs it
    flags = common_utils.create_common_tensor([torch.bool, -1, (200,)], 0, 1)[0]
    assert 20 < int(flags.sum()) < 180
    floats = common_utils.create_common_tensor([torch.bfloat16, -1, (2000,)], -2, 6)[0]
    assert floats.dtype is torch.bfloat16 and floats.min() < -1.5 and floats.max() > 5.5 and 1.5 < floats.mean() < 2.5
    assert common_utils.create_common_tensor([np.uint8, -1, (50,)], -5, 1000)[0].float().std() > 10
    np.random.seed(3)
    first = common_utils.create_common_tensor([np.complex64, -1, (3,)], -1, 1)[0]
    np.random.seed(3)
    assert torch.equal(first, common_utils.create_common_tensor([np.complex64, -1, (3,)], -1, 1)[0])


def test_common_tensor_formats(monkeypatch: pytest.MonkeyPatch) -> None:
    before = torch.npu.config.allow_internal_format
    torch.npu.config.allow_internal_format = True
    try:
        for npu_format, shape in ((0, (2, 3)), (3, (1, 6, 4, 5)), (4, (20, 3, 3, 3)), (29, (8, 16))):
            on_cpu, on_npu = common_utils.create_common_tensor([np.float32, npu_format, shape], -1, 1)
            assert torch_npu.get_npu_format(on_npu) == npu_format
            assert torch.equal(on_npu.cpu(), on_cpu)
    finally:
        torch.npu.config.allow_internal_format = before
    assert torch_npu.get_npu_format(common_utils.create_common_tensor([np.float32, 2, (2, 3)], 0, 1)[1]) == 2
    with pytest.raises(ValueError, match="item must be"):
        common_utils.create_common_tensor([np.float32, (2, 3)], 0, 1)


def test_dtype_tensor() -> None:
    on_cpu, on_npu = common_utils.create_dtype_tensor((300,), torch.int32, no_zero=True, device="npu:1")
    assert on_npu.device.index == 1 and torch.equal(on_cpu, on_npu.cpu())
    assert 0 not in on_cpu.tolist() and on_cpu.min() == -5 and on_cpu.max() == 4
    assert 0 in common_utils.create_dtype_tensor((300,), torch.int32)[0].tolist()


def test_broadcast_pairs() -> None:
    pairs = common_utils.test_2args_broadcast(torch.add)
    assert len(pairs) > 3 and any(pair[0].numel() == 0 for pair in pairs)
    for on_cpu, on_npu in pairs:
        assert torch.equal(on_cpu, on_npu)
    assert common_utils.test_2args_broadcast.__test__ is False


def test_operators_of_a_profile() -> None:
    x = torch.ones(3).npu()
    with torch.autograd.profiler.profile() as prof:
        x + x
    expected = ["aten::add"]
    assert common_utils.check_operators_in_prof(expected, prof) is True
    assert common_utils.check_operators_in_prof(["aten::add", "aten::sub"], prof) is False
    assert common_utils.check_operators_in_prof(expected, prof, ["aten::sub"]) is True
    assert common_utils.check_operators_in_prof(expected, prof, ["aten::add"]) is False
    assert expected == ["aten::add"]


def test_random_state_is_kept() -> None:
    torch.manual_seed(1)
    expected = torch.rand(2).tolist(), torch.rand(2, device="npu").tolist()
    torch.manual_seed(1)
    with pytest.raises(KeyError), common_utils.freeze_rng_state():
        torch.rand(5), torch.rand(5, device="npu")
        raise KeyError
    assert (torch.rand(2).tolist(), torch.rand(2, device="npu").tolist()) == expected


# skips


@pytest.mark.parametrize(
    ("chip", "family"),
    [
        ("Ascend910B3", "Ascend910B"),
        ("Ascend910_9391", "Ascend910_93"),
        ("Ascend950PR", "Ascend950"),
        ("Ascend310P3", "Ascend310P"),
    ],
)
def test_supported_devices(chip: str, family: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch.npu, "get_device_name", lambda device=None: chip)

    class Chips(testcase.TestCase):
        @common_utils.SupportedDevices(["Ascend1", family])
        def test_runs(self) -> None:
            self.assertEqual(1, 1)

        @common_utils.SupportedDevices([chip + "x", "Ascend"])
        def test_skipped(self) -> None:
            self.fail("must not run")

    result = ran(Chips)
    assert result.wasSuccessful() and [reason for _, reason in result.skipped] == [
        f"{family} is not one of {chip}x, Ascend"
    ]


def test_skips_of_whole_classes_and_versions(monkeypatch: pytest.MonkeyPatch) -> None:
    @common_utils.SupportedDevices(["Ascend000"])
    class Nowhere(testcase.TestCase):
        def test_one(self) -> None:
            self.fail("must not run")

    class Versions(testcase.TestCase):
        @common_utils.SkipIfNotGteCANNVersion("7.0.0")
        def test_old(self) -> None:
            raise KeyError("ran")

        @common_utils.SkipIfNotGteCANNVersion("99.0.0", "CANN")
        def test_new(self) -> None:
            self.fail("must not run")

        @common_utils.SkipIfNoLapack
        def test_lapack(self) -> None:
            self.fail("must not run")

    monkeypatch.setattr(torch._C, "has_lapack", False)
    assert "Ascend000" in ran(Nowhere).skipped[0][1]
    result = ran(Versions)
    assert len(result.skipped) == 2 and "ran" in result.errors[0][1]


def test_devices_that_are_not_there(monkeypatch: pytest.MonkeyPatch) -> None:
    class Many(testcase.TestCase):
        @common_distributed.skipIfUnsupportMultiNPU(2)
        def test_two(self) -> None:
            raise KeyError("ran")

        @common_distributed.skipIfUnsupportMultiNPU(3)
        def test_three(self) -> None:
            self.fail("must not run")

    monkeypatch.setattr(torch.npu, "device_count", lambda: 2)
    result = ran(Many)
    assert [reason for _, reason in result.skipped] == ["Need at least 3 NPU devices"] and "ran" in result.errors[0][1]
    codes = [skip.exit_code for skip in common_distributed.TEST_SKIPS.values()]
    assert len(set(codes)) == len(codes)
    with pytest.raises(ValueError, match="not 0"):
        common_distributed.skipIfUnsupportMultiNPU(0)


# one method, many tests


def test_instantiate_tests() -> None:
    seen = []

    @instantiate_tests
    class Many(testcase.TestCase):
        @Dtypes(torch.float, torch.half)
        @Formats(0, 29)
        def test_both(self, npu_format: int, dtype: Any) -> None:
            seen.append((dtype, npu_format))

        @common_utils.SupportedDevices(["Ascend000"])
        @Formats([-1])
        def test_format(self, device: str, npu_format: int) -> None:
            self.fail("must not run")

        @graph_mode
        @Dtypes(np.int8)
        def test_type(self, dtype: Any, device: str, extra: int = 3) -> None:
            seen.append((dtype, device, extra))

        def test_alone(self) -> None:
            seen.append("alone")

    assert names(Many) == [
        "test_alone",
        "test_both_float16_FRACTAL_NZ",
        "test_both_float16_NCHW",
        "test_both_float32_FRACTAL_NZ",
        "test_both_float32_NCHW",
        "test_format_UNDEFINED",
        "test_type_int8",
    ]
    result = ran(Many)
    assert result.wasSuccessful() and len(result.skipped) == 1
    assert seen[0] == "alone" and (np.int8, "npu:0", 3) in seen
    assert {pair for pair in seen if len(pair) == 2} == {(d, f) for d in (torch.float, torch.half) for f in (0, 29)}


def test_instantiate_tests_names_mistakes() -> None:
    def made(method: Any) -> type:
        return instantiate_tests()(type("Wrong", (testcase.TestCase,), {"test_x": method}))

    with pytest.raises(TypeError, match=r"Wrong.test_x takes 'dtype' but has no @Dtypes"):
        made(lambda self, dtype: None)
    with pytest.raises(TypeError, match="no parameter 'npu_format'"):
        made(Formats(2)(lambda self: None))
    with pytest.raises(TypeError, match="takes 'shape'"):
        made(lambda self, shape: None)
    with pytest.raises(ValueError, match="two tests"):
        made(Dtypes(torch.float, torch.float32)(lambda self, dtype: None))
    with pytest.raises(ValueError, match="at least one"):
        Dtypes()
    with pytest.raises(ValueError, match="99"):
        Formats(99)


class _Op:
    """As much of torch's OpInfo as the decorator asks for."""

    def __init__(
        self, name: str, dtypes: set[Any], formats: tuple[int, ...] | None = None, skipped: bool = False
    ) -> None:
        self.formatted_name, self.dtypes, self.formats, self.skipped = name, dtypes, formats, skipped

    def supported_dtypes(self, device: str) -> set[Any]:
        assert device == "npu"
        return self.dtypes

    def get_decorators(self, test_class: str, test_name: str, device: str, dtype: Any, options: Any) -> list[Any]:
        assert (test_class, device, options) == ("Ops", "npu", {})
        return [unittest.skip("by the database")] if self.skipped and test_name == "test_plain" else []


def test_instantiate_ops_tests() -> None:
    seen = []
    database = [
        _Op("one", {torch.float32, torch.int8}, (2, 3)),
        _Op("two", {torch.float32}, skipped=True),
    ]

    @instantiate_ops_tests(database)
    class Ops(testcase.TestCase):
        def test_plain(self, dtype: Any, op: Any) -> None:
            seen.append((op.formatted_name, dtype))

        @Dtypes(torch.float32, torch.float16)
        def test_format(self, dtype: Any, op: Any, npu_format: int) -> None:
            assert (op.formatted_name, npu_format) in (("one", 2), ("one", 3), ("two", 2)) and dtype is torch.float32

        def test_no_op(self) -> None:
            seen.append("no op")

    assert names(Ops) == [
        "test_format_one_float32_NC1HWC0",
        "test_format_one_float32_ND",
        "test_format_two_float32_ND",
        "test_no_op",
        "test_plain_one_float32",
        "test_plain_one_int8",
        "test_plain_two_float32",
    ]
    result = ran(Ops)
    assert result.wasSuccessful() and [reason for _, reason in result.skipped] == ["by the database"]
    assert seen == ["no op", ("one", torch.float32), ("one", torch.int8)]
