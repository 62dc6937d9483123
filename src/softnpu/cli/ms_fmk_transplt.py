"""The command `ms_fmk_transplt`: converts a CUDA project to npu, with the options and outputs of the porting guide."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence

from softnpu.cli.migration.terminal import INTERRUPTED, reader_left
from softnpu.migrate.errors import MigrateError
from softnpu.migrate.rules.rows import DEFAULT_VERSION, VERSIONS

_PROGRAM = "ms_fmk_transplt"


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command and return its exit status."""
    return run(parser(_PROGRAM, version_needed=False), argv)


def run(arguments: argparse.ArgumentParser, argv: Sequence[str] | None) -> int:
    """Parse, convert and print; the commands of both names share it."""
    options = arguments.parse_args(argv)
    try:
        from softnpu.cli.migration.transplant import convert  # late: libcst may be missing, and --help does without

        status = convert(options)
        sys.stdout.flush()
        return status
    except BrokenPipeError:
        return reader_left()
    except MigrateError as problem:
        sys.stderr.write(f"[ERROR] {problem}\nMsFmkTransplt run failed!\n")
        return 1
    except KeyboardInterrupt:
        sys.stderr.write(f"\n{arguments.prog} was interrupted; nothing was written.\n")
        return INTERRUPTED
    except ModuleNotFoundError as problem:
        if problem.name != "libcst":
            raise
        sys.stderr.write('[ERROR] libcst is not installed; type: pip install "softnpu[migrate]"\n')
        return 1


def parser(program: str, version_needed: bool) -> argparse.ArgumentParser:
    """The options; those after `distributed` have their own parser, since -m means something else there."""
    top = argparse.ArgumentParser(program, description="Convert a PyTorch project for CUDA to npu.", allow_abbrev=False)
    top.add_argument("-i", "--input", required=True, metavar="PATH", help="folder or .py file to convert")
    top.add_argument("-o", "--output", required=True, metavar="DIR", help="folder for the result, <input>_msft")
    top.add_argument("-r", "--rule", metavar="JSON", help="file with your own rules")
    top.add_argument(
        "-s", "--specify-device", action="store_true", help="take the device from the variable NPU_CALCULATE_DEVICE"
    )
    top.add_argument(
        "-sim",
        "--similar",
        action="store_true",
        help="use near equivalents of unsupported interfaces (values may differ)",
    )
    top.add_argument(
        "-v",
        "--version",
        required=version_needed,
        choices=VERSIONS,
        help=f"version of torch that the result is for [{DEFAULT_VERSION}]",
    )
    top.add_argument("-m", "--modelarts", action="store_true", help="add a package that maps paths on ModelArts")
    top.add_argument("--dry-run", action="store_true", help="print the differences and write nothing")
    top.set_defaults(mode="", reports=version_needed)
    modes = top.add_subparsers(dest="mode", metavar="distributed", title="one GPU to several NPUs")
    several = modes.add_parser("distributed", help="-m MAIN.py [-t MODEL]; stands last", allow_abbrev=False)
    several.add_argument("-m", "--main", required=True, metavar="FILE", help="entry file of the training")
    several.add_argument(
        "-t", "--target_model", "--target-model", default="model", metavar="NAME", help="variable of the model [model]"
    )
    return top


if __name__ == "__main__":
    sys.exit(main())
