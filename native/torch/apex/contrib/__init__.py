"""apex.contrib: only the combined tensors; the rest are CUDA kernels."""
