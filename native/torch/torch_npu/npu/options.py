"""Options of the compiler and of operators. They are checked and kept; what the host's kernels do does not depend on them."""

from __future__ import annotations

import os
import warnings
from collections.abc import Mapping
from enum import IntEnum
from typing import Any

import torch

from torch_npu import _environment
from torch_npu._errors import ErrCode, pta_error
from torch_npu.npu.utils import get_soc_version

_CHOICES: dict[str, tuple[str, ...]] = {
    "ACL_PRECISION_MODE": ("allow_fp32_to_fp16", "must_keep_origin_dtype"),
    "ACL_OP_SELECT_IMPL_MODE": ("high_performance", "high_precision"),
    "ACL_AICORE_NUM": tuple(str(number) for number in range(1, 33)),
    "ACL_OP_DEBUG_LEVEL": ("0", "1", "2", "3", "4"),
    "ACL_OP_COMPILER_CACHE_MODE": ("disable", "enable", "force"),
    "MM_BMM_ND_ENABLE": ("enable", "disable"),
    "ALLOW_INTERNAL_FORMAT": ("enable", "disable"),
    "jitCompile": ("enable", "disable"),
}
_DEPRECATED = ("ACL_OP_SELECT_IMPL_MODE", "ACL_OPTYPELIST_FOR_IMPLMODE")
_FIRST_WITHOUT_FORMATS = 220  # 910B1: from here on plain layouts are the default
_LEVELS = (0, 1, 2)

_options: dict[str, str] = {}


def set_option(option: Mapping[str, Any]) -> None:
    """Set options; nothing is set when one of them is wrong. Unknown names are kept as they are."""
    if not isinstance(option, dict):
        raise TypeError("npu option must be a dict." + pta_error(ErrCode.TYPE))
    for name, value in option.items():
        choices = _CHOICES.get(name)
        if choices is not None and str(value) not in choices:
            raise ValueError(f"value of {name} should be in {list(choices)} but got {value}" + pta_error(ErrCode.VALUE))
    for name, value in option.items():
        if name in _DEPRECATED:
            warnings.warn(f"Option {name} will be deprecated in future versions.", stacklevel=2)
        _options[name] = str(value)


def get_option(name: str) -> str | None:
    """What was set for an option, None when nothing was."""
    return _options.get(name)


def set_compile_mode(jit_compile: bool = False) -> None:
    """Whether operators are compiled when they are called. Here none is; programs ask for what they set."""
    set_option({"jitCompile": "enable" if jit_compile else "disable"})


def is_jit_compile_false() -> bool:
    """Whether operators are taken from the compiled library."""
    return _options.get("jitCompile", "disable") == "disable"


def set_aoe(dump_path: str) -> None:
    """Where graphs for the tuning tool go. There is no such tool here: the folder is made and stays empty."""
    os.makedirs(dump_path, exist_ok=True)
    _options["autotune"], _options["autotunegraphdumppath"] = "enable", dump_path


def set_mm_bmm_format_nd(is_nd: bool) -> None:
    """Whether matrix products keep plain layouts."""
    if not isinstance(is_nd, bool):
        raise TypeError(f"is_nd should be a bool but got {type(is_nd).__name__}" + pta_error(ErrCode.TYPE))
    set_option({"MM_BMM_ND_ENABLE": "enable" if is_nd else "disable"})


def get_mm_bmm_format_nd() -> bool:
    """Whether matrix products keep plain layouts."""
    return _options.get("MM_BMM_ND_ENABLE", "enable") == "enable"


class CubeMathType(IntEnum):
    """How the matrix unit may compute with float32 inputs."""

    KEEP_DTYPE = 0
    ALLOW_FP32_DOWN_PRECISION = 1
    USE_FP16 = 2
    USE_HF32 = 3
    USE_FP32_ADD = 4


def _bool(name: str, value: Any) -> bool:
    if not isinstance(value, bool):
        raise TypeError(f"{name} should be a bool but got {type(value).__name__}" + pta_error(ErrCode.TYPE))
    return value


class _Fixed:
    """An object whose attributes are the documented ones: a misspelt option is an error."""

    __slots__ = ()

    def __setattr__(self, name: str, value: Any) -> None:
        if not hasattr(type(self), name):
            raise AttributeError(f"{type(self).__name__} has no option {name!r}" + pta_error(ErrCode.NOT_FOUND))
        object.__setattr__(self, name, value)


