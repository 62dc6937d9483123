"""Memory and notifies between processes, and addresses with memory mapped in."""
