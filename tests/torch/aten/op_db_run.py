"""PyTorch's own databases on the npu device against the cpu device: operators, modules, optimizers.

`python -m tests.torch.aten.op_db_run [--what op,module,optim] [--dtypes float32,int64 | all] [--samples 4] [--only add,mm] [--shard 0/2]
[--json failures.json] [--save all.json] [--page docs/support/torch_operators.md [--join a.json,b.json]]`

A case is (operator, dtype, form): forward, non-contiguous arguments, backward, in-place, out= (strided, and empty: resized).
A case counts when the cpu can do it; it passes when npu gives the same values, dtype, shape and strides.
"""

from __future__ import annotations

import tests.torch.aten.expecttest_stand_in  # noqa: F401  # isort: skip

import argparse
import faulthandler
import json
import sys
import time
import warnings
from collections.abc import Callable, Iterable, Iterator
from functools import partial
from itertools import islice
from pathlib import Path
from typing import Any

import torch
from torch.testing._internal import common_methods_invocations
from torch.testing._internal.common_methods_invocations import op_db
from torch.testing._internal.opinfo.core import OpInfo, SampleInput
from torch.utils._pytree import tree_map

from tests.torch.aten.module_db_run import STEPS, run_modules, run_optimizers
from tests.torch.aten.op_db_compare import NotCounted, case, compare, copied, onto_npu, tensors
from tests.torch.aten.op_db_page import Report, joined, page

FORMS = ("forward", "noncontiguous", "backward", "inplace", "out", "out_resized")
DTYPES = ("float32", "int64", "bool", "complex64", "float16")
ALL_DTYPES = (*DTYPES, "float64", "bfloat16", "int32", "uint8", "complex128", "int8", "int16", "complex32")
ALL_DTYPES += ("uint16", "uint32", "uint64", "float8_e4m3fn", "float8_e5m2", "float8_e4m3fnuz", "float8_e5m2fnuz")
UNDEFINED = ("empty", "new_empty", "resize", "jiterator")  # values that nobody promises, or kernels only for CUDA
HOST_ARGUMENTS = ("tensor_split",)  # by contract, on every device


def moved(value: Any) -> Any:
    """One argument on npu. Devices that an argument names move too."""
    if isinstance(value, torch.Tensor):
        return onto_npu(value)
    if isinstance(value, torch.device) or value == "cpu":
        return torch.device("npu")
    return value


def fresh(sample: SampleInput) -> SampleInput:
    """Arguments of one's own, so that an in-place call does not spoil the next."""
    return sample.transform(lambda value: copied(value) if isinstance(value, torch.Tensor) else value)


def on_npu(op: OpInfo, sample: SampleInput) -> SampleInput:
    args = sample.args if op.name in HOST_ARGUMENTS else tree_map(moved, sample.args)
    moved_sample = SampleInput(tree_map(moved, sample.input), args=args, kwargs=tree_map(moved, sample.kwargs))
    moved_sample.output_process_fn_grad = sample.output_process_fn_grad
    return moved_sample


Call = Callable[[SampleInput], Any]


def forward(op: OpInfo) -> Call:
    return lambda sample: op(sample.input, *sample.args, **sample.kwargs)


def inplace(op: OpInfo) -> Call:
    variant = op.get_inplace()
    if variant is None:
        raise NotCounted("no in-place form")

    def call(sample: SampleInput) -> Any:
        return variant(sample.input, *sample.args, **sample.kwargs), sample.input

    return call


def backward(op: OpInfo) -> Call:
    if not op.supports_autograd:
        raise NotCounted("no gradient")

    def call(sample: SampleInput) -> Any:
        leaves = [leaf for leaf in tensors([sample.input, sample.args, sample.kwargs]) if leaf.requires_grad]
        result = op(sample.input, *sample.args, **sample.kwargs)
        result = sample.output_process_fn_grad(result)
        ends = [end for end in tensors(result) if end.requires_grad and (end.is_floating_point() or end.is_complex())]
        if not leaves or not ends:
            raise NotCounted("no gradient")
        gradients = torch.autograd.grad(ends, leaves, [torch.full_like(end, 0.5) for end in ends], allow_unused=True)
        return [gradient for gradient in gradients if gradient is not None]

    return call


def with_out(op: OpInfo, empty: bool) -> Call:
    if not op.supports_out:
        raise NotCounted("no out=")

    def room(like: torch.Tensor) -> torch.Tensor:
        if empty:
            return torch.empty(0, dtype=like.dtype, device=like.device)
        wide = torch.zeros((*like.shape, 2), dtype=like.dtype, device=like.device)
        return wide[..., 0]

    def call(sample: SampleInput) -> Any:
        with torch.no_grad():
            first = op(sample.input, *sample.args, **sample.kwargs)
            out = tree_map(lambda leaf: room(leaf) if isinstance(leaf, torch.Tensor) else leaf, first)
            destination = tuple(out) if isinstance(out, (list, tuple)) else out
            op(sample.input, *sample.args, out=destination, **sample.kwargs)
        return tensors(destination)

    return call


