"""`python -m torchnpugen.gen_backend_stubs`: declarations, registration and Python bindings from an npu_native_functions.yaml."""

from __future__ import annotations

import argparse
import sys


def main(argv: list[str] | None = None) -> int:
    """Write the files; 1 with a sentence when the yaml is wrong."""
    parser = argparse.ArgumentParser(prog="gen_backend_stubs", description=__doc__)
    parser.add_argument("-s", "--source_yaml", required=True, help="the npu_native_functions.yaml")
    parser.add_argument("-o", "--output_dir", required=True, help="the folder for what is generated")
    parser.add_argument(
        "--signatures", default="now", choices=("now", "1.8"), help="how bodies are declared; 1.8: Scalars by value"
    )
    parser.add_argument("--dry_run", action="store_true", help="check the yaml only")
    arguments = parser.parse_args(argv)
    from torch_npu import adapt

    try:
        if arguments.dry_run:
            print(f"{len(adapt.read(arguments.source_yaml).entries)} operators")
            return 0
        for path in adapt.generate(arguments.source_yaml, arguments.output_dir, arguments.signatures):
            print(path)
    except (adapt.AdaptError, OSError) as error:
        print(f"ERROR: {error}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
