"""The stubs of the extension (`torch_npu/_C/*.pyi`) against the extension that was built: same names, same numbers of arguments."""

from __future__ import annotations

import ast
import re
from types import ModuleType
from typing import Any

import pytest
import torch_npu

from tests.paths import NATIVE

STUBS = NATIVE / "torch_npu" / "_C"
MODULES = {"__init__": torch_npu._C, "_distributed_c10d": torch_npu._C._distributed_c10d, "_cd": torch_npu._C._cd}


def parsed(name: str) -> ast.Module:
    return ast.parse((STUBS / f"{name}.pyi").read_text("utf-8"))


def declared(body: list[ast.stmt]) -> set[str]:
    """The names that a stub gives to a module or class."""
    names: set[str] = set()
    for node in body:
        if isinstance(node, ast.FunctionDef | ast.ClassDef):
            names.add(node.name)
        elif isinstance(node, ast.AnnAssign) and isinstance(node.target, ast.Name):
            names.add(node.target.id)
        elif isinstance(node, ast.ImportFrom):
            names |= {alias.asname for alias in node.names if alias.asname == alias.name}
    return names


def there(owner: Any) -> set[str]:
    """The names that it has itself; pybind11's own and Python's are left away."""
    return {name for name in vars(owner) if not name.startswith("__") and not name.startswith("_pybind11")}


@pytest.mark.parametrize("name", MODULES)
def test_stub_and_module_have_the_same_names(name: str) -> None:
    assert declared(parsed(name).body) == there(MODULES[name])


def test_classes_have_the_same_names() -> None:
    (group,) = (node for node in parsed("_distributed_c10d").body if isinstance(node, ast.ClassDef))
    (options,) = (node for node in group.body if isinstance(node, ast.ClassDef))
    built = torch_npu._C._distributed_c10d.ProcessGroupHCCL
    assert declared(group.body) - {"__init__"} == there(built)
    assert declared(options.body) - {"__init__", "__copy__", "__deepcopy__"} == there(built.Options)


def arguments(signature: str) -> int:
    """How many arguments pybind11 writes: each has a name and a type."""
    return len(re.findall(r"(?<![\w.])\w+: ", signature.partition("(")[2].rpartition(") ->")[0]))


@pytest.mark.parametrize("name", ["__init__", "_distributed_c10d"])
def test_functions_take_as_many_arguments(name: str) -> None:
    module: ModuleType = MODULES[name]
    functions = {node.name: node.args for node in parsed(name).body if isinstance(node, ast.FunctionDef)}
    stubbed = {key: len(args.posonlyargs) + len(args.args) for key, args in functions.items()}
    built = {key: arguments((getattr(module, key).__doc__ or "").partition("\n")[0]) for key in functions}
    assert stubbed == built
