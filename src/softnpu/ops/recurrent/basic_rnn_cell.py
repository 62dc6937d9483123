"""BasicRNNCell: one step of RNN; `w_xh_x_static` is what the static input adds."""

from softnpu.ops.common.builder import Builder, OpError, Site
from softnpu.ops.common.schema import Schema

SCHEMA = Schema(
    "BasicRNNCell",
    ("x", "cont?", "w_xh_x_static?", "h_0?", "w_xh", "bias_h", "w_hh?", "w_ho", "bias_o"),
    ("o_t", "h_t"),
    attrs={"expose_hidden": False, "num_output": 0},
    note="x is [batch, features] or [1, batch, features]",
)


def lower(b: Builder, n: Site) -> tuple[str, ...]:
    if n.rank() not in (2, 3) or (n.rank() == 3 and n.shape()[0] != 1):
        raise OpError(
            f"BasicRNNCell {n.name!r} has an input of shape {list(n.shape())}; it takes one step, [batch, features]"
        )
    inner = b.op("Gemm", _flat(b, n, 0), n.input(4), n.input(5), transB=1)
    if n.has(2):
        inner = b.op("Add", inner, _flat(b, n, 2))
    if n.has(3) and n.has(6):
        before = _flat(b, n, 3)
        if n.has(1):
            before = b.op("Mul", before, b.reshape(n.input(1), [-1, 1]))
        inner = b.op("Add", inner, b.op("Gemm", before, n.input(6), transB=1))
    hidden = b.op("Tanh", inner)
    out = b.op("Tanh", b.op("Gemm", hidden, n.input(7), n.input(8), transB=1))
    return (b.unsqueeze(out, [0]), b.unsqueeze(hidden, [0])) if n.rank() == 3 else (str(out), str(hidden))


def _flat(b: Builder, n: Site, index: int) -> str:
    return b.squeeze(n.input(index), [0]) if n.rank(index) == 3 else n.input(index)
