"""One file per kind of device; `base.py` is the interface they fill in."""
