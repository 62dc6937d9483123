"""Graph passes in the order in which they run: a file each, with CANN's name of the pass, its group and `run(graph)`.

A pass returns how often its pattern was found and how often it changed the graph. Every pass is linear in the size of
the graph. To add one: copy the file that is nearest, add a line here and a test.
"""

from __future__ import annotations

from typing import Protocol

import numpy as np

from softnpu.compiler.passes.cleanup import (
    cast_cast,
    cast_remove,
    common_subexpression,
    copy_removal,
    squeeze_unsqueeze,
    transpose_pair,
)
from softnpu.compiler.passes.convolution import (
    conv_add,
    conv_batchnorm,
    conv_bias_add,
    conv_mul,
    conv_relu,
    conv_scale,
    pad_conv,
)
from softnpu.compiler.passes.fusion import FusionReport, Switches
from softnpu.compiler.passes.patterns import gelu, layer_norm, matmul_bias_add, mish, mul_square, pow_square
from softnpu.graph.ir import Graph


class Pass(Protocol):
    """What the file of a pass offers."""

    NAME: str
    GROUP: str

    def run(self, graph: Graph) -> tuple[int, int]:
        """Change the graph; (matches, effects)."""


# What removes nodes goes first, so that the patterns behind it meet; naming goes last, so that it hides nothing.
# Additions are folded before and after products: both orders occur.
ORDER: tuple[Pass, ...] = (
    copy_removal, cast_remove, cast_cast, squeeze_unsqueeze, transpose_pair, common_subexpression,
    pad_conv, conv_bias_add, conv_add, conv_mul, conv_batchnorm, conv_scale, conv_bias_add, conv_add, matmul_bias_add,
    layer_norm, gelu, mish, pow_square, mul_square,
    conv_relu,
)  # fmt: skip


def run(graph: Graph, switches: Switches, report: FusionReport) -> None:
    """Run every pass that is switched on, and drop what nobody needs any more before and after."""
    graph.sweep()
    with np.errstate(all="ignore"):  # weights may hold infinity or NaN; then the results do, too
        for step in ORDER:
            if step.GROUP in report.groups and switches.on(step.NAME, step.GROUP):
                report.count(step.NAME, step.GROUP, *step.run(graph))
    graph.sweep()
