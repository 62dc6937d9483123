"""The support page of DataFlow speaks of every public name and option, and of nothing else."""

from __future__ import annotations

import enum
import importlib
import inspect
import sys
import tomllib
from collections import Counter
from typing import Any

import pytest

import dataflow as df
import dataflow.flow_func as ff
from softnpu.flow.application import options
from tests.paths import ROOT

ROWS = ROOT / "src/softnpu/spec/flow"
MODULES = (
    "dataflow",
    "dataflow.data_type",
    "dataflow.dataflow",
    "dataflow.pyflow",
    "dataflow.flow_func",
    "dataflow.utils",
    "dataflow.utils.log",
    "dataflow.utils.utils",
    "dataflow.utils.name_scope",
    "dataflow.utils.msg_type_register",
    "dataflow.utils.deploy_template",
    "dataflow.tools.func_ws_creator",
)
HOLDERS = {
    "dataflow": (
        df.FlowNode, df.FlowData, df.CountBatch, df.TimeBatch, df.FuncProcessPoint, df.GraphProcessPoint, df.FlowGraphProcessPoint,
        df.Framework, df.FlowGraph, df.FlowInfo, df.FlowFlag, df.Tensor, df.TensorDesc,
    ),
    "dataflow.flow_func": (
        ff.PyMetaParams, ff.MetaRunContext, ff.FlowMsg, ff.FlowMsgQueue, ff.AffinityPolicy, ff.BalanceConfig, ff.FlowFuncLogger,
        ff.FlowFuncInfos, ff.FlowFuncRegister,
    ),
}  # fmt: skip
BESIDE = {"MsgTypeRegister"}  # the class of an object that has rows


def rows(name: str) -> list[tuple[str, dict[str, Any]]]:
    groups = tomllib.loads((ROWS / f"{name}.toml").read_text(encoding="utf-8"))["group"]
    return [(group.get("module", group["title"]), row) for group in groups for row in group["row"]]


NAMES = {(module, row["name"]) for module, row in rows("names")}


@pytest.mark.parametrize("name", ["names", "options"])
def test_rows_are_well_formed(name: str) -> None:
    pairs = rows(name)
    assert max(Counter((module, row["name"]) for module, row in pairs).values()) == 1
    for _, row in pairs:
        assert set(row) <= {"name", "is", "doc", "note"}
        assert row.get("is", "yes") in ("yes", "partly", "no", "own")
        if row.get("is") in ("partly", "no"):
            assert row.get("note"), f"{row['name']}: say what is missing"


@pytest.mark.parametrize(("module", "name"), sorted(NAMES))
def test_every_row_is_a_name_of_its_module(module: str, name: str) -> None:
    holder = importlib.import_module(module)
    for part in name.split("."):
        assert hasattr(holder, part)
        holder = getattr(holder, part)


def _exported(module: str) -> set[str]:
    names = importlib.import_module(module).__all__
    return {name for name in names if not name.startswith("_")}


@pytest.mark.parametrize("module", MODULES)
def test_every_exported_name_has_a_row(module: str) -> None:
    anywhere = {name.rpartition(".")[2] for _, name in NAMES}
    own = {name for where, name in NAMES if where == module}
    assert own <= _exported(module) | {name for name in own if "." in name}
    assert _exported(module) - BESIDE <= anywhere


def _members(cls: type) -> set[str]:
    if issubclass(cls, enum.Enum):
        return set(cls.__members__)
    return {name for name in dir(cls) if not name.startswith("_")}


def test_every_public_member_has_a_row() -> None:
    missing = [
        f"{module}: {cls.__name__}.{name}"
        for module, classes in HOLDERS.items()
        for cls in classes
        for name in sorted(_members(cls))
        if (module, f"{cls.__name__}.{name}") not in NAMES
    ]
    register = type(df.msg_type_register)
    missing += [name for name in _members(register) if ("dataflow", f"msg_type_register.{name}") not in NAMES]
    assert not missing, f"add rows to {ROWS / 'names.toml'}: {missing}"


def test_every_option_has_a_row_and_is_known() -> None:
    known = {*options._CHECKS, *options._PASSED, *options.OWN}
    told = {row["name"] for group, row in rows("options") if group == "Options of init and of graphs"}
    assert told == known


def test_every_option_of_ours_is_in_the_how_to() -> None:
    page = (ROOT / "docs/howto_dataflow.md").read_text(encoding="utf-8")
    assert [key for key in options.OWN if f"`{key}`" not in page] == []


def test_the_page_shows_what_the_code_has(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(str(ROOT / "scripts"))
    page = importlib.import_module("generators.flow").page()
    assert page == (ROOT / "docs/support/dataflow.md").read_text(encoding="utf-8"), "run `make docs`"
    for name in ("feed_data", "set_inputs_align_attrs"):
        words = [each for each in inspect.signature(getattr(df.FlowGraph, name)).parameters if each != "self"]
        line = next(line for line in page.splitlines() if f"`FlowGraph.{name}(" in line)
        assert all(word in line for word in words)


def test_the_page_needs_no_torch(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "torch", None)
    monkeypatch.setitem(sys.modules, "torch_npu", None)
    monkeypatch.syspath_prepend(str(ROOT / "scripts"))
    assert "npu_model" in importlib.import_module("generators.flow").page()
