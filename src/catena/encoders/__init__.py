"""What turns a sequence of vectors into vectors."""
