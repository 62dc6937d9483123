"""ReduceLogSumExp: the logarithm of the sum of exponentials over axes."""

from softnpu.ops._reduce_by_input import reduce_by_input
from softnpu.ops._schema import Schema

SCHEMA = Schema("ReduceLogSumExp", ("x", "axes"), attrs={"keep_dims": False})
lower = reduce_by_input("LogSumExp")
