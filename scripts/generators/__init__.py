"""What is made from the rows in `src/softnpu/spec`, a module per kind of rows; `scripts/generate.py` writes it."""
