"""The rewriting of one module: names, calls, attributes, arguments and strings become edits."""

from __future__ import annotations

from collections.abc import Sequence

import libcst as cst

from softnpu.migrate.reading.names import Chain, Names, dotted
from softnpu.migrate.rewriting.edits import EditList
from softnpu.migrate.rewriting.strings import rewrite_string
from softnpu.migrate.rules.rule_set import ArgsRule, Rules

IGNORE = "npu: ignore"


class Rewriter(cst.CSTVisitor):
    """Collects the edits of the rules in `edits`."""

    def __init__(self, names: Names, rules: Rules, edits: EditList) -> None:
        super().__init__()
        self.names, self.rules, self.edits = names, rules, edits
        self._inner: set[int] = set()  # parts of a chain or call that was dealt with as a whole
        self._fixed: set[int] = set()  # strings that stay
        self._types: set[int] = set()  # second arguments of isinstance: a stand-in is asked about by its original
        self._classes: list[bool] = [False]

    # ---- statements that stay -----------------------------------------------------------------------------------

    def visit_SimpleStatementLine(self, node: cst.SimpleStatementLine) -> bool:
        for statement in node.body:
            if isinstance(statement, cst.Expr):
                _mark_strings(statement.value, self._fixed)  # a docstring, or text that nobody reads
        comment = node.trailing_whitespace.comment
        return comment is None or IGNORE not in comment.value

    def visit_ClassDef(self, node: cst.ClassDef) -> None:
        self._classes.append(True)

    def leave_ClassDef(self, original_node: cst.ClassDef) -> None:
        self._classes.pop()

    def visit_FunctionDef(self, node: cst.FunctionDef) -> None:
        name = node.name.value
        new = self.rules.functions.get(name) if name not in self.rules.custom else None
        is_property = any(_last_name(decorator.decorator) in ("property", "setter") for decorator in node.decorators)
        if is_property:
            new = self.rules.attributes.get(name)
        if self._classes[-1] and new:
            self._replace(node.name, new, f"Rename the method {name} to {new}, as its callers are renamed")
        self._classes.append(False)

    def leave_FunctionDef(self, original_node: cst.FunctionDef) -> None:
        self._classes.pop()

    # ---- imports ------------------------------------------------------------------------------------------------

    def visit_Import(self, node: cst.Import) -> bool:
        for alias in node.names:
            self._import_name(alias)
        return False

    def _import_name(self, alias: cst.ImportAlias) -> None:
        old = _text(alias.name)
        new = self.rules.rename(old)
        if new != old:
            self._head(alias.name, old.split("."), new.split("."), f"Import {new} instead of {old}")

    def visit_ImportFrom(self, node: cst.ImportFrom) -> bool:
        if node.relative or node.module is None:
            return False
        module = _text(node.module)
        if isinstance(node.names, cst.ImportStar):
            self._from_module(node.module, module, self.rules.rename(module))
            return False
        targets = {self.rules.rename(f"{module}.{_text(alias.name)}").rpartition(".")[0] for alias in node.names}
        if len(targets) > 1:
            self._split(node, module, node.names)
            return False
        target = targets.pop()
        self._from_module(node.module, module, target)
        for alias in node.names:
            self._from_name(alias, module, target)
        return False

    def _from_module(self, node: cst.BaseExpression, old: str, new: str) -> None:
        if new and new != old:
            self._head(node, old.split("."), new.split("."), f"Import from {new} instead of {old}")

    def _split(self, node: cst.ImportFrom, module: str, aliases: Sequence[cst.ImportAlias]) -> None:
        """Names of one statement that now live in different modules: a statement for each module, on the same line."""
        groups: dict[str, list[str]] = {}
        for alias in aliases:
            name = _text(alias.name)
            parent, _, last = self.rules.rename(f"{module}.{name}").rpartition(".")
            local = alias.evaluated_alias or name
            groups.setdefault(parent, []).append(last if last == local else f"{last} as {local}")
        text = "; ".join(f"from {parent} import {', '.join(names)}" for parent, names in groups.items())
        self._replace(node, text, f"Import from {' and '.join(groups)} instead of {module}")

    def _from_name(self, alias: cst.ImportAlias, module: str, target: str) -> None:
        name = _text(alias.name)
        _, _, last = self.rules.rename(f"{module}.{name}").rpartition(".")
        if last == name:
            last = self.rules.functions.get(name, name) if name in self.rules.custom else name
            if last != name:
                self._replace(alias.name, last, f"Import {last} instead of {name}")
            return
        keep = "" if alias.asname else f" as {name}"
        self._replace(alias.name, last + keep, f"Import {target}.{last} instead of {module}.{name}")

    # ---- names --------------------------------------------------------------------------------------------------

    def visit_Attribute(self, node: cst.Attribute) -> None:
        if id(node) in self._inner:
            _mark_attribute(node, self._inner)
            return
        chain = self.names.chain(node)
        _mark_attribute(node, self._inner)
        if chain is not None:
            if chain.full.split(".")[0] in self.rules.foreign:
                return
            new = self.rules.rename(chain.full)
            if new != chain.full:
                if id(node) not in self._types or not self.rules.note(chain.full):
                    self._rename_chain(chain, new)
                return
        self._attributes(node)

    def _attributes(self, node: cst.Attribute) -> None:
        while isinstance(node, cst.Attribute):
            new = self.rules.attributes.get(node.attr.value)
            if new:
                self._replace(node.attr, new, f"Change the attribute {node.attr.value} to {new}")
            if not isinstance(node.value, cst.Attribute):
                return
            node = node.value

    def _rename_chain(self, chain: Chain, new: str) -> None:
        """Write the new name with as few changed parts as the import of its first part allows."""
        message = f"Change {chain.full} to {new}" + _clause(self.rules.note(chain.full))
        bound = self.rules.rename(chain.bound)
        old_parts, new_parts = list(chain.parts), new.split(".")
        if new == bound or new.startswith(bound + "."):
            plain = chain.depth == 1 and chain.parts[0] == chain.bound
            root = bound.split(".") if plain else [chain.parts[0]]
            new_parts = root + new_parts[bound.count(".") + 1 :]
        self._parts(chain.nodes, old_parts, new_parts, message)

    def visit_Name(self, node: cst.Name) -> None:
        """A plain name matters only where a plain import of it is renamed: `old.x` is an attribute, `f(old)` is not."""
        if id(node) in self._inner:
            return
        chain = self.names.chain(node)
        if chain is not None and chain.depth == 1 and chain.parts[0] == chain.bound:
            new = self.rules.rename(chain.full)
            if new != chain.full:
                self._replace(node, new, f"Change {chain.full} to {new}")

    # ---- calls --------------------------------------------------------------------------------------------------

    def visit_Call(self, node: cst.Call) -> None:
        full = self.names.full(node.func)
        name = _last_name(node.func)
        self._function(node, full, name)
        self._keywords(node, full)
        self._inner |= {id(argument.keyword) for argument in node.args if argument.keyword is not None}
        if full in self.rules.paths or name in self.rules.paths:
            for argument in node.args:
                _mark_strings(argument.value, self._fixed)
        if name in ("isinstance", "issubclass") and len(node.args) == 2:
            wanted = node.args[1].value
            elements = wanted.elements if isinstance(wanted, cst.Tuple) else [cst.Element(wanted)]
            self._types |= {id(element.value) for element in elements}
        for rule in self.rules.args:
            if rule.func_name in (name, full):
                self._argument(node, rule)

    def _function(self, node: cst.Call, full: str, name: str) -> None:
        new = self.rules.functions.get(full) or self.rules.functions.get(name)
        if not new or full.split(".")[0] in self.rules.foreign or self.rules.rename(full) != full:
            return
        custom = name in self.rules.custom or full in self.rules.custom
        message = f"Change the function {name} to {new}"
        if isinstance(node.func, cst.Attribute):
            token: cst.CSTNode = node.func if "." in new else node.func.attr
            self._replace(token, new, message)
        elif isinstance(node.func, cst.Name) and custom:
            self._replace(node.func, new, message)

    def _keywords(self, node: cst.Call, full: str) -> None:
        for argument in node.args:
            if argument.keyword is not None:
                new = self.rules.keywords.get((full, argument.keyword.value))
                if new:
                    old = argument.keyword.value
                    self._replace(argument.keyword, new, f"Change the argument {old} to {new}")

    def _argument(self, node: cst.Call, rule: ArgsRule) -> None:
        positional = [argument for argument in node.args if argument.keyword is None and not argument.star]
        named = [
            argument
            for argument in node.args
            if argument.keyword is not None and argument.keyword.value == rule.arg_keyword
        ]
        chosen = named[0] if named else positional[rule.arg_idx] if rule.arg_idx < len(positional) else None
        if chosen is None:
            return
        old = self.names.text(chosen.value)
        if old not in rule.white_list:
            message = f"Change argument {rule.arg_idx} of {rule.func_name} from {old} to {rule.arg_new}"
            self._replace(chosen.value, rule.arg_new, message)

    # ---- strings ------------------------------------------------------------------------------------------------

    def visit_BinaryOperation(self, node: cst.BinaryOperation) -> None:
        if isinstance(node.operator, cst.Divide):  # a path
            _mark_strings(node.right, self._fixed)

    def visit_SimpleString(self, node: cst.SimpleString) -> None:
        if id(node) in self._fixed or "b" in node.prefix:
            return
        start, _ = self.names.span(node)
        head = len(node.prefix) + len(node.quote)
        self._string(node.raw_value, start + head)

    def visit_FormattedString(self, node: cst.FormattedString) -> bool:
        if id(node) in self._fixed:
            return False
        for index, part in enumerate(node.parts):
            if isinstance(part, cst.FormattedStringText):
                last = index == len(node.parts) - 1
                self._string(part.value, self.names.span(part)[0], whole=len(node.parts) == 1, open_end=not last)
        return True

    def _string(self, text: str, start: int, whole: bool = True, open_end: bool = False) -> None:
        for position, old, new in rewrite_string(text, self.rules.strings, whole, open_end):
            offset = start + len(text[:position].encode())
            self.edits.add(offset, offset + len(old.encode()), new, f'Change "{old}" to "{new}" in a string')

    # ---- edits --------------------------------------------------------------------------------------------------

    def _replace(self, node: cst.CSTNode, new: str, message: str) -> None:
        self.edits.add(*self.names.span(node), new, message)

    def _head(self, node: cst.BaseExpression, old: list[str], new: list[str], message: str) -> None:
        written = dotted(node)
        if written is not None:
            self._parts(written[1], old, new, message)

    def _parts(self, nodes: tuple[cst.BaseExpression, ...], old: list[str], new: list[str], message: str) -> None:
        """Replace the middle in which two dotted names differ."""
        front = 0
        while front < min(len(old), len(new)) - 1 and old[front] == new[front]:
            front += 1
        back = 0
        while back < min(len(old), len(new)) - front - 1 and old[-1 - back] == new[-1 - back]:
            back += 1
        middle = nodes[front : len(old) - back]
        if [*old[front : len(old) - back]] != [*new[front : len(new) - back]]:
            text = ".".join(new[front : len(new) - back])
            self.edits.add(self.names.span(middle[0])[0], self.names.span(middle[-1])[1], text, message)


def _clause(note: str) -> str:
    return f" ({note})" if note else ""


def _text(node: cst.BaseExpression) -> str:
    written = dotted(node)
    return ".".join(written[0]) if written else ""


def _last_name(node: cst.BaseExpression) -> str:
    if isinstance(node, cst.Attribute):
        return node.attr.value
    return node.value if isinstance(node, cst.Name) else ""


def _mark_attribute(node: cst.Attribute, seen: set[int]) -> None:
    """Note the parts of a chain, so that they are not looked at again one by one."""
    seen.add(id(node.attr))
    seen.add(id(node.value))


def _mark_strings(node: cst.BaseExpression, seen: set[int]) -> None:
    if isinstance(node, cst.SimpleString | cst.FormattedString):
        seen.add(id(node))
    elif isinstance(node, cst.ConcatenatedString):
        _mark_strings(node.left, seen)
        _mark_strings(node.right, seen)
