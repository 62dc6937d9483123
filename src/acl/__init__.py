"""pyACL on machines without an NPU. The functions are those of the CANN manual; `dir(acl)` lists them."""

from softnpu.base.cann import real_cann as _real_cann

if _found := _real_cann():
    raise ImportError(
        f"a real CANN is installed at {_found}, so softnpu's acl steps aside. To use the NPU, put "
        f"{_found}/python/site-packages first in PYTHONPATH (source its set_env.sh); to use softnpu all the same, set "
        "SOFTNPU_FACE=softnpu."
    )

from acl import blas, fv, himpi, mdl, media, op, prof, rt, util  # noqa: F401 they are attributes of acl
from acl._lazy import face as _face

__getattr__, __dir__ = _face("acl")
