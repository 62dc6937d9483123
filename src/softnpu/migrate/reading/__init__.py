"""Reading a project: its files, their names and what is worth a look."""
