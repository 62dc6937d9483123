"""Seeing what a graph does: numbers, a live view, pictures, timelines, taps, and why nothing comes out.

Everything here reads rows and counters that the engines keep anyway, or is set up when somebody asks. A graph that nobody
watches pays nothing for it, and no module of this room is loaded.
"""
