"""What torch's compiler needs to know of npu: functions that derive our classes from those of the compiler's modules, which are
loaded only when a program compiles something."""

from __future__ import annotations

from dataclasses import dataclass
from types import ModuleType
from typing import Any

import torch

from torch_npu import _C, npu


@dataclass(frozen=True)
class _Properties:
    """What Inductor looks up of a device."""

    multi_processor_count: int
    type: str = "npu"


class _Worker:
    """Compile workers see the device of their parent."""

    @staticmethod
    def set_device(device: int) -> None:
        npu.set_device(device)

    @staticmethod
    def current_device() -> int:
        return _C._get_device()

    @staticmethod
    def get_device_properties(device: Any = None) -> _Properties:
        del device  # all devices run on the cores of the host
        return _Properties(torch.get_num_threads())


def npu_interface(module: ModuleType) -> type:
    """The DeviceInterface of npu, for `torch._dynamo.device_interface`."""

    class NpuInterface(module.DeviceInterface):  # type: ignore[misc, name-defined]
        device, Event, Stream = npu.device, npu.Event, npu.Stream

        Worker = _Worker
        current_device = staticmethod(_C._get_device)
        set_device = staticmethod(npu.set_device)
        device_count = staticmethod(_C._get_device_count)
        is_available = staticmethod(npu.is_available)
        synchronize = staticmethod(npu.synchronize)
        current_stream, set_stream = staticmethod(npu.current_stream), staticmethod(npu.set_stream)
        get_raw_stream = staticmethod(lambda index: torch.accelerator.current_stream(index).stream_id)
        get_compute_capability = staticmethod(lambda device=None: "")
        is_bf16_supported = staticmethod(npu.is_bf16_supported)
        is_triton_capable = staticmethod(lambda device=None: False)
        get_device_properties = _Worker.get_device_properties

        @staticmethod
        def exchange_device(device: int) -> int:
            before = _C._get_device()
            if device >= 0:
                _C._set_device(device)
            return before

        maybe_exchange_device = exchange_device

        @staticmethod
        def raise_if_triton_unavailable(device: Any = None) -> None:
            raise RuntimeError(f"Triton has no backend for {device or 'npu'}; Inductor writes C++ for it")

    return NpuInterface


def npu_wrapper() -> type:
    """The class that writes the Python code around the kernels."""
    from torch._inductor.codegen.wrapper import PythonWrapperCodegen, SubgraphPythonWrapperCodegen

    class Plain:
        """What the base classes do for a fixed list of devices only."""

        def _generate_kernel_call_helper(
            self, kernel_name: str, call_args: Any, *, triton: bool = True, **more: Any
        ) -> None:
            own: Any = self
            if triton:
                super()._generate_kernel_call_helper(kernel_name, call_args, triton=triton, **more)  # type: ignore[misc]
            else:
                own.writeline(own.wrap_kernel_call(kernel_name, call_args))

        def make_allocation(self, name: str, device: torch.device, *rest: Any, **more: Any) -> str:
            """With the device's number: no guard makes it the current one while C++ kernels run."""
            line: str = super().make_allocation(name, device, *rest, **more)  # type: ignore[misc]
            return line.replace(f"device='{device.type}'", f"device='{device}'")

    class NpuSubgraph(Plain, SubgraphPythonWrapperCodegen):
        """A branch of `torch.cond`, a loop's body, …"""

    class NpuWrapper(Plain, PythonWrapperCodegen):
        @staticmethod
        def create(is_subgraph: bool, subgraph_name: Any, parent_wrapper: Any, partition_signatures: Any = None) -> Any:
            if is_subgraph:
                return NpuSubgraph(subgraph_name, parent_wrapper, partition_signatures)
            return NpuWrapper()

    return NpuWrapper


def cache_mark() -> Any:
    """A pass that changes nothing and marks compiled code on disk with our version: code that an older one wrote is not taken."""
    from torch._inductor.custom_graph_pass import CustomGraphModulePass, get_hash_for_files

    class Mark(CustomGraphModulePass):
        def __call__(self, gm: torch.fx.GraphModule) -> None: ...

        def uuid(self) -> bytes:
            return get_hash_for_files((__file__,))

    return Mark()


def register_overrides(common: ModuleType) -> None:
    """How generated code names streams and devices: as on the CPU, where there are none."""

    class NpuOverrides(common.DeviceOpOverrides):  # type: ignore[misc, name-defined]
        def import_get_raw_stream_as(self, name: str) -> str:
            return f"def {name}(_):\n    return 0\n"

        def cpp_kernel_type(self) -> str:
            return "void*"

        def set_device(self, device_idx: int) -> str:
            return f"torch.npu.set_device({device_idx})"

        def synchronize(self) -> str:
            return "torch.npu.synchronize()"

        def device_guard(self, device_idx: int) -> str:
            return f"torch.accelerator.device_index({device_idx})"

    common.register_device_op_overrides("npu", NpuOverrides())
