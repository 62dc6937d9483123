"""What a run has to say: results, tables and pages."""
