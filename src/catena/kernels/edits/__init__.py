"""Edits of one string into another, by weighted edit operations."""
