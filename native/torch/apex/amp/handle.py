"""`scale_loss`, the switch of the casts, and the handle of the older interface."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager
from typing import Any

from torch import Tensor

from apex.amp import _process_optimizer
from apex.amp._amp_state import _amp_state, maybe_print
from apex.amp.casts import Cache, disable_casts
from apex.amp.options import Properties
from apex.amp.scaler import LossScaler


@contextmanager
def scale_loss(
    loss: Tensor,
    optimizers: Any,
    loss_id: int = 0,
    model: Any = None,
    delay_unscale: bool = False,
    delay_overflow_check: bool = False,
) -> Iterator[Tensor]:
    """The loss times its scale; behind the block the gradients are divided again and the scale is set.

    With `delay_unscale` they stay scaled, for more backward passes before a step; with `delay_overflow_check` the scale is set
    by a later block. `model` is there for older programs: which parameters are meant, the optimizers know.
    """
    properties = _amp_state.opt_properties
    if properties is None:
        raise RuntimeError(
            "amp.scale_loss was called before amp was initialized: call 'model, optimizer = amp.initialize(model, optimizer, "
            "opt_level=...)' first"
        )
    if not properties.options["enabled"]:
        yield loss
        return
    if not 0 <= loss_id < len(_amp_state.loss_scalers):
        raise IndexError(f"loss_id {loss_id}: amp.initialize was called with num_losses={len(_amp_state.loss_scalers)}")
    stashes = _stashes(optimizers)
    with _scaled(
        loss, stashes, _amp_state.loss_scalers[loss_id], loss_id, delay_unscale, delay_overflow_check
    ) as scaled:
        yield scaled


def _stashes(optimizers: Any) -> list[_process_optimizer.AmpStash]:
    stashes = []
    for optimizer in optimizers if isinstance(optimizers, list | tuple) else [optimizers]:
        stash = getattr(optimizer, "_amp_stash", None)
        if stash is None:
            raise RuntimeError(
                f"amp.scale_loss: this {type(optimizer).__name__} did not go through amp.initialize; pass it there with its model"
            )
        stashes.append(stash)
    return stashes


@contextmanager
def _scaled(
    loss: Tensor, stashes: list[Any], scaler: LossScaler, loss_id: int, delay_unscale: bool, delay_check: bool
) -> Iterator[Tensor]:
    scale = scaler.loss_scale()
    for stash in stashes:
        stash.before_backward(scale)
    scaler.start()
    yield loss.float() * scale if scale != 1.0 else loss.float()
    if _amp_state.handle is not None:
        _amp_state.handle.clear_cache()
    if delay_unscale:
        return
    for stash in stashes:
        stash.after_backward(scaler)
    if not delay_check and scaler.update_scale():
        for stash in stashes:
            stash.skip_once(loss_id, scaler)


class AmpHandle:
    """The casts of a process: their switch, their cache, and the loss scale of the older interface."""

    def __init__(self, loss_scale: float | str = "dynamic", enable_caching: bool = True, verbose: bool = False) -> None:
        self.active = True
        self.cache = Cache() if enable_caching else None
        self.verbose = verbose
        self._scaler = LossScaler(loss_scale)
        self._replaced: list[tuple[Any, str, Any, bool]] = []

    def replace(self, module: Any, name: str, function: Any) -> None:
        """Put a function in the place of another until `deactivate`."""
        self._replaced.append((module, name, getattr(module, name), name in vars(module)))
        setattr(module, name, function)

    def is_active(self) -> bool:
        """Whether functions cast now."""
        return self.active

    @property
    def has_cache(self) -> bool:
        """Whether weights are cast once per iteration."""
        return self.cache is not None

    def clear_cache(self) -> None:
        """Forget the cast weights: they are about to change."""
        if self.cache is not None:
            self.cache.kept.clear()

    def scale_loss(self, loss: Tensor, optimizer: Any) -> AbstractContextManager[Tensor]:
        """`amp.scale_loss` for a program that began with `amp.init`."""
        if not hasattr(optimizer, "_amp_stash"):
            _process_optimizer.process(optimizer, Properties(), {})
        return _scaled(loss, _stashes(optimizer), self._scaler, 0, False, False)

    def wrap_optimizer(self, optimizer: Any, num_loss: int = 1) -> OptimWrapper:
        """An optimizer with `scale_loss` of its own, a scale for each of its losses."""
        return OptimWrapper(optimizer, self, num_loss)

    def disable_casts(self) -> AbstractContextManager[None]:
        """See `amp.disable_casts`."""
        return disable_casts()

    def deactivate(self) -> None:
        """No more casts: torch's functions are its own again."""
        self.active = False
        while self._replaced:
            module, name, function, own = self._replaced.pop()
            if own:
                setattr(module, name, function)
            else:
                delattr(module, name)  # what it inherits shows again
        self.clear_cache()


class OptimWrapper:
    """An optimizer of the older interface: call `scale_loss` once per loss and iteration, in the same order."""

    def __init__(self, optimizer: Any, handle: AmpHandle, num_loss: int) -> None:
        if not hasattr(optimizer, "_amp_stash"):
            _process_optimizer.process(optimizer, Properties(), {})
        self._optimizer, self._handle, self._next = optimizer, handle, 0
        self._scalers = [LossScaler("dynamic") for _ in range(num_loss)]

    def __getattr__(self, name: str) -> Any:
        if name == "_optimizer":  # while it is being unpickled
            raise AttributeError(name)
        return getattr(self._optimizer, name)

    def scale_loss(self, loss: Tensor) -> AbstractContextManager[Tensor]:
        """The next loss of this iteration."""
        if self._next == len(self._scalers):
            raise RuntimeError(f"scale_loss was called more than num_loss={len(self._scalers)} times before step()")
        loss_id, self._next = self._next, self._next + 1
        return _scaled(loss, _stashes(self._optimizer), self._scalers[loss_id], loss_id, False, False)

    def step(self, *args: Any, **kwargs: Any) -> Any:
        """The optimizer's step, unless a loss overflowed."""
        self._next = 0
        return self._optimizer.step(*args, **kwargs)


class NoOpHandle:
    """The handle of `amp.init(enabled=False)`: nothing happens."""

    verbose = has_cache = False

    def is_active(self) -> bool:
        """Never."""
        return False

    @contextmanager
    def scale_loss(self, loss: Tensor, _optimizer: Any) -> Iterator[Tensor]:
        """The loss as it is."""
        yield loss

    @contextmanager
    def disable_casts(self) -> Iterator[None]:
        """Nothing to switch off."""
        yield

    def wrap_optimizer(self, optimizer: Any, num_loss: int = 1) -> Any:
        """The optimizer, whose loss needs no scale."""
        maybe_print(f"amp is disabled: {num_loss} loss(es) stay unscaled")
        optimizer.scale_loss = lambda loss: self.scale_loss(loss, optimizer)
        return optimizer

    def clear_cache(self) -> None:
        """There is none."""
