"""The command `torch_npu_run`: torchrun, whose store is one for all processes of a host already."""

from __future__ import annotations

import sys
from collections.abc import Sequence

_PARALLEL = "parallel"


def _arguments(words: Sequence[str]) -> list[str]:
    """`parallel`, the product's rendezvous with one store per host, is torch's static one here. Only torchrun's own options count:
    they end with the script."""
    arguments = list(words)
    for index, argument in enumerate(arguments):
        name, equals, value = argument.partition("=")
        if name not in ("--rdzv_backend", "--rdzv-backend"):
            continue
        if equals and value == _PARALLEL:
            arguments[index] = f"{name}=static"
        elif not equals and arguments[index + 1 : index + 2] == [_PARALLEL]:
            arguments[index + 1] = "static"
        break
    return arguments


def main(args: Sequence[str] | None = None) -> None:
    """Run a script in several processes."""
    from torch.distributed import run

    run.main(_arguments(sys.argv[1:] if args is None else args))


if __name__ == "__main__":
    main()
