"""The command `softnpu`: runs compiled models, compares them with their originals, and tells what is in them."""

from __future__ import annotations

import argparse
import contextlib
import os
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import NoReturn, TypeVar

import softnpu
from softnpu.base.errors import NpuError
from softnpu.cli.run.options import FORMATS, Refusal, RunOptions, counts, named_dims, numbers

OK, DIFFERENT, REFUSED, INTERRUPTED = 0, 1, 2, 130
DEFAULT_SEED = 0
_MAX_LOOPS = 10_000_000
T = TypeVar("T")

_RUN = """Run a compiled model (.om) on a device and tell how long it takes.

Without --input the inputs are random numbers from a fixed seed. Exit status: 0, 1 when --compare finds a difference,
2 when something is wrong with the command or a file."""
_EXAMPLES = """examples:
  softnpu run resnet50.om --loop 100
  softnpu run resnet50.om --input picture.npy --output results --outfmt npy
  softnpu run resnet50.om --compare resnet50.onnx
  softnpu run gears.om --dymBatch 8                            a model of --dynamic_batch_size
  softnpu run range.om --dymShape "data:1,3,224,224"           a model of --input_shape with a range"""


class _Parser(argparse.ArgumentParser):
    """A parser that answers in one sentence and points to --help."""

    def error(self, message: str) -> NoReturn:
        raise Refusal(message, f"see {self.prog} --help")


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command and return its exit status."""
    words = list(sys.argv[1:] if argv is None else argv)
    try:
        status = _dispatch(words)
        sys.stdout.flush()
        return status
    except Refusal as problem:
        return _refuse(str(problem), problem.remedy)
    except NpuError as problem:
        return _refuse(problem.text, problem.remedy)
    except BrokenPipeError:  # `softnpu info model.om | head -1`: whoever read has enough
        with contextlib.suppress(OSError, ValueError):
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return OK
    except KeyboardInterrupt:
        sys.stderr.write("\nsoftnpu was interrupted.\n")
        return INTERRUPTED


def _refuse(text: str, remedy: str) -> int:
    sys.stdout.flush()
    sys.stderr.write(f"softnpu: {text}\n" + (f"  {remedy}\n" if remedy else ""))
    return REFUSED


def _dispatch(words: list[str]) -> int:
    try:
        arguments = _parser().parse_args(words)
    except SystemExit as ending:  # --help and --version have printed what was asked for
        return int(ending.code or 0)
    # Late: the engines take most of the start, which --help and `info` do without.
    if arguments.command == "info":
        from softnpu.cli.run.info import show as show_info

        show_info(arguments.model, arguments.json)
        return OK
    from softnpu.cli.run.report import show
    from softnpu.cli.run.session import run

    options = _options(arguments)
    result = run(options)
    show(result, options)
    return OK if result.equal else DIFFERENT


def _parser() -> argparse.ArgumentParser:
    parser = _Parser(prog="softnpu", description="Run compiled models (.om) and look at them.", allow_abbrev=False)
    parser.add_argument("--version", action="version", version=f"softnpu {softnpu.__version__}")
    commands = parser.add_subparsers(dest="command", metavar="COMMAND", required=True, parser_class=_Parser)
    form = argparse.RawDescriptionHelpFormatter
    run = commands.add_parser(
        "run", help="run a model", description=_RUN, epilog=_EXAMPLES, formatter_class=form, allow_abbrev=False
    )
    _add_run(run)
    info = commands.add_parser("info", help="tell what is in a model", allow_abbrev=False)
    info.add_argument("model", type=Path, help="the compiled model")
    info.add_argument("--json", action="store_true", help="print JSON")
    return parser


def _add_run(run: argparse.ArgumentParser) -> None:
    run.add_argument("model", type=Path, help="the compiled model")
    run.add_argument("--input", default="", metavar="A,B", help="a .npy or .bin file, or a folder of them, per input")
    run.add_argument("--output", type=Path, metavar="DIR", help="where results are written; without it they are not")
    run.add_argument("--outfmt", default="npy", choices=FORMATS, help="the form of written results [npy]")
    run.add_argument("--loop", type=_count(1), default=1, metavar="N", help="measured runs per set of inputs [1]")
    run.add_argument("--warmup", type=_count(0), default=1, metavar="N", help="runs before that, not counted [1]")
    run.add_argument("--device", type=_count(0), default=0, metavar="N", help="the device [0]")
    run.add_argument("--dymBatch", type=_count(1), metavar="N", help="the batch size of this run")
    run.add_argument("--dymHW", type=_with(numbers), metavar="H,W", help="the resolution of this run")
    run.add_argument("--dymDims", type=_with(named_dims), metavar="NAME:D,D;…", help="the dims gear of this run")
    run.add_argument("--dymShape", type=_with(named_dims), metavar="NAME:D,D;…", help="the shapes, for a shape range")
    run.add_argument("--outputSize", type=_with(counts), metavar="N,N", help="bytes for each output of open shape")
    run.add_argument("--batchsize", type=_count(1), metavar="N", help="samples per run, for the throughput [from dims]")
    run.add_argument("--compare", type=Path, metavar="ONNX", help="compare the results with those of the original")
    run.add_argument("--tolerance", type=_positive, metavar="X", help="largest error that is none [1e-4; fp16 1e-2]")
    run.add_argument("--seed", type=_count(0), default=DEFAULT_SEED, metavar="N", help="of the random inputs [0]")
    run.add_argument("--json", action="store_true", help="print JSON")


def _count(low: int) -> Callable[[str], int]:
    """A reader of numbers from `low` on."""

    def count(text: str) -> int:
        if not text.isdecimal() or not low <= int(text) <= _MAX_LOOPS:
            raise argparse.ArgumentTypeError(f"{text!r} is no number from {low} to {_MAX_LOOPS}")
        return int(text)

    return count


def _with(read: Callable[[str], T]) -> Callable[[str], T]:
    """A reader whose complaint reaches the user; argparse would only say that the value is invalid."""

    def value(text: str) -> T:
        try:
            return read(text)
        except ValueError as problem:
            raise argparse.ArgumentTypeError(str(problem)) from problem

    return value


def _positive(text: str) -> float:
    try:
        value = float(text)
    except ValueError:
        value = -1.0
    if not 0 <= value < float("inf"):
        raise argparse.ArgumentTypeError(f"{text!r} is no number from 0 on")
    return value


def _options(arguments: argparse.Namespace) -> RunOptions:
    gears = [name for name in ("dymBatch", "dymHW", "dymDims", "dymShape") if getattr(arguments, name) is not None]
    if len(gears) > 1:
        raise Refusal(f"--{gears[0]} and --{gears[1]} exclude each other", "a model is built for one of them")
    return RunOptions(
        model=arguments.model,
        inputs=[part for part in arguments.input.split(",") if part],
        output=arguments.output,
        outfmt=arguments.outfmt,
        loop=arguments.loop,
        warmup=arguments.warmup,
        device=arguments.device,
        batch=arguments.dymBatch,
        hw=arguments.dymHW,
        dims=arguments.dymDims,
        shapes=arguments.dymShape,
        output_sizes=arguments.outputSize,
        batch_size=arguments.batchsize,
        original=arguments.compare,
        tolerance=arguments.tolerance,
        seed=arguments.seed,
        json=arguments.json,
    )


if __name__ == "__main__":
    sys.exit(main())
