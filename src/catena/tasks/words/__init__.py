"""Sentences of words as the input of taggers and parsers."""
