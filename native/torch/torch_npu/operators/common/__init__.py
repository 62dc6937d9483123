"""What the bodies of several families share."""
