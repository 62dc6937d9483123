"""Cells and layers that go through a sequence."""
