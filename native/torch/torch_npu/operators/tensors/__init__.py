"""Storage, shapes, scatter and gather, and what belongs nowhere else."""
