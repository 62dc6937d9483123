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


def _check_one(index: int, tensor: Tensor, first: Tensor) -> None:
    if tensor.dtype != first.dtype:
        _refuse(
            f"tensors to combine have different dtype: {first.dtype}, and {tensor.dtype} at {index}", code=ErrCode.TYPE
        )
    if tensor.device.type != "npu":
        _refuse(f"tensors to combine must be on npu, the one at {index} is not on NPU but on {tensor.device}")
    if tensor.device != first.device:
        _refuse(f"tensors to combine must be on one device: {first.device}, and {tensor.device} at {index}")
    if tensor.layout != torch.strided or not tensor.is_contiguous():
        _refuse(
            f"tensors to combine must be contiguous, the one at {index} of shape {tuple(tensor.shape)} is not contiguous; "
            "call .contiguous() on it first"
        )


def _check_apart(tensors: Sequence[Tensor]) -> None:
    """Two tensors over one memory would be torn apart without a word."""
    spans = sorted(
        (tensor.data_ptr(), tensor.data_ptr() + tensor.numel() * tensor.element_size(), i)
        for i, tensor in enumerate(tensors)
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
    for index, tensor in enumerate(tensors):
        if tensor is None:
            _refuse(f"tensors to combine must not contain None, the one at {index} is")
        if not isinstance(tensor, Tensor):
            _refuse(f"expected tensors to combine, found {type(tensor).__name__} at {index}", TypeError, ErrCode.TYPE)
        first = tensors[0]
        assert first is not None
        _check_one(index, tensor, first)
    _check_apart([tensor for tensor in tensors if tensor is not None])


def views_of(flat: Tensor, tensors: Sequence[Tensor]) -> list[Tensor]:
    """The parts of a buffer, each in the shape of its tensor."""
    parts = flat.split([tensor.numel() for tensor in tensors])
    return [part.view(tensor.shape) for part, tensor in zip(parts, tensors, strict=True)]


@torch.no_grad()
def npu_combine_tensors(list_of_tensor: Sequence[Tensor], require_copy_value: bool = True) -> Tensor | None:
    """Move tensors of one dtype into one new buffer and return it, flat; they keep their shapes and, unless asked otherwise, their
    values. None for an empty list."""
    tensors = list(list_of_tensor)
    if not tensors:
        return None
    check_combinable(tensors)
    flat = torch.zeros(sum(tensor.numel() for tensor in tensors), dtype=tensors[0].dtype, device=tensors[0].device)
    views = views_of(flat, tensors)
    if require_copy_value:
        torch._foreach_copy_(views, [tensor.detach() for tensor in tensors])
    for tensor, view in zip(tensors, views, strict=True):
        tensor.data = view
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
    for tensor in list_of_tensor:
        if tensor is None or tensor.dtype != combined_tensor.dtype or tensor.data_ptr() != address:
            return False
        address += tensor.nbytes
    return address == end


class GradBuffer:
    """The gradients of parameters of one dtype and device in one buffer, into which the backward pass adds."""

    def __init__(self, params: Sequence[Tensor]) -> None:
        self.params = list(params)
        first = self.params[0]
        self.flat = torch.zeros(sum(param.numel() for param in self.params), dtype=first.dtype, device=first.device)
        self.views = views_of(self.flat, self.params)
        self.missing: set[int] = set(range(len(self.params)))

    def gather(self) -> bool:
        """Bring in gradients that lie elsewhere; those that are None count as zero. Whether every parameter has one."""
        strangers, missing = [], set()
        for index, (param, view) in enumerate(zip(self.params, self.views, strict=True)):
            grad = param.grad
            if grad is view:
                continue
            if grad is None:
                missing.add(index)
            else:
                strangers.append((index, grad))
        if strangers:
            self._adopt(strangers)
        for index in missing - self.missing:
            self.views[index].zero_()
        self.missing = missing
        return not missing

    @torch.no_grad()
    def _adopt(self, strangers: list[tuple[int, Tensor]]) -> None:
        torch._foreach_copy_([self.views[index] for index, _ in strangers], [grad for _, grad in strangers])
        for index, _ in strangers:
            self.params[index].grad = self.views[index]

    def attach(self, indices: Iterable[int]) -> None:
        """Give parameters their part of the buffer as gradient, with what it holds."""
        for index in indices:
            self.params[index].grad = self.views[index]
        self.missing = self.missing.difference(indices)

    def lost(self) -> list[int]:
        """Gradients that are in the buffer by name, but whose memory a program replaced."""
        pairs = enumerate(zip(self.params, self.views, strict=True))
        return [i for i, (param, view) in pairs if param.grad is view and view.numel() and not self._holds(view)]

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
    for param in params:
        kinds.setdefault((param.dtype, param.device), []).append(param)
    return list(kinds.values())


@torch.no_grad()
def clip_flat_norm_(flats: Sequence[Tensor], max_norm: float, norm_type: float = 2.0) -> Tensor:
    """`torch.nn.utils.clip_grad_norm_` over whole buffers: the norm before clipping, also where nothing had to be clipped."""
    if not flats:
        return torch.tensor(0.0)
    kind, limit = float(norm_type), float(max_norm)
    norms = [torch.linalg.vector_norm(flat, kind).to(flats[0].device) for flat in flats]
    total: Tensor = (
        norms[0] if len(norms) == 1 else torch.linalg.vector_norm(torch.stack([norm.float() for norm in norms]), kind)
    )
    factor = torch.clamp(limit / (total + 1e-6), max=1.0)
    for flat in flats:
        flat.mul_(factor.to(flat.device))
    return total
