"""The command `npu-smi`: the vendor's grammar, tables and exit codes; beyond it JSON, CSV and a live view."""

from __future__ import annotations

import contextlib
import os
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

import softnpu
from softnpu.base import config
from softnpu.base.errors import NpuError
from softnpu.cli.smi import help_text, query, watch
from softnpu.cli.smi.collect import Snapshot, collect, sample
from softnpu.cli.smi.render import (
    DEFAULT_FIELDS,
    QUERY_FIELDS,
    WATCH_LETTERS,
    render_blocks,
    render_blocks_json,
    render_csv,
    render_json,
    render_processes,
    render_table,
    render_watch,
)
from softnpu.runtime.board import read_all
from softnpu.runtime.device import inventory

if TYPE_CHECKING:
    from softnpu.runtime.device import DeviceInfo

# The real tool's codes; the exit status is the code modulo 256.
BAD_PARAMETER = -9001
NO_DEVICE = -9008
NOT_SUPPORTED = -9255

_COMMANDS = ("info", "set", "clear", "upgrade")
_MAX_DELAY = 100
_LOAD_TYPES = ("common", "usages")


class Refusal(Exception):
    """An answer that is not a result: the text goes to stdout, as in the real tool, the code is the exit status."""

    def __init__(self, code: int, text: str, usage: str = "") -> None:
        super().__init__(text)
        self.code = code
        self.text = f"{text}\n{usage}"


@dataclass(frozen=True)
class Request:
    """What the words after `npu-smi info` ask for."""

    form: str = "table"
    kind: str = ""
    card: int | None = None
    chip: int | None = None
    physical: int | None = None
    delay: int | None = None
    letters: str | None = None
    count: int | None = None
    output: str = "text"
    columns: tuple[str, ...] = DEFAULT_FIELDS
    styles: frozenset[str] = field(default_factory=frozenset)


def main(argv: list[str] | None = None) -> int:
    """Run the command and return its exit status."""
    try:
        status = _run(sys.argv[1:] if argv is None else argv)
        sys.stdout.flush()
        return status % 256
    except Refusal as refusal:
        sys.stdout.write(refusal.text)
        return refusal.code % 256
    except NpuError as error:
        remedy = getattr(error, "remedy", "")
        sys.stderr.write(f"Error: {getattr(error, 'text', error)}\n" + (f"{remedy}\n" if remedy else ""))
        return BAD_PARAMETER % 256
    except BrokenPipeError:  # `npu-smi info | head -1`: whoever read has enough
        with contextlib.suppress(OSError, ValueError):
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 0
    except KeyboardInterrupt:
        return 0


def _run(words: Sequence[str]) -> int:
    if not words:
        sys.stdout.write(help_text.MAIN)
        return BAD_PARAMETER
    first, rest = words[0], words[1:]
    if first.startswith(("--query", "--json", "--csv", "--help-query")):
        first, rest = "info", words  # in the manner of nvidia-smi, which has no `info`
    if first in ("-h", "--help"):
        sys.stdout.write(help_text.MAIN)
        return 0
    if first in ("-v", "--version"):
        sys.stdout.write(f"npu-smi version: {softnpu.__version__}\n")
        return 0
    if first not in _COMMANDS:
        raise Refusal(BAD_PARAMETER, "Command or option is not found.", help_text.MAIN)
    return _info(rest) if first == "info" else _change(first, rest)


def _change(command: str, words: Sequence[str]) -> int:
    if any(word in ("-h", "--help") for word in words):
        sys.stdout.write(help_text.CHANGE.format(command=command))
        return 0
    sys.stdout.write(f"\t{'Status':<30} : Fail\n\t{'Message':<30} : {help_text.NO_CHANGE.format(command=command)}\n")
    return NOT_SUPPORTED


def _info(words: Sequence[str]) -> int:
    if any(word in ("-h", "--help") for word in words):
        sys.stdout.write(help_text.WATCH if "watch" in words else help_text.INFO)
        return 0
    if "--help-query" in words:
        sys.stdout.write("".join(f"{name}\n" for name in QUERY_FIELDS))
        return 0
    request = parse(words)
    devices = inventory()
    if not devices:
        raise Refusal(NO_DEVICE, "There is no NPU card on this server.", help_text.NO_CARDS)
    _check_device(request, devices)
    if request.form in ("watch", "proc"):
        return _follow(request, devices)
    if request.form == "type" and request.kind in query.UNSUPPORTED:
        raise Refusal(NOT_SUPPORTED, f"This device does not support querying {request.kind}.")
    snapshot = _snapshot(request, devices, None)
    sys.stdout.write(_answer(request, snapshot))
    for pid, device in snapshot.unlisted if request.form == "table" else ():
        sys.stderr.write(help_text.UNLISTED.format(pid=pid, device=device, count=len(devices)))
    return 0


def _snapshot(request: Request, devices: Sequence[DeviceInfo], previous: Snapshot | None) -> Snapshot:
    directory = config.runtime_dir()
    quick = request.form in ("list", "map") or (request.form == "type" and request.kind not in _LOAD_TYPES)
    if quick and request.output == "text":
        whole = collect(devices, read_all(directory))  # shows no load, so it need not wait for a sample of it
    else:
        whole = sample(devices, lambda: read_all(directory), previous)
    if request.kind == "topo":
        return whole  # who is near whom is about all of them
    return whole.select(request.card, request.chip, request.physical)


