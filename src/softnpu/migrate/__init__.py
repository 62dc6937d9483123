"""Migration of CUDA programs to npu: rewriting a source tree, reports about it, and the analysis of what a program uses."""
