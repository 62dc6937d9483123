"""Work on npu that is recorded once and replayed; `torch.npu.graphs` is its face."""
