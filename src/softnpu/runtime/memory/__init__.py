"""Memory: the address book, who gives memory out, and the check of every pointer."""
