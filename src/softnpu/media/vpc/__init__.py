"""Picture processing: what the VPC engine does with pixels."""
