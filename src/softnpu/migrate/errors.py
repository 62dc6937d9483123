"""What goes wrong for a reason that the user can change; the commands print the text and end with status 1."""


class MigrateError(Exception):
    """A wrong option, path or rule: what, with which value, and what to do."""
