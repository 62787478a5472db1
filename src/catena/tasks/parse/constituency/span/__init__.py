"""Phrase-structure parsers with a network that scores spans."""
