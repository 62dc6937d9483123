"""What a face module does before it is used: nothing. The boundary is loaded with the first function asked for."""

from __future__ import annotations

TYPE_CHECKING = False  # `typing` itself would be half the cost of `import acl`
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any


_loaded: Any = None  # kept here, because nothing can be imported while the interpreter ends


def _boundary() -> Any:
    global _loaded
    if _loaded is None:
        import acl._boundary as loaded  # late: it is 30 times the cost of `import acl`

        _loaded = loaded
    return _loaded


def face(module: str) -> tuple[Callable[[str], Any], Callable[[], list[str]]]:
    """`__getattr__` and `__dir__` of a face module."""

    def getattribute(name: str) -> Any:
        if name.startswith("_"):
            raise AttributeError(f"module {module!r} has no attribute {name!r}")
        return _boundary().attribute(module, name)

    def listing() -> list[str]:
        return _boundary().listing(module)  # type: ignore[no-any-return]

    return getattribute, listing
