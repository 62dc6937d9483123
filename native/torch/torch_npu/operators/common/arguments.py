"""What the bodies of operators share: argument checks with the documented code, halves, out= forms."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TypeVar, overload

import torch
from torch import Tensor

from torch_npu._errors import ErrCode as ErrCode
from torch_npu._errors import ops_error

# Codes of `int dtype` arguments: below 256 torch's own numbers, from 256 on those of ACL.
_ACL = 256
_TORCH_TYPES = {
    0: torch.uint8, 1: torch.int8, 2: torch.int16, 3: torch.int32, 4: torch.int64, 5: torch.float16, 6: torch.float32,
    7: torch.float64, 9: torch.complex64, 10: torch.complex128, 11: torch.bool, 12: torch.qint8, 13: torch.quint8,
    14: torch.qint32, 15: torch.bfloat16, 16: torch.quint4x2, 23: torch.float8_e5m2, 24: torch.float8_e4m3fn, 27: torch.uint16,
    28: torch.uint32, 29: torch.uint64, 44: torch.float8_e8m0fnu,
}  # fmt: skip
ACL_TYPES = {
    0: torch.float32, 1: torch.float16, 2: torch.int8, 3: torch.int32, 4: torch.uint8, 6: torch.int16, 7: torch.uint16,
    8: torch.uint32, 9: torch.int64, 10: torch.uint64, 11: torch.float64, 12: torch.bool, 16: torch.complex64,
    17: torch.complex128, 27: torch.bfloat16, 35: torch.float8_e5m2, 36: torch.float8_e4m3fn, 37: torch.float8_e8m0fnu,
}  # fmt: skip

HALF = (torch.float16, torch.bfloat16)

DTypeCode = int | torch.dtype  # what a program writes; our own calls give the dtype itself
_T = TypeVar("_T")
Composition = Callable[..., Tensor | tuple[Tensor, ...]]  # of tensors, to one or several
Cotangents = Tensor | Sequence[Tensor | None] | None  # what a derivative begins with: the gradients of the outputs


def require(good: bool, message: str | Callable[[], str], code: ErrCode = ErrCode.PARAM) -> None:
    """The operator's own check: RuntimeError with the line of operators. Where calls are short, `message` is a function: writing one
    costs more than the check."""
    if not good:
        raise RuntimeError((message if isinstance(message, str) else message()) + ops_error(code))


def needed(value: _T | None, message: str | Callable[[], str], code: ErrCode = ErrCode.PARAM) -> _T:
    """An optional argument without which this call cannot be computed."""
    require(value is not None, message, code)
    assert value is not None
    return value


def unsupported(message: str) -> NotImplementedError:
    """An argument that is documented and not computed here."""
    return NotImplementedError(message + ops_error(ErrCode.NOT_SUPPORT))


def refuse(name: str, **arguments: object) -> None:
    """Documented arguments that are not computed."""
    for argument, value in arguments.items():
        if value is not None:
            raise unsupported(f"{name}: {argument} is not computed here; leave it out")


def dtype_of(code: DTypeCode, name: str = "dtype") -> torch.dtype:
    """The torch dtype behind an integer code."""
    if isinstance(code, torch.dtype):
        return code
    dtype = _TORCH_TYPES.get(code) if code < _ACL else ACL_TYPES.get(code - _ACL)
    if dtype is None:
        raise unsupported(f"{name} {code} has no dtype in torch")
    return dtype


def check_halves(x: Tensor, dim: int, name: str) -> None:
    """That a dimension is there and can be split in two."""
    require(x.dim() > 0, f"{name}: the input is a scalar; it needs a dimension to split")
    require(-x.dim() <= dim < x.dim(), f"{name}: dim {dim} is out of range for {x.dim()} dimensions", ErrCode.VALUE)
    size = x.shape[dim]
    require(
        size % 2 == 0,
        f"{name}: dimension {dim} has {size} elements; it must be even to be split in halves",
        ErrCode.VALUE,
    )


def halves(x: Tensor, dim: int, name: str) -> tuple[Tensor, Tensor]:
    """The first and the second half along a dimension."""
    check_halves(x, dim, name)
    first, second = x.chunk(2, dim)
    return first, second


def into(out: Tensor, result: Tensor) -> Tensor:
    """The out= form of a functional result."""
    if out.shape != result.shape:
        out.resize_(result.shape)
    return out.copy_(result)


def gradient(function: Composition, grad: Cotangents, x: Tensor) -> Tensor:
    """The vector-Jacobian product of a composition with respect to its input: what a `_backward` operator answers."""
    return gradients(function, grad, x)[0]


@overload
def gradients(function: Composition, grad: Cotangents, a: Tensor, b: Tensor, /) -> tuple[Tensor, Tensor]: ...
@overload
def gradients(
    function: Composition, grad: Cotangents, a: Tensor, b: Tensor, c: Tensor, /
) -> tuple[Tensor, Tensor, Tensor]: ...
@overload
def gradients(
    function: Composition, grad: Cotangents, a: Tensor, b: Tensor, c: Tensor, d: Tensor, e: Tensor, /
) -> tuple[Tensor, Tensor, Tensor, Tensor, Tensor]: ...
@overload
def gradients(function: Composition, grad: Cotangents, /, *inputs: Tensor) -> tuple[Tensor, ...]: ...
def gradients(function: Composition, grad: Cotangents, /, *inputs: Tensor) -> tuple[Tensor, ...]:
    """The same with respect to each of several inputs; zeros for one that the composition does not use."""
    with torch.enable_grad():
        leaves = [tensor.detach().requires_grad_() for tensor in inputs]
        outputs = function(*leaves)
        grads = torch.autograd.grad(outputs, leaves, grad, allow_unused=True)
    return tuple(torch.zeros_like(x) if dx is None else dx for dx, x in zip(grads, inputs, strict=True))


def wide(x: Tensor) -> Tensor:
    """Half precision is computed in float32, the rest as it is."""
    return x.float() if x.dtype in HALF else x


def pack_bits(bits: Tensor) -> Tensor:
    """Eight values of 0 and 1 to a byte, the first in the lowest bit; as many as fill whole bytes."""
    weights = torch.tensor([1, 2, 4, 8, 16, 32, 64, 128], dtype=torch.uint8, device=bits.device)
    return (bits.reshape(-1, 8) * weights).sum(-1, dtype=torch.uint8)


def unpack_bits(packed: Tensor) -> Tensor:
    """The bits of bytes as a flat uint8 tensor, the lowest bit of a byte first."""
    shifts = torch.arange(8, dtype=torch.uint8, device=packed.device)
    return ((packed.reshape(-1, 1) >> shifts) & 1).reshape(-1)
