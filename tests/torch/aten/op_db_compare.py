"""How a result of the npu device is compared with that of the cpu device: for the programs that run PyTorch's own databases."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

import torch
import torch_npu  # noqa: F401
from torch.utils._pytree import tree_flatten

TOLERANCES = {
    torch.float16: {"rtol": 2e-3, "atol": 1e-4},
    torch.complex32: {"rtol": 2e-3, "atol": 1e-4},
}  # else torch's own
SPARSE = (torch.sparse_coo, torch.sparse_csr, torch.sparse_csc, torch.sparse_bsr, torch.sparse_bsc)
OTHER_SEEDS = (2, 3, 4, 5, 6)  # a coin falls on the same side twice


class Differs(Exception):
    """npu gave something else."""


class NotCounted(Exception):
    """The cpu cannot do it either, or the operator has no such form."""


def copied(tensor: torch.Tensor) -> torch.Tensor:
    """The same tensor over memory of its own, with its strides and bits."""
    if tensor.layout in SPARSE or tensor.is_nested:
        raise NotCounted(f"layout {tensor.layout}")
    plain = tensor.detach()
    storage = plain.untyped_storage().clone()
    twin = torch.empty(0, dtype=plain.dtype).set_(storage, plain.storage_offset(), plain.size(), plain.stride())
    twin = twin.conj() if plain.is_conj() else twin
    twin = torch._neg_view(twin) if plain.is_neg() else twin
    return twin.requires_grad_(tensor.requires_grad)


def onto_npu(tensor: torch.Tensor) -> torch.Tensor:
    """The same tensor on npu: its memory with its strides and offset, its bits, whether it wants a gradient."""
    if tensor.layout in SPARSE or tensor.is_nested:
        raise NotCounted(f"layout {tensor.layout}")
    plain = tensor.detach()
    data = torch.empty(0, dtype=torch.uint8).set_(plain.untyped_storage()).npu()
    moved = torch.empty(0, dtype=plain.dtype, device="npu")
    moved.set_(data.untyped_storage(), plain.storage_offset(), plain.size(), plain.stride())
    if plain.is_conj():
        moved = moved.conj()
    if plain.is_neg():
        moved = torch._neg_view(moved)
    return moved.requires_grad_(tensor.requires_grad)


def moved(value: Any) -> Any:
    """One argument on npu. Devices that an argument names move too; what names the cpu as a word stays."""
    if isinstance(value, torch.Tensor):
        return onto_npu(value)
    if isinstance(value, torch.device) or value == "cpu":
        return torch.device("npu")
    return value


def tensors(value: Any) -> list[torch.Tensor]:
    return [leaf for leaf in tree_flatten(value)[0] if isinstance(leaf, torch.Tensor)]


def check(result: Any, wanted: Any, where: str, values: bool = True) -> None:
    """The same structure, dtypes, shapes, strides and values, and everything on npu."""
    got, want = tree_flatten(result)[0], tree_flatten(wanted)[0]
    if len(got) != len(want):
        raise Differs(f"{where}: {len(got)} results, not {len(want)}")
    for a, b in zip(got, want, strict=True):
        if not isinstance(b, torch.Tensor):
            if values and a != b and not (a != a and b != b):
                raise Differs(f"{where}: {a!r}, not {b!r}")
            continue
        if a.device.type != "npu":
            raise Differs(f"{where}: on {a.device}")
        if a.stride() != b.stride() or a.is_conj() != b.is_conj() or a.is_neg() != b.is_neg():
            raise Differs(f"{where}: strides or bits {a.stride()} {a.is_conj()}, not {b.stride()} {b.is_conj()}")
        same = a.cpu() if values else torch.empty_like(a, device="cpu").copy_(b)
        try:
            torch.testing.assert_close(same, b, equal_nan=True, **TOLERANCES.get(b.dtype, {}))
        except AssertionError as error:
            raise Differs(f"{where}: {str(error).splitlines()[0]} {str(error).splitlines()[-1]}") from None


def is_random(again: Callable[[], Any], wanted: Any) -> bool:
    """Whether the cpu itself gives something else with another seed: a device has other random numbers."""
    for seed in OTHER_SEEDS:
        torch.manual_seed(seed)
        pairs = zip(tensors(again()), tensors(wanted), strict=False)
        if any(a.shape != b.shape or not torch.equal(a.nan_to_num(), b.nan_to_num()) for a, b in pairs):
            return True
    return False


def compare(here: Callable[[], Any], there: Callable[[], Any], where: str, values: bool = True) -> None:
    """Raises Differs when npu (`there`) does otherwise, NotCounted when the cpu (`here`) cannot do it. `here` may be called again."""
    try:
        torch.manual_seed(1)
        wanted = here()
    except NotCounted:
        raise
    except Exception as error:
        raise NotCounted(f"cpu: {error}") from None
    try:
        result = there()
    except Exception as error:
        raise Differs(f"{type(error).__name__}: {str(error)[:300]}") from None
    try:
        check(result, wanted, where, values)
    except Differs:
        if not is_random(here, wanted):
            raise
        check(result, wanted, where, values=False)
    except RuntimeError as error:
        raise Differs(f"{where}, looking at the result: {error}") from None


def case(pieces: Callable[[], Iterable[Callable[[], None]]]) -> tuple[str, str]:
    """('passed' | 'failed' | 'not counted', reason): passed when no piece differs and at least one counts."""
    done, reason = 0, "no sample"
    try:
        for piece in pieces():
            try:
                piece()
                done += 1
            except NotCounted as error:
                reason = str(error)
    except Differs as error:
        return "failed", str(error)
    except Exception as error:
        return "not counted", f"sample: {type(error).__name__}: {str(error)[:200]}"
    return ("passed", "") if done else ("not counted", reason)
