"""One file per command: parses argv, calls the core, sets the exit code."""
