"""float16 without inf and nan: INF_NAN_MODE_ENABLE=0, and chips that have none; the overflow flag."""

from __future__ import annotations

import re

import pytest
import torch

from tests.torch.device.chip_runs import outcomes

HALF = "torch.tensor([12.0, -1.0, 2.0], device='npu').half()"
SNIPPETS = {
    "exp": f"out = torch.exp({HALF}).tolist()",
    "sqrt": f"out = torch.sqrt({HALF}).tolist()[1]",
    "in place": f"x = {HALF}; x.mul_(40000); out = x.tolist()",
    "strided": f"x = torch.stack([{HALF}] * 2); x[:, 0].mul_(40000); out = x.tolist()",
    "out": f"x = torch.empty(3, 2, device='npu').half().t(); torch.mul(torch.stack([{HALF}] * 2), 40000, out=x); out = x.tolist()[0]",
    "foreach": f"x = [{HALF}]; torch._foreach_mul_(x, 40000); out = x[0].tolist()",
    "cast": "out = torch.tensor([1e6, -1e6, float('nan')]).npu().half().tolist()",
    "matmul": "x = torch.full((2, 2), 300.0, device='npu').half(); out = (x @ x).tolist()[0]",
    "conv": "x = torch.full((1, 1, 2, 2), 300.0, device='npu').half(); out = F.conv2d(x, x).item()",
    "float32": "out = torch.exp(torch.tensor([100.0]).npu()).item()",
    "flag": "c, g = torch.npu.utils.clear_npu_overflow_flag, torch.npu.utils.get_npu_overflow_flag; c(); x = torch.ones(2).npu().half(); "
    "x.masked_fill_(x > 0, float('-inf')); a = g(); y = x * 2; b = g(); c(); out = (a, b, g(), x.tolist()[0])",
    "check": f"torch.exp({HALF}); n = torch.npu.utils.npu_check_overflow; out = (n(None), n(None))",
    "support": "out = torch.npu.utils.is_support_inf_nan()",
    "gradient": "x = torch.tensor([300.0], device='npu').half().requires_grad_(); (x * x * x).backward(); out = x.grad.item()",
}
SATURATED = {
    "exp": [65504.0, 0.367919921875, 7.390625],
    "sqrt": 0.0,
    "in place": [65504.0, -40000.0, 65504.0],
    "strided": [[65504.0, -1.0, 2.0]] * 2,
    "out": [65504.0, -40000.0, 65504.0],
    "foreach": [65504.0, -40000.0, 65504.0],
    "cast": [65504.0, -65504.0, 0.0],
    "matmul": [65504.0, 65504.0],
    "conv": 65504.0,
    "float32": float("inf"),
    "flag": (False, True, False, -65504.0),
    "check": (True, False),
    "support": False,
    "gradient": 65504.0,
}
ASKED = {"INF_NAN_MODE_ENABLE": "0", "INF_NAN_MODE_FORCE_DISABLE": "1"}


@pytest.mark.parametrize(
    "variables",
    [
        ASKED,
        {"SOFTNPU_TORCH": "chip", "SOFTNPU_SOC": "Ascend310P3"},
        pytest.param({"SOFTNPU_TORCH": "chip", "SOFTNPU_SOC": "Ascend910A"}, marks=pytest.mark.slow),
        pytest.param({"INF_NAN_MODE_ENABLE": "0", "SOFTNPU_SOC": "Ascend910A"}, marks=pytest.mark.slow),
    ],
)
def test_overflow_saturates_where_the_chip_has_no_inf(variables: dict[str, str]) -> None:
    found, _ = outcomes(SNIPPETS, **variables)
    assert found == {name: repr(value) for name, value in SATURATED.items()}


@pytest.mark.parametrize("variables", [{"INF_NAN_MODE_ENABLE": "0"}, {"SOFTNPU_SOC": "Ascend910A"}])
def test_inf_and_nan_stay(variables: dict[str, str]) -> None:
    """A chip with inf and nan keeps them unless forced; lenient mode keeps them on every chip."""
    found, _ = outcomes({name: SNIPPETS[name] for name in ("exp", "cast", "support", "flag")}, **variables)
    assert found["exp"].startswith("[inf, ") and found["cast"] == "[inf, -inf, nan]" and found["support"] == "True"
    assert re.match(r"(?s)RuntimeError: .*clear_npu_overflow_flag.*npu_check_overflow.*ERR00007 PTA", found["flag"])


def test_check_overflow_looks_at_values() -> None:
    check = torch.npu.utils.npu_check_overflow
    assert not check(None) and not check(1.5) and not check(torch.ones(3, device="npu"))
    assert check(float("inf")) and check(torch.tensor([1.0, float("nan")], device="npu"))
