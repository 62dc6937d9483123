"""Decode channels: video and JPEG."""
