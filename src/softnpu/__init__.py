"""softnpu: the Ascend software stack as software. Programs import the faces (`acl`, …); this package is the core."""

__version__ = "0.1.0"
