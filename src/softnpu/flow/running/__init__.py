"""One node instance: messages come in, a function is called, results go out. Knows no process and no pipe."""
