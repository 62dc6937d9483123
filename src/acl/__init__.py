"""pyACL on machines without an NPU. The functions are those of the CANN manual; `dir(acl)` lists them."""

from softnpu.base.cann import real_cann as _real_cann

if _cann := _real_cann():
    raise ImportError(
        f"a real CANN is installed at {_cann}, so softnpu's acl steps aside. To use the NPU, put "
        f"{_cann}/python/site-packages first in PYTHONPATH (source its set_env.sh); to use softnpu all the same, set "
        "SOFTNPU_FACE=softnpu."
    )

from acl import blas as blas
from acl import fv as fv
from acl import himpi as himpi
from acl import mdl as mdl
from acl import media as media
from acl import op as op
from acl import prof as prof
from acl import rt as rt
from acl import util as util
from acl._lazy import face as _face

__getattr__, __dir__ = _face("acl")
