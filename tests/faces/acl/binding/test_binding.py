"""How calls look to a program: names, arguments, return shapes, functions that are not there yet."""

from __future__ import annotations

import ast
import importlib
import inspect
import re
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import acl
from acl._rows import body_of, rows_of
from tests.support import message, ok

SUBMODULES = ("blas", "fv", "himpi", "mdl", "media", "op", "prof", "rt", "util")
MODULES = ("acl", *(f"acl.{name}" for name in SUBMODULES))
# How many functions the API reference lists in each module (rt: 190 and three that were documented later).
COUNTS = {
    "acl": 47,
    "acl.rt": 193,
    "acl.mdl": 86,
    "acl.op": 32,
    "acl.blas": 12,
    "acl.prof": 36,
    "acl.fv": 22,
    "acl.util": 7,
}
ROWS = [(module, name, row) for module in MODULES for name, row in rows_of(module).items()]
MISSING = [(module, name, row) for module, name, row in ROWS if body_of(module, name) is None]


def ids(rows: list[tuple[str, str, tuple[Any, ...]]]) -> list[str]:
    return [f"{module}.{name}" for module, name, _ in rows]


def kinds_of(row: tuple[Any, ...]) -> list[str]:
    """Kinds of a row's arguments: "size: u64, policy: i32" → ["u64", "i32"]."""
    return [part.split(":")[1].strip() for part in row[0].split(",") if part]


SAMPLES: dict[str, Any] = {
    **dict.fromkeys(("i16", "i32", "i64", "u8", "u32", "u64", "ptr"), 0),
    **dict.fromkeys(("f32", "f64"), 1.0),
    "str": "text",
    "bytes": b"bytes",
    "ndarray": np.zeros(1),
    "tuple": (1,),
    "dict": {},
    "callable": print,
    "callable?": None,
    "object": None,
}


def sample(kind: str) -> Any:
    return [] if kind.startswith("list") else SAMPLES.get(kind, 0)


def function_of(module: str, name: str) -> Callable[..., Any]:
    function: Callable[..., Any] = getattr(sys.modules[module], name)
    return function


# ---- modules -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", SUBMODULES)
def test_submodules_can_be_imported_both_ways(name: str) -> None:
    module = importlib.import_module(f"acl.{name}")
    assert module is getattr(acl, name)
    assert module is sys.modules[f"acl.{name}"]
    space: dict[str, Any] = {}
    exec(f"from acl import {name} as found\nimport acl.{name}", space)
    assert space["found"] is module


@pytest.mark.parametrize(("module", "count"), COUNTS.items())
def test_all_functions_are_declared(module: str, count: int) -> None:
    assert len(rows_of(module)) == count


def test_rows_name_the_file_that_defines_their_body() -> None:
    folder = Path(acl.__file__).parent / "_bodies"
    named = {(f"{row.body.replace('.', '/')}.py", name) for _, name, row in ROWS if row.body}
    defined = {
        (str(file.relative_to(folder)), node.name)
        for file in folder.rglob("[!_]*.py")
        for node in ast.parse(file.read_text(encoding="utf-8")).body
        if isinstance(node, ast.FunctionDef) and not node.name.startswith("_")
    }
    assert defined <= named, "a body that no row names: `make docs`, or a name that the manual does not have"
    by_loop = {"media/desc.py", "media/vdec.py", "media/venc.py"}  # these also make getters and setters in a loop
    assert {file for file, _ in named - defined} == by_loop


@pytest.mark.parametrize("module", MODULES)
def test_dir_lists_the_functions(module: str) -> None:
    assert set(rows_of(module)) <= set(dir(sys.modules[module]))
    assert ("bytes_to_ptr" in dir(acl.util)) is True
    public = {name for name in dir(sys.modules[module]) if not name.startswith("_")}
    assert public == set(rows_of(module)) | (set(SUBMODULES) if module == "acl" else set())


@pytest.mark.parametrize("module", MODULES)
def test_a_module_has_no_constants(module: str) -> None:
    """Programs write their own ACL_… names; none may come from here."""
    public = [name for name in dir(sys.modules[module]) if not name.startswith("_")]
    values = [getattr(sys.modules[module], name) for name in public]
    assert all(callable(value) or inspect.ismodule(value) for value in values)
    assert not hasattr(acl, "ACL_MEMCPY_HOST_TO_DEVICE")


