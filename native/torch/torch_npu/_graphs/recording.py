"""Recording operator calls and running them again on the same memory: what a captured graph is on a host device.

The calls are seen at dispatch level (a TorchDispatchMode, which autograd's threads inherit). A record keeps detached tensors, so
that a graph holds memory but no autograd history. Memory that existed before the capture gets its old contents back when the
capture ends, because on a device captured work does not run until the replay.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_flatten, tree_leaves, tree_map_only

from torch_npu import _C
from torch_npu._errors import ErrCode, graph_error

_NOT_PERMITTED = "operation not permitted when stream is capturing: {} {}; {}"


@dataclass
class Record:
    """One call: the operator, its arguments, and which of its results are new memory that a replay has to fill."""

    operator: torch._ops.OpOverload
    args: tuple[Any, ...]
    kwargs: dict[str, Any]
    fresh: dict[int, Tensor] = field(default_factory=dict)

    def replay(self) -> None:
        """Call again; new results are copied to where the first ones were."""
        result = self.operator(*self.args, **self.kwargs)
        if self.fresh:
            leaves = tree_leaves(result)
            for position, target in self.fresh.items():
                target.copy_(leaves[position])

    def has(self, names: set[str]) -> bool:
        """Whether the operator has arguments of these names."""
        return names <= {argument.name for argument in self.operator._schema.arguments}

    def update(self, values: dict[str, Any]) -> None:
        """Give arguments other values for the next replay."""
        args = list(self.args)
        for index, argument in enumerate(self.operator._schema.arguments):
            if argument.name in values and index < len(args):
                args[index] = values[argument.name]
            elif argument.name in values:
                self.kwargs[argument.name] = values[argument.name]
        self.args = tuple(args)


@dataclass
class HostCall:
    """Something that the host does with a tensor's values at each replay."""

    operator: Callable[[Tensor], None]
    tensor: Tensor

    def replay(self) -> None:
        """Do it."""
        self.operator(self.tensor)


def _detached(value: Any) -> Any:
    return tree_map_only(Tensor, lambda tensor: tensor.detach(), value)


def _storage(tensor: Tensor) -> torch.UntypedStorage:
    return tensor.untyped_storage()


def _check(operator: torch._ops.OpOverload, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
    """A capture cannot hold what needs a value on the host: the replay would use the value of today."""
    tensors = [leaf for leaf in tree_leaves((args, kwargs)) if isinstance(leaf, Tensor)]
    if not any(tensor.device.type == "npu" for tensor in tensors):
        return
    tags = operator.tags
    if torch.Tag.data_dependent_output in tags:
        raise _refusal(_NOT_PERMITTED.format(operator, "reads a value of the device", "move it out of the graph"))
    if torch.Tag.dynamic_output_shape in tags and not _has_integer_indices(operator, args):
        raise _refusal(_NOT_PERMITTED.format(operator, "has a shape that depends on values", "use a fixed shape"))
    if operator is torch.ops.aten._to_copy.default and kwargs.get("device") == torch.device("cpu"):
        raise _refusal(_NOT_PERMITTED.format(operator, "copies to the host", "copy after the replay"))


def _refusal(text: str) -> RuntimeError:
    return RuntimeError(text + graph_error(ErrCode.NOT_SUPPORT))


def _has_integer_indices(operator: torch._ops.OpOverload, args: tuple[Any, ...]) -> bool:
    """`index` is tagged as dynamic, but only masks make it so."""
    if operator.overloadpacket is not torch.ops.aten.index:
        return False
    return all(index is None or index.dtype not in (torch.bool, torch.uint8) for index in args[1])


def _written(operator: torch._ops.OpOverload, args: tuple[Any, ...], kwargs: dict[str, Any]) -> list[Tensor]:
    """The tensors that a call changes."""
    changed: list[Any] = []
    for index, argument in enumerate(operator._schema.arguments):
        if argument.alias_info is not None and argument.alias_info.is_write:
            changed.append(args[index] if index < len(args) else kwargs.get(argument.name))
    return [leaf for leaf in tree_leaves(changed) if isinstance(leaf, Tensor)]


class Recorder(TorchDispatchMode):
    """Records calls while it is on; `close` puts back what they changed."""

    def __init__(self) -> None:
        super().__init__()
        self.records: list[Record | HostCall] = []
        self._made: dict[int, torch.UntypedStorage] = {}
        self._before: dict[int, tuple[torch.UntypedStorage, torch.UntypedStorage]] = {}
        self._generators = [(generator, generator.get_state()) for generator in _generators()]

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        del types  # subclasses are unwrapped before they come here
        kwargs = kwargs or {}
        _check(func, args, kwargs)
        written = _written(func, args, kwargs)
        for tensor in written:
            self._keep(_storage(tensor))
        result = func(*args, **kwargs)
        self._record(func, args, kwargs, result, bool(written))
        return result

    def _record(self, func: Any, args: Any, kwargs: Any, result: Any, writes: bool) -> None:
        known = {_storage(leaf)._cdata for leaf in tree_leaves((args, kwargs)) if isinstance(leaf, Tensor)}
        leaves, _ = tree_flatten(result)
        new = {
            index: leaf
            for index, leaf in enumerate(leaves)
            if isinstance(leaf, Tensor) and _storage(leaf)._cdata not in known
        }
        for leaf in new.values():
            self._made[_storage(leaf)._cdata] = _storage(leaf)
        only_shape = torch.Tag.inplace_view in func.tags or (not new and not writes)
        if only_shape or func.overloadpacket in _UNINITIALIZED:
            return
        fresh = {position: leaf.detach() for position, leaf in new.items()}
        self.records.append(Record(func, _detached(args), _detached(kwargs), fresh))

    def _keep(self, storage: torch.UntypedStorage) -> None:
        key = storage._cdata
        if key not in self._made and key not in self._before:
            self._before[key] = (storage, storage.clone())

    def close(self) -> None:
        """Memory from before the capture, and the generators, as they were then."""
        for storage, contents in self._before.values():
            if storage.nbytes() == contents.nbytes():
                storage.copy_(contents)
        for generator, state in self._generators:
            generator.set_state(state)
        self._before.clear()
        self._made.clear()
        self._generators.clear()


_UNINITIALIZED = {
    torch.ops.aten.empty,
    torch.ops.aten.empty_like,
    torch.ops.aten.empty_strided,
    torch.ops.aten.new_empty,
    torch.ops.aten.new_empty_strided,
    torch.ops.aten.empty_permuted,
}


def _generators() -> list[torch.Generator]:
    return [_C._default_generator(index) for index in range(_C._get_device_count())]


def replay(records: list[Record | HostCall]) -> None:
    """Run recorded calls; autograd and the version counters do not see it, as on a device."""
    with torch._C._AutoDispatchBelowADInplaceOrView():
        for record in records:
            record.replay()
