"""Names of torch.onnx that the guides for npu use and torch no longer has, there from the moment somebody imports torch.onnx.

`torch.onnx.symbolic_registry.register_op`, `torch.onnx._export`, and `torch.onnx.export` with an old opset: exporting by symbolic
functions was the default when the guides were written, and is the only way to the opset 11 that ATC reads.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from functools import wraps
from importlib.machinery import ModuleSpec
from importlib.util import find_spec
from types import ModuleType
from typing import Any

_ONNX = "torch.onnx"
_REGISTRY = f"{_ONNX}.symbolic_registry"
_FIRST_OF_DYNAMO = 18  # older opsets are for the exporter by symbolic functions only


def register_op(opname: str, op: Callable[..., Any], domain: str, version: int) -> None:
    """Register a symbolic function. The domain "" was aten's; operators that live in `npu` now are registered there."""
    import torch
    from torch.onnx import register_custom_op_symbolic  # type: ignore[attr-defined]

    if domain:
        namespace = domain
    else:
        namespace = "npu" if hasattr(torch.ops.npu, opname) else "aten"
    register_custom_op_symbolic(f"{namespace}::{opname}", op, version)


def is_registered_op(opname: str, domain: str, version: int) -> bool:
    """Whether `opname` has a symbolic function for the opset."""
    from torch.onnx._internal.torchscript_exporter.registration import registry

    names = (f"{domain}::{opname}",) if domain else (f"npu::{opname}", f"aten::{opname}")
    return any(registry.is_registered_op(name, version) for name in names)


def _wants_symbolic(settings: dict[str, Any]) -> bool:
    if "dynamo" in settings:
        return False
    opset = settings.get("opset_version")
    return (opset is not None and opset < _FIRST_OF_DYNAMO) or find_spec("onnxscript") is None


def _exporter(original: Callable[..., Any]) -> Callable[..., Any]:
    @wraps(original)
    def export(*args: Any, **kwargs: Any) -> Any:
        return original(*args, **kwargs, **({"dynamo": False} if _wants_symbolic(kwargs) else {}))

    return export


def _old_exporter(current: Callable[..., Any]) -> Callable[..., Any]:
    def _export(model: Any, args: Any, f: Any, export_params: bool = True, **kwargs: Any) -> None:
        """The older name of `torch.onnx.export`; an input that has no name gets torch's."""
        kwargs["input_names"] = _without_blanks(kwargs.get("input_names"))
        current(model, args, f, export_params=export_params, **kwargs, dynamo=False)

    return _export


def _without_blanks(names: Sequence[str] | None) -> list[str] | None:
    """Names up to the first empty one: torch names by place, and refuses to call an input nothing."""
    if names is None or "" not in names:
        return None if names is None else list(names)
    return list(names)[: list(names).index("")]


def _complete(module: ModuleType) -> None:
    onnx: Any = module
    if hasattr(onnx, "symbolic_registry"):
        return
    registry: Any = ModuleType(
        _REGISTRY, "What programs for older releases of torch call to register symbolic functions."
    )
    registry.register_op, registry.is_registered_op = register_op, is_registered_op
    onnx.symbolic_registry = sys.modules[_REGISTRY] = registry
    onnx.export = _exporter(onnx.export)
    onnx._export = _old_exporter(onnx.export)


class _Finder:
    """Lets torch.onnx be imported as usual, and completes it then; importing it here would cost every program its time."""

    def find_spec(
        self, name: str, path: Sequence[str] | None = None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        if name != _ONNX:
            return None
        sys.meta_path.remove(self)
        spec = find_spec(name)
        if spec is not None and spec.loader is not None:
            loader: Any = spec.loader
            execute = loader.exec_module

            def exec_module(module: ModuleType) -> None:
                execute(module)
                _complete(module)

            loader.exec_module = exec_module
        return spec


def install() -> None:
    """Complete torch.onnx now if it is there, otherwise when it comes."""
    loaded = sys.modules.get(_ONNX)
    if loaded is not None:
        _complete(loaded)
    elif not any(isinstance(finder, _Finder) for finder in sys.meta_path):
        sys.meta_path.insert(0, _Finder())
