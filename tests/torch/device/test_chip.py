"""SOFTNPU_TORCH=chip: operators, data types and devices that the chosen chip's adapter lacks; lenient mode knows no such limits."""

from __future__ import annotations

import os
import re

import pytest
import torch
from torch_npu._patches import device_lists
from torch_npu._runtime import chip

from softnpu.spec._generated.torch_adapter import ROWS
from tests.torch.device.chip_runs import outcomes, python

SNIPPETS = {
    "float16": "out = float((torch.ones(2, 3).npu().half() @ torch.ones(3, 2).npu().half()).sum())",
    "float64 mm": "x = torch.ones(2, 2, dtype=torch.float64).npu(); out = x @ x",
    "float64 add": "x = torch.ones(2, 2, dtype=torch.float64).npu(); out = float((x + x).sum())",
    "int mm": "x = torch.ones(2, 2, dtype=torch.int32).npu(); out = x @ x",
    "float64 conv": "out = F.conv2d(torch.ones(1, 1, 3, 3).double().npu(), torch.ones(1, 1, 2, 2).double().npu())",
    "float64 gelu": "out = F.gelu(torch.ones(3).double().npu())",
    "float64 linear": "out = nn.Linear(2, 2).double().npu()(torch.ones(1, 2).double().npu())",
    "bfloat16": "x = torch.ones(2, 2).npu().bfloat16(); out = float((x + x @ x).float().sum())",
    "bfloat16 add": "x = torch.ones(2, 2).npu().bfloat16(); out = float((x + x).float().sum())",
    "complex": "x = torch.ones(2, dtype=torch.complex64).npu(); out = (x * x).real.sum().item()",
    "svd": "out = torch.linalg.eigvalsh(torch.eye(2).npu()).sum().item()",
    "digamma": "torch.digamma(torch.ones(2).npu()); out = torch.digamma(torch.ones(1).npu()).shape",
    "trunc": "out = torch.trunc(torch.tensor([1.5]).npu()).item()",
    "training": "m = nn.Sequential(nn.Linear(4, 4), nn.LayerNorm(4), nn.GELU(), nn.Linear(4, 2)).npu(); x = torch.ones(3, 4).npu(); "
    "loss = F.cross_entropy(m(x), torch.tensor([0, 1, 0]).npu()); loss.backward(); "
    "torch.optim.Adam(m.parameters()).step(); out = m[0].weight.grad.shape",
}
NO_KERNEL = (
    r"CAUTION: The operator '{}' is not currently supported on the NPU backend and will fall back to run on the CPU\. "
)


@pytest.fixture(scope="module")
def today() -> tuple[dict[str, str], str]:
    return outcomes(SNIPPETS, SOFTNPU_TORCH="chip", SOFTNPU_SOC="Ascend910B3")


@pytest.fixture(scope="module")
def old() -> tuple[dict[str, str], str]:
    return outcomes(SNIPPETS, SOFTNPU_TORCH="chip", SOFTNPU_SOC="Ascend910A")


def refused(text: str, dtype: str, operator: str) -> bool:
    return (
        re.search(
            rf"(?s)^RuntimeError: aten::\w*{operator}\w*: dtype {dtype} is not .* cast the tensor.*ERR01007 OPS", text
        )
        is not None
    )


def test_what_works_on_today_s_chip(today: tuple[dict[str, str], str]) -> None:
    found, _ = today
    assert found["float16"] == "12.0"
    assert found["float64 add"] == "8.0"
    assert found["bfloat16"] == "12.0"
    assert found["complex"] == "2.0"
    assert found["trunc"] == "1.0"
    assert found["training"] == "torch.Size([4, 4])"


@pytest.mark.parametrize(
    ("snippet", "dtype", "operator"),
    [
        ("float64 mm", "Double", "mm"),
        ("int mm", "Int", "mm"),
        ("float64 gelu", "Double", "gelu"),
        ("float64 linear", "Double", "addmm"),
    ],
)
def test_dtypes_that_no_chip_computes(
    today: tuple[dict[str, str], str], old: tuple[dict[str, str], str], snippet: str, dtype: str, operator: str
) -> None:
    assert refused(today[0][snippet], dtype, operator), today[0][snippet]
    assert refused(old[0][snippet], dtype, operator), old[0][snippet]


def test_convolution_is_checked_too(today: tuple[dict[str, str], str]) -> None:
    assert re.match(
        r"(?s)RuntimeError: convolution: dtype Double is not supported on Ascend910B3.*ERR01007",
        today[0]["float64 conv"],
    )


def test_a_missing_operator_warns_once_and_runs(today: tuple[dict[str, str], str]) -> None:
    found, errors = today
    assert found["svd"] == "2.0" and found["digamma"] == "torch.Size([1])"
    assert len(re.findall(NO_KERNEL.format(r"aten::digamma\.out"), errors)) == 1
    assert re.search(NO_KERNEL.format(r"aten::_linalg_eigh\S*"), errors)


