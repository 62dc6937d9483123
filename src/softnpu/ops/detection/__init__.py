"""Boxes, anchors, regions of interest and their suppression."""
