"""apex.amp: levels, options, messages, checks, and what a program may import."""

from __future__ import annotations

from typing import Any

import apex
import pytest
import torch
from apex import amp
from apex.amp import _amp_state
from torch import nn

from tests.torch.apex.runs import cnn, fresh_amp, pictures, run  # noqa: F401

TABLE = {
    "O0": ("torch.float32", "False", "None", "False", "1.0"),
    "O1": ("None", "True", "None", "None", "dynamic"),
    "O2": ("torch.float16", "False", "True", "True", "dynamic"),
    "O3": ("torch.float16", "False", "False", "False", "1.0"),
}


def sgd(model: nn.Module) -> torch.optim.Optimizer:
    return torch.optim.SGD(model.parameters(), 0.05, momentum=0.9)


@pytest.mark.parametrize("level", TABLE)
def test_levels_and_what_is_printed(level: str, capsys: pytest.CaptureFixture[str]) -> None:
    model = cnn()
    amp.initialize(model, sgd(model), opt_level=level)
    lines = capsys.readouterr().out.splitlines()
    assert lines[0].startswith(f"Selected optimization level {level}:  ")
    start = lines.index("Defaults for this optimization level are:")
    names = ("cast_model_type", "patch_torch_functions", "keep_batchnorm_fp32", "master_weights", "loss_scale")
    wanted = [f"{name:22} : {value}" for name, value in zip(names, TABLE[level], strict=True)]
    assert lines[start + 1 : start + 8] == [
        "enabled                : True",
        f"opt_level              : {level}",
        *wanted,
    ]
    assert "Processing user overrides (additional kwargs that are not None)..." in lines
    end = lines.index("After processing overrides, optimization options are:")
    assert lines[end + 3 : end + 8] == wanted


def test_overrides_are_printed_and_used(capsys: pytest.CaptureFixture[str]) -> None:
    model = cnn()
    amp.initialize(
        model, sgd(model), opt_level="O2", loss_scale="128.0", keep_batchnorm_fp32="False", combine_grad=True
    )
    text = capsys.readouterr().out.rpartition("After processing overrides")[2]
    for line in ("loss_scale             : 128.0", "keep_batchnorm_fp32    : False", "combine_grad           : True"):
        assert line in text
    assert model[1].weight.dtype == torch.float16
    assert amp.state_dict() == {"loss_scaler0": {"loss_scale": 128.0, "unskipped": 0}}


def test_types_of_each_level() -> None:
    found = {}
    for level in TABLE:
        model = cnn()
        model, _ = amp.initialize(model, sgd(model), opt_level=level, verbosity=0)
        out = model(pictures(0)[0])
        found[level] = [one.dtype for one in (model[0].weight, model[1].weight, model[1].running_mean, out)]
    half, full = torch.float16, torch.float32
    assert found == {
        "O0": [full] * 4,
        "O1": [full] * 3 + [half],
        "O2": [half, full, full, full],
        "O3": [half] * 3 + [full],
    }


def test_the_form_of_what_is_passed() -> None:
    one, two = cnn(), cnn()
    assert amp.initialize(one, verbosity=0) is one
    assert amp.initialize([one, two], verbosity=0) == [one, two]
    a, b = sgd(one), sgd(two)
    assert amp.initialize([one, two], [a, b], opt_level="O2", verbosity=0) == ([one, two], [a, b])
    assert amp.initialize(one, a, enabled=False) == (one, a)
    with amp.scale_loss(torch.ones(()), a) as loss:
        assert loss.item() == 1.0


def test_outputs_of_another_type() -> None:
    model = amp.initialize(cnn(), opt_level="O2", cast_model_outputs=torch.float16, verbosity=0)
    assert model(pictures(0)[0]).dtype == torch.float16


