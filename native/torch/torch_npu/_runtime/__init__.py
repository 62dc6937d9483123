"""The devices of softnpu behind `torch_npu._C`; the rest of the package reaches them through here."""
