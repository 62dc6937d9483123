"""torch.ops.npu: optimizer steps against torch.optim and formulas, overflow status."""

from __future__ import annotations

import math

import pytest
import torch
import torch_npu.operators

torch_npu.operators.register()
ops = torch.ops.npu


def _state(count: int = 50) -> list[torch.Tensor]:
    torch.manual_seed(0)
    return [torch.randn(count).npu(), torch.zeros(count).npu(), torch.zeros(count).npu()]


@pytest.mark.parametrize("nesterov", [False, True])
def test_apply_adam_is_the_formula_of_tensorflow(nesterov: bool) -> None:
    var, m, v = _state()
    w, first, second = (one.cpu().double() for one in (var, m, v))
    for step in range(1, 6):
        grad = torch.randn(50)
        ops.npu_apply_adam.out(
            0.9**step, 0.99**step, 0.1, 0.9, 0.99, 1e-7, grad.npu(), False, nesterov, var=var, m=m, v=v
        )
        first = 0.9 * first + 0.1 * grad
        second = 0.99 * second + 0.01 * grad**2
        rate = 0.1 * math.sqrt(1 - 0.99**step) / (1 - 0.9**step)
        used = 0.9 * first + 0.1 * grad if nesterov else first
        w = w - rate * used / (second.sqrt() + 1e-7)
    for found, wanted in ((var, w), (m, first), (v, second)):
        torch.testing.assert_close(found.cpu().double(), wanted, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize(("amsgrad", "maximize"), [(False, False), (True, False), (False, True)])
def test_apply_adam_w_is_torch_optim_adamw(amsgrad: bool, maximize: bool) -> None:
    var, m, v = _state()
    peer = torch.nn.Parameter(var.cpu().clone())
    optimizer = torch.optim.AdamW(
        [peer], lr=0.05, betas=(0.8, 0.95), eps=1e-6, weight_decay=0.1, amsgrad=amsgrad, maximize=maximize
    )
    largest = torch.zeros(50).npu()
    for step in range(8):
        grad = torch.randn(50) * (8 - step)
        peer.grad = grad.clone()
        optimizer.step()
        ops.npu_apply_adam_w.out(
            0.8**step, 0.95**step, 0.05, 0.1, 0.8, 0.95, 1e-6, grad.npu(), largest, amsgrad, maximize, var=var, m=m, v=v
        )
    torch.testing.assert_close(var.cpu(), peer.data, rtol=1e-5, atol=1e-6)


def test_bert_adam_clips_decays_and_warms_up() -> None:
    var, m, v = _state()
    w, grad = var.cpu().double(), torch.randn(50)
    ops.npu_bert_apply_adam.out(0.1, 0.9, 0.99, 1e-6, grad.npu(), 1.0, 4.0, 0.01, 0.5, var=var, m=m, v=v)
    used = grad.double() / 4
    first, second = 0.1 * used, 0.01 * used**2
    w = w - 0.05 * (first / (second.sqrt() + 1e-6) + 0.01 * w)
    torch.testing.assert_close(var.cpu().double(), w, rtol=1e-5, atol=1e-6)
    torch.testing.assert_close(m.cpu().double(), first, rtol=1e-5, atol=1e-6)
    before = m.clone()
    ops.npu_bert_apply_adam.out(0.1, 0.9, 0.99, 1e-6, grad.npu(), -1, 4.0, 0, var=var, m=m, v=v)
    torch.testing.assert_close(m.cpu(), 0.9 * before.cpu() + 0.1 * grad)


def test_half_gradients_update_float_states() -> None:
    var, m, v = _state()
    grad = torch.randn(50).npu().half()
    ops.npu_apply_adam.out(0.9, 0.99, 0.1, 0.9, 0.99, 1e-7, grad, None, None, var=var, m=m, v=v)
    torch.testing.assert_close(m.cpu(), 0.1 * grad.cpu().float())


def test_a_parameter_is_updated_without_a_graph() -> None:
    var, m, v = _state()
    var.requires_grad_()
    ops.npu_apply_adam.out(0.9, 0.99, 0.1, 0.9, 0.99, 1e-7, torch.ones(50).npu(), None, None, var=var, m=m, v=v)
    assert var.is_leaf and var.grad_fn is None


def test_what_the_steps_refuse() -> None:
    var, m, v = _state()
    grad = torch.ones(50).npu()
    with pytest.raises(RuntimeError, match=r"without out=[\s\S]*ERR01007"):
        ops.npu_apply_adam(0.9, 0.99, 0.1, 0.9, 0.99, 1e-7, grad, None, None)
    with pytest.raises(RuntimeError, match="one shape"):
        ops.npu_apply_adam.out(0.9, 0.99, 0.1, 0.9, 0.99, 1e-7, grad[:2], None, None, var=var, m=m, v=v)
    with pytest.raises(RuntimeError, match="amsgrad needs max_grad_norm"):
        ops.npu_apply_adam_w.out(1, 1, 0.1, 0, 0.9, 0.99, 1e-7, grad, None, True, None, var=var, m=m, v=v)
    with pytest.raises(NotImplementedError, match="adam_mode 1"):
        ops.npu_bert_apply_adam.out(0.1, 0.9, 0.99, 1e-6, grad, 0, 0, 0, None, 1, var=var, m=m, v=v)


def test_float_status_has_eight_zeros() -> None:
    status = ops.npu_alloc_float_status(torch.ones(1).npu())
    assert status.shape == (8,) and status.dtype == torch.float32 and status.device.type == "npu"
    assert ops.npu_get_float_status(status).tolist() == [0] * 8
    assert ops.npu_clear_float_status(status + 1).tolist() == [0] * 8
    with pytest.raises(RuntimeError, match="the status has 3 elements"):
        ops.npu_get_float_status(torch.zeros(3).npu())


def test_non_finite_gradients_are_found() -> None:
    good = torch.ones(3).npu()
    assert ops._amp_foreach_non_finite_check([good, good]) is False
    assert ops._amp_foreach_non_finite_check([good, torch.tensor([1.0, math.inf]).npu()]) is True
    assert ops._amp_foreach_non_finite_check([torch.tensor([math.nan]).npu()]) is True


STEPS = {
    "npu_apply_adam": {
        "beta1_power": 0.9, "beta2_power": 0.999, "lr": 0.01, "beta1": 0.9, "beta2": 0.999, "epsilon": 1e-8, "grad": None,
        "use_locking": False, "use_nesterov": False,
    },
    "npu_apply_adam_w": {
        "beta1_power": 0.9, "beta2_power": 0.999, "lr": 0.01, "weight_decay": 0.1, "beta1": 0.9, "beta2": 0.999, "epsilon": 1e-8,
        "grad": None, "max_grad_norm": None, "amsgrad": False, "maximize": False,
    },
    "npu_bert_apply_adam": {
        "lr": 0.01, "beta1": 0.9, "beta2": 0.999, "epsilon": 1e-8, "grad": None, "max_grad_norm": 1.0, "global_grad_norm": 4.0,
        "weight_decay": 0.1,
    },
}  # fmt: skip


@pytest.mark.parametrize("name", STEPS)
@pytest.mark.parametrize("positional", [0, 4, 20])
def test_the_documented_form_takes_the_triple_as_out(name: str, positional: int) -> None:
    arguments = STEPS[name] | {"grad": torch.linspace(-1, 1, 50).npu()}
    wanted, given = _state(), _state()
    getattr(ops, name).out(*arguments.values(), **dict(zip(("var", "m", "v"), wanted, strict=True)))
    words = list(arguments)
    first, rest = words[:positional], words[positional:]
    result = getattr(torch_npu, name)(
        *(arguments[word] for word in first), **{word: arguments[word] for word in rest}, out=tuple(given)
    )
    assert isinstance(result, tuple) and all(one is two for one, two in zip(result, given, strict=True))
    for one, two in zip(given, wanted, strict=True):
        torch.testing.assert_close(one, two, rtol=0, atol=0)
        assert one.any()


def test_the_forms_of_the_schema_and_the_older_name_stay() -> None:
    var, m, v = _state()
    before = var.clone()
    grad = torch.ones(50).npu()
    torch_npu.npu_apply_adam(0.9, 0.99, 0.1, 0.9, 0.99, 1e-7, grad, None, None, var=var, m=m, v=v)
    assert not torch.equal(var, before)
    torch_npu.npu_apply_adam.out(0.9, 0.99, 0.1, 0.9, 0.99, 1e-7, grad, None, None, out=[var, m, v])
    with pytest.warns(FutureWarning, match="torch_npu.npu_bert_apply_adam"):
        torch.npu_bert_apply_adam(0.1, 0.9, 0.99, 1e-6, grad, 0, 0, 0, out=(var, m, v))
    assert torch_npu.npu_apply_adam.default is ops.npu_apply_adam.default


def test_out_must_be_the_three_tensors() -> None:
    var, m, v = _state()
    arguments = (0.9, 0.99, 0.1, 0.9, 0.99, 1e-7, torch.ones(50).npu(), None, None)
    for wrong in ((var, m), var, (var, m, v, v), (var, m, None)):
        with pytest.raises(TypeError, match=r"npu_apply_adam: out must be the tensors \(var, m, v\)"):
            torch_npu.npu_apply_adam(*arguments, out=wrong)
    with pytest.raises(TypeError, match=r"out=\(var, m, v\) and var"):
        torch_npu.npu_apply_adam(*arguments, var=var, out=(var, m, v))
    with pytest.raises(RuntimeError, match="without out="):
        torch_npu.npu_apply_adam(*arguments)


def test_the_documented_form_is_compiled() -> None:
    var, m, v = _state()
    plain = [one.clone() for one in (var, m, v)]
    grad = torch.ones(50).npu()

    def step(var: torch.Tensor, m: torch.Tensor, v: torch.Tensor) -> None:
        torch_npu.npu_apply_adam(0.9, 0.99, 0.1, 0.9, 0.99, 1e-7, grad, None, None, out=(var, m, v))

    torch.compile(step, backend="eager", fullgraph=True)(var, m, v)
    step(*plain)
    for one, two in zip((var, m, v), plain, strict=True):
        torch.testing.assert_close(one, two)
