"""torch.npu: options, precision, deterministic results, sync debug."""

from __future__ import annotations

import threading
import warnings

import pytest
import torch
from torch_npu.npu import options

npu = torch.npu


@pytest.fixture(autouse=True)
def _options(monkeypatch):
    monkeypatch.setattr(options, "_options", {})
    yield
    npu.set_sync_debug_mode(0)
    npu.set_deterministic_level(0)


@pytest.mark.parametrize("wrong", [None, [("a", 1)], "ACL_PRECISION_MODE"])
def test_option_must_be_a_dict(wrong):
    with pytest.raises(TypeError, match=r"npu option must be a dict\."):
        npu.set_option(wrong)


@pytest.mark.parametrize(
    ("name", "good", "bad"),
    [
        ("ACL_PRECISION_MODE", "must_keep_origin_dtype", "fp16"),
        ("ACL_AICORE_NUM", "32", "33"),
        ("ACL_AICORE_NUM", 1, 0),
        ("ACL_OP_DEBUG_LEVEL", 4, 5),
        ("ACL_OP_COMPILER_CACHE_MODE", "force", "on"),
        ("MM_BMM_ND_ENABLE", "disable", "False"),
    ],
)
def test_option_values(name, good, bad):
    npu.set_option({name: good})
    with pytest.raises(ValueError, match=rf"value of {name} should be in \[.*\] but got {bad}") as caught:
        npu.set_option({"ACL_DEBUG_DIR": "/tmp", name: bad})
    assert "ERR00003 PTA invalid value" in str(caught.value)
    assert options.get_option(name) == str(good)
    assert options.get_option("ACL_DEBUG_DIR") is None


def test_other_options():
    npu.set_option({"NPU_FUZZY_COMPILE_BLACKLIST": "add", "unknown": 1})
    assert options.get_option("unknown") == "1"
    with pytest.warns(UserWarning, match="ACL_OP_SELECT_IMPL_MODE will be deprecated"):
        npu.set_option({"ACL_OP_SELECT_IMPL_MODE": "high_precision"})


def test_compile_mode(tmp_path):
    assert npu.is_jit_compile_false()
    npu.set_compile_mode(jit_compile=True)
    assert not npu.is_jit_compile_false()
    npu.set_compile_mode()
    assert npu.is_jit_compile_false()
    npu.set_aoe(str(tmp_path / "graphs"))
    assert (tmp_path / "graphs").is_dir()


def test_matrix_layouts():
    assert npu.get_mm_bmm_format_nd()
    npu.set_mm_bmm_format_nd(False)
    assert not npu.get_mm_bmm_format_nd()
    npu.set_option({"MM_BMM_ND_ENABLE": "enable"})
    assert npu.get_mm_bmm_format_nd()
    with pytest.raises(TypeError, match="bool"):
        npu.set_mm_bmm_format_nd("yes")


def test_configuration_objects():
    assert npu.config.allow_internal_format is False
    npu.config.allow_internal_format = True
    assert npu.config.allow_internal_format is True
    with pytest.raises(TypeError, match="allow_internal_format should be a bool but got int"):
        npu.config.allow_internal_format = 1
    for wrong in (npu.config, npu.matmul, npu.conv, npu.aclnn):
        with pytest.raises(AttributeError, match="alow"):
            wrong.alow_hf32 = True


def test_precision_objects():
    assert (npu.matmul.allow_hf32, npu.conv.allow_hf32, npu.aclnn.allow_hf32) == (False, True, True)
    npu.aclnn.allow_hf32 = False
    assert npu.conv.allow_hf32 is False
    npu.conv.allow_hf32 = True
    npu.matmul.allow_hf32 = True
    assert npu.matmul.allow_hf32
    npu.matmul.allow_hf32 = False
    assert npu.matmul.cube_math_type is npu.CubeMathType.KEEP_DTYPE
    npu.matmul.cube_math_type = 3
    assert npu.matmul.cube_math_type is npu.CubeMathType.USE_HF32
    for wrong in (5, "USE_FP16", True):
        with pytest.raises(ValueError, match="cube_math_type should be in"):
            npu.matmul.cube_math_type = wrong
    npu.matmul.cube_math_type = npu.CubeMathType.KEEP_DTYPE


def test_deterministic_in_a_part_of_the_model():
    seen = []

    def look(_grad: torch.Tensor) -> None:
        seen.append(torch.are_deterministic_algorithms_enabled())

    x = torch.ones(3, device="npu", requires_grad=True)
    y = npu.enable_deterministic_with_backward(x * 2)
    assert torch.are_deterministic_algorithms_enabled()
    middle = y * 3
    middle.register_hook(look)
    z = npu.disable_deterministic_with_backward(middle)
    assert not torch.are_deterministic_algorithms_enabled()
    z.sum().backward()
    assert seen == [True]
    assert not torch.are_deterministic_algorithms_enabled()
    assert torch.equal(x.grad.cpu(), torch.full((3,), 6.0))


