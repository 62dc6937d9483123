"""The command `pytorch_gpu2npu`: the later name of ms_fmk_transplt, which needs -v and writes more lists."""

from __future__ import annotations

import sys
from collections.abc import Sequence

from softnpu.cli.ms_fmk_transplt import parser, run


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command and return its exit status."""
    return run(parser("pytorch_gpu2npu", version_needed=True), argv)


if __name__ == "__main__":
    sys.exit(main())
