"""Constants of the CANN manuals. `acl` itself exports none, as in CANN; programs may import them from here."""

from softnpu.spec._generated.constants import *  # noqa: F403 (all of them, made from the rows of enums.toml and errors.toml)
