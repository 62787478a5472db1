"""Edits of one string into another, by weighted edit operations. Tested in tests/structure/test_edits.py."""
