"""Phrase-structure parsing."""
