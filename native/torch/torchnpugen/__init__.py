"""torchnpugen: the generator of adapters as a command, under the name that build scripts for Ascend call."""
