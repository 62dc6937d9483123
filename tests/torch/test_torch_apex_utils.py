"""apex.fp16_utils, apex.parallel, copies of prepared models."""

from __future__ import annotations

import copy
import pickle

import apex.optimizers
import pytest
import torch
from apex import amp, fp16_utils
from apex.parallel import DistributedDataParallel
from apex_runs import cnn, fresh_amp, pictures, run  # noqa: F401
from torch import nn

HALF, FULL = torch.float16, torch.float32


def test_networks_in_half_precision() -> None:
    x = pictures(0)[0]
    for model in (fp16_utils.network_to_half(cnn()), fp16_utils.FP16Model(cnn())):
        assert model(x).dtype == HALF
        kinds = {
            type(one).__name__: next(one.parameters()).dtype
            for one in model.modules()
            if not list(one.children()) and list(one.parameters())
        }
        assert kinds == {"Conv2d": HALF, "BatchNorm2d": FULL, "Linear": HALF}
    lstm = fp16_utils.convert_network(nn.LSTM(3, 4).npu(), HALF)
    assert lstm(torch.ones(2, 1, 3).npu().half())[0].dtype == HALF


@pytest.mark.parametrize("flat", [False, True])
def test_masters_by_hand(flat: bool) -> None:
    model = nn.Sequential(nn.Linear(4, 3), nn.Linear(3, 2)).npu().half()
    params, masters = fp16_utils.prep_param_lists(model, flat_master=flat)
    assert len(masters) == (1 if flat else 4) and all(one.dtype == FULL for one in masters)
    optimizer = torch.optim.SGD(masters, 0.5)
    model(torch.ones(1, 4).npu().half()).sum().backward()
    wanted = [(one - 0.5 * one.grad).detach().clone() for one in params]
    fp16_utils.model_grads_to_master_grads(params, masters, flat_master=flat)
    optimizer.step()
    fp16_utils.master_params_to_model_params(params, masters, flat_master=flat)
    for one, value in zip(params, wanted, strict=True):
        torch.testing.assert_close(one.detach(), value, rtol=1e-3, atol=1e-3)
    assert fp16_utils.to_python_float(torch.ones(1).npu()) == 1.0
    with pytest.raises(ValueError, match="needs parameters of one dtype"):
        fp16_utils.prep_param_lists(fp16_utils.FP16Model(cnn()), flat_master=True)


def test_copies_of_a_prepared_model_are_their_own() -> None:
    """What a moving average of weights does: the copy keeps its values while the original trains."""
    model = cnn()
    model, optimizer = amp.initialize(model, torch.optim.SGD(model.parameters(), 0.1), opt_level="O2", verbosity=0)
    run(model, optimizer, pictures, range(2))
    kept = copy.deepcopy(model).eval()
    again = pickle.loads(pickle.dumps(model)).eval()
    x = pictures(9)[0]
    before = kept(x).detach().clone()
    assert before.dtype == FULL and torch.equal(again(x), before)
    run(model, optimizer, pictures, range(2, 4))
    assert torch.equal(kept(x), before)
    assert not torch.equal(model.eval()(x), before)
    assert all(value.dtype != HALF for value in kept.state_dict().values())


def test_optimizers_can_be_pickled() -> None:
    optimizer = apex.optimizers.NpuFusedSGD(cnn().parameters(), 0.1)
    again = pickle.loads(pickle.dumps(optimizer))
    assert type(again) is apex.optimizers.NpuFusedSGD and again.param_groups[0]["lr"] == 0.1


def test_options_of_the_parallel_wrapper_are_not_ignored() -> None:
    for options in ({"gradient_average": False}, {"allreduce_always_fp32": True}):
        with pytest.raises(ValueError, match="not supported"):
            DistributedDataParallel(cnn(), **options)
