"""What a face module does before it is used: nothing. The boundary is loaded with the first function asked for."""

from __future__ import annotations

TYPE_CHECKING = False  # `typing` itself would be half the cost of `import acl`
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any


def face(module: str) -> tuple[Callable[[str], Any], Callable[[], list[str]]]:
    """`__getattr__` and `__dir__` of a face module."""

    def getattribute(name: str) -> Any:
        if name.startswith("_"):
            raise AttributeError(f"module {module!r} has no attribute {name!r}")
        from acl._boundary import attribute

        return attribute(module, name)

    def listing() -> list[str]:
        from acl._boundary import listing as names

        return names(module)

    return getattribute, listing