BAD = [
    ({"opt_level": "O4"}, RuntimeError, r"Unexpected optimization level O4\. Options are 'O0', 'O1', 'O2', 'O3'"),
    ({"opt_level": "02"}, RuntimeError, "letter O, not the number zero"),
    ({"opt_level": "O0", "combine_grad": True}, RuntimeError, "combine_grad=True works with opt_level O1 and O2 only"),
    ({"opt_level": "O3", "combine_grad": True}, RuntimeError, "opt_level was O3"),
    ({"opt_level": "O0", "check_combined_tensors": True}, RuntimeError, "check_combined_tensors=True works with"),
    ({"opt_level": "O2", "combine_ddp": True}, RuntimeError, "combine_ddp=True requires combine_grad=True"),
    ({"opt_level": "O2", "user_cast_preferred": True}, RuntimeError, "works with opt_level O1 only"),
    (
        {"opt_level": "O1", "cast_model_type": torch.float16},
        RuntimeError,
        "model weights themselves should remain FP32",
    ),
    ({"opt_level": "O1", "keep_batchnorm_fp32": True}, RuntimeError, "keep_batchnorm_fp32 should be None"),
    ({"opt_level": "O1", "master_weights": True}, RuntimeError, "doesn't make sense to use master_weights with O1"),
    ({"opt_level": "O2", "patch_torch_functions": True}, RuntimeError, "only be set by selecting opt_level='O1'"),
    ({"opt_level": "O2", "keep_batchnorm_fp32": "yes"}, ValueError, "must be a boolean, the string"),
    ({"opt_level": "O2", "loss_scale": "static"}, ValueError, "a positive number or 'dynamic', not 'static'"),
    ({"opt_level": "O2", "cast_model_type": "half"}, TypeError, "must be a torch dtype"),
    ({"combine_grad": 3}, TypeError, "combine_grad must be True, False or None"),
    ({"ddp_replica_count": 0}, ValueError, "ddp_replica_count must be a positive"),
    ({"num_losses": 0}, ValueError, "num_losses must be at least 1"),
    ({"scale_growth_factor": 1.0}, ValueError, "scale_growth_factor > 1"),
    ({"min_loss_scale": 4.0, "max_loss_scale": 2.0}, ValueError, "is above max_loss_scale"),
]


@pytest.mark.parametrize(("options", "kind", "message"), BAD)
def test_bad_options(options: dict[str, Any], kind: type[Exception], message: str) -> None:
    model = cnn()
    with pytest.raises(kind, match=message):
        amp.initialize(model, sgd(model), verbosity=0, **options)
    assert model[0].weight.dtype == torch.float32  # nothing was changed
    assert torch.ones(2).npu().half().exp().dtype == torch.float16


def test_hard_override_turns_an_error_into_a_warning() -> None:
    _amp_state.hard_override = True
    model = cnn()
    with pytest.warns(UserWarning, match="doesn't make sense to use master_weights"):
        amp.initialize(model, opt_level="O1", master_weights=False, verbosity=0)


def test_bad_models_and_optimizers() -> None:
    with pytest.raises(
        RuntimeError, match=r"Found param 0\.weight with type torch\.npu\.HalfTensor, expected torch\.npu\.FloatTensor"
    ):
        amp.initialize(cnn().half(), verbosity=0)
    with pytest.raises(
        RuntimeError, match=r"Found param 0\.weight with type torch\.FloatTensor, expected torch\.npu\.FloatTensor"
    ):
        amp.initialize(cnn().cpu(), verbosity=0)
    mixed = cnn()
    mixed[1].running_mean = mixed[1].running_mean.half()
    with pytest.raises(RuntimeError, match=r"Found buffer 1\.running_mean with type torch\.npu\.HalfTensor"):
        amp.initialize(mixed, verbosity=0)
    with pytest.raises(TypeError, match="models must be either a single model or a list of models"):
        amp.initialize("model", verbosity=0)
    with pytest.raises(TypeError, match="optimizers must be either a single optimizer or a list of optimizers"):
        amp.initialize(cnn(), "sgd", verbosity=0)
    model = cnn()
    _, optimizer = amp.initialize(model, sgd(model), opt_level="O2", verbosity=0)
    with pytest.raises(RuntimeError, match=r"passed through amp\.initialize once"):
        amp.initialize(cnn(), optimizer, verbosity=0)


