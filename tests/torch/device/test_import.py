"""Import order, autoload, start-up variables, names of operators and data types."""

from __future__ import annotations

import os
import re
import subprocess
import sys

import pytest
import torch
import torch_npu
from torch_npu._patches import device_lists, operator_names

LINE = (
    r"\[ERROR\] \d{4}-\d\d-\d\d-\d\d:\d\d:\d\d \(PID:\d+, Device:-?\d+, RankID:-?\d+\) ERR99999 UNKNOWN \w+ exception"
)


def python(program: str, **variables: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-W", "error", "-c", program],
        env=os.environ | variables,
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )


@pytest.mark.parametrize(
    "start",
    [
        "import torch",
        "import torch_npu, torch",
        pytest.param("import torch, torch_npu", marks=pytest.mark.slow),
        pytest.param("import torch.npu, torch", marks=pytest.mark.slow),
        "from torch.npu import FloatTensor; import torch",
    ],
)
def test_any_order_of_imports_brings_the_device(start: str) -> None:
    done = python(f"{start}\nprint(torch.ones(2).npu().sum().item(), torch.npu is __import__('torch_npu').npu)")
    assert (done.returncode, done.stdout) == (0, "2.0 True\n"), done.stderr


def test_autoload_can_be_switched_off_and_stays_so_for_children() -> None:
    off = python(
        "import torch, sys; print(hasattr(torch, 'npu'), 'torch_npu' in sys.modules)", TORCH_DEVICE_BACKEND_AUTOLOAD="0"
    )
    assert off.stdout == "False False\n"
    program = "import os, torch_npu; print(os.environ.get('TORCH_DEVICE_BACKEND_AUTOLOAD'))"
    assert python(program, TORCH_DEVICE_BACKEND_AUTOLOAD="1").stdout == "1\n"


@pytest.mark.parametrize("value", ["yes", "2", ""])
def test_transfer_variable_takes_0_and_1_only(value: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TORCH_TRANSFER_TO_NPU", value)
    with pytest.raises(ValueError, match="TORCH_TRANSFER_TO_NPU must be 0 or 1"):
        device_lists.transfer_if_asked()


def test_transfer_imports_its_module_or_says_that_it_is_missing(monkeypatch: pytest.MonkeyPatch) -> None:
    name = "torch_npu.contrib.transfer_to_npu"
    asked = []
    monkeypatch.setenv("TORCH_TRANSFER_TO_NPU", "1")
    monkeypatch.setattr(device_lists, "import_module", asked.append)
    device_lists.transfer_if_asked()
    assert asked == [name]

    def missing(_name: str) -> None:
        raise ModuleNotFoundError(f"No module named {name!r}", name=name)

    monkeypatch.setattr(device_lists, "import_module", missing)
    with pytest.raises(ModuleNotFoundError, match=r"TORCH_TRANSFER_TO_NPU=1 asks for .* unset the variable"):
        device_lists.transfer_if_asked()


def test_a_second_accelerator_is_refused_with_its_code(monkeypatch: pytest.MonkeyPatch) -> None:
    device_lists.refuse_other_accelerator("cuda")  # lenient: npu lives beside it
    monkeypatch.setenv("SOFTNPU_TORCH", "chip")
    with pytest.raises(RuntimeError, match=r"(?s)Two accelerators cannot be used .*: npu and cuda.*ERR00007 PTA"):
        device_lists.refuse_other_accelerator("cuda")
    device_lists.refuse_other_accelerator("cpu")


def test_uncaught_foreign_exception_ends_with_the_error_line() -> None:
    done = python("import torch; raise ValueError('mine')")
    assert re.search(rf"ValueError: mine\n{LINE}\n$", done.stderr)


def test_error_line_is_for_foreign_exceptions_only(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    shown: list[BaseException] = []
    monkeypatch.setattr(sys, "excepthook", lambda _kind, value, _trace: shown.append(value))
    device_lists._add_error_line()

    def printed(value: BaseException) -> str:
        sys.excepthook(type(value), value, None)
        assert shown.pop() is value  # the hook that was there before still does its work
        return capsys.readouterr().err

    assert re.fullmatch(LINE + "\n", printed(ValueError("mine")))
    assert printed(RuntimeError("x\n[ERROR] 2026 ERR00001 PTA invalid parameter")) == ""
    assert printed(KeyboardInterrupt()) == ""
    monkeypatch.setenv("TORCH_NPU_COMPACT_ERROR_OUTPUT", "1")
    assert printed(ValueError("mine")) == ""


def test_numbers_of_data_types() -> None:
    expected = {
        "float32": 256, "float16": 257, "int8": 258, "int32": 259, "uint8": 260, "int16": 262, "uint16": 263, "uint32": 264,
        "int64": 265, "uint64": 266, "float64": 267, "bool": 268, "string": 269, "complex64": 272, "complex128": 273,
        "bfloat16": 283, "int4": 285, "uint1": 286, "complex32": 289, "hifloat8": 290, "float8_e5m2": 291, "float8_e4m3fn": 292,
        "float8_e8m0fnu": 293, "float6_e3m2": 294, "float6_e2m3": 295, "float4_e2m1fn_x2": 296, "float4_e1m2fn_x2": 297,
    }  # fmt: skip
    assert {name: getattr(torch_npu, name) for name in expected} == expected
    assert {member.name: int(member) for member in torch_npu._C._cd.DType} == expected


def test_operators_have_their_names_and_the_older_ones_warn() -> None:
    with torch.library._scoped_library("npu", "FRAGMENT") as library:
        library.define("npu_test_twice(Tensor x, int n=2) -> Tensor")
        library.impl("npu_test_twice", lambda x, n=2: x * n, "CompositeImplicitAutograd")
        operator_names.expose(torch_npu)
        try:
            x = torch.arange(3.0).npu()
            assert torch_npu.npu_test_twice(x).tolist() == [0.0, 2.0, 4.0]
            assert "npu_test_twice" in torch_npu.__all__
            with pytest.warns(
                FutureWarning, match=r"^torch.npu_test_twice is deprecated .* Use torch_npu.npu_test_twice instead.$"
            ):
                assert torch.npu_test_twice(x, n=3).tolist() == [0.0, 3.0, 6.0]
            with pytest.warns(FutureWarning, match=r"^torch.Tensor.npu_test_twice is deprecated"):
                assert x.npu_test_twice(4).tolist() == [0.0, 4.0, 8.0]
        finally:
            torch_npu.__all__.remove("npu_test_twice")
            for owner in (torch_npu, torch, torch.Tensor):
                delattr(owner, "npu_test_twice")


def test_checkpoint_profiler_and_collect_env_know_the_device() -> None:
    assert torch.utils.checkpoint.DefaultDeviceType.get_device_type() == "npu"
    assert torch.profiler.ProfilerActivity.NPU.name in ("NPU", "PrivateUse1")
    original = torch.utils.collect_env.get_pretty_env_info.__wrapped__
    text = device_lists._with_devices(lambda: "torch's part")()
    assert callable(original)
    assert re.search(r"^torch's part\n\ntorch_npu version: \d+\.\d+.*\nNPU 0: Ascend\w+, \d+ MiB$", text, re.MULTILINE)


def test_version_is_that_of_torch() -> None:
    assert torch.__version__.startswith(torch_npu.__version__)
