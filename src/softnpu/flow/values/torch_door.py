"""The one door between DataFlow and torch. Nothing here imports torch before a torch tensor is at hand or asked for.

Device memory is host memory here, so an npu tensor leaves as a view of its own bytes and arrives with one copy.
"""

from __future__ import annotations

import functools
import struct
from collections.abc import Sequence
from typing import Any

import numpy as np

from softnpu.flow import codes
from softnpu.flow.errors import DfException
from softnpu.flow.message import ARRAY, LOCAL, TENSOR, TORCH_TENSOR, Message, Payload
from softnpu.flow.values import dtypes
from softnpu.flow.values.arrays import decode_tensor
from softnpu.flow.values.register import msg_type_register

Array = np.ndarray[Any, Any]
Bytes = np.ndarray[Any, np.dtype[np.uint8]]
DESCRIPTOR_BYTES = 1024
_MAX_RANK = 32
# address, offset, dtype, shape (its first slot is the rank), shape again as the original one, format, sub-format, bytes
_DESCRIPTOR = struct.Struct("<QQi4x33q33qiiQ")
_ND = 2
# torch's (and NumPy's) name of a type and its number in messages; torch before 2.3 has not all of them.
_TYPES = {
    "float32": 0, "float16": 1, "int8": 2, "int32": 3, "uint8": 4, "int16": 6, "uint16": 7, "uint32": 8, "int64": 9, "uint64": 10,
    "float64": 11, "bool": 12, "bfloat16": 27,
}  # fmt: skip
_NAMES = {number: name for name, number in _TYPES.items()}
_PLAIN_FORMATS = frozenset({-1, 0, 1, 2, 27, 30})  # the elements lie as the shape says


@functools.cache
def torch() -> Any:
    """torch; without it a sentence that says what to install."""
    try:
        import torch as module
    except ModuleNotFoundError as problem:
        raise ModuleNotFoundError(
            "df.npu_model and torch tensors in messages need torch: pip install torch==2.13.0, then softnpu-torch (make torch)",
            name="torch",
        ) from problem
    return module


@functools.cache
def torch_npu() -> Any:
    """torch_npu, which makes the device `npu` known to torch."""
    torch()
    try:
        import torch_npu as module
    except ModuleNotFoundError as problem:
        raise ModuleNotFoundError(
            "df.npu_model needs torch_npu for this Python: pip install softnpu-torch (in a checkout: make torch)",
            name="torch_npu",
        ) from problem
    return module


class _Memory:
    """The bytes of a tensor as NumPy's array interface; keeps the tensor."""

    def __init__(self, tensor: Any, nbytes: int) -> None:
        self.tensor = tensor
        self.__array_interface__ = {
            "data": (tensor.data_ptr(), False),
            "shape": (nbytes,),
            "typestr": "|u1",
            "version": 3,
        }


# ---- tensors as bytes -------------------------------------------------------------------------------------------------------


def _name(tensor: Any) -> str:
    name = str(tensor.dtype).removeprefix("torch.")
    if name not in _TYPES:
        raise DfException(
            f"A torch tensor of type {tensor.dtype} cannot travel; use one of {', '.join(_TYPES)}.",
            codes.DATATYPE_INVALID,
        )
    if tensor.dim() > _MAX_RANK:
        raise DfException(f"A tensor has {tensor.dim()} dimensions; at most {_MAX_RANK} travel.", codes.SHAPE_INVALID)
    return name


def _bytes(tensor: Any) -> Bytes:
    """The bytes of a tensor in C order; those of the tensor itself where it lies so."""
    plain = tensor.detach().resolve_conj().resolve_neg()
    if plain.device.type == "npu":
        if torch_npu().get_npu_format(plain) not in _PLAIN_FORMATS:
            plain = plain.cpu()
        else:
            torch().npu.current_stream(plain.device).synchronize()
    elif plain.device.type != "cpu":
        raise DfException(f"A tensor on {plain.device} cannot travel; use the npu or the CPU.", codes.PARAM_INVALID)
    plain = plain.contiguous()
    nbytes = plain.numel() * plain.element_size()
    return np.asarray(_Memory(plain, nbytes)) if nbytes else np.empty(0, np.uint8)


def to_chunks(tensor: Any) -> tuple[bytes, tuple[Bytes]]:
    """A tensor on its way to another process: type and shape, and its bytes without a copy."""
    return " ".join([_name(tensor), *map(str, tensor.shape)]).encode(), (_bytes(tensor),)


def from_chunks(meta: bytes, chunks: Sequence[Any], device: Any = "cpu", private: bool = False) -> Any:
    """The tensor of `to_chunks`: on a device one copy, on the CPU a view of the message, unless it must be `private`."""
    data = chunks[0] if not private or torch().device(device).type != "cpu" else bytearray(chunks[0])
    return _tensor(*_told(meta), data, device)


def _tensor(name: str, shape: tuple[int, ...], data: Any, device: Any) -> Any:
    kind = getattr(torch(), name)
    where = torch().device(device)
    if 0 in shape:
        return torch().empty(shape, dtype=kind, device=where)
    raw = np.frombuffer(data, np.uint8)
    if where.type == "cpu":
        return _over(raw if raw.flags.writeable else raw.copy()).view(kind).reshape(shape)
    tensor = torch().empty(shape, dtype=kind, device=where)
    tensor.copy_(_readable(raw).view(kind).reshape(shape))
    return tensor


def _over(raw: Bytes) -> Any:
    """A tensor over bytes; views of wider types want them aligned."""
    return torch().from_numpy(raw if raw.ctypes.data % 16 == 0 else raw.copy())


