"""`npu_native_functions.yaml`: which operators an adapter has. What is wrong is told with file, line and key."""

from __future__ import annotations

import difflib
import os
from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from torch_npu.adapt import _schemas

LISTS = ("supported", "autograd", "custom", "custom_autograd", "symint", "quant", "nestedtensor")
_SCALARS = ("backend", "cpp_namespace")
_CUSTOM = ("custom", "custom_autograd")
_OPTIONS = ("func", "variants", "dispatch", "exposed", "device_check", "tags", "op_api", "acl_op")
_VARIANTS = ("function", "method")
_CHECKS = ("NoCheck", "ExactSame")
KEYS = {
    "NPU": "PrivateUse1",
    "AutogradNPU": "AutogradPrivateUse1",
    "QuantizedNPU": "QuantizedPrivateUse1",
    "NestedTensorNPU": "NestedTensorPrivateUse1",
} | {
    key: key
    for key in (
        "PrivateUse1", "AutogradPrivateUse1", "QuantizedPrivateUse1", "NestedTensorPrivateUse1", "CompositeImplicitAutograd",
        "CompositeExplicitAutograd", "Meta", "CPU", "AutogradCPU",
    )
}  # fmt: skip
_DEFAULT_KEYS = {"quant": ["QuantizedPrivateUse1"], "nestedtensor": ["NestedTensorPrivateUse1"]}


class AdaptError(ValueError):
    """An adapter that cannot be built as written: where, what, what to do."""


@dataclass(frozen=True)
class Entry:
    """One operator of the file."""

    section: str
    name: str  # with its overload: add.Tensor
    schema: str
    line: int
    custom: bool
    exists: bool  # declared already, by torch or by torch_npu
    variants: tuple[str, ...] = ("function",)
    dispatch: dict[str, str] = field(default_factory=dict)  # key → name of the body, where the file says so
    exposed: bool = True
    device_check: bool = True
    tags: tuple[str, ...] = ()
    symint: bool = False

    @property
    def namespace(self) -> str:
        return "npu" if self.custom else "aten"

    @property
    def keys(self) -> list[str]:
        """Where a body without `dispatch` is registered: autograd functions also below autograd, for inference mode."""
        if self.section in _DEFAULT_KEYS:
            return _DEFAULT_KEYS[self.section]
        return ["PrivateUse1", "AutogradPrivateUse1"] if self.section.endswith("autograd") else ["PrivateUse1"]

    @property
    def called_only(self) -> bool:
        """A custom operator that torch_npu has: it can be called by adapters, and is replaced only by a `dispatch`."""
        return self.custom and self.exists and not self.dispatch


@dataclass(frozen=True)
class Functions:
    """The file."""

    path: Path
    backend: str
    cpp_namespace: str
    entries: tuple[Entry, ...]


def _yaml() -> Any:
    try:
        import yaml
    except ModuleNotFoundError as error:
        raise AdaptError("reading npu_native_functions.yaml needs PyYAML: pip install pyyaml") from error
    return yaml


class _Reader:
    """Walks the tree of the file, whose nodes know their lines."""

    def __init__(self, path: Path, text: str) -> None:
        self.path = path
        self.yaml = _yaml()
        try:
            self.root = self.yaml.compose(text, Loader=self.yaml.SafeLoader)
        except self.yaml.YAMLError as error:
            mark = getattr(error, "problem_mark", None)
            line = mark.line + 1 if mark is not None else 1
            raise AdaptError(f"{path}:{line}: this is no YAML: {getattr(error, 'problem', None) or error}") from error

    def fail(self, node: Any, key: str, message: str) -> AdaptError:
        return AdaptError(f"{self.path}:{node.start_mark.line + 1}: {key}: {message}")

    def value(self, node: Any) -> Any:
        """A node as a Python value."""
        loader = self.yaml.SafeLoader("")
        try:
            return loader.construct_object(node, deep=True)
        finally:
            loader.dispose()

    def pairs(self, node: Any, key: str, allowed: Iterable[str]) -> dict[str, Any]:
        """The keys of a mapping with their nodes; unknown and repeated ones are refused."""
        options: dict[str, Any] = {}
        for name, value in node.value:
            option = str(self.value(name))
            if option not in allowed:
                raise self.fail(name, option, f"unknown key{near(option, allowed)}; {key} takes {', '.join(allowed)}")
            if option in options:
                raise self.fail(name, option, "the key is here for the second time")
            options[option] = value
        return options


def near(word: str, known: Iterable[str]) -> str:
    """A hint at what was meant, empty when nothing is near."""
    close = difflib.get_close_matches(word, list(known), 1, 0.75)
    return f"; did you mean {close[0]}?" if close else ""


