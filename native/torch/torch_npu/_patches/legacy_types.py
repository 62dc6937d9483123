"""The legacy types `torch.npu.FloatTensor`, `torch.npu.FloatStorage` and their like.

torch makes them for the devices it knows, in C++. For ours they are ordinary classes that answer as those do: called they make
tensors, `isinstance` looks at device and dtype, `x.type(cls)` converts.
"""

from __future__ import annotations

from functools import wraps
from types import ModuleType
from typing import Any

import torch
from torch.storage import _LegacyStorage, _LegacyStorageMeta, _warn_typed_storage_removal

_MODULE = "torch.npu"
_DTYPES = {
    "Bool": torch.bool,
    "Byte": torch.uint8,
    "Char": torch.int8,
    "Double": torch.float64,
    "Float": torch.float32,
    "Half": torch.float16,
    "Int": torch.int32,
    "Long": torch.int64,
    "Short": torch.int16,
    "BFloat16": torch.bfloat16,
}


class _TensorType(type):
    """The type of the tensor types. torch reads a type's C name for `x.type(cls)`, so that holds the module as well."""

    dtype: torch.dtype
    layout = torch.strided
    is_cuda = False
    is_xpu = False
    is_npu = True
    is_sparse = False

    def __new__(mcs, name: str, dtype: torch.dtype) -> _TensorType:
        words = {"__module__": _MODULE, "__qualname__": name, "__doc__": f"Tensors of {dtype} on an npu device."}
        kind = super().__new__(mcs, f"{_MODULE}.{name}", (), words)
        kind.dtype = dtype
        return kind

    def __init__(cls, name: str, dtype: torch.dtype) -> None:
        super().__init__(f"{_MODULE}.{name}", (), {})

    @property
    def __name__(cls) -> str:  # type: ignore[override]
        return cls.__qualname__

    def __repr__(cls) -> str:
        return f"<class '{_MODULE}.{cls.__qualname__}'>"

    def __instancecheck__(cls, instance: object) -> bool:
        if not isinstance(instance, torch.Tensor):
            return False
        return instance.device.type == "npu" and instance.dtype == cls.dtype and instance.layout == torch.strided

    def __call__(cls, *args: Any, **kwargs: Any) -> torch.Tensor:
        """Sizes, a sequence, a storage or a tensor of this type, and `device=`: what the legacy constructors take."""
        return torch.empty(0, dtype=cls.dtype, device="npu").new(*args, **kwargs)


class _StorageType(_LegacyStorageMeta):
    """The type of the storage types: it alone can warn when `dtype` is asked of the class."""

    _dtype: torch.dtype

    @property
    def dtype(cls) -> torch.dtype:  # type: ignore[override]
        _warn_typed_storage_removal()
        return cls._dtype


class _NpuLegacyStorage(_LegacyStorage, metaclass=_StorageType):
    """What cannot be done with a storage of a device says so."""

    is_npu = True

    @classmethod
    def from_buffer(cls, *_args: Any, **_kwargs: Any) -> None:
        raise RuntimeError("from_buffer: Not available for NPU storage")

    @classmethod
    def _new_with_weak_ptr(cls, *_args: Any, **_kwargs: Any) -> None:
        raise RuntimeError("_new_with_weak_ptr: Not available for NPU storage")

    @classmethod
    def _new_shared_filename(cls, *_args: Any, **_kwargs: Any) -> None:
        raise RuntimeError("_new_shared_filename: Not available for NPU storage")


def _storage_type(name: str, dtype: torch.dtype) -> type:
    return _StorageType(name, (_NpuLegacyStorage,), {"__module__": _MODULE, "__qualname__": name, "_dtype": dtype})


TENSOR_TYPES = {f"{prefix}Tensor": _TensorType(f"{prefix}Tensor", dtype) for prefix, dtype in _DTYPES.items()}
STORAGE_TYPES = {f"{prefix}Storage": _storage_type(f"{prefix}Storage", dtype) for prefix, dtype in _DTYPES.items()}


def _default_tensor_type(original: Any) -> Any:
    """`torch.set_default_tensor_type` that takes ours: torch's own knows only the types it made."""

    moved = False

    @wraps(original)
    def set_default_tensor_type(kind: Any) -> None:
        nonlocal moved
        tensor_type = TENSOR_TYPES.get(kind.removeprefix(f"{_MODULE}.")) if isinstance(kind, str) else kind
        if isinstance(tensor_type, _TensorType):
            torch.set_default_dtype(tensor_type.dtype)
            torch.set_default_device("npu")
            moved = True
            return
        original(kind)
        if moved:
            torch.set_default_device(None)
            moved = False

    return set_default_tensor_type


def install(npu: ModuleType) -> None:
    """Put the types into `torch.npu` and where torch looks them up when it loads old files."""
    for name, kind in {**TENSOR_TYPES, **STORAGE_TYPES}.items():
        setattr(npu, name, kind)
    tensor_classes: set[Any] = torch._tensor_classes
    tensor_classes.update(TENSOR_TYPES.values())
    torch._storage_classes.update(STORAGE_TYPES.values())
    torch.set_default_tensor_type = _default_tensor_type(torch.set_default_tensor_type)
