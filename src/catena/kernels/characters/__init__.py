"""Vectors of words from their characters. Tested in tests/kernels/test_characters.py."""