def test_a_missing_operator_raises_where_the_fallback_is_off() -> None:
    found, errors = outcomes(
        {"digamma": SNIPPETS["digamma"], "fine": SNIPPETS["float16"]},
        SOFTNPU_TORCH="chip",
        TORCH_NPU_FALLBACK_CPU_DISABLE="1",
    )
    assert re.match(
        r"(?s)RuntimeError: The operator 'aten::digamma.out' .* unset TORCH_NPU_FALLBACK_CPU_DISABLE.*ERR01007 OPS",
        found["digamma"],
    )
    assert found["fine"] == "12.0" and "CAUTION" not in errors


def test_the_adapter_of_2021(old: tuple[dict[str, str], str]) -> None:
    found, errors = old
    assert re.match(
        r"(?s)RuntimeError: Could not run 'aten::trunc.out' with arguments from the 'NPUTensorId' backend\. .*ERR01007 OPS",
        found["trunc"],
    )
    assert found["digamma"].startswith(
        "RuntimeError: Could not run 'aten::digamma.out' with arguments from the 'NPUTensorId' backend."
    )
    assert refused(found["bfloat16"], "BFloat16", "mm")
    assert refused(found["bfloat16 add"], "BFloat16", "add") and "the chip has no bfloat16" in found["bfloat16 add"]
    assert refused(found["complex"], "ComplexFloat", "mul")
    assert found["float16"] == "12.0" and found["training"] == "torch.Size([4, 4])"
    assert "CAUTION" not in errors


def test_lenient_mode_has_none_of_it() -> None:
    found, errors = outcomes(SNIPPETS, SOFTNPU_SOC="Ascend910A")
    assert not [text for text in found.values() if "Error" in text] and "CAUTION" not in errors
    assert found["trunc"] == "1.0"


def test_rows_name_operators_and_dtypes_that_exist() -> None:
    names = {
        name.partition("::")[2].partition(".")[0]
        for name in torch._C._dispatch_get_all_op_names()
        if name.startswith("aten::")
    }
    rows = [*ROWS["missing"], *ROWS["dtypes"], *ROWS["one_dtype"], ROWS["moving"]]
    unknown = {one for row in rows for one in row["operators"] if one not in names and f"{one}_" not in names} - {"*"}
    assert not unknown
    assert all(isinstance(getattr(torch, name), torch.dtype) for row in ROWS["dtypes"] for name in row["refused"])
    assert all(row["source"] for row in [*rows, *ROWS["generation"]])
    known = {one["name"] for one in ROWS["generation"]}
    assert {name for row in rows for name in row.get("generations", known)} == known


def test_every_chip_belongs_to_one_generation() -> None:
    from softnpu.spec._generated.chips import CHIPS

    for row in CHIPS.values():
        assert chip._generation(ROWS, row["family"])["name"] in ("2021", "today")
    with pytest.raises(RuntimeError, match=r"(?s)no adapter is known.*'950'.*SOFTNPU_SOC.*ERR00007"):
        chip._generation(ROWS, "950")


def test_two_accelerators(monkeypatch: pytest.MonkeyPatch) -> None:
    """A usable CUDA is welcome; in chip mode it is refused as the product does."""
    monkeypatch.delenv("SOFTNPU_TORCH", raising=False)
    device_lists.refuse_other_accelerator("cuda")
    monkeypatch.setenv("SOFTNPU_TORCH", "chip")
    device_lists.refuse_other_accelerator("npu")
    with pytest.raises(RuntimeError, match=r"(?s)Two accelerators cannot be used .*: npu and cuda.*ERR00007 PTA"):
        device_lists.refuse_other_accelerator("cuda")
    assert torch.accelerator.current_accelerator() == torch.device("npu")


@pytest.mark.skipif(not torch.backends.cuda.is_built(), reason="torch was built without CUDA")
def test_chip_mode_asks_for_a_gpu_and_not_for_a_torch_built_for_one() -> None:
    program = "import torch; import torch_npu; print(torch.ones(2).npu().sum().item())"
    done = python(program, SOFTNPU_TORCH="chip")
    assert done.stdout == "2.0\n", done.stderr
    if torch.cuda.is_available():
        done = python(program, SOFTNPU_TORCH="chip", CUDA_VISIBLE_DEVICES=os.environ.get("CUDA_VISIBLE_DEVICES", "0"))
        assert done.returncode != 0 and "Two accelerators cannot be used" in done.stderr


def test_a_wrong_value_says_what_would_do() -> None:
    done = python("import torch; import torch_npu", SOFTNPU_TORCH="strict")
    assert done.returncode != 0 and "SOFTNPU_TORCH must be one of lenient, chip, not 'strict'" in done.stderr


@pytest.mark.parametrize(("value", "count"), [("8", 8), (None, 32)])
def test_streams_per_device(value: str | None, count: int) -> None:
    program = "import torch; import torch_npu; print(len({torch.npu.Stream().stream_id for _ in range(70)}))"
    done = python(program, **({} if value is None else {"STREAMS_PER_DEVICE": value}))
    assert done.stdout.strip() == str(count), done.stderr


def test_streams_per_device_is_8_or_32() -> None:
    done = python("import torch; import torch_npu", STREAMS_PER_DEVICE="9")
    assert "STREAMS_PER_DEVICE must be one of 8, 32, not '9'" in done.stderr
