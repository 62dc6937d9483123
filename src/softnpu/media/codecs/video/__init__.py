"""H.264 and H.265 streams: splitting, decoding, encoding."""
