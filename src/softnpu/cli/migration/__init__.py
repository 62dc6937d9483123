"""What the commands of migration do once their options are read."""
