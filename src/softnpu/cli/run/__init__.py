"""The parts of the command softnpu: options, inputs, a run, its comparison and report."""
