"""What a name in a source stands for: `nn.Conv3d` after `from torch import nn` is `torch.nn.Conv3d`."""

from __future__ import annotations

import ast
import functools
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

import libcst as cst
from libcst.metadata import MetadataWrapper, QualifiedNameSource, Scope, ScopeProvider
from libcst.metadata.span_provider import ByteSpanPositionProvider, CodeSpan

from softnpu.migrate.reading.bindings import Bindings

# Names that modules bring along with a star import; they are taken to be what they say where nothing else defines them.
ASSUMED = frozenset({"torch", "torch_npu", "apex", "torchvision"})


@dataclass(frozen=True)
class Chain:
    """A dotted name as it is written, and what it stands for."""

    parts: tuple[str, ...]
    nodes: tuple[cst.BaseExpression, ...]
    full: str
    bound: str

    @property
    def depth(self) -> int:
        """How many parts of the full name the first written part stands for."""
        return self.bound.count(".") + 1


class Names:
    """Positions and meanings of the nodes of one module; `tree` is the same module in Python's own form and saves time."""

    def __init__(self, module: cst.Module, tree: ast.Module | None = None) -> None:
        self._wrapper = MetadataWrapper(module, unsafe_skip_copy=True)
        self.module = self._wrapper.module
        self.spans: Mapping[cst.CSTNode, CodeSpan] = self._wrapper.resolve(ByteSpanPositionProvider)
        self._bindings = Bindings(tree) if tree is not None else None
        self._roots: dict[tuple[int, str], str | None] = {}

    @functools.cached_property
    def _scopes(self) -> Mapping[cst.CSTNode, Scope | None]:
        """Half of the time of a file, so that only names ask for it whose meaning depends on the place."""
        return self._wrapper.resolve(ScopeProvider)

    def span(self, node: cst.CSTNode) -> tuple[int, int]:
        span = self.spans[node]
        return span.start, span.start + span.length

    def text(self, node: cst.CSTNode) -> str:
        return self.module.code_for_node(node)

    def chain(self, node: cst.BaseExpression) -> Chain | None:
        """The chain that ends at this node, if it is one and starts at an imported name."""
        written = dotted(node)
        if written is None:
            return None
        parts, nodes = written
        bound = self._root(nodes[0], parts[0])
        if bound is None:
            return None
        return Chain(parts, nodes, ".".join([bound, *parts[1:]]), bound)

    def full(self, node: cst.BaseExpression) -> str:
        """The full dotted name of an expression, or an empty text."""
        chain = self.chain(node)
        return chain.full if chain else ""

    def _root(self, node: cst.BaseExpression, name: str) -> str | None:
        if self._bindings is not None:
            if name not in ASSUMED and not self._bindings.imports(name):
                return None
            meanings = self._bindings.meanings(name)
            if meanings is not None:
                return _choose(meanings) or (name if self._bindings.unknown(name) else None)
        scope = self._scopes.get(node)
        if scope is None:
            return None
        key = (id(scope), name)
        if key not in self._roots:
            self._roots[key] = _meaning(scope, name)
        return self._roots[key]


def _meaning(scope: Scope, name: str) -> str | None:
    candidates = scope.get_qualified_names_for(name)
    if not candidates:
        return name if name in ASSUMED else None
    return _choose(candidate.name for candidate in candidates if candidate.source is QualifiedNameSource.IMPORT)


def _choose(imported: Iterable[str]) -> str | None:
    """Of several imports of one name (`try` and `except`), that of torch."""
    names = sorted(imported)
    return next((name for name in names if name.split(".")[0] == "torch"), names[0] if names else None)


def dotted(node: cst.BaseExpression) -> tuple[tuple[str, ...], tuple[cst.BaseExpression, ...]] | None:
    """Parts of a dotted name and their tokens, or None for any other expression."""
    parts: list[str] = []
    nodes: list[cst.BaseExpression] = []
    while isinstance(node, cst.Attribute):
        parts.append(node.attr.value)
        nodes.append(node.attr)
        node = node.value
    if not isinstance(node, cst.Name):
        return None
    return (node.value, *reversed(parts)), (node, *reversed(nodes))
