"""Operators of PyTorch as dump files: which are taken, what they are called, and their tensors."""

from __future__ import annotations

import itertools
from typing import Any

import torch

from softnpu.base.watch import NodeRun, Seen, show
from softnpu.observe.dump import Dump, DumpControl
from torch_npu._runtime import stream_ids as ids
from torch_npu._runtime.dtype_numbers import NUMBERS, OFFSET
from torch_npu._runtime.face import torch_with_npu
from torch_npu._watch.looking import Looking, named_arguments, named_results, short_name, tensors_in, written_names

# Where CANN's operator has another name than torch's in capitals.
_TYPES = {
    "mm": "MatMul", "bmm": "BatchMatMul", "convolution": "Conv2D", "copy": "ViewCopy", "to_copy": "Cast", "softmax": "SoftmaxV2",
    "log_softmax": "LogSoftmaxV2", "native_layer_norm": "LayerNorm", "native_batch_norm": "BatchNorm", "div": "RealDiv",
    "sum": "ReduceSumD", "mean": "ReduceMeanD", "cat": "ConcatD", "zero": "ZerosLike", "fill": "Fills",
}  # fmt: skip
_AS_BYTES = {
    torch.bfloat16: torch.int16,
    torch.complex32: torch.float16,
    torch.float8_e4m3fn: torch.uint8,
    torch.float8_e5m2: torch.uint8,
    torch.float8_e8m0fnu: torch.uint8,
}
_COPIES = frozenset({"copy_", "_to_copy", "_copy_from"})


def _crosses(arguments: dict[str, Any]) -> bool:
    """Whether a copy is between host and device: that is no operator of a chip."""
    kinds = {tensor.device.type for _, tensor in tensors_in(arguments)}
    if arguments.get("device") is not None:
        kinds.add(torch.device(arguments["device"]).type)
    return len(kinds) > 1


def operator_type(name: str) -> str:
    """The type in the file's name: add_ and add are Add, native_dropout is NativeDropout."""
    plain = name.strip("_")
    return _TYPES.get(plain) or "".join(part[:1].upper() + part[1:] for part in plain.split("_"))


def _seen(tensor: torch.Tensor) -> Seen:
    """A tensor as dump files take it: values on the host, in the order of its sizes."""
    host = tensor.detach().cpu().contiguous().resolve_conj().resolve_neg()
    if host.dtype in _AS_BYTES:
        host = host.view(_AS_BYTES[host.dtype])
    code = NUMBERS.get(str(tensor.dtype).removeprefix("torch."), OFFSET - 1) - OFFSET
    layout = torch.ops.npu.get_npu_format(tensor) if tensor.device.type == "npu" else 2
    return Seen(code, layout, tuple(tensor.shape), host.numpy(), tensor.data_ptr())


class OperatorDump(Looking):
    """Writes operators as a checked section "dump" says."""

    def __init__(self, section: dict[str, Any]) -> None:
        super().__init__()
        layers = (name for entry in section.get("dump_list", ()) for name in entry.get("layer", ()))
        self._names = frozenset(layers)
        self._inputs = section.get("dump_mode", "output") != "output" or section.get("dump_debug") == "on"
        self._files = Dump({**section, "dump_list": []}, DumpControl())
        self._numbers = itertools.count()

    def stop(self) -> None:
        super().stop()
        self._files.open = False

    def look(self, func: Any, args: Any, kwargs: Any) -> Any:
        name = short_name(func)
        kind = operator_type(name)
        arguments = named_arguments(func, args, kwargs)
        if name in _COPIES and _crosses(arguments):
            return func(*args, **kwargs)
        if self._names and not self._names & {name, name.rstrip("_"), kind, func._schema.name}:
            return func(*args, **kwargs)
        written = written_names(func)
        inputs: tuple[Seen, ...] = ()
        if self._inputs:  # before the call, which may change them
            inputs = tuple(_seen(self._kept(argument, tensor, written)) for argument, tensor in tensors_in(arguments))
        result = func(*args, **kwargs)
        outputs = [tensor for _, tensor in tensors_in(named_results(func, result))]
        self._write(name, kind, inputs, outputs)
        return result

    @staticmethod
    def _kept(name: str, tensor: torch.Tensor, written: set[str]) -> torch.Tensor:
        """A copy where the call will write: the file is written after it. A tensor of a list is name_0."""
        on_host = tensor.device.type != "npu"
        return tensor.clone() if on_host and (name in written or name.rpartition("_")[0] in written) else tensor

    def _write(self, name: str, kind: str, inputs: tuple[Seen, ...], outputs: list[torch.Tensor]) -> None:
        home = next((output for output in outputs if output.device.type == "npu"), None)
        device = torch_with_npu.npu.current_device() if home is None else home.get_device()
        number = next(self._numbers)
        run = NodeRun(
            name=f"{name}_{number}",
            type=kind,
            inputs=inputs,
            outputs=tuple(_seen(output) for output in outputs),
            device=device,
            stream=ids.plain(ids.current_id(device)),
            task=number,
        )
        show((self._files,), run)
