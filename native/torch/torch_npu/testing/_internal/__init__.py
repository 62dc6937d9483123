"""Variants of torch.testing._internal's modules for npu, over the backend hccl."""
