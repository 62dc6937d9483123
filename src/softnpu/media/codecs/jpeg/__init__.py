"""JPEG files: header, decoding, encoding."""
