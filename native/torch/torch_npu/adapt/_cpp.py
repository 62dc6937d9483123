"""The C++ of an adapter: the declarations its bodies define, and their registration."""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from typing import Any

from torch_npu.adapt._file import AdaptError, Entry, Functions

HEADER = "torch_npu/csrc/aten/NPUNativeFunctions.h"
_NOTE = "// Generated from {source} by torch_npu.adapt; do not edit.\n"
SIGNATURES = ("now", "1.8")


@contextmanager
def _settings() -> Iterator[None]:
    from torchgen import local

    with local.parametrize(use_const_ref_for_mutable_tensors=False, use_ilistref_for_tensor_lists=False):
        yield


@cache
def _parsed(schema: str) -> Any:
    from torchgen.model import FunctionSchema

    return FunctionSchema.parse(schema)


def _old(declaration: str) -> str:
    """As in torch 1.8, whose bodies take a Scalar by value."""
    return re.sub(r"const at::Scalar ?& ?", "at::Scalar ", declaration)


def _native(entry: Entry) -> Any:
    from torchgen.api.types import NativeSignature

    return NativeSignature(_parsed(entry.schema), symint=entry.symint)


def _body_name(entry: Entry) -> str:
    """The function of an operator: overloads share a name, out= forms end in _out."""
    from torchgen.api import cpp

    return str(cpp.name(_parsed(entry.schema)))


def _check(functions: Functions) -> None:
    for entry in functions.entries:
        try:
            _parsed(entry.schema)
        except (AssertionError, RuntimeError, ValueError) as error:
            where = f"{functions.path}:{entry.line}: {entry.section}"
            raise AdaptError(f"{where}: {entry.name} has no form in C++: {error}; write its body in Python") from error


def _bodies(entry: Entry) -> dict[str, str]:
    """Which function is registered under which key."""
    if entry.called_only:
        return {}
    return entry.dispatch or dict.fromkeys(entry.keys, _body_name(entry))


def declarations(functions: Functions, signatures: str = "now") -> str:
    """NPUNativeFunctions.h: a struct with one static function per operator."""
    _check(functions)
    lines = []
    with _settings():
        for entry in functions.entries:
            signature = _native(entry)
            names = sorted(set(_bodies(entry).values())) or [_body_name(entry)]
            for name in names:
                line = f"  static {signature.decl(name=name)};"
                line = re.sub(r"(?<=\w)=[^,()]+(?=[,)])", "", line)
                lines.append(_old(line) if signatures == "1.8" else line)
    opened = "\n".join(f"namespace {part} {{" for part in functions.cpp_namespace.split("::"))
    closed = "\n".join("}" for _ in functions.cpp_namespace.split("::"))
    body = "\n".join(lines)
    return (
        _NOTE.format(source=functions.path.name)
        + f"#pragma once\n\n#include <ATen/ATen.h>\n\n{opened}\nstruct NPUNativeFunctions {{\n{body}\n}};\n{closed}\n"
    )


def registration(functions: Functions, signatures: str = "now") -> str:
    """The file that declares custom operators and connects the bodies with the dispatcher."""
    _check(functions)
    wrappers: list[str] = []
    forwards: list[str] = []
    impls: dict[tuple[str, str], list[str]] = {}
    with _settings():
        for entry in functions.entries:
            if entry.called_only:
                body = _forward(entry, functions)
                forwards.append(_old_body(body) if signatures == "1.8" else body)
            for key, body in _bodies(entry).items():
                wrapper = f"wrapper_{key}_{entry.name.replace('.', '_')}"
                wrappers.append(_wrapper(entry, functions, wrapper, body))
                impls.setdefault((entry.namespace, key), []).append(f'  m.impl("{entry.name}", TORCH_FN({wrapper}));')
    parts = [
        _NOTE.format(source=functions.path.name)
        + f'#include "{HEADER}"\n\n#include <ATen/core/dispatch/Dispatcher.h>\n'
        "#include <ATen/core/op_registration/adaption.h>\n#include <torch/library.h>\n",
        "namespace {\n\n" + "\n".join(wrappers) + "\n}  // namespace\n",
        *forwards,
    ]
    definitions = [_definition(entry) for entry in functions.entries if entry.custom and not entry.exists]
    if definitions:
        parts.append("TORCH_LIBRARY_FRAGMENT(npu, m) {\n" + "\n".join(definitions) + "\n}\n")
    for (namespace, key), lines in impls.items():
        parts.append(f"TORCH_LIBRARY_IMPL({namespace}, {key}, m) {{\n" + "\n".join(lines) + "\n}\n")
    return "\n".join(parts)


def _definition(entry: Entry) -> str:
    tags = ", ".join(f"at::Tag::{tag}" for tag in entry.tags)
    return f'  m.def(R"({entry.schema})"{f", {{{tags}}}" if tags else ""});'


def _wrapper(entry: Entry, functions: Functions, name: str, body: str) -> str:
    from torchgen.api.types import DispatcherSignature

    dispatched = DispatcherSignature.from_schema(_parsed(entry.schema), symint=entry.symint)
    arguments = ", ".join(argument.name for argument in _native(entry).arguments())
    checks = "".join(f"  {check}\n" for check in _checks(entry, name))
    call = f"{functions.cpp_namespace}::NPUNativeFunctions::{body}({arguments})"
    return f"{dispatched.decl(name=name)} {{\n{checks}  return {call};\n}}\n"


def _checks(entry: Entry, name: str) -> Iterator[str]:
    """Tensors of a custom operator must be on one device unless the file says NoCheck; those of aten check themselves."""
    if not entry.custom or not entry.device_check:
        return
    tensors = [argument.name for argument in _parsed(entry.schema).arguments.flat_all if argument.type.is_tensor_like()]
    if tensors:
        yield "std::optional<c10::Device> common;"
    for tensor in tensors:
        yield f'c10::impl::check_and_update_common_device(common, {tensor}, "{name}", "{tensor}");'


def _forward(entry: Entry, functions: Functions) -> str:
    """The body of an operator that torch_npu has already: a call of it."""
    signature = _native(entry)
    name = f"{functions.cpp_namespace}::NPUNativeFunctions::{_body_name(entry)}"
    arguments = signature.arguments()
    kinds = ", ".join(argument.nctype.type.cpp_type() for argument in arguments)
    returns = _returns(signature)
    base, _, overload = entry.name.partition(".")
    find = f'c10::Dispatcher::singleton().findSchemaOrThrow("npu::{base}", "{overload}")'
    declared = ", ".join(f"{argument.nctype.type.cpp_type()} {argument.name}" for argument in arguments)
    passed = ", ".join(argument.name for argument in arguments)
    return (
        f"{returns} {name}({declared}) {{\n"
        f"  static const auto op = {find}.typed<{returns}({kinds})>();\n  return op.call({passed});\n}}\n"
    )


def _old_body(text: str) -> str:
    first, rest = text.split("\n", 1)
    return f"{_old(first)}\n{rest}"


def _returns(signature: Any) -> str:
    from torchgen.api import native

    return str(native.returns_type(signature.func.returns, symint=signature.symint).cpp_type())
