"""Windows over images and volumes that become one number."""
