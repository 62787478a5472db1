"""What turns ids, characters or positions into vectors."""
