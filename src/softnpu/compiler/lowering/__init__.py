"""From operators of CANN to operators of ONNX, and what ONNX can tell about them."""
