"""The page about PyTorch's databases on the npu device, from what runs have found."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path

import torch

TITLES = {"op": "Operators (`op_db`)", "module": "Modules (`module_db`)", "optim": "Optimizers (`optim_db`)"}
# Why a failure is none to repair, by the operator's name in the database.
_CHUNKED = (
    'With `acc_policy="auto"` npu computes half precision otherwise than the cpu, just outside the tolerance; a bfloat16 sample with '
    '`acc_policy="accurate"` was equal. Why is not known: an npu row in torch\'s table of devices (`_AUTO_DEFAULTS`) did not help.'
)
REASONS = {
    "to_sparse": "Sparse layouts are refused on npu, as Ascend's adapter does; use dense tensors or the cpu.",
    "nn_functional_linear_cross_entropy_chunked": _CHUNKED,
    "nn_functional_linear_cross_entropy_chunked_none": _CHUNKED,
}

HEAD = """<!-- Written by tests/torch/aten/op_db_run.py; do not edit. -->

# torch_npu: operators

PyTorch's own databases on the npu device against the cpu device: torch {torch}, {samples}. To write this page again:
`python -m tests.torch.aten.op_db_run --what op,module,optim --dtypes all --samples {count} --page docs/support/torch_operators.md`.
The slow test `tests/torch/aten/test_op_db.py` runs the same and fails when something else than the exceptions below differs.

A case is (entry, dtype, form). It counts when the cpu device can do it, and passes when npu gives the same values (torch's own
tolerances; float16 and complex32: 2e-3), dtype, shape, strides and conj/neg bits, and the result is on npu. Random operators are
compared in everything but their values.

Forms of operators: forward; non-contiguous arguments; backward (gradients of all inputs); in-place; `out=` strided; `out=` empty,
to be resized. Of modules: forward in training and evaluation with buffers afterwards; backward (inputs and parameters); moved to npu
and back (same Parameter objects, same values); built with `device="npu"`. Of optimizers: {steps} steps with every setting of the
database as a loop, foreach and fused; parameters and state.
"""

WIDER = """## Wider than the cpu

What an NPU takes and the cpu's kernels refuse: int32 classes in nll_loss, cross_entropy, multi_margin_loss, int32 in one_hot and
put_; half and bfloat16 in avg_pool3d, cdist, pdist, linalg.inv, multilabel_margin_loss, antialiased interpolation, _add_relu
(uint8 too); softmax of half with dtype=float32; transforms and stft of half (complex32 results; bfloat16 is refused: it has no
complex type); integer hardsigmoid (computed in float32, the fraction dropped); addmv with a two-dimensional self (the product is
added to each row); renorm with p <= 0; layer_norm's backward with float32 statistics and half data in any mix; quantization of half,
per channel with scales on either device; the pieces of SyncBatchNorm; fused LSTM and GRU cells; lengths of pack_padded_sequence on
the device. Products of half (mm, bmm, linear, addmm, mv, conv) add up in float32 and round once.

Other words, as there: "CheckShape failed" where lerp's shapes do not fit, "output size must be 2" in adaptive_avg_pool2d.

Otherwise than there: `pack_padded_sequence` gives torch's packed layout, not one with the padding left in `.data`: whoever reads it
with pad_packed_sequence or a recurrent layer sees the same values, and gradients, shapes and `batch_sizes` are torch's.
`acosh(out=)` into a narrower float type works, as on the cpu.

Nested tensors work in both layouts. Sparse tensors are refused with an error that says so.
"""


@dataclass
class Report:
    """What came of a run: outcomes by "dtype form", the failures with their reasons, why cases do not count."""

    table: dict[str, Counter[str]] = field(default_factory=dict)
    failures: list[dict[str, str]] = field(default_factory=list)
    left_out: Counter[str] = field(default_factory=Counter)

    def add(self, what: str, dtype: str, form: str, outcome: str, reason: str) -> None:
        self.table.setdefault(f"{dtype} {form}", Counter())[outcome] += 1
        if outcome == "not counted":
            self.left_out[reason.splitlines()[0][:100]] += 1
        if outcome == "failed":
            self.failures.append({"op": what, "dtype": dtype, "form": form, "reason": reason})

    def counts(self) -> Counter[str]:
        return sum(self.table.values(), Counter())

    def share(self) -> float:
        """The part of the cases that the cpu can do which npu can do as well."""
        counts = self.counts()
        counted = counts["passed"] + counts["failed"]
        return counts["passed"] / counted if counted else 1.0

    def headline(self) -> str:
        counts = self.counts()
        return f"{self.share():.2%} of {counts['passed'] + counts['failed']} cases; {dict(counts)}"


def joined(files: Iterable[str]) -> dict[str, Report]:
    """The reports of several runs, each over other dtypes or operators, as one."""
    reports: dict[str, Report] = {}
    for name in files:
        for what, saved in json.loads(Path(name).read_text()).items():
            report = reports.setdefault(what, Report())
            for key, counts in saved["table"].items():
                report.table[key] = report.table.get(key, Counter()) + Counter(counts)
            report.failures += saved["failures"]
            report.left_out += Counter(saved["left_out"])
    return reports


def table(report: Report) -> list[str]:
    """Rows are dtypes, columns forms; a cell is passed, or passed/counted."""
    keys = [key.split(" ") for key in report.table]
    dtypes, forms = (list(dict.fromkeys(part)) for part in zip(*keys, strict=True))

    def cell(dtype: str, form: str) -> str:
        counts = report.table.get(f"{dtype} {form}", Counter())
        passed, failed = counts["passed"], counts["failed"]
        return "" if not passed + failed else f"{passed}/{passed + failed}" if failed else str(passed)

    lines = [f"| dtype | {' | '.join(forms)} |", "|---" * (len(forms) + 1) + "|"]
    return lines + [f"| {dtype} | {' | '.join(cell(dtype, form) for form in forms)} |" for dtype in dtypes]


def exceptions(report: Report) -> list[str]:
    """One line per operator and reason, with the dtypes and forms where it fails."""
    groups: dict[tuple[str, str], list[dict[str, str]]] = {}
    for failure in report.failures:
        reason = REASONS.get(failure["op"], "Not explained: " + " ".join(failure["reason"].split())[:200])
        groups.setdefault((failure["op"], reason), []).append(failure)
    lines = []
    for (op, reason), failures in sorted(groups.items()):
        dtypes, forms = ({failure[key]: None for failure in failures} for key in ("dtype", "form"))
        lines.append(f"- `{op}` ({', '.join(dtypes)}; {', '.join(forms)}). {reason}")
    return lines or ["None."]


def section(what: str, report: Report) -> list[str]:
    counts = report.counts()
    total = counts["passed"] + counts["failed"]
    lines = [f"## {TITLES[what]}", "", f"{counts['passed']} of {total} cases pass ({report.share():.2%}).", ""]
    lines += [*table(report), "", "Exceptions:", "", *exceptions(report), ""]
    return [
        *lines,
        f"{counts['not counted']} cases do not count: the cpu cannot do them either, or there is nothing to compare.",
        "",
    ]


def page(reports: dict[str, Report], samples: int, steps: int) -> str:
    how_many = "every sample of the databases" if not samples else f"at most {samples} samples per case"
    lines = [HEAD.format(count=samples, torch=torch.__version__.partition("+")[0], samples=how_many, steps=steps)]
    for what, report in reports.items():
        if report.table:  # integers have no modules
            lines += section(what, report)
    return "\n".join([*lines, WIDER])
