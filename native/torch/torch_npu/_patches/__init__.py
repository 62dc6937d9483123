"""What `import torch_npu` changes in torch, one module for each thing; `order` says when."""
