"""Words that all floors share: errors, handles, configuration, log, trace bus. Standard library only."""
