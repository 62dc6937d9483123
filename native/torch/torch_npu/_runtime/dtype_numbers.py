"""The numbers by which the custom operators name data types, also those that torch has none for (int4, hifloat8, float4 …).

256 and above: the code of `aclDataType` plus 256; numbers below are torch's own.
"""

from __future__ import annotations

import sys
from enum import IntEnum
from types import ModuleType
from typing import Any

from softnpu.spec._generated.dtypes import DTYPES

OFFSET = 256
_OWN_NAMES = {
    "ACL_FLOAT": "float32",
    "ACL_DOUBLE": "float64",
    "ACL_BF16": "bfloat16",
    "ACL_FLOAT8_E8M0": "float8_e8m0fnu",
    "ACL_FLOAT4_E2M1": "float4_e2m1fn_x2",
    "ACL_FLOAT4_E1M2": "float4_e1m2fn_x2",
}


def _name(acl_name: str) -> str:
    return _OWN_NAMES.get(acl_name) or acl_name.removeprefix("ACL_").lower()


DType: Any = IntEnum(  # type: ignore[misc]  # its members are rows
    "DType", {_name(row[0]): code + OFFSET for code, row in DTYPES.items() if code >= 0}
)

NUMBERS: dict[str, int] = {member.name: int(member) for member in DType}


def install(package: ModuleType) -> None:
    """The numbers as attributes of torch_npu, the enumeration where the original keeps it: `torch_npu._C._cd.DType`."""
    for name, number in NUMBERS.items():
        setattr(package, name, number)
    child: Any = ModuleType("torch_npu._C._cd", "The data types by number.")
    child.DType = DType
    package._C._cd = sys.modules[child.__name__] = child
