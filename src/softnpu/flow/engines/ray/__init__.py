"""The engine for clusters: an actor per node instance, large payloads in Ray's object store."""