def _answer(request: Request, snapshot: Snapshot) -> str:
    if request.form == "map" and request.output == "text":
        return query.render_map(snapshot)
    if request.form == "type" and request.kind == "topo":
        return query.render_topology(snapshot)
    if request.form in ("list", "type"):
        chip_given = request.chip is not None or request.physical is not None
        blocks = (
            query.list_cards(snapshot) if request.form == "list" else query.query(snapshot, request.kind, chip_given)
        )
        if request.output == "json":
            return render_blocks_json(snapshot, request.kind or "list", blocks)
        return render_blocks(blocks)
    return _whole(request, snapshot)


def _whole(request: Request, snapshot: Snapshot, first: bool = True, indent: int | None = 2) -> str:
    if request.output == "json":
        return render_json(snapshot, indent)
    if request.output == "csv":
        header = first and "noheader" not in request.styles
        return render_csv(snapshot, request.columns, header, "nounits" not in request.styles)
    return render_table(snapshot)


def _follow(request: Request, devices: Sequence[DeviceInfo]) -> int:
    def take(previous: Snapshot | None) -> Snapshot:
        return _snapshot(request, devices, previous)

    plain = request.letters is not None or request.delay is not None or request.output != "text"
    if request.form == "watch" and not plain and watch.can_show_live():
        watch.show_live(take, request.count)
        return 0
    count = request.count
    if request.form == "proc" and request.delay is None and count is None:
        count = 1  # scripts call it once and wait for the end
    watch.stream(take, _period_renderer(request), request.delay or 1, count)
    return 0


def _period_renderer(request: Request) -> Callable[[Snapshot | None], str]:
    if request.output == "text":
        if request.form == "proc":
            return render_processes
        return lambda snapshot: render_watch(snapshot, request.letters or WATCH_LETTERS)
    pending = [True]

    def render(snapshot: Snapshot | None) -> str:
        if snapshot is None:
            return ""
        return _whole(request, snapshot, first=bool(pending and pending.pop()), indent=None)

    return render


def _check_device(request: Request, devices: Sequence[DeviceInfo]) -> None:
    everything = collect(devices, ())
    if not everything.select(physical=request.physical).devices:
        raise Refusal(NO_DEVICE, "Invalid physical id.")
    if not everything.select(card=request.card).devices:
        raise Refusal(NO_DEVICE, "Invalid card id.")
    if not everything.select(request.card, request.chip, request.physical).devices:
        raise Refusal(NO_DEVICE, "Invalid chip id.")


def parse(words: Sequence[str]) -> Request:
    """The request that the words after `info` make; raises `Refusal` naming the first word that is wrong."""
    request = Request()
    queue = [part for argument in words for part in _split(argument)]
    while queue:
        argument = queue.pop(0)
        if argument in _FORMS:
            if request.form != "table":
                raise _bad(argument)
            request = replace(request, form=_FORMS[argument])
        elif argument in ("--json", "--csv"):
            request = replace(request, output=argument[2:])
        elif argument in _VALUES and queue:
            request = _VALUES[argument](request, argument, queue.pop(0))
        else:
            raise _bad(argument)
    if request.form == "type" and request.kind not in query.UNSUPPORTED.union(query.known_types()):
        raise _bad("-t", help_text.TYPES)
    _check_combination(request)
    return request


def _check_combination(request: Request) -> None:
    follows = request.form in ("watch", "proc")
    for option, value in (("-s", request.letters), ("-d", request.delay), ("--count", request.count)):
        if value is not None and not follows:
            raise _bad(option)
    if request.output == "csv" and request.form in ("list", "map", "type"):
        raise _bad("--csv", "CSV is about whole devices: choose its columns by --query.\n")
    if request.output == "json" and request.kind == "topo":
        raise _bad("--json")


def _split(argument: str) -> list[str]:
    return argument.split("=", 1) if argument.startswith("--") else [argument]


def _bad(option: str, usage: str = "") -> Refusal:
    return Refusal(BAD_PARAMETER, f"Error parameter of {option}", usage)


def _number(option: str, text: str, low: int = 0, high: int = 2**31 - 1) -> int:
    if not (text.isascii() and text.isdigit()) or not low <= int(text[:12]) <= high:
        raise _bad(option)
    return int(text)


def _letters(request: Request, option: str, text: str) -> Request:
    if not text or set(text) - set(WATCH_LETTERS):
        raise _bad(option)
    return replace(request, letters=text)


def _columns(request: Request, option: str, text: str) -> Request:
    names = tuple(name.strip() for name in text.split(","))
    unknown = [name for name in names if name not in QUERY_FIELDS]
    if unknown:
        known = ", ".join(QUERY_FIELDS)
        raise _bad(option, f"Field {unknown[0]!r} is not known. Fields: {known}\n")
    return replace(request, output="json" if request.output == "json" else "csv", columns=names)


def _format(request: Request, option: str, text: str) -> Request:
    styles = frozenset(part.strip() for part in text.split(","))
    if not styles <= {"csv", "json", "noheader", "nounits"}:
        raise _bad(option)
    return replace(request, output="json" if "json" in styles else "csv", styles=styles)


_FORMS = {"-l": "list", "-m": "map", "watch": "watch", "proc": "proc"}
_VALUES: dict[str, Callable[[Request, str, str], Request]] = {
    "-t": lambda request, option, text: replace(request, form="type", kind=text),
    "-i": lambda request, option, text: replace(request, card=_number(option, text)),
    "-c": lambda request, option, text: replace(request, chip=_number(option, text)),
    "-p": lambda request, option, text: replace(request, physical=_number(option, text)),
    "-d": lambda request, option, text: replace(request, delay=_number(option, text, 1, _MAX_DELAY)),
    "--count": lambda request, option, text: replace(request, count=_number(option, text, 1)),
    "-s": _letters,
    "--query": _columns,
    "--query-npu": _columns,
    "--query-gpu": _columns,
    "--format": _format,
}


if __name__ == "__main__":
    sys.exit(main())
