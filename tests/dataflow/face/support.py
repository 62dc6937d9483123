"""What the tests of the face share."""

from __future__ import annotations

import pytest

import dataflow as df


def code_of(error: pytest.ExceptionInfo[df.DfException]) -> int:
    return int(error.value.error_code)
