"""What is rewritten: the rows of `spec/migrate` and rules of the user."""
