"""StatelessBernoulliV2: 1 with the probability x, 0 otherwise; the same seed and offset give the same draw."""

import numpy as np

from softnpu.base.dtypes import numpy_name
from softnpu.ops.common.builder import Array, Shape, Site
from softnpu.ops.common.schema import REQUIRED, Schema

SCHEMA = Schema("StatelessBernoulliV2", ("x", "seed", "offset"), attrs={"dtype": REQUIRED})
_WORD = (1 << 64) - 1


def infer(n: Site) -> list[tuple[int, Shape | None]]:
    return [(int(n.need("dtype")), n.input_shapes[0])]


def compute(n: Site, x: Array, seed: Array, offset: Array) -> tuple[Array, ...]:
    key, start = (int(array.reshape(-1)[0]) & _WORD for array in (seed, offset))
    generator = np.random.Generator(np.random.Philox(counter=start, key=key))
    return ((generator.random(x.shape) < x.astype(np.float64)).astype(numpy_name(int(n.need("dtype")))),)
