"""Phrase-structure parsers that generate trees as sequences."""
