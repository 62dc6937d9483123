"""How many of the devices that this process may see PyTorch takes."""

from __future__ import annotations

from collections.abc import Sequence


def usable(visible: Sequence[int]) -> int:
    """Up to the first id that is not larger than the one before: ASCEND_RT_VISIBLE_DEVICES=1,0 is one device in PyTorch (in pyACL
    it is two, in that order). An empty value is no device."""
    for index in range(1, len(visible)):
        if visible[index] <= visible[index - 1]:
            return index
    return len(visible)
