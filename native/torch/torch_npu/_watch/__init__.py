"""Looking at operators while they run: dumps, logs, races between streams."""
