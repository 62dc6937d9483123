"""`distributed`: a program for one GPU becomes one for several NPUs, one process for each."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import libcst as cst

from softnpu.migrate.reading.names import Names
from softnpu.migrate.rewriting.device import DEVICE, VARIABLE
from softnpu.migrate.rewriting.edits import EditList
from softnpu.migrate.rewriting.placement import Placer, blocks

_LOADER = "torch.utils.data.DataLoader"
_SAMPLER = "torch.utils.data.distributed.DistributedSampler"
_PARALLEL = "torch.nn.parallel.DistributedDataParallel"
_FORCED = {"shuffle": "False", "pin_memory": "True", "drop_last": "True"}
SHARE = "Let each process load its share of the data"
_SKIPPED = frozenset({"sampler", "batch_sampler"})


class Loaders(cst.CSTVisitor):
    """Gives each DataLoader a DistributedSampler, and each loop over epochs a set_epoch."""

    def __init__(self, names: Names, edits: EditList, placer: Placer, torch: str) -> None:
        super().__init__()
        self.names, self.edits, self.placer, self.torch = names, edits, placer, torch
        self.warnings: list[str] = []
        self._functions: list[list[str]] = [[]]  # loaders assigned in each open function, the module first
        self.converted = False
        self._count = 0

    def visit_FunctionDef(self, node: cst.FunctionDef) -> None:
        self._functions.append([])

    def leave_FunctionDef(self, original_node: cst.FunctionDef) -> None:
        self._functions.pop()

    def visit_Assign(self, node: cst.Assign) -> None:
        target = node.targets[0].target
        if isinstance(node.value, cst.Call) and self._convertible(node.value) and isinstance(target, cst.Name):
            self._functions[-1].append(target.value)

    def visit_Call(self, node: cst.Call) -> None:
        if self.names.full(node.func) != _LOADER:
            return
        line = self.edits.line(self.names.span(node)[0])
        if self._convertible(node):
            self._convert(node)
        elif "DistributedSampler" not in self.names.text(node):
            self.warnings.append(
                f"line {line}: this DataLoader has a sampler or unpacked arguments of its own; give it a DistributedSampler by hand"
            )

    def _convertible(self, node: cst.Call) -> bool:
        keywords = {argument.keyword.value for argument in node.args if argument.keyword is not None}
        stars = any(argument.star for argument in node.args)
        return self.names.full(node.func) == _LOADER and not stars and not keywords & _SKIPPED and bool(node.args)

    def _convert(self, node: cst.Call) -> None:
        self.converted = True
        message = SHARE
        arguments = dict(_named(node))
        dataset = arguments.pop("dataset", None)
        if dataset is None:
            return
        sampled = self._dataset(dataset, message)
        size = arguments.pop("batch_size", None)
        if size is not None:
            text = self.names.text(size.value)
            text = text if isinstance(size.value, cst.Name | cst.Attribute | cst.Integer) else f"({text})"
            new = f"max(1, {text} // {self.torch}.distributed.get_world_size())"
            self.edits.add(*self.names.span(size.value), new, "Divide the batch among the processes")
        extra = []
        for keyword, value in _FORCED.items():
            if keyword in arguments:
                self.edits.add(*self.names.span(arguments[keyword].value), value, f"Set {keyword}={value}")
            else:
                extra.append(f"{keyword}={value}")
        extra.append(f"sampler={_SAMPLER.replace('torch', self.torch, 1)}({sampled})")
        end = self.names.span(node.args[-1].value)[1]
        self.edits.add(end, end, ", " + ", ".join(extra), message)

    def _dataset(self, argument: cst.Arg, message: str) -> str:
        """The text that names the dataset; one that is made in the call gets a name there."""
        value = argument.value
        if isinstance(value, cst.Name | cst.Attribute):
            return self.names.text(value)
        self._count += 1
        name = f"npu_dataset_{self._count}"
        start, end = self.names.span(value)
        open_, close = ("(", ")") if argument.keyword else ("", "")
        self.edits.add(start, start, f"{open_}{name} := ", message)
        if close:
            self.edits.add(end, end, close, message)
        return name

    def visit_For(self, node: cst.For) -> None:
        target = node.target
        if (
            not isinstance(target, cst.Name)
            or "epoch" not in target.value
            or not isinstance(node.body, cst.IndentedBlock)
        ):
            return
        known = [function for functions in self._functions for function in functions]
        first = node.body.body[0]
        start = self.edits.line_start(self.names.span(first)[0])
        indent = self.edits.text[start : self.names.span(first)[0]].decode()
        for loader in dict.fromkeys(known):
            line = f"{indent}{loader}.sampler.set_epoch({target.value}){self.placer.newline}"
            self.edits.add(start, start, line, "Shuffle anew in each epoch")


def _named(node: cst.Call) -> Iterator[tuple[str, cst.Arg]]:
    """The arguments of a DataLoader by name; the first three may stand without."""
    for index, argument in enumerate(node.args):
        if argument.keyword is not None:
            yield argument.keyword.value, argument
        elif index < 3:
            yield ("dataset", "batch_size", "shuffle")[index], argument


def process_group_lines(torch: str) -> list[str]:
    """The lines that start the process group; rank and size are those of run_distributed_npu.sh."""
    return [
        "NPU_WORLD_SIZE = int(os.getenv('NPU_WORLD_SIZE', os.getenv('WORLD_SIZE', '1')))",
        "RANK = int(os.getenv('RANK', '0'))",
        f"{torch}.distributed.init_process_group('hccl', rank=RANK, world_size=NPU_WORLD_SIZE)",
    ]


def wrap_model(names: Names, edits: EditList, placer: Placer, torch: str, target: str) -> bool:
    """Wrap the model in DistributedDataParallel after it was made; says whether there was such a variable."""
    if f"{target}, device_ids=[{VARIABLE}]" in edits.text.decode():
        return True
    statement = _assignment(names, names.module.body, target)
    if statement is None:
        return False
    start = edits.line_start(names.span(statement)[0])
    indent = edits.text[start : names.span(statement)[0]].decode()
    parallel = _PARALLEL.replace("torch", torch, 1)
    lines = [
        f"if not isinstance({target}, {parallel}):",
        f"    {target} = {target}.to({DEVICE})",
        f"    {target} = {parallel}({target}, device_ids=[{VARIABLE}], broadcast_buffers=False)",
    ]
    line_end = placer.line_end(statement)
    end = b"" if edits.text[:line_end].endswith(b"\n") else placer.newline.encode()
    text = end.decode() + "".join(f"{indent}{line}{placer.newline}" for line in lines)
    edits.add(line_end, line_end, text, f"Wrap {target} in DistributedDataParallel")
    return True


def _assignment(names: Names, body: Sequence[cst.CSTNode], target: str) -> cst.CSTNode | None:
    """The statement after which the model is complete: the last of a block that assigns it; branches count as one."""
    for statement in reversed(body):
        if isinstance(statement, cst.FunctionDef | cst.ClassDef) or not _assigns(statement, target):
            continue
        if isinstance(statement, cst.If) and "__main__" not in names.text(statement.test):
            return statement
        for block in blocks(statement):
            inner = _assignment(names, block, target)
            if inner is not None:
                return inner
        return statement
    for statement in body:
        if isinstance(statement, cst.FunctionDef):
            inner = _assignment(names, statement.body.body, target)
            if inner is not None:
                return inner
    return None


def _assigns(node: cst.CSTNode, target: str) -> bool:
    if isinstance(node, cst.FunctionDef | cst.ClassDef | cst.Lambda):
        return False
    if isinstance(node, cst.Assign):
        return any(
            isinstance(assigned.target, cst.Name) and assigned.target.value == target for assigned in node.targets
        )
    return any(_assigns(child, target) for child in node.children)
