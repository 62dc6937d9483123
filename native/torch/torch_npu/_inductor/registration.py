"""`torch.compile` on npu, joined to torch's compiler only when a program loads that: `import torch_npu` stays light.

`install` leaves a finder that waits for some modules of the compiler and, once each has loaded, registers npu with it. Inductor
writes its C++ code for the CPU; device memory is host memory, so that code runs on npu tensors as it is.
"""

from __future__ import annotations

import importlib.abc
import importlib.machinery
import importlib.util
import sys
from collections.abc import Callable, Sequence
from types import ModuleType
from typing import Any

from torch_npu import npu as npu_face
from torch_npu._inductor import captured, device, flex_attention
from torch_npu._runtime import stream_ids
from torch_npu.npu import streams


def _interface(module: ModuleType) -> None:
    """Dynamo: what it asks about the device."""
    interface = device.npu_interface(module)
    module.register_interface_for_device("npu", interface)
    for index in range(npu_face.device_count()):
        module.register_interface_for_device(f"npu:{index}", interface)


def _codegen(module: ModuleType) -> None:
    """Inductor: who schedules kernels (the CPU's scheduler, which `module` holds) and who writes the code that calls them."""
    from torch._inductor.codegen import common

    common.register_backend_for_device(
        "npu", module.CppScheduling, device.npu_wrapper(), device_custom_pass=device.cache_mark()
    )
    device.register_overrides(common)


def _utils(module: ModuleType) -> None:
    """Inductor: the language of generated code, which it takes to be Triton for devices that it does not know."""
    utils: Any = module
    backend_of: Callable[[str], str] = utils.get_current_backend

    def get_current_backend(device_type: str | None = None) -> str:
        from torch._inductor.virtualized import V

        name = device_type or V.graph.get_current_device_or_throw().type
        return backend_of("cpu" if name == "npu" else name)

    utils.get_current_backend = get_current_backend


def _scheduler(module: ModuleType) -> None:
    """Inductor: what it does not do to loops of the CPU's C++ (reindexing them) it must not do to ours."""
    node = module.BaseSchedulerNode
    node_is_cpu = node.is_cpu

    def is_cpu(self: Any) -> bool:
        device = self.get_device()
        return node_is_cpu(self) or (device is not None and device.type == "npu")

    node.is_cpu = is_cpu


def _backends(module: ModuleType) -> None:
    """The names that programs give to `torch.compile(backend=…)`; they are entry points of the distribution, too."""
    for backend in (npu, npugraphs, npugraph_ex):
        module.register_backend(backend, name=backend.__name__)


def npu(graph: Any, inputs: Any, **options: Any) -> Any:
    """Inductor under the device's name."""
    from torch._dynamo.backends.registry import lookup_backend

    return lookup_backend("inductor")(graph, inputs, **options)


def npugraphs(graph: Any, inputs: Any, **options: Any) -> Any:
    """The traced graph, captured and replayed."""
    return captured.compile_graph(graph, inputs, **options)


def npugraph_ex(graph: Any, inputs: Any, **options: Any) -> Any:
    """The same under its newer name."""
    return npugraphs(graph, inputs, **options)


def _frames(module: ModuleType) -> None:
    """Dynamo: functions of ours that run as they are, since they change a state of the thread."""
    for function in (streams.set_stream, stream_ids.make_current):
        module.skip_code(function.__code__)


def _flex(module: ModuleType) -> None:
    flex_attention.accept(module)


def _flex_template(module: ModuleType) -> None:
    flex_attention.lower(module)


_AFTER: dict[str, Callable[[ModuleType], None]] = {
    "torch._dynamo.device_interface": _interface,
    "torch._dynamo.eval_frame": _frames,
    "torch._dynamo.backends.registry": _backends,
    "torch._inductor.codegen.cpp": _codegen,
    "torch._inductor.kernel.flex.flex_attention": _flex_template,
    "torch._inductor.scheduler": _scheduler,
    "torch._inductor.utils": _utils,
    "torch.nn.attention.flex_attention": _flex,
}


class _Loader(importlib.abc.Loader):
    """Another loader, and then our part."""

    def __init__(self, inner: Any, after: Callable[[ModuleType], None]) -> None:
        self._inner, self._after = inner, after

    def create_module(self, spec: importlib.machinery.ModuleSpec) -> ModuleType | None:
        module: ModuleType | None = self._inner.create_module(spec)
        return module

    def exec_module(self, module: ModuleType) -> None:
        self._inner.exec_module(module)
        self._after(module)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._inner, name)


class _Finder(importlib.abc.MetaPathFinder):
    """Wraps the loaders of the modules in `waiting`, each once."""

    def __init__(self, waiting: dict[str, Callable[[ModuleType], None]]) -> None:
        self._waiting = waiting

    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> importlib.machinery.ModuleSpec | None:
        after = self._waiting.pop(fullname, None)
        if after is None:
            return None
        if not self._waiting:
            sys.meta_path.remove(self)
        spec = importlib.machinery.PathFinder.find_spec(fullname, path, target)
        if spec is not None:
            spec.loader = _Loader(spec.loader, after)
        return spec


def install() -> None:
    """Register npu with the parts of the compiler that are loaded, and with the others when they are; once per process."""
    if any(isinstance(finder, _Finder) for finder in sys.meta_path):
        return
    waiting = {}
    for name, after in _AFTER.items():
        if name in sys.modules:
            after(sys.modules[name])
        else:
            waiting[name] = after
    if waiting:
        sys.meta_path.insert(0, _Finder(waiting))
