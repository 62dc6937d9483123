"""Acceptance tests: whole conversions, from a model file through `atc` and `acl.mdl` to numbers."""
