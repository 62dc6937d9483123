"""Encode channels: video and JPEG."""
