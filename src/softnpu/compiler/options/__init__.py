"""The command line of atc: its rows, its words, its checks."""
