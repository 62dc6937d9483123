"""What user code sees inside a node: messages, parameters, the run context, its log and where it runs."""