def test_an_unknown_name_is_an_attribute_error() -> None:
    with pytest.raises(AttributeError, match="vector_to_ptr"):
        acl.util.vector_to_ptr
    assert not hasattr(acl.rt, "set_op_execute_timeout")
    assert not hasattr(acl, "op_compile")


@pytest.mark.parametrize(("module", "name", "row"), ROWS, ids=ids(ROWS))
def test_function_of_a_row(module: str, name: str, row: tuple[Any, ...]) -> None:
    function = function_of(module, name)
    assert callable(function)
    assert function.__name__ == name
    assert function.__module__ == module
    assert function.__doc__ is not None and row[2] in function.__doc__, "the docstring cites the manual's section"
    assert function is function_of(module, name), "programs keep functions in tables"


# ---- arguments ---------------------------------------------------------------------------------------------------------


def complaint(module: str, name: str) -> str:
    if (module, name) in (("acl.util", "start_thread"), ("acl.op", "register_compile_func")):
        return r"function takes exactly 2 arguments \(\d+ given\)"
    return re.escape(f"{module}.{name} args parse failed")


WITH_ARGUMENTS = [one for one in ROWS if kinds_of(one[2])]


@pytest.mark.parametrize(("module", "name", "row"), WITH_ARGUMENTS, ids=ids(WITH_ARGUMENTS))
def test_wrong_number_of_arguments(module: str, name: str, row: tuple[Any, ...]) -> None:
    arguments = [sample(kind) for kind in kinds_of(row)]
    function = function_of(module, name)
    with pytest.raises(TypeError, match=complaint(module, name)):
        function(*arguments, 0)
    if not row[3]:
        with pytest.raises(TypeError, match=complaint(module, name)):
            function(*arguments[:-1])


def test_count_in_the_words_of_cpython() -> None:
    with pytest.raises(TypeError, match=r"^function takes exactly 2 arguments \(0 given\)$"):
        acl.util.start_thread()
    with pytest.raises(TypeError, match=r"^function takes exactly 2 arguments \(3 given\)$"):
        acl.op.register_compile_func("Add", print, 1)


@pytest.mark.parametrize(("module", "name", "row"), WITH_ARGUMENTS, ids=ids(WITH_ARGUMENTS))
def test_keywords_are_not_taken(module: str, name: str, row: tuple[Any, ...]) -> None:
    names = [part.split(":")[0].strip() for part in row[0].split(",")]
    with pytest.raises(TypeError):
        function_of(module, name)(**{key: sample(kind) for key, kind in zip(names, kinds_of(row), strict=True)})


@pytest.mark.usefixtures("runtime")
def test_surplus_arguments_of_functions_without_any() -> None:
    context = ok(acl.rt.get_context())
    assert acl.rt.get_context("surplus", 2, None) == (context, 0)
    assert acl.rt.get_run_mode(1) == (1, 0)  # as a snippet of the guide has it
    assert acl.get_soc_name(object()) == "Ascend910B3"
    with pytest.raises(TypeError):
        acl.rt.get_context(surplus=1)


INT_KINDS = ("i16", "i32", "i64", "u8", "u32", "u64", "ptr")
FIRST_INT = [one for one in WITH_ARGUMENTS if kinds_of(one[2])[0] in INT_KINDS]
NO_INTS = [1.0, np.float64(1), None, b"1", "1", [1], object(), 1j]


@pytest.mark.parametrize("wrong", NO_INTS, ids=lambda wrong: type(wrong).__name__)
@pytest.mark.parametrize(
    "name", ["malloc", "set_device", "free", "create_stream_with_config", "ipc_mem_get_export_key"]
)
def test_what_is_no_int(name: str, wrong: Any) -> None:
    rest = [sample(kind) for kind in kinds_of(rows_of("acl.rt")[name])[1:]]
    with pytest.raises(TypeError) as caught:
        function_of("acl.rt", name)(wrong, *rest)
    assert str(caught.value) == f"acl.rt.{name} args parse failed"


@pytest.mark.parametrize(("module", "name", "row"), FIRST_INT, ids=ids(FIRST_INT))
def test_none_is_no_int_anywhere(module: str, name: str, row: tuple[Any, ...]) -> None:
    rest = [sample(kind) for kind in kinds_of(row)[1:]]
    with pytest.raises(TypeError, match=complaint(module, name)):
        function_of(module, name)(None, *rest)


