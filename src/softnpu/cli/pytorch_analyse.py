"""The command `pytorch_analyse`: what of a project will not work on an NPU, by reading it or by running it on the CPU."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence

from softnpu.cli.migration.terminal import INTERRUPTED, reader_left
from softnpu.migrate.errors import MigrateError
from softnpu.migrate.rules.rows import VERSIONS

MODES = ("torch_apis", "third_party", "affinity_apis", "dynamic_shape")


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command and return its exit status."""
    words = list(sys.argv[1:] if argv is None else argv)
    arguments = _parser()
    options = arguments.parse_args(_soc_first(words))
    try:
        if options.run:
            from softnpu.cli.migration.trial import run  # late: each way needs only its own modules

            return _flushed(run(options))
        if options.input is None or options.output is None or options.version is None:
            arguments.error("the following arguments are required: -i/--input, -o/--output, -v/--version (or --run)")
        from softnpu.cli.migration.analysis import analyse  # late: libcst may be missing

        return _flushed(analyse(options))
    except BrokenPipeError:
        return reader_left()
    except MigrateError as problem:
        sys.stderr.write(f"[ERROR] {problem}\n")
        return 1
    except KeyboardInterrupt:
        return INTERRUPTED
    except ModuleNotFoundError as problem:
        if problem.name != "libcst":
            raise
        sys.stderr.write('[ERROR] libcst is not installed; type: pip install "softnpu[migrate]"\n')
        return 1


def _flushed(status: int) -> int:
    sys.stdout.flush()  # here, where a reader who left is told apart
    return status


def _parser() -> argparse.ArgumentParser:
    top = argparse.ArgumentParser(
        "pytorch_analyse", description="Tell what of a PyTorch project an NPU does not support.", allow_abbrev=False
    )
    top.add_argument("-i", "--input", metavar="PATH", help="folder or .py file to analyse")
    top.add_argument("-o", "--output", metavar="DIR", help="folder for the result, <input>_analysis")
    top.add_argument("-v", "--version", choices=VERSIONS, help="version of torch")
    top.add_argument("-m", "--mode", choices=MODES, default=MODES[0], help="what to look for [torch_apis]")
    top.add_argument(
        "-env", "--env-path", nargs="+", default=[], metavar="DIR", help="folders of libraries, read with third_party"
    )
    top.add_argument(
        "-api", "--api-files", nargs="+", default=[], metavar="CSV", help="lists of further unsupported names"
    )
    top.add_argument("--soc", default="Ascend910A", metavar="CHIP", help="chip that --run compares with [Ascend910A]")
    top.add_argument(
        "--run",
        nargs=argparse.REMAINDER,
        metavar="SCRIPT",
        help="run a program with its arguments on the CPU; stands last",
    )
    return top


def _soc_first(words: list[str]) -> list[str]:
    """`--run script … --soc CHIP`: a chip at the very end is ours, not the program's."""
    if "--run" in words and len(words) > 3 and words[-2] == "--soc" and words[-1].startswith("Ascend"):
        return [*words[-2:], *words[:-2]]
    return words


if __name__ == "__main__":
    sys.exit(main())
