"""Codecs: JPEG, PNG and video files and streams."""
