"""The k largest of many numbers."""
