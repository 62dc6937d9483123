"""MsgTypeRegister: which class travels under which message type, and how it becomes bytes."""

from __future__ import annotations

import pickle
import sys
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

from softnpu.flow.errors import DfException
from softnpu.flow.message import PICKLED

Serialize = Callable[[Any], Any]
Row = tuple[Any, Serialize, Serialize, "Callable[[Any], int] | None"]


def pickle_dumps(value: Any) -> bytes:
    """cloudpickle's bytes: what has no name another process could import travels by value."""
    import cloudpickle

    data: bytes = cloudpickle.dumps(value)
    return data


def pickle_loads(data: Any) -> Any:
    """The object of `pickle_dumps`; only ever fed by processes of the same program."""
    return pickle.loads(data)


class MsgTypeRegister:
    """A class has one message type and a message type one class; 65535 is any object by pickle."""

    def __init__(self) -> None:
        self._rows: dict[int, Row] = {PICKLED: (None, pickle_dumps, pickle_loads, None)}
        self._types: dict[Any, int] = {}
        self._lock = threading.Lock()

    def register(
        self,
        msg_type: int,
        clz: Any,
        serialize_func: Serialize,
        deserialize_func: Serialize,
        size_func: Callable[[Any], int] | None = None,
    ) -> None:
        """Tie a class to a message type; the same pair again replaces the functions."""
        with self._lock:
            row, number = self._rows.get(msg_type), self._types.get(clz)
            if row is not None and row[0] is not clz:
                raise DfException(
                    f"Message type {msg_type} already belongs to {row[0] or 'pickled objects'}, not to {clz}."
                )
            if number is not None and number != msg_type:
                raise DfException(f"{clz} already has the message type {number} and cannot have {msg_type} too.")
            self._rows[msg_type] = (clz, serialize_func, deserialize_func, size_func)
            self._types[clz] = msg_type

    def registered(self, msg_type: int) -> bool:
        """Whether a message type has an owner."""
        return msg_type in self._rows

    def get_msg_type(self, clz: Any) -> int | None:
        """The message type of exactly this class."""
        return self._types.get(clz)

    def get_serialize_func(self, msg_type: int) -> Serialize | None:
        """Object to bytes."""
        row = self._rows.get(msg_type)
        return row and row[1]

    def get_deserialize_func(self, msg_type: int) -> Serialize | None:
        """Bytes to object."""
        row = self._rows.get(msg_type)
        return row and row[2]

    def get_size_func(self, msg_type: int) -> Callable[[Any], int] | None:
        """Size of an object's bytes; nothing here asks."""
        row = self._rows.get(msg_type)
        return row and row[3]

    @staticmethod
    def deserialize_from_file(pkl_file: str, work_path: str | None = None) -> Any:
        """The object in a file of a workspace; `work_path` becomes importable first."""
        if work_path is not None:
            sys.path.append(work_path)
        return pickle_loads(Path(pkl_file).read_bytes())

    def dumps(self) -> bytes | None:
        """For a worker: the rows as they are now; None when nothing was registered, so that it need not load anything."""
        return pickle_dumps(self) if self._types else None

    @staticmethod
    def loads(data: bytes | None) -> MsgTypeRegister:
        """The register that `dumps` wrote."""
        if data is None:
            return MsgTypeRegister()
        register: MsgTypeRegister = pickle_loads(data)
        return register

    def __getstate__(self) -> dict[str, Any]:
        return {"_rows": dict(self._rows), "_types": dict(self._types)}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state)
        self._lock = threading.Lock()


msg_type_register = MsgTypeRegister()