def _readable(raw: Bytes) -> Any:
    """A tensor over bytes that are only read: torch has no read-only tensors and would warn."""
    if not raw.flags.writeable:
        raw = np.asarray(_Borrowed(raw))
    return _over(raw)


class _Borrowed:
    """Read-only bytes without the mark; whoever gets them only copies out of them."""

    def __init__(self, raw: Bytes) -> None:
        self.raw = raw
        self.__array_interface__ = {
            "data": (int(raw.ctypes.data), False),
            "shape": raw.shape,
            "typestr": "|u1",
            "version": 3,
        }


# ---- the registered functions: what `feed` and `fetch` use for torch.Tensor ---------------------------------------------------


def serialize(tensor: Any) -> Bytes:
    """A CPU tensor as a descriptor of 1024 bytes and its data."""
    _need_cpu(tensor)
    number = _TYPES[_name(tensor)]
    data = _bytes(tensor)
    shape = [tensor.dim(), *tensor.shape] + [0] * (_MAX_RANK - tensor.dim())
    content = np.zeros(DESCRIPTOR_BYTES + data.nbytes, np.uint8)
    _DESCRIPTOR.pack_into(content.data, 0, 0, 0, number, *shape, *shape, _ND, _ND, data.nbytes)
    content[DESCRIPTOR_BYTES:] = data
    return content


def _need_cpu(tensor: Any) -> None:
    if tensor.device.type != "cpu":
        raise TypeError(f"only tensors on the CPU can be fed, this one is on {tensor.device}; feed tensor.cpu()")


def deserialize(data: Any, device: Any = "cpu") -> Any:
    """The tensor of `serialize`; on the CPU a view of the data."""
    return _tensor(*_described(data), device)


def _described(data: Any) -> tuple[str, tuple[int, ...], memoryview]:
    """Type, shape and bytes behind a descriptor."""
    view = memoryview(data).cast("B")
    if view.nbytes < DESCRIPTOR_BYTES:
        raise DfException(f"{view.nbytes} bytes are no torch tensor: its descriptor alone has {DESCRIPTOR_BYTES}.")
    fields = _DESCRIPTOR.unpack_from(view)
    number, rank, nbytes = fields[2], fields[3], fields[-1]
    if number not in _NAMES or not 0 <= rank <= _MAX_RANK or nbytes != view.nbytes - DESCRIPTOR_BYTES:
        raise DfException("The descriptor of a torch tensor is damaged.")
    return _NAMES[number], tuple(fields[4 : 4 + rank]), view[DESCRIPTOR_BYTES:]


def split(tensor: Any) -> tuple[bytes, tuple[Bytes]]:
    """What `serialize` makes in two pieces: a codec that knows them saves the copy behind the descriptor."""
    _need_cpu(tensor)
    return to_chunks(tensor)


serialize.to_chunks = split  # type: ignore[attr-defined]


def size(tensor: Any) -> int:
    """Bytes that `serialize` makes."""
    return DESCRIPTOR_BYTES + int(tensor.numel() * tensor.element_size())


def register() -> None:
    """Let torch.Tensor travel under its own message type from now on."""
    msg_type_register.register(TORCH_TENSOR, torch().Tensor, serialize, deserialize, size)


# ---- messages ------------------------------------------------------------------------------------------------------------------


def local(tensor: Any) -> Payload:
    """A payload that holds the tensor itself; it becomes bytes only where it leaves the process."""
    return Payload(LOCAL, value=tensor)


def on_host(value: Any) -> Any:
    """What a program or a plain function gets of a tensor that passed by reference: its own copy on the CPU."""
    return value.detach().cpu()


def tensor_of(message: Message, device: Any) -> Any:
    """The tensor of a message on a device; an npu tensor that is there already is the same object."""
    payload = message.payload
    if payload.form == LOCAL and isinstance(payload.value, torch().Tensor):
        return payload.value.to(device)
    if payload.form in (TENSOR, ARRAY):
        return _from_array(message, device)
    if message.msg_type == TORCH_TENSOR:
        if payload.meta:
            return from_chunks(payload.meta, payload.chunks, device)
        return deserialize(payload.chunks[0], device)
    raise DfException(
        f"A message of type {message.msg_type} holds no tensor; feed torch tensors, df.Tensor or arrays.",
        codes.DATATYPE_INVALID,
    )


def _from_array(message: Message, device: Any) -> Any:
    array = decode_tensor(message)
    if array.dtype.name not in _TYPES:
        raise DfException(f"torch has no type for {array.dtype}.", codes.DATATYPE_INVALID)
    data = array.reshape(-1).view(np.uint8) if array.nbytes else b""
    return _tensor(array.dtype.name, array.shape, data, device)


def as_array(message: Message) -> Array:
    """The tensor of a message as an array that is only read; nothing is copied, and torch is not needed for bytes."""
    payload = message.payload
    if payload.form != LOCAL and not payload.meta:
        return _array(*_described(payload.chunks[0]))
    meta, chunks = to_chunks(payload.value) if payload.form == LOCAL else (payload.meta, payload.chunks)
    return _array(*_told(meta), chunks[0])


def _told(meta: bytes) -> tuple[str, tuple[int, ...]]:
    name, *dims = meta.decode().split(" ")
    return name, tuple(map(int, dims))


def _array(name: str, shape: tuple[int, ...], data: Any) -> Array:
    kind = next(each for each in dtypes.ALL if int(each.dtype) == _TYPES[name])
    array: Array = np.frombuffer(data, np.uint8).view(dtypes.numpy_type(kind)).reshape(shape)
    return array
