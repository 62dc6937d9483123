"""PyTorch's own operator database on the npu device against the cpu device.

`python tests/torch/op_db_run.py [--dtypes float32,int64] [--samples 4] [--only add,mm] [--shard 0/2] [--json found.json]`

A case is (operator, dtype, form): forward, non-contiguous arguments, backward, in-place, out= (strided, and empty: resized).
A case counts when the cpu can do it; it passes when npu gives the same values, dtype, shape and strides.
"""

from __future__ import annotations

import argparse
import faulthandler
import importlib.util
import json
import sys
import time
import types
import unittest
import warnings
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from itertools import islice
from typing import Any

import torch
import torch_npu  # noqa: F401
from torch.utils._pytree import tree_flatten, tree_map

if (
    importlib.util.find_spec("expecttest") is None
):  # torch's test code derives from its TestCase, the database does not use it
    stand_in = types.ModuleType("expecttest")
    stand_in.TestCase = unittest.TestCase  # type: ignore[attr-defined]
    sys.modules["expecttest"] = stand_in

from torch.testing._internal import common_methods_invocations
from torch.testing._internal.common_methods_invocations import op_db
from torch.testing._internal.opinfo.core import OpInfo, SampleInput

FORMS = ("forward", "noncontiguous", "backward", "inplace", "out", "out_resized")
DTYPES = ("float32", "int64", "bool", "complex64", "float16")
ALL_DTYPES = (*DTYPES, "float64", "bfloat16", "int32", "uint8", "complex128", "int8", "int16", "complex32")
UNDEFINED = ("empty", "new_empty", "resize", "jiterator")  # values that nobody promises, or kernels only for CUDA
TOLERANCES = {
    torch.float16: {"rtol": 2e-3, "atol": 1e-4},
    torch.complex32: {"rtol": 2e-3, "atol": 1e-4},
}  # else torch's own
HOST_ARGUMENTS = ("tensor_split",)  # by contract, on every device
SPARSE = (torch.sparse_coo, torch.sparse_csr, torch.sparse_csc, torch.sparse_bsr, torch.sparse_bsc)


@dataclass
class Report:
    """What came of a run: how many cases passed, failed or are not the cpu's either, and the failures with their reasons."""

    counts: Counter[str] = field(default_factory=Counter)
    failures: list[dict[str, str]] = field(default_factory=list)
    left_out: Counter[str] = field(default_factory=Counter)  # why cases do not count

    def share(self) -> float:
        """The part of the cases that the cpu can do which npu can do as well."""
        return self.counts["passed"] / max(1, self.counts["passed"] + self.counts["failed"])


class Differs(Exception):
    """npu gave something else."""


class NotCounted(Exception):
    """The cpu cannot do it either, or the operator has no such form."""


def onto_npu(tensor: torch.Tensor) -> torch.Tensor:
    """The same tensor on npu: its memory with its strides and offset, its bits, whether it wants a gradient."""
    if tensor.layout in SPARSE or tensor.is_nested:
        raise NotCounted(f"layout {tensor.layout}")
    plain = tensor.detach()
    data = torch.empty(0, dtype=torch.uint8).set_(plain.untyped_storage()).npu()
    moved = torch.empty(0, dtype=plain.dtype, device="npu")
    moved.set_(data.untyped_storage(), plain.storage_offset(), plain.size(), plain.stride())
    if plain.is_conj():
        moved = moved.conj()
    if plain.is_neg():
        moved = torch._neg_view(moved)
    return moved.requires_grad_(tensor.requires_grad)


def moved(value: Any) -> Any:
    """One argument on npu. Devices that an argument names move too; what names the cpu as a word stays."""
    if isinstance(value, torch.Tensor):
        return onto_npu(value)
    if isinstance(value, torch.device) or value == "cpu":
        return torch.device("npu")
    return value


def fresh(sample: SampleInput) -> SampleInput:
    """Arguments of one's own, so that an in-place call does not spoil the next."""

    def copy(value: Any) -> Any:
        if not isinstance(value, torch.Tensor):
            return value
        if value.layout in SPARSE or value.is_nested:
            raise NotCounted(f"layout {value.layout}")
        plain = value.detach()
        storage = plain.untyped_storage().clone()
        made = torch.empty(0, dtype=plain.dtype).set_(storage, plain.storage_offset(), plain.size(), plain.stride())
        made = made.conj() if plain.is_conj() else made
        made = torch._neg_view(made) if plain.is_neg() else made
        return made.requires_grad_(value.requires_grad)

    return sample.transform(copy)


def on_npu(op: OpInfo, sample: SampleInput) -> SampleInput:
    args = sample.args if op.name in HOST_ARGUMENTS else tree_map(moved, sample.args)
    made = SampleInput(tree_map(moved, sample.input), args=args, kwargs=tree_map(moved, sample.kwargs))
    made.output_process_fn_grad = sample.output_process_fn_grad
    return made


def tensors(value: Any) -> list[torch.Tensor]:
    return [leaf for leaf in tree_flatten(value)[0] if isinstance(leaf, torch.Tensor)]


