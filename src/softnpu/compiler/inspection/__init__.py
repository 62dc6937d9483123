"""Looking at models and conversions: modes 1, 3, 5 and 6 of atc, and the dumps of DUMP_GE_GRAPH."""