def test_deterministic_level():
    npu.set_deterministic_level(2)
    assert npu.get_deterministic_level() == 2
    assert torch.are_deterministic_algorithms_enabled()
    with pytest.raises(ValueError, match="level should be in"):
        npu.set_deterministic_level(3)
    npu.set_deterministic_level(0)
    assert not torch.are_deterministic_algorithms_enabled()


def test_compatible_implementation(monkeypatch):
    assert not npu.are_compatible_impl_enabled()
    monkeypatch.setenv("TORCH_NPU_USE_COMPATIBLE_IMPL", "1")
    assert npu.are_compatible_impl_enabled()
    npu.use_compatible_impl(False)
    assert not npu.are_compatible_impl_enabled()


def test_switches_of_cuda_only_warn():
    for call in (npu.flash_sdp_enabled, npu.preferred_linalg_library, lambda: npu.enable_math_sdp(False)):
        with pytest.warns(UserWarning, match="isn't implemented"):
            call()
    with pytest.warns(UserWarning, match="sdp_kernel"), npu.sdp_kernel():
        pass


X = torch.tensor([1.0, 0.0, 2.0])
SYNCHRONISING = {
    "item": lambda x: x[0].item(),
    "bool": lambda x: bool(x[0] > 0),
    "cpu": lambda x: x.cpu(),
    "to": lambda x: x.to("cpu"),
    "copy_": lambda x: torch.empty(3).copy_(x),
    "tolist": lambda x: x.tolist(),
    "nonzero": lambda x: x.nonzero(),
    "mask": lambda x: x[x > 0],
    "put by mask": lambda x: x.index_put((x > 0,), torch.tensor(1.0, device="npu")),
    "masked_select": lambda x: x.masked_select(x > 0),
    "unique": lambda x: torch._unique2(x),
    "where": lambda x: torch._C._VariableFunctions.where(x > 0),
    "repeat_interleave": lambda x: x.long().repeat_interleave(torch.tensor([1, 2, 1], device="npu")),
}


@pytest.mark.parametrize("name", SYNCHRONISING)
def test_sync_debug_finds(name):
    x = X.npu()
    npu.set_sync_debug_mode("warn")
    with pytest.warns(UserWarning, match="called a synchronizing NPU operation") as caught:
        SYNCHRONISING[name](x)
    assert caught[0].filename == __file__
    npu.set_sync_debug_mode("error")
    with pytest.raises(RuntimeError, match="called a synchronizing NPU operation"):
        SYNCHRONISING[name](x)
    npu.set_sync_debug_mode("default")
    SYNCHRONISING[name](x)


def test_sync_debug_lets_other_work_pass():
    npu.set_sync_debug_mode(2)
    x = X.to("npu", non_blocking=True).requires_grad_()
    (x * 2).sum().backward()
    moved = x.detach().to("cpu", non_blocking=True)
    torch.ones(2).tolist()
    npu.set_sync_debug_mode(0)
    assert torch.equal(moved, X)


def test_sync_debug_modes():
    assert npu.get_sync_debug_mode() == 0
    for name, number in (("warn", 1), ("error", 2), ("default", 0), (1, 1), (0, 0)):
        npu.set_sync_debug_mode(name)
        assert npu.get_sync_debug_mode() == number
    for wrong in ("loud", 3, -1, None):
        with pytest.raises(RuntimeError, match="invalid value of debug_mode"):
            npu.set_sync_debug_mode(wrong)


def test_sync_debug_is_for_all_threads():
    x = X.npu().requires_grad_()
    npu.set_sync_debug_mode("error")
    errors = []

    def other():
        try:
            x.sum().item()
        except RuntimeError as error:
            errors.append(str(error))

    thread = threading.Thread(target=other)
    thread.start()
    thread.join()
    assert "called a synchronizing NPU operation: aten::_local_scalar_dense" in errors[0]
    assert "ERR00005 PTA internal error" in errors[0]
    y = x * 2
    y.register_hook(lambda grad: grad * grad.item() if grad.numel() == 1 else grad.cpu().npu())
    with pytest.raises(RuntimeError, match="synchronizing NPU operation"):
        y.sum().backward()


def test_sync_debug_of_copies_and_indices():
    x = X.npu()
    npu.set_sync_debug_mode("error")
    x.copy_(torch.ones(3), non_blocking=True)
    for wait in (lambda: x.copy_(torch.ones(3)), lambda: torch.ones(3).to("npu"), lambda: torch.equal(x, x)):
        with pytest.raises(RuntimeError, match=r"synchronizing NPU operation: aten::(copy_|_copy_from|equal)"):
            wait()
    x[torch.tensor([0, 1])]
    x[1:] = 3
    host = torch.empty(3)
    host.copy_(x, non_blocking=True)
    npu.set_sync_debug_mode("default")
    assert host.tolist() == [1, 3, 3]


def test_default_mode_is_silent():
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert X.npu().sum().item() == 3
