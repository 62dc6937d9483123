"""`python -m dataflow.tools.create_func_ws -f "Sub:i0:i2:o0,Add:i1:i3:o1"` starts a function project."""

import sys

from softnpu.flow.drawing.func_ws import main

__all__ = ["main"]

if __name__ == "__main__":
    sys.exit(main())