def check(found: Any, wanted: Any, where: str, values: bool = True) -> None:
    """The same structure, dtypes, shapes, strides and values, and everything on npu."""
    got, want = tree_flatten(found)[0], tree_flatten(wanted)[0]
    if len(got) != len(want):
        raise Differs(f"{where}: {len(got)} results, not {len(want)}")
    for a, b in zip(got, want, strict=True):
        if not isinstance(b, torch.Tensor):
            if values and a != b and not (a != a and b != b):
                raise Differs(f"{where}: {a!r}, not {b!r}")
            continue
        if a.device.type != "npu":
            raise Differs(f"{where}: on {a.device}")
        if a.stride() != b.stride() or a.is_conj() != b.is_conj() or a.is_neg() != b.is_neg():
            raise Differs(f"{where}: strides or bits {a.stride()} {a.is_conj()}, not {b.stride()} {b.is_conj()}")
        same = a.cpu() if values else torch.empty_like(a, device="cpu").copy_(b)
        try:
            torch.testing.assert_close(same, b, equal_nan=True, **TOLERANCES.get(b.dtype, {}))
        except AssertionError as error:
            raise Differs(f"{where}: {str(error).splitlines()[0]} {str(error).splitlines()[-1]}") from None


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
        found = torch.autograd.grad(ends, leaves, [torch.full_like(end, 0.5) for end in ends], allow_unused=True)
        return [gradient for gradient in found if gradient is not None]

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
            given = tuple(out) if isinstance(out, (list, tuple)) else out
            op(sample.input, *sample.args, out=given, **sample.kwargs)
        return tensors(given)

    return call


def call_of(op: OpInfo, form: str) -> Call:
    if form == "inplace":
        return inplace(op)
    if form == "backward":
        return backward(op)
    if form.startswith("out"):
        return with_out(op, form == "out_resized")
    return forward(op)


def compare(op: OpInfo, form: str, sample: SampleInput) -> None:
    """Raises Differs when npu does otherwise, NotCounted when the cpu cannot do it."""
    call = call_of(op, form)
    if form == "noncontiguous":
        sample = sample.noncontiguous()
    again = fresh(sample)
    mine = on_npu(op, sample)
    try:
        torch.manual_seed(1)
        wanted = call(fresh(sample))
    except NotCounted:
        raise
    except Exception as error:
        raise NotCounted(f"cpu: {error}") from None
    try:
        found = call(mine)
    except Exception as error:
        raise Differs(f"{type(error).__name__}: {str(error)[:300]}") from None
    try:
        check(found, wanted, form, values=not op.name.startswith(UNDEFINED))
    except Differs:
        torch.manual_seed(2)
        if not is_random(call(again), wanted):
            raise
        check(found, wanted, form, values=False)
    except RuntimeError as error:
        raise Differs(f"{form}, looking at the result: {error}") from None


def unseeded(op: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
    """Instead of the database's own seeding: a device has other random numbers than the cpu, and `is_random` must see that."""
    return op(*args, **kwargs)


common_methods_invocations.wrapper_set_seed = unseeded


def is_random(first: Any, second: Any) -> bool:
    pairs = zip(tensors(first), tensors(second), strict=False)
    return any(a.shape != b.shape or not torch.equal(a.nan_to_num(), b.nan_to_num()) for a, b in pairs)


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


def run_case(op: OpInfo, dtype: torch.dtype, form: str, count: int) -> tuple[str, str]:
    """('passed' | 'failed' | 'not counted', reason)."""
    done, reason = 0, "no sample"
    try:
        for sample in samples_of(op, dtype, form, count):
            try:
                compare(op, form, sample)
                done += 1
            except NotCounted as error:
                reason = str(error)
    except Differs as error:
        return "failed", str(error)
    except Exception as error:
        return "not counted", f"sample: {type(error).__name__}: {str(error)[:200]}"
    return ("passed", "") if done else ("not counted", reason)


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
                if not has_form(op, dtype, form):
                    continue
                outcome, reason = run_case(op, dtype, form, count)
                report.counts[outcome] += 1
                if outcome == "not counted":
                    report.left_out[reason.splitlines()[0][:100]] += 1
                if outcome == "failed":
                    report.failures.append({"op": op.formatted_name, "dtype": name, "form": form, "reason": reason})
        if log is not None:
            print(f"{op.formatted_name} {time.monotonic() - began:.1f}s", file=log, flush=True)
    return report


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--dtypes", default=",".join(DTYPES), help="names, or `all`")
    parser.add_argument("--forms", default=",".join(FORMS))
    parser.add_argument("--samples", type=int, default=4)
    parser.add_argument("--only", default="", help="names of operators")
    parser.add_argument("--shard", default="0/1")
    parser.add_argument("--reasons", type=int, default=20, help="how many reasons to show for cases that do not count")
    parser.add_argument("--json", default="", help="file for the list of failures")
    given = parser.parse_args()
    faulthandler.enable()
    warnings.simplefilter("ignore")
    shard, shards = map(int, given.shard.split("/"))
    names = set(filter(None, given.only.split(",")))
    ops = [op for op in op_db if not names or op.name in names or op.formatted_name in names][shard::shards]
    dtypes = ALL_DTYPES if given.dtypes == "all" else given.dtypes.split(",")
    report = run(ops, dtypes, given.forms.split(","), given.samples, sys.stderr)
    print(f"{report.share():.2%} of {report.counts['passed'] + report.counts['failed']} cases;", dict(report.counts))
    for reason, times in report.left_out.most_common(given.reasons):
        print(f"not counted {times}: {reason}", file=sys.stderr)
    listed = json.dumps(report.failures, indent=1)
    if given.json:
        with open(given.json, "w") as file:
            file.write(listed)
    else:
        print(listed)
    return 0 if report.share() >= 0.99 else 1


if __name__ == "__main__":
    raise SystemExit(main())
