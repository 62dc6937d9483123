"""Rows taken from the manuals (`*.toml`) and the tables made from them (`tables/`, written by `make docs`)."""
