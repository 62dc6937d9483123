"""Pictures: AIPP, resizing, sampling at places."""
