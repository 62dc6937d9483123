"""How many of the devices that this process may see PyTorch takes."""

from __future__ import annotations

from collections.abc import Sequence


def usable(visible: Sequence[int]) -> int:
    """Up to the first id that is not larger than the one before: ASCEND_RT_VISIBLE_DEVICES=1,0 is one device in PyTorch (in pyACL
    it is two, in that order). An empty value is no device."""
    for place in range(1, len(visible)):
        if visible[place] <= visible[place - 1]:
            return place
    return len(visible)