class Five(int):
    """A subclass as enums and frameworks make them."""


class Indexed:
    def __index__(self) -> int:
        return 1


@pytest.mark.usefixtures("runtime")
@pytest.mark.parametrize("number_one", [True, Five(1), np.int8(1), np.uint64(1), np.int64(1), Indexed()], ids=repr)
def test_what_counts_as_an_int(number_one: Any) -> None:
    ok(acl.rt.set_device(number_one))
    assert ok(acl.rt.get_device()) == 1
    pointer = ok(acl.rt.malloc(number_one, number_one))
    assert type(pointer) is int
    ok(acl.rt.memset(np.uint64(pointer), number_one, number_one, number_one))
    assert acl.util.ptr_to_bytes(pointer, number_one) == b"\1"
    assert acl.float_to_float16(number_one) == 0x3C00


@pytest.mark.usefixtures("runtime")
@pytest.mark.parametrize("size", [-1, 2**64 - 1, 2**65 - 1, -(2**64) - 1])
def test_unsigned_arguments_wrap(size: int) -> None:
    """malloc(-1) asks for 2^64-1 bytes and fails with a code, not with an exception."""
    assert acl.rt.malloc(size, 0) == (0, 207001)


@pytest.mark.usefixtures("runtime")
def test_wrapping_keeps_the_low_bits() -> None:
    pointer = ok(acl.rt.malloc(64 + 2**64, 0))
    ok(acl.rt.memset(pointer, 96, 0, 64))
    ok(acl.rt.free(pointer - 2**64))
    stream = ok(acl.rt.create_stream_with_config(3 - 2**32, 2**32 + 1))
    assert ok(acl.rt.get_stream_attribute(stream, 5))["reserved"][0] == 3


@pytest.mark.usefixtures("runtime")
@pytest.mark.parametrize("value", [2**31, -(2**31) - 1, 2**64])
def test_signed_32_bit_range(value: int) -> None:
    for call in (
        lambda: acl.rt.set_device(value),
        lambda: acl.rt.malloc(64, value),
        lambda: acl.rt.process_report(value),
        lambda: acl.rt.memcpy(0, 0, 0, 0, value),
    ):
        with pytest.raises(TypeError, match="args parse failed"):
            call()
    assert acl.rt.set_device(2**31 - 1) == 107001
    assert acl.rt.set_device(-(2**31)) == 107001


@pytest.mark.parametrize("value", [-1, 256, 2**40])
def test_switches_are_bytes(value: int) -> None:
    with pytest.raises(TypeError, match=r"acl\.op\.set_attr_bool args parse failed"):
        acl.op.set_attr_bool(0, "transpose", value)


@pytest.mark.parametrize("wrong", ["1.0", b"1.0", None, [1.0], 1j])
def test_what_is_no_float(wrong: Any) -> None:
    with pytest.raises(TypeError, match=r"acl\.float_to_float16 args parse failed"):
        acl.float_to_float16(wrong)


@pytest.mark.usefixtures("fresh")
@pytest.mark.parametrize("wrong", [b"acl.json", 5, None, ["acl.json"], "a\0b", "\ud800"], ids=ascii)
def test_what_is_no_string(wrong: Any) -> None:
    with pytest.raises(TypeError, match=r"acl\.init args parse failed"):
        acl.init(wrong)
    with pytest.raises(TypeError, match=r"acl\.app_log args parse failed"):
        acl.app_log(1, wrong)


@pytest.mark.usefixtures("fresh")
def test_arguments_that_may_be_left_out() -> None:
    ok(acl.init())
    ok(acl.rt.set_exception_info_callback())
    ok(acl.rt.set_exception_info_callback(None))
    assert acl.mdl.set_dump() == acl.mdl.set_dump("dump.json")  # both not there yet
    with pytest.raises(TypeError, match=r"acl\.init args parse failed"):
        acl.init("a", "b")


@pytest.mark.parametrize("wrong", [(1, 2), "12", 5, None, {1: 2}, range(3)], ids=repr)
def test_what_is_no_list(wrong: Any) -> None:
    with pytest.raises(TypeError, match=r"^argument \d is not list$"):
        acl.create_tensor_desc(0, wrong, 0)
    with pytest.raises(TypeError, match=r"^argument \d is not list$"):
        acl.rt.notify_batch_reset(wrong)