def read(path: str | os.PathLike[str]) -> Functions:
    """Read and check a file."""
    where = Path(path)
    try:
        reader = _Reader(where, where.read_text("utf-8"))
    except (OSError, UnicodeDecodeError) as error:
        raise AdaptError(f"{where}: cannot be read: {error}") from error
    if not isinstance(reader.root, reader.yaml.MappingNode):
        raise AdaptError(f"{where}:1: the file must be a mapping with backend, cpp_namespace and lists of operators")
    top = reader.pairs(reader.root, "the file", (*_SCALARS, *LISTS))
    for name in _SCALARS:
        if name not in top:
            raise AdaptError(f"{where}:1: {name}: the key is missing; write `{name}: {_example(name)}`")
    backend, namespace = (str(reader.value(top[name])) for name in _SCALARS)
    if backend != "NPU":
        raise reader.fail(top["backend"], "backend", f"must be NPU, not {backend}")
    if not all(part.isidentifier() for part in namespace.split("::")):
        raise reader.fail(top["cpp_namespace"], "cpp_namespace", f"{namespace!r} is no namespace of C++")
    symint = {str(reader.value(name)) for name in _listed(reader, top, "symint")}
    entries = [
        _entry(reader, section, node, symint)
        for section in LISTS
        if section != "symint"
        for node in _listed(reader, top, section)
    ]
    _refuse_twice(where, entries)
    return Functions(where, backend, namespace, tuple(entries))


def _example(key: str) -> str:
    return "NPU" if key == "backend" else "at_npu::native"


def _refuse_twice(where: Path, entries: list[Entry]) -> None:
    seen: dict[str, Entry] = {}
    for entry in entries:
        first = seen.setdefault(f"{entry.namespace}::{entry.name}", entry)
        if first is not entry:
            raise AdaptError(f"{where}:{entry.line}: {entry.section}: {entry.name} is in line {first.line} already")


def _listed(reader: _Reader, top: dict[str, Any], section: str) -> list[Any]:
    node = top.get(section)
    if node is None or (isinstance(node, reader.yaml.ScalarNode) and not node.value):
        return []
    if not isinstance(node, reader.yaml.SequenceNode):
        raise reader.fail(node, section, "must be a list: begin each operator with '- '")
    return list(node.value)


def _entry(reader: _Reader, section: str, node: Any, symint: set[str]) -> Entry:
    custom = section in _CUSTOM
    if isinstance(node, reader.yaml.ScalarNode):
        if custom:
            raise reader.fail(
                node, section, f"{node.value!r} needs its schema: write `- func: name(Tensor self) -> Tensor`"
            )
        options: dict[str, Any] = {}
        func = str(node.value)
    else:
        options = reader.pairs(node, section, _OPTIONS)
        if "func" not in options:
            raise reader.fail(node, section, "an entry needs the key func")
        func = str(reader.value(options["func"]))
    try:
        name, schema, exists = _schemas.custom(func) if custom else _schemas.aten(func)
    except ValueError as error:
        raise reader.fail(options.get("func", node), section, str(error)) from error
    return Entry(
        section,
        name,
        schema,
        node.start_mark.line + 1,
        custom,
        exists,
        symint=name in symint,
        **_options(reader, options),
    )


def _options(reader: _Reader, options: dict[str, Any]) -> dict[str, Any]:
    fields: dict[str, Any] = {}
    if "variants" in options:
        variants = tuple(variant.strip() for variant in str(reader.value(options["variants"])).split(","))
        for variant in variants:
            if variant not in _VARIANTS:
                raise reader.fail(options["variants"], "variants", f"{variant!r} is none of {', '.join(_VARIANTS)}")
        fields["variants"] = variants
    if "device_check" in options:
        check = str(reader.value(options["device_check"]))
        if check not in _CHECKS:
            raise reader.fail(options["device_check"], "device_check", f"{check!r} is none of {', '.join(_CHECKS)}")
        fields["device_check"] = check == "ExactSame"
    if "exposed" in options:
        fields["exposed"] = reader.value(options["exposed"]) not in (False, None, [])
    if "tags" in options:
        fields["tags"] = _tags(reader, options["tags"])
    if "dispatch" in options:
        fields["dispatch"] = _dispatch(reader, options["dispatch"])
    return fields


def _tags(reader: _Reader, node: Any) -> tuple[str, ...]:
    import torch

    listed = reader.value(node)
    tags = tuple(listed) if isinstance(listed, list) else tuple(tag.strip() for tag in str(listed).split(","))
    for tag in tags:
        if not hasattr(torch.Tag, str(tag)):
            raise reader.fail(node, "tags", f"torch has no tag {tag!r}{near(str(tag), dir(torch.Tag))}")
    return tags


def _dispatch(reader: _Reader, node: Any) -> dict[str, str]:
    if not isinstance(node, reader.yaml.MappingNode):
        raise reader.fail(node, "dispatch", "must be a mapping such as `NPU: name_of_the_body`")
    kernels = {}
    for name, value in node.value:
        for part in str(reader.value(name)).split(","):
            key = part.strip()
            if key not in KEYS:
                raise reader.fail(
                    name, "dispatch", f"{key!r} is no dispatch key here{near(key, KEYS)}; use {', '.join(KEYS)}"
                )
            kernels[KEYS[key]] = str(reader.value(value))
    return kernels
