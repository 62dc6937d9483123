"""ContinuationIndicator: 0 for the first time step and 1 for the others, of every sequence in the batch."""

import numpy as np

from softnpu.ops.common.builder import Builder, OpError, Site
from softnpu.ops.common.schema import REQUIRED, Schema

SCHEMA = Schema("ContinuationIndicator", (), attrs={"time_step": REQUIRED, "batch_size": REQUIRED})

MAX_MARKS = 10_000_000


def lower(b: Builder, n: Site) -> str:
    steps, batch = int(n.need("time_step")), int(n.need("batch_size"))
    if steps < 1 or batch < 1 or steps * batch > MAX_MARKS:
        raise OpError(
            f"ContinuationIndicator {n.name!r} has time_step {steps} and batch_size {batch}; both must be positive"
        )
    marks = np.ones((steps, batch), np.float32)
    marks[0] = 0
    return b.const(marks)
