"""apex.amp: mixed precision for a training script in three lines.

`initialize` prepares models and optimizers, `scale_loss` stands around the backward pass, `state_dict` goes into the checkpoint.
"""

from apex.amp._amp_state import _amp_state, master_params
from apex.amp.amp import (
    float_function,
    half_function,
    init,
    promote_function,
    register_float_function,
    register_half_function,
    register_promote_function,
)
from apex.amp.casts import disable_casts
from apex.amp.frontend import initialize, load_state_dict, state_dict
from apex.amp.handle import scale_loss

__all__ = [
    "_amp_state",
    "disable_casts",
    "float_function",
    "half_function",
    "init",
    "initialize",
    "load_state_dict",
    "master_params",
    "promote_function",
    "register_float_function",
    "register_half_function",
    "register_promote_function",
    "scale_loss",
    "state_dict",
]
