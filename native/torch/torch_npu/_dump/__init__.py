"""Operators seen as they run and written to files: as those of CANN (`acl_files`) and as HDF5 (`h5`). While nothing is dumped nothing
looks."""