class _Config(_Fixed):
    """`torch.npu.config`."""

    @property
    def allow_internal_format(self) -> bool:
        """Whether tensors may have the chip's own layouts; on 910B and later only when asked for."""
        default = "disable" if get_soc_version() >= _FIRST_WITHOUT_FORMATS else "enable"
        return _options.get("ALLOW_INTERNAL_FORMAT", default) == "enable"

    @allow_internal_format.setter
    def allow_internal_format(self, value: bool) -> None:
        _options["ALLOW_INTERNAL_FORMAT"] = "enable" if _bool("allow_internal_format", value) else "disable"


class _Hf32(_Fixed):
    """An option allow_hf32; the host computes in float32 either way."""

    __slots__ = ("_allowed",)

    def __init__(self, allowed: bool) -> None:
        self._allowed = allowed

    @property
    def allow_hf32(self) -> bool:
        """Whether float32 may be computed with a shorter mantissa."""
        return self._allowed

    @allow_hf32.setter
    def allow_hf32(self, value: bool) -> None:
        self._allowed = _bool("allow_hf32", value)


class _Matmul(_Hf32):
    """`torch.npu.matmul`."""

    __slots__ = ("_cube",)

    def __init__(self) -> None:
        super().__init__(False)
        self._cube = CubeMathType.KEEP_DTYPE

    @property
    def cube_math_type(self) -> CubeMathType:
        """How the matrix unit computes; kept only."""
        return self._cube

    @cube_math_type.setter
    def cube_math_type(self, value: CubeMathType | int) -> None:
        if isinstance(value, bool) or value not in list(CubeMathType):
            raise ValueError(
                f"cube_math_type should be in {[int(kind) for kind in CubeMathType]} but got {value!r}"
                + pta_error(ErrCode.VALUE)
            )
        self._cube = CubeMathType(value)


class _Aclnn(_Fixed):
    """`torch.npu.aclnn`: allow_hf32 is that of convolutions, as in the product."""

    version = None

    @property
    def allow_hf32(self) -> bool:
        """Whether convolutions may compute with a shorter mantissa."""
        return conv.allow_hf32

    @allow_hf32.setter
    def allow_hf32(self, value: bool) -> None:
        conv.allow_hf32 = value


config = _Config()
matmul = _Matmul()
conv = _Hf32(True)
aclnn = _Aclnn()


# ---- deterministic and compatible results ------------------------------------------------------------------------------

_deterministic = {"level": 0}


class _Deterministic(torch.autograd.Function):
    """The tensor itself; the switch is thrown in forward, and the other way round in backward."""

    @staticmethod
    def forward(ctx: Any, tensor: torch.Tensor, on: bool) -> torch.Tensor:
        ctx.on = on
        torch.use_deterministic_algorithms(on)
        return tensor.view_as(tensor)

    @staticmethod
    def backward(ctx: Any, grad: torch.Tensor) -> tuple[torch.Tensor, None]:
        torch.use_deterministic_algorithms(not ctx.on)
        return grad, None


def enable_deterministic_with_backward(tensor: torch.Tensor) -> torch.Tensor:
    """Deterministic from here on; in backward, which comes the other way, until here."""
    marked: torch.Tensor = _Deterministic.apply(tensor, True)
    return marked


def disable_deterministic_with_backward(tensor: torch.Tensor) -> torch.Tensor:
    """Not deterministic from here on; in backward deterministic from here on."""
    marked: torch.Tensor = _Deterministic.apply(tensor, False)
    return marked


def set_deterministic_level(level: int) -> None:
    """0: off, 1: deterministic, 2: also independent of how work is cut. The host's kernels have no third way: 2 is 1."""
    if isinstance(level, bool) or level not in _LEVELS:
        raise ValueError(f"level should be in {list(_LEVELS)} but got {level!r}" + pta_error(ErrCode.VALUE))
    _deterministic["level"] = level
    torch.use_deterministic_algorithms(level > 0)


def get_deterministic_level() -> int:
    """What `set_deterministic_level` set."""
    return _deterministic["level"]


def use_compatible_impl(is_compatible: bool) -> None:
    """Whether operators behave as PyTorch's own where the chip's differ. Here they always do."""
    _options["COMPATIBLE_IMPL"] = "1" if _bool("is_compatible", is_compatible) else "0"


def are_compatible_impl_enabled() -> bool:
    """What `use_compatible_impl` set, or the environment (TORCH_NPU_USE_COMPATIBLE_IMPL=1)."""
    if "COMPATIBLE_IMPL" in _options:
        return _options["COMPATIBLE_IMPL"] == "1"
    return _environment.flag("TORCH_NPU_USE_COMPATIBLE_IMPL")
