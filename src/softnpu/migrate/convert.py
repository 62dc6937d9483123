"""The conversion of one file: from its text and the options to the new text, the changes and what could not be changed."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, field

import libcst as cst

from softnpu.migrate.reading.findings import Finding, Used, Uses, find, invalid, may_matter, needs_rewriting, parse
from softnpu.migrate.reading.names import Names
from softnpu.migrate.reading.newer import NewerUses
from softnpu.migrate.reading.source import Source
from softnpu.migrate.rewriting.device import VARIABLE, DeviceArguments, device_lines, is_entry
from softnpu.migrate.rewriting.distributed import Loaders, process_group_lines, wrap_model
from softnpu.migrate.rewriting.edits import Change, EditList
from softnpu.migrate.rewriting.placement import Placer
from softnpu.migrate.rewriting.rewrite import Rewriter
from softnpu.migrate.rules import rows
from softnpu.migrate.rules.rule_set import Custom, Rules, built_in, with_custom

MARK = "# Written by ms_fmk_transplt; not to be converted again."


@dataclass(frozen=True)
class Options:
    """What the command line asks of the conversion."""

    custom: Custom | None = None
    specify_device: bool = False
    similar: bool = False
    modelarts: bool = False
    distributed: bool = False
    target_model: str = "model"
    version: str = rows.DEFAULT_VERSION


@dataclass
class Converted:
    """The outcome for one file; `text` equals the original where nothing changed."""

    text: str
    changes: Sequence[Change] = ()
    findings: Sequence[Finding] = ()
    warnings: list[str] = field(default_factory=list)
    error: str = ""


def convert(source: Source, options: Options, main: bool = False) -> Converted:
    """Convert a file; `main` marks the entry file of the distributed mode. A file that cannot be parsed stays as it is."""
    text = source.text
    rules = with_custom(built_in(text, options.similar, options.version), options.custom)
    if text.startswith(MARK):
        return Converted(text)
    tree = parse(text)
    plain = not main and not _special(text, options)
    if tree is not None and plain and not may_matter(text, rules):
        return Converted(text)
    uses = Uses.read(tree)
    findings = [] if uses is None else _unsupported(uses, rules)
    if uses is not None and plain and not needs_rewriting(uses, rules):
        return Converted(text, findings=findings)
    try:
        module = cst.parse_module(text)
    except cst.ParserSyntaxError:
        return Converted(text, findings=findings, error=invalid(text))
    except RecursionError:
        return Converted(text, error="nested too deeply to be parsed")
    if module.code != text:
        return Converted(
            text,
            error="it holds form feeds or bare carriage returns that would not survive; replace them by line feeds",
        )
    names = Names(module, tree)
    if uses is None:
        findings = _unsupported(NewerUses(module), rules)
    return _Conversion(source, names, rules, options, main).run(findings)


_SPEAKS_NPU = re.compile(r"""["']npu\b|is_npu_available""")
_OWN_GROUP = re.compile(r"^[^#\n]*\binit_process_group\(", re.MULTILINE)
# Where the modes that need more than renaming may act.
_PLACES = ("__main__", "DataLoader", ".to(", "map_location", "torch.device", VARIABLE)


def _special(text: str, options: Options) -> bool:
    """Whether a mode that does more than renaming may act on a file."""
    special = options.specify_device or options.distributed or options.modelarts
    return special and any(name in text for name in _PLACES)


def _unsupported(uses: Used, rules: Rules) -> list[Finding]:
    return find(uses, rows.unsupported(), lambda name: _dealt_with(name, rules))


def _dealt_with(name: str, rules: Rules) -> bool:
    return bool(rules.note(name)) or name in rules.names


class _Conversion:
    """The steps of one file, in their order."""

    def __init__(self, source: Source, names: Names, rules: Rules, options: Options, main: bool) -> None:
        self.source, self.rules, self.options, self.main = source, rules, options, main
        self.names = names
        self.edits = EditList(source.text.encode())
        self.placer = Placer(self.names, self.edits, source.newline)
        self.warnings: list[str] = []

    def run(self, findings: Sequence[Finding]) -> Converted:
        self.names.module.visit(Rewriter(self.names, self.rules, self.edits))
        lines: list[str] = []
        if self.options.similar and any("ascend_function." in edit.new for edit in self.edits.edits):
            lines += [] if self.placer.has_import("ascend_function") else ["import ascend_function"]
        if self.options.modelarts and is_entry(self.names) and not self.placer.has_import("ascend_modelarts_function"):
            lines += ["import ascend_modelarts_function"]
        if self.options.specify_device or self.options.distributed:
            lines += self._device()
        if self.options.distributed:
            self._loaders()
        if lines:
            self.placer.after_imports(lines, "Add " + "; ".join(line.strip() for line in lines))
        if self.edits.edits and _SPEAKS_NPU.search(self.source.text) and VARIABLE not in self.source.text:
            self.warnings.append("it knew npu before; look whether branches for cuda and for npu now do the same")
        if self.edits.edits:
            self.placer.before_torch(self.rules.import_line)
        return Converted(self.edits.apply().decode(), self.edits.changes(), findings, self.warnings)

    def _device(self) -> list[str]:
        visitor = DeviceArguments(self.names, self.edits)
        self.names.module.visit(visitor)
        entry = is_entry(self.names) or self.main
        if f"\n{VARIABLE} = " in "\n" + self.source.text.replace("\r\n", "\n"):
            return []
        wanted = visitor.used or entry
        lines = device_lines(self.placer, entry) if wanted else []
        if self.main:
            lines += process_group_lines(self.placer.local("torch") or "torch")
        return lines

    def _loaders(self) -> None:
        torch = self.placer.local("torch")
        loaders = Loaders(self.names, self.edits, self.placer, torch or "torch")
        self.names.module.visit(loaders)
        self.warnings += loaders.warnings
        if loaders.converted and not torch and not self.main:
            self.placer.after_imports(["import torch"], "Add import torch")
        if self.main and _OWN_GROUP.search(self.source.text) and VARIABLE not in self.source.text:
            self.warnings.append("it calls init_process_group itself, and a process can do that once only: remove one")
        if self.main and not wrap_model(
            self.names, self.edits, self.placer, torch or "torch", self.options.target_model
        ):
            self.warnings.append(
                f"no variable {self.options.target_model!r} is assigned here; name the model with -t, or wrap it in DistributedDataParallel by hand"
            )