@pytest.mark.parametrize("wrong", [[1.5], ["1"], [None], [[1]], [1, b"2"]], ids=repr)
def test_lists_of_something_else(wrong: list[Any]) -> None:
    with pytest.raises(TypeError, match=r"^the list argument is not list of int$"):
        acl.create_tensor_desc(0, wrong, 0)
    with pytest.raises(TypeError, match=r"^the list argument is not list of int$"):
        acl.rt.notify_batch_reset(wrong)


@pytest.mark.parametrize("wrong", [None, 5, "print", []], ids=repr)
def test_what_cannot_be_called(wrong: Any) -> None:
    for call in (
        lambda: acl.util.start_thread(wrong, None),
        lambda: acl.rt.launch_callback(wrong, None, 0, 0),
        lambda: acl.op.register_compile_func("Add", wrong),
        lambda: acl.mdl.dump_reg_callback(wrong, 0),
    ):
        with pytest.raises(TypeError, match=r"^parameter must be callable$"):
            call()
    if wrong is not None:
        with pytest.raises(TypeError, match=r"^parameter must be callable$"):
            acl.rt.set_exception_info_callback(wrong)


@pytest.mark.usefixtures("runtime")
def test_wrong_value_inside_a_dictionary() -> None:
    for key, kind in (("failureMode", 1), ("overflowSwitch", 2), ("userCustomTag", 3), ("reserved", 5)):
        for wrong in ("1", 1.0, None):
            with pytest.raises(ValueError, match=key):
                acl.rt.set_stream_attribute(0, kind, {key: wrong})
    with pytest.raises(TypeError, match=r"acl\.rt\.set_stream_attribute args parse failed"):
        acl.rt.set_stream_attribute(0, 1, [("failureMode", 1)])


@pytest.mark.usefixtures("runtime")
def test_values_are_plain() -> None:
    """Programs print handles with %d and hex(): real ints, and real tuples."""
    stream = acl.rt.create_stream()
    assert type(stream) is tuple and [type(part) for part in stream] == [int, int]
    assert 0 < stream[0] < 2**64
    assert type(acl.rt.destroy_stream(stream[0])) is int
    assert acl.rt.create_context(99) == (0, 107001)


# ---- functions that are not there yet ----------------------------------------------------------------------------------

BASES = {"sys": 0xA0028000, "vdec": 0xA0058000, "vpc": 0xA0078000, "venc": 0xA0088000, "pngd": 0xA0408000}
NOT_SUPPORT = 0x08
ZERO = {"int": 0, "float": 0.0, "str": "", "dict": {}, "list": [], "bytes": b""}


def failure_of(returns: str, code: int) -> Any:
    """What a failed call answers by the text of its row: "size: int = -1, ret" → (-1, code)."""
    if returns == "none":
        return None
    parts: list[Any] = []
    for item in returns.split(", "):
        match = re.fullmatch(r"ret|\w+: (?P<kind>\w+)( = (?P<value>\S+))?", item)
        assert match, f"{item!r} of {returns!r} is no item of a return shape"
        if item == "ret":
            parts.append(code)
        elif match["value"]:
            parts.append(None if match["value"] == "None" else int(match["value"], 0))
        else:
            parts.append(ZERO.get(match["kind"]))
    return parts[0] if len(parts) == 1 else tuple(parts)


@pytest.mark.usefixtures("fresh")
@pytest.mark.parametrize(("module", "name", "row"), MISSING, ids=ids(MISSING))
def test_a_function_without_a_body_answers_not_supported(module: str, name: str, row: tuple[Any, ...]) -> None:
    code = 200001
    if module == "acl.himpi":
        code = BASES[row[4]] | NOT_SUPPORT
        assert 0xA0000000 < code < 2**32, "unsigned"
        prefix = {"png": "pngd", "dvpp": "vdec" if name == "dvpp_get_image_info" else "sys"}
        assert row[4] == prefix.get(name.split("_")[0], name.split("_")[0])
    answer = function_of(module, name)(*[sample(kind) for kind in kinds_of(row)])
    expected = failure_of(row[1], code)
    assert answer == expected and type(answer) is type(expected)
    text = message()
    assert f"{module}.{name}" in text and "not implemented" in text and row[2] in text
    assert acl.rt.get_last_error(0) == code


def test_failed_answers_are_fresh_objects() -> None:
    first, _ = acl.get_cann_version(99)
    first["spoiled"] = "yes"
    assert acl.get_cann_version(99)[0] == {}
