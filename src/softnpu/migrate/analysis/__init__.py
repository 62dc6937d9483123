"""What pytorch_analyse tells about a project."""
