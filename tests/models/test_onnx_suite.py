"""The test cases of the ONNX project, driven through atc and acl.mdl: every operator, and nine small famous networks."""

from __future__ import annotations

import importlib.metadata
import inspect
import warnings
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from generators import onnx_suite
from onnx import numpy_helper

from tests.models.support import Array, Client, assert_same, convert, reference, run_once, session

KNOWN = Path(__file__).with_name("onnx_suite_known.txt")
STRINGS = "is a tensor of strings"  # what no offline model takes, whatever onnxruntime does with it
SHARE = 0.97  # of the cases that onnxruntime passes
NEWEST_IR = 11  # released versions of onnxruntime refuse newer files, whatever is in them
LIGHT = Path(onnx.__file__).parent / "backend" / "test" / "data" / "light"


@dataclass
class Score:
    """What a run through the cases found: how many there are, which count, and why some of these fail."""

    collected: int = 0
    counted: set[str] = field(default_factory=set)
    failed: dict[str, str] = field(default_factory=dict)


def read_known() -> tuple[dict[str, str], dict[str, str]]:
    """The numbers of the last run and the reasons of the cases that fail, read as the support page reads them."""
    return onnx_suite.known()


def versions() -> str:
    """The packages that decide which cases there are and which of them count."""
    return ", ".join(f"{name} {importlib.metadata.version(name)}" for name in ("onnx", "onnxruntime"))


def collect() -> list[Any]:
    """The node cases; some are made with random numbers, which are the same in each run."""
    from onnx.backend.test.case.node import collect_testcases

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # the cases divide by zero and overflow on purpose
        np.random.seed(0)
        arguments = [None] * len(inspect.signature(collect_testcases).parameters)  # older versions take none
        return list(collect_testcases(*arguments))


def takes_tensors(model: onnx.ModelProto) -> bool:
    return all(one.type.HasField("tensor_type") for one in [*model.graph.input, *model.graph.output])


def arrays(values: Sequence[Any]) -> list[Array]:
    """Inputs or outputs of a case as arrays; some are kept as messages, some as NumPy scalars."""
    return [numpy_helper.to_array(one) if isinstance(one, onnx.TensorProto) else np.asarray(one) for one in values]


def difference(found: Sequence[Array], wanted: Sequence[Array], case: Any) -> str:
    """What is wrong with outputs, "" when they are right."""
    if len(found) != len(wanted):
        return f"{len(found)} outputs instead of {len(wanted)}"
    for index, (ours, theirs) in enumerate(zip(found, wanted, strict=True)):
        if (ours.dtype, ours.shape) != (theirs.dtype, theirs.shape):
            return f"output {index} is {ours.dtype}{ours.shape} instead of {theirs.dtype}{theirs.shape}"
        if ours.dtype.kind not in "fcV":
            same = bool((ours == theirs).all())
        else:
            wide = np.complex128 if ours.dtype.kind == "c" else np.float64
            same = np.allclose(ours.astype(wide), theirs.astype(wide), case.rtol, case.atol, equal_nan=True)
        if not same:
            return f"output {index} differs"
    return ""


def onnxruntime_passes(case: Any, data: bytes) -> bool:
    """Whether onnxruntime itself computes what the case expects."""
    try:
        theirs = session(data)
        names = [one.name for one in theirs.get_inputs()]
        for given, expected in case.data_sets:
            found = theirs.run(None, dict(zip(names, arrays(given), strict=True)))
            if difference([np.asarray(one) for one in found], arrays(expected), case):
                return False
    except Exception:  # it has no kernel, refuses the model, or its binding does not know the type
        return False
    return True


def ours_fails(case: Any, model: onnx.ModelProto, folder: Path) -> str:
    """Convert and run a case; returns what went wrong, "" when nothing did."""
    path = folder / "case.onnx"
    onnx.save(model, path)
    names = [one.name for one in model.graph.input]
    try:
        with Client(convert(path, folder / "case")) as client:
            for given, expected in case.data_sets:
                found = client.run(dict(zip(names, arrays(given), strict=False)))
                if wrong := difference(found, arrays(expected), case):
                    return wrong
    except AssertionError as error:
        return str(error)
    return ""


def drive(folder: Path) -> Score:
    """Run all cases that count."""
    cases = collect()
    score = Score(len(cases))
    for case in cases:
        model = case.model
        if model is None or not takes_tensors(model):
            continue
        model.ir_version = min(model.ir_version, NEWEST_IR)
        if onnxruntime_passes(case, model.SerializeToString()):
            score.counted.add(case.name)
            if wrong := ours_fails(case, model, folder):
                score.failed[case.name] = wrong
    return score


def test_node_cases(workshop: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ALLOW_RELEASED_ONNX_OPSET_ONLY", "0")  # drafts of operators count as well
    score = drive(workshop)
    head, known = read_known()
    passed = len(score.counted) - len(score.failed)
    assert passed >= SHARE * len(score.counted) > 0, f"{passed} of {len(score.counted)} pass"
    new = {name: wrong for name, wrong in score.failed.items() if name not in known and STRINGS not in wrong}
    assert not new, "\n\n".join(f"{name}: {wrong}" for name, wrong in new.items())
    again = sorted((known.keys() & score.counted) - score.failed.keys())
    assert not again, f"these cases pass, remove them from {KNOWN.name}: {', '.join(again)}"
    if head["versions"] == versions():  # which of the cases with strings onnxruntime passes depends on the locale
        plain = len(score.counted) - sum(STRINGS in wrong for wrong in score.failed.values())
        assert plain == int(head["passed"]), f"{plain} cases without strings pass: bring {KNOWN.name} up to date"


def dummy(model: onnx.ModelProto) -> dict[str, Array]:
    """The inputs that the stored outputs belong to: ascending numbers from 0 to 1."""
    weights = {one.name for one in model.graph.initializer}
    feeds = {}
    for one in model.graph.input:
        if one.name not in weights:
            shape = [dim.dim_value or 1 for dim in one.type.tensor_type.shape.dim]
            count = int(np.prod(shape))
            feeds[one.name] = (np.arange(count).reshape(shape) / count).astype(np.float32)
    return feeds


@pytest.mark.parametrize("path", sorted(LIGHT.glob("*.onnx")), ids=lambda path: path.stem)
def test_light_model(path: Path, workshop: Path) -> None:
    feeds = dummy(onnx.load(path))
    found = run_once(convert(path, workshop / "light"), feeds)
    assert_same(found, reference(path, feeds))
    stored = onnx.TensorProto()
    stored.ParseFromString(path.with_name(f"{path.stem}_output_0.pb").read_bytes())
    np.testing.assert_allclose(found[0], numpy_helper.to_array(stored), rtol=1e-3, atol=1e-5)
