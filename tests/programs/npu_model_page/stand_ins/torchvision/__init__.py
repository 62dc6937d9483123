"""Stands in for torchvision where it cannot be imported: PyPI has no build of it for torch without CUDA."""