def test_scale_loss_without_initialize() -> None:
    model = cnn()
    optimizer = sgd(model)
    loss = torch.ones((), requires_grad=True)
    with pytest.raises(RuntimeError, match="before amp was initialized"), amp.scale_loss(loss, optimizer):
        pass
    amp.initialize(cnn(), verbosity=0)
    with pytest.raises(RuntimeError, match=r"SGD did not go through amp\.initialize"), amp.scale_loss(loss, optimizer):
        pass
    with pytest.raises(IndexError, match="num_losses=1"), amp.scale_loss(loss, optimizer, loss_id=1):
        pass


def test_state_dicts_that_do_not_fit(capsys: pytest.CaptureFixture[str]) -> None:
    amp.initialize(cnn(), opt_level="O2", num_losses=2, verbosity=0)
    assert list(amp.state_dict()) == ["loss_scaler0", "loss_scaler1"]
    amp.load_state_dict({"loss_scaler1": {"loss_scale": 8.0, "unskipped": 3}})
    assert "contains 1 entries, while 2 loss_scalers" in capsys.readouterr().out
    assert amp.state_dict()["loss_scaler1"] == {"loss_scale": 8.0, "unskipped": 3}
    with pytest.raises(RuntimeError, match=r"Unexpected key\(s\) in state_dict: \['other'\]"):
        amp.load_state_dict({"loss_scaler0": {"loss_scale": 8.0, "unskipped": 3}, "other": {}})


def test_what_cannot_be_imported_names_the_way_out() -> None:
    with pytest.raises(ImportError, match=r"from torch\.nn import LayerNorm"):
        from apex.normalization import FusedLayerNorm  # noqa: F401
    with pytest.raises(ImportError, match=r"apex\.optimizers\.NpuFusedAdam on npu"):
        from apex.optimizers import FusedAdam  # noqa: F401
    assert not hasattr(apex.normalization, "Other")
    assert not apex.multi_tensor_apply.multi_tensor_applier.available
    with pytest.raises(RuntimeError, match="needs CUDA kernels"):
        apex.multi_tensor_apply.multi_tensor_applier()


def test_the_older_handle(capsys: pytest.CaptureFixture[str]) -> None:
    handle = amp.init()
    model = cnn()
    optimizer = sgd(model)
    before = model[0].weight.detach().clone()
    for step in range(2):
        loss = nn.functional.cross_entropy(model(pictures(0)[0]), pictures(0)[1])
        optimizer.zero_grad()
        with handle.scale_loss(loss * (float("inf") if step else 1.0), optimizer) as scaled:
            scaled.backward()
        optimizer.step()
        if step == 0:
            after = model[0].weight.detach().clone()
            assert not torch.equal(before, after)
    assert torch.equal(after, model[0].weight)
    assert "Skipping step, loss scaler 0 reducing loss scale to 32768.0" in capsys.readouterr().out
    assert handle.is_active() and handle.has_cache
    handle.deactivate()
    assert torch.ones(2).npu().half().exp().dtype == torch.float16
    nothing = amp.init(enabled=False)
    with nothing.scale_loss(loss, optimizer) as same:
        assert same is loss


def test_the_older_wrapper_of_optimizers() -> None:
    handle = amp.init()
    model = cnn()
    wrapper = handle.wrap_optimizer(sgd(model), num_loss=2)
    x, target = pictures(0)
    plain = cnn()
    peer = sgd(plain)
    for _ in range(3):
        wrapper.zero_grad()
        for _ in range(2):
            with wrapper.scale_loss(nn.functional.cross_entropy(model(x).float(), target)) as scaled:
                scaled.backward()
        wrapper.step()
        with amp.disable_casts():
            peer.zero_grad()
            for _ in range(2):
                nn.functional.cross_entropy(plain(x), target).backward()
            peer.step()
    torch.testing.assert_close(model[0].weight, plain[0].weight, rtol=0.02, atol=2e-3)
