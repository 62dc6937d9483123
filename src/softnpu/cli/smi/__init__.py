"""The parts of npu-smi."""
