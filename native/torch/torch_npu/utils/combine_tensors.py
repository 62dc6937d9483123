"""Many tensors of one dtype in one buffer: one kernel then works for all of them. What the fused optimizers and apex stand on."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import pairwise
from typing import NoReturn

import torch
from torch import Tensor

from torch_npu._errors import ErrCode, pta_error


def _refuse(what: str, kind: type[Exception] = RuntimeError, code: ErrCode = ErrCode.VALUE) -> NoReturn:
    raise kind(what + pta_error(code))


def _check_one(place: int, one: Tensor, first: Tensor) -> None:
    if one.dtype != first.dtype:
        _refuse(
            f"tensors to combine have different dtype: {first.dtype}, and {one.dtype} at {place}", code=ErrCode.TYPE
        )
    if one.device.type != "npu":
        _refuse(f"tensors to combine must be on npu, the one at {place} is not on NPU but on {one.device}")
    if one.device != first.device:
        _refuse(f"tensors to combine must be on one device: {first.device}, and {one.device} at {place}")
    if one.layout != torch.strided or not one.is_contiguous():
        _refuse(
            f"tensors to combine must be contiguous, the one at {place} of shape {tuple(one.shape)} is not contiguous; "
            "call .contiguous() on it first"
        )


def _check_apart(tensors: Sequence[Tensor]) -> None:
    """Two tensors over one memory would be torn apart without a word."""
    spans = sorted(
        (one.data_ptr(), one.data_ptr() + one.numel() * one.element_size(), i) for i, one in enumerate(tensors)
    )
    filled = [span for span in spans if span[0] != span[1]]
    for (_, end, earlier), (start, _, later) in pairwise(filled):
        if start < end:
            _refuse(
                f"tensors to combine share memory: those at {min(earlier, later)} and {max(earlier, later)}; "
                "use one parameter in both places, or clone() one of them"
            )


def check_combinable(tensors: Sequence[Tensor | None]) -> None:
    """Raise what `npu_combine_tensors` says about a list that cannot be in one buffer."""
    for place, one in enumerate(tensors):
        if one is None:
            _refuse(f"tensors to combine must not contain None, the one at {place} is")
        if not isinstance(one, Tensor):
            _refuse(f"expected tensors to combine, found {type(one).__name__} at {place}", TypeError, ErrCode.TYPE)
        first = tensors[0]
        assert first is not None
        _check_one(place, one, first)
    _check_apart([one for one in tensors if one is not None])


def views_of(flat: Tensor, tensors: Sequence[Tensor]) -> list[Tensor]:
    """The parts of a buffer, each in the shape of its tensor."""
    parts = flat.split([one.numel() for one in tensors])
    return [part.view(one.shape) for part, one in zip(parts, tensors, strict=True)]


@torch.no_grad()
def npu_combine_tensors(list_of_tensor: Sequence[Tensor], require_copy_value: bool = True) -> Tensor | None:
    """Move tensors of one dtype into one new buffer and return it, flat; they keep their shapes and, unless asked otherwise, their
    values. None for an empty list."""
    tensors = list(list_of_tensor)
    if not tensors:
        return None
    check_combinable(tensors)
    flat = torch.zeros(sum(one.numel() for one in tensors), dtype=tensors[0].dtype, device=tensors[0].device)
    views = views_of(flat, tensors)
    if require_copy_value:
        torch._foreach_copy_(views, [one.detach() for one in tensors])
    for one, view in zip(tensors, views, strict=True):
        one.data = view
    return flat


def get_part_combined_tensor(combined_tensor: Tensor | None, index: int, size: int) -> Tensor | None:
    """`size` elements of a combined tensor from `index` on, over the same memory."""
    if combined_tensor is None or size == 0:
        return None
    if index < 0 or size < 0 or index + size > combined_tensor.numel():
        _refuse(
            f"part {index} to {index + size} exceeds the combined tensor of {combined_tensor.numel()} elements",
            ValueError,
        )
    return combined_tensor.detach().view(-1)[index : index + size]


def is_combined_tensor_valid(combined_tensor: Tensor | None, list_of_tensor: Sequence[Tensor | None]) -> bool:
    """Whether the tensors still lie in the combined one, in this order and without gaps."""
    if combined_tensor is None:
        return not list_of_tensor
    address, end = combined_tensor.data_ptr(), combined_tensor.data_ptr() + combined_tensor.nbytes
    for one in list_of_tensor:
        if one is None or one.dtype != combined_tensor.dtype or one.data_ptr() != address:
            return False
        address += one.nbytes
    return address == end


class GradBuffer:
    """The gradients of parameters of one dtype and device in one buffer, into which the backward pass adds."""

    def __init__(self, params: Sequence[Tensor]) -> None:
        self.params = list(params)
        first = self.params[0]
        self.flat = torch.zeros(sum(one.numel() for one in self.params), dtype=first.dtype, device=first.device)
        self.views = views_of(self.flat, self.params)
        self.missing: set[int] = set(range(len(self.params)))

    def gather(self) -> bool:
        """Bring in gradients that lie elsewhere; those that are None count as zero. Whether every parameter has one."""
        strangers, missing = [], set()
        for place, (param, view) in enumerate(zip(self.params, self.views, strict=True)):
            grad = param.grad
            if grad is view:
                continue
            if grad is None:
                missing.add(place)
            else:
                strangers.append((place, grad))
        if strangers:
            self._adopt(strangers)
        for place in missing - self.missing:
            self.views[place].zero_()
        self.missing = missing
        return not missing

    @torch.no_grad()
    def _adopt(self, strangers: list[tuple[int, Tensor]]) -> None:
        torch._foreach_copy_([self.views[place] for place, _ in strangers], [grad for _, grad in strangers])
        for place, _ in strangers:
            self.params[place].grad = self.views[place]

    def attach(self, places: Iterable[int]) -> None:
        """Give parameters their part of the buffer as gradient, with what it holds."""
        for place in places:
            self.params[place].grad = self.views[place]
        self.missing = self.missing.difference(places)

    def lost(self) -> list[int]:
        """Gradients that are in the buffer by name, but whose memory a program replaced."""
        pairs = enumerate(zip(self.params, self.views, strict=True))
        return [i for i, (one, view) in pairs if one.grad is view and view.numel() and not self._holds(view)]

    def _holds(self, view: Tensor) -> bool:
        start = self.flat.data_ptr()
        return start <= view.data_ptr() < start + self.flat.nbytes

    def zero(self) -> None:
        """Zero the buffer and what has not come into it yet."""
        self.gather()
        self.flat.zero_()


def by_kind(params: Sequence[Tensor]) -> list[list[Tensor]]:
    """Parameters sorted into lists of one dtype and device, in the order they come."""
    kinds: dict[tuple[torch.dtype, torch.device], list[Tensor]] = {}
    for one in params:
        kinds.setdefault((one.dtype, one.device), []).append(one)
    return list(kinds.values())


@torch.no_grad()
def clip_flat_norm_(flats: Sequence[Tensor], max_norm: float, norm_type: float = 2.0) -> Tensor:
    """`torch.nn.utils.clip_grad_norm_` over whole buffers: the norm before clipping, also where nothing had to be clipped."""
    if not flats:
        return torch.tensor(0.0)
    kind, limit = float(norm_type), float(max_norm)
    norms = [torch.linalg.vector_norm(flat, kind).to(flats[0].device) for flat in flats]
    total: Tensor = (
        norms[0] if len(norms) == 1 else torch.linalg.vector_norm(torch.stack([one.float() for one in norms]), kind)
    )
    factor = torch.clamp(limit / (total + 1e-6), max=1.0)
    for flat in flats:
        flat.mul_(factor.to(flat.device))
    return total
