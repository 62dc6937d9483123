"""Stands in for the package expecttest where it is not installed: it compares, it does not rewrite test files."""

from __future__ import annotations

import textwrap
import unittest
from collections.abc import Callable
from typing import Any

ACCEPT = False  # torch's test code sets it for --accept


class TestCase(unittest.TestCase):
    """A test case that knows the assertions with expected text in the test file."""

    longMessage = True

    def assertExpectedInline(self, actual: str, expect: str, skip: int = 0) -> None:
        """Fail when the text is not the expected one. `skip` counts frames for rewriting, which is not done here."""
        if actual == textwrap.dedent(expect):
            return
        if ACCEPT:
            self.fail(
                f"--accept would write the new text into the test file: install expecttest for that (frame {skip})"
            )
        self.assertMultiLineEqual(
            textwrap.dedent(expect), actual, "compared by torch_npu.testing's stand-in for expecttest"
        )

    def assertExpectedRaisesInline(
        self, exc_type: type[BaseException], callable: Callable[..., Any], expect: str, *args: Any, **kwargs: Any
    ) -> None:
        """Fail when the call does not raise, or raises with another text."""
        skip = kwargs.pop("skip", 0)
        with self.assertRaises(exc_type) as caught:
            callable(*args, **kwargs)
        self.assertExpectedInline(str(caught.exception), expect, skip + 1)
