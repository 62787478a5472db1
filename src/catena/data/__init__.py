"""What knows a file format, a token or a batch."""