def call_of(op: OpInfo, form: str) -> Call:
    if form == "inplace":
        return inplace(op)
    if form == "backward":
        return backward(op)
    if form.startswith("out"):
        return with_out(op, form == "out_resized")
    return forward(op)


def compare_sample(op: OpInfo, form: str, sample: SampleInput) -> None:
    call = call_of(op, form)
    if form == "noncontiguous":
        sample = sample.noncontiguous()
    mine = on_npu(op, sample)
    known = not op.name.startswith(UNDEFINED)
    compare(lambda: call(fresh(sample)), lambda: call(mine), form, values=known)


def unseeded(op: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
    """Instead of the database's own seeding: a device has other random numbers than the cpu, and `is_random` must see that."""
    return op(*args, **kwargs)


common_methods_invocations.wrapper_set_seed = unseeded


def samples_of(op: OpInfo, dtype: torch.dtype, form: str, count: int) -> Iterator[SampleInput]:
    grad = form == "backward"
    torch.manual_seed(0)
    return islice(op.sample_inputs("cpu", dtype, requires_grad=grad), count)


def has_form(op: OpInfo, dtype: torch.dtype, form: str) -> bool:
    if form == "backward":
        return op.supports_autograd and dtype in op.supported_backward_dtypes("cpu")
    if form == "inplace":
        return op.get_inplace() is not None
    return op.supports_out if form.startswith("out") else True


def pieces(op: OpInfo, dtype: torch.dtype, form: str, count: int) -> Iterator[Callable[[], None]]:
    for sample in samples_of(op, dtype, form, count):
        yield partial(compare_sample, op, form, sample)


def run(
    ops: Iterable[OpInfo], dtypes: Iterable[str], forms: Iterable[str] = FORMS, count: int = 4, log: Any = None
) -> Report:
    report = Report()
    for op in ops:
        began = time.monotonic()
        for name in dtypes:
            dtype = getattr(torch, name)
            if dtype not in op.dtypes:
                continue
            for form in forms:
                if has_form(op, dtype, form):
                    report.add(op.formatted_name, name, form, *case(partial(pieces, op, dtype, form, count)))
        if log is not None:
            print(f"{op.formatted_name} {time.monotonic() - began:.1f}s", file=log, flush=True)
    return report


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--what", default="op", help="op, module, optim: names with commas between")
    parser.add_argument("--dtypes", default=",".join(DTYPES), help="names, or `all`")
    parser.add_argument("--forms", default=",".join(FORMS), help="of operators")
    parser.add_argument("--samples", type=int, default=4, help="at most so many per case; 0: all")
    parser.add_argument("--only", default="", help="names of operators, modules or optimizers")
    parser.add_argument("--shard", default="0/1")
    parser.add_argument("--reasons", type=int, default=20, help="how many reasons to show for cases that do not count")
    parser.add_argument("--json", default="", help="file for the list of failures")
    parser.add_argument("--save", default="", help="file for everything found")
    parser.add_argument("--join", default="", help="files of earlier runs: run nothing, take these")
    parser.add_argument("--page", default="", help="the page to write")
    return parser.parse_args()


def chosen(options: argparse.Namespace) -> dict[str, Report]:
    """A report for each database that was asked for."""
    shard, shards = map(int, options.shard.split("/"))
    names = set(filter(None, options.only.split(",")))
    dtypes = ALL_DTYPES if options.dtypes == "all" else options.dtypes.split(",")
    count = options.samples or sys.maxsize
    reports = {}
    for what in options.what.split(","):
        if what == "op":
            ops = [op for op in op_db if not names or op.name in names or op.formatted_name in names][shard::shards]
            reports[what] = run(ops, dtypes, options.forms.split(","), count, sys.stderr)
        elif what == "module":
            reports[what] = run_modules(names, dtypes, count)
        else:
            reports[what] = run_optimizers(names, dtypes)
    return reports


def main() -> int:
    options = arguments()
    faulthandler.enable()
    warnings.simplefilter("ignore")
    if options.join:
        reports = joined(options.join.split(","))
    else:
        reports = chosen(options)
    failures = [failure for report in reports.values() for failure in report.failures]
    for report in reports.values():
        for reason, times in report.left_out.most_common(options.reasons):
            print(f"not counted {times}: {reason}", file=sys.stderr)
    print("; ".join(f"{what}: {report.headline()}" for what, report in reports.items()))
    if options.save:
        Path(options.save).write_text(json.dumps({what: vars(report) for what, report in reports.items()}, indent=1))
    if options.page:
        Path(options.page).write_text(page(reports, options.samples, STEPS))
    listed = json.dumps(failures, indent=1)
    if options.json:
        Path(options.json).write_text(listed)
    else:
        print(listed)
    return 0 if all(report.share() >= 0.99 for report in reports.values()) else 1


if __name__ == "__main__":
    raise SystemExit(main())
