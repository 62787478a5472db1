"""Phrase-structure parsers with a grammar, counted from trees or written by hand."""
